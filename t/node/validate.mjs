// Holds answers against an OpenAPI document: node validate.mjs FILE EXCHANGES.
// EXCHANGES is a JSON array of what was asked and answered.  Prints as JSON the
// faults of each, in order, those of the document's own examples, and what it
// says of codes.

import { readFileSync } from 'node:fs';
import { bundle, createConfig } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

const [file, exchanges] = process.argv.slice(2);
const { bundle: { parsed: api } } = await bundle({
  ref: file, config: await createConfig({}), dereference: true,
});
const ajv = formats.default(new Ajv2020({
  allErrors: true, strict: true, strictRequired: false, strictTypes: false,
}));
ajv.addVocabulary(['x-status', 'discriminator']);

// Every member of an answer is in the document, though clients are to ignore
// those that they do not know.
function closed(schema, whole = true) {
  if (typeof schema !== 'object') return schema;
  const out = { ...schema };
  for (const key of ['allOf', 'oneOf', 'anyOf'])
    if (out[key]) out[key] = out[key].map((s) => closed(s, false));
  if (out.properties)
    out.properties = Object.fromEntries(Object.entries(out.properties)
      .map(([name, s]) => [name, closed(s, whole || !!s.type)]));
  if (out.items) out.items = closed(out.items);
  if (whole && (out.properties || out.allOf || out.oneOf)
    && out.additionalProperties === undefined)
    out.unevaluatedProperties = false;
  return out;
}

const compiled = new Map();

function faults(schema, value, what, close = true) {
  if (!compiled.has(schema))
    compiled.set(schema, ajv.compile(close ? closed(schema) : schema));
  const check = compiled.get(schema);
  return check(value) ? [] : check.errors.map(
    (e) => `${what}${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`);
}

// What HTTP itself needs, and browsers and proxies go by.
const plain = new Set(['server', 'date', 'connection', 'content-length',
  'content-type', 'transfer-encoding', 'keep-alive', 'last-modified']);

const common = Object.entries(api.components.headers)
  .filter(([, h]) => h['x-on']);

function headerFaults(answer, documented) {
  const known = new Map([...common, ...Object.entries(documented ?? {})]
    .map(([name, header]) => [name.toLowerCase(), header]));
  const found = [];
  const seen = new Set();
  for (const [raw, value] of answer.headers) {
    const name = raw.toLowerCase();
    if (plain.has(name)) continue;
    if (seen.has(name)) found.push(`header ${name}: comes twice`);
    seen.add(name);
    const header = known.get(name);
    if (!header) { found.push(`header ${name}: is not documented`); continue; }
    const number = header.schema.type === 'integer' && /^\d+$/.test(value);
    found.push(...faults(header.schema, number ? Number(value) : value,
      `header ${name}`));
  }
  for (const [name, header] of known)
    if (header.required && !seen.has(name))
      found.push(`header ${name}: is missing`);
  return found;
}

