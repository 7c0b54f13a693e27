// Lints an OpenAPI document: node lint.mjs FILE.  Exits with 1 for any finding.

import { createConfig, formatProblems, lint } from '@redocly/openapi-core';

const config = await createConfig({
  extends: ['recommended-strict'],
  rules: {
    // What any path may answer is not repeated at each.
    'no-unused-components': 'off',
  },
});
const problems = await lint({ ref: process.argv[2], config });
for (const { ruleId, message, location: [at] } of problems) {
  console.log(`${process.argv[2]}: ${at.pointer ?? ''}: ${message} [${ruleId}]`);
}
process.exit(problems.length ? 1 : 0);
