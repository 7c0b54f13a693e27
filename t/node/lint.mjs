// Lints an OpenAPI document: node lint.mjs FILE.  The rules are Redocly's
// recommended-strict set and those of Spectral's recommended set that go
// further.  Exits with 1 for any finding.

import * as redocly from '@redocly/openapi-core';

// Redocly's own, but not of that set.
const more = ['info-contact', 'no-invalid-parameter-examples',
  'no-invalid-schema-examples', 'operation-description', 'operation-tag-defined'];

const twice = (list = []) => new Set(list).size !== list.length;
const typed = (value, type) => value === undefined || typeof value === type;

const checks = {
  any: (node) => !/<script|eval\(/.test(`${node?.title} ${node?.description}`)
    || 'a script in a text',
  Example: (example) => 'value' in example || 'externalValue' in example
    || 'an example has no value',
  Header: ({ example, schema }) => typed(example, schema?.type)
    || 'an example of another type',
  Info: (info) => !!info.description || 'no description',
  Operation: (operation) => !!operation.tags?.length || 'no tag',
  Root: (root) => !twice(root.tags?.map((tag) => tag.name)) || 'a tag comes twice',
  Schema: (schema) => twice(schema.enum) ? 'a value of enum comes twice'
    : !typed(schema.default, schema.type) ? 'a default of another type'
      : schema.type !== 'array' || !!schema.items || 'nothing of the items',
};
const spectral = () => Object.fromEntries(Object.entries(checks).map(
  ([type, check]) => [type, (node, { report }) => {
    const message = check(node);
    if (typeof message === 'string') report({ message });
  }]));

const config = await redocly.createConfig({
  extends: ['recommended-strict'],
  plugins: [{ id: 'spectral', rules: { oas3: { more: spectral } } }],
  rules: Object.fromEntries([...more, 'spectral/more'].map((r) => [r, 'error'])),
});
const found = await redocly.lint({ ref: process.argv[2], config });
for (const { ruleId, message, location: [at] } of found)
  console.log(`${at.pointer ?? ''}: ${message} [${ruleId}]`);
process.exit(found.length ? 1 : 0);