function pathItem(path) {
  if (api.paths[path]) return api.paths[path];
  const [, item] = Object.entries(api.paths).find(([template]) =>
    new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`).test(path)) ?? [];
  return item;
}

function respond(exchange) {
  const { responses } = api.components;
  if (exchange.method === 'OPTIONS')
    return { 204: responses.Options, 400: responses.BadRequest,
      403: responses.OptionsRefused };
  const item = pathItem(exchange.path);
  if (!item) return { 400: responses.BadRequest, 404: responses.NotFound };
  const method = exchange.method === 'HEAD' ? 'get'
    : exchange.method.toLowerCase();
  return item[method]?.responses ?? { 405: responses.MethodNotAllowed };
}

function requestFaults(exchange) {
  const operation = pathItem(exchange.path)?.[exchange.method.toLowerCase()];
  const body = operation?.requestBody;
  if (!body || exchange.status > 201) return [];
  if (!exchange.requestBody) return body.required ? ['request: no body'] : [];
  const [[type, { schema }]] = Object.entries(body.content);
  return faults(schema, type === 'application/json' ? JSON.parse(exchange.requestBody)
    : Object.fromEntries(new URLSearchParams(exchange.requestBody)), 'request', false);
}

function bodyFaults(exchange, response) {
  const [, type] = exchange.headers
    .find(([name]) => name.toLowerCase() === 'content-type') ?? [];
  const media = type?.replace(/;.*/, '');
  const { content } = response;
  if (!content)
    return exchange.body || media ? ['body: there is none in the document'] : [];
  if (!content[media]) return [`body: ${type} is not documented`];
  if (exchange.method === 'HEAD') return exchange.body ? ['body: of HEAD'] : [];
  if (!/json$/.test(media)) return [];
  try {
    return faults(content[media].schema, JSON.parse(exchange.body), 'body');
  } catch (e) {
    return [`body: ${e.message}`];
  }
}

function exchangeFaults(exchange) {
  const response = respond(exchange)[exchange.status]
    ?? ([411, 414, 421, 501, 505].includes(exchange.status)
      ? api.components.responses.Unreadable : undefined);
  if (!response) return [`status ${exchange.status} is not documented`];
  return [...headerFaults(exchange, response.headers),
    ...bodyFaults(exchange, response), ...requestFaults(exchange)];
}

// Each answer with a body has an example, which is as its schema says.
function exampleFaults(response, where) {
  return Object.entries(response.content ?? {}).flatMap(([type, media]) => {
    const examples = media.examples ? Object.values(media.examples)
      : media.example === undefined ? [] : [{ value: media.example }];
    return examples.length === 0 ? [`${where}: no example as ${type}`]
      : examples.flatMap(({ value }) => faults(media.schema, value, where));
  });
}

const operations = Object.entries(api.paths).flatMap(([path, item]) =>
  ['get', 'post', 'put', 'patch', 'delete', 'options'].filter((m) => item[m])
    .map((m) => [`${m.toUpperCase()} ${path}`, item[m]]));

const examples = [...operations, ['everywhere', api.components]]
  .flatMap(([name, { responses }]) => Object.entries(responses)
    .flatMap(([status, r]) => exampleFaults(r, `${name} ${status}`)));

// Names of headers, in and out; "STATUS CODE" wherever a response says so.
const headers = new Set(common.map(([name]) => name));
const pairs = new Set();
(function walk(node, answer) {
  if (!node || typeof node !== 'object') return;
  if (node.in === 'header') headers.add(node.name);
  if (node.headers && node.description)
    Object.keys(node.headers).forEach((name) => headers.add(name));
  const { status, code } = node.properties ?? {};
  if ((status?.const ?? status?.enum) && code)
    for (const c of code.enum ?? [code.const])
      for (const st of status.enum ?? [status.const]) pairs.add(`${st} ${c}`);
  if (code?.const && !status && !node.properties.error) pairs.add(`${answer} ${code.const}`);
  Object.entries(node).forEach(([key, value]) =>
    walk(value, /^2\d\d$/.test(key) ? key : answer));
})([api.paths, api.components.responses], '200');

console.log(JSON.stringify({
  version: api.info.version,
  operations: operations.map(([name]) => name)
    .filter((name) => !name.startsWith('OPTIONS')),
  scopes: Object.fromEntries(operations.flatMap(([name, { security }]) =>
    security?.some((s) => s.systemToken)
      ? [[name, security.flatMap((s) => s.systemToken).join(' ')]] : [])),
  statuses: Object.fromEntries(operations.map(([name, { responses }]) =>
    [name, Object.keys(responses)])),
  bodies: operations.filter(([, o]) => o.requestBody?.content['application/json'])
    .map(([name]) => name),
  verbs: operations.map(([, { operationId }]) => operationId),
  codes: api.components.schemas.ErrorCode.oneOf.flatMap(
    (c) => c['x-status'].map((status) => `${status} ${c.const}`)),
  responses: [...pairs],
  headers: [...headers],
  examples,
  faults: JSON.parse(readFileSync(exchanges)).map(exchangeFaults),
}));
