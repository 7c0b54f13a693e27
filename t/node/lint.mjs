// Lints an OpenAPI document by the recommended rules of Redocly and of
// Spectral, all of them: node lint.mjs redocly|spectral FILE.  Exits with 1 for
// any finding, warnings too.

import { readFileSync } from 'node:fs';
import * as redocly from '@redocly/openapi-core';
import spectral from '@stoplight/spectral-core';
import parsers from '@stoplight/spectral-parsers';
import rulesets from '@stoplight/spectral-rulesets';

const lint = {
  async redocly(file) {
    const config = await redocly.createConfig({ extends: ['recommended'] });
    const problems = await redocly.lint({ ref: file, config });
    return problems.map(({ ruleId, message, location: [at] }) =>
      `${at.pointer ?? ''}: ${message} [${ruleId}]`);
  },
  async spectral(file) {
    const linter = new spectral.Spectral();
    linter.setRuleset({ extends: [rulesets.oas] });
    const text = new spectral.Document(readFileSync(file, 'utf8'),
      parsers.Yaml, file);
    return (await linter.run(text)).map(({ code, message, path }) =>
      `#/${path.join('/')}: ${message} [${code}]`);
  },
};

const [linter, file] = process.argv.slice(2);
const found = await lint[linter](file);
found.forEach((line) => console.log(line));
process.exit(found.length ? 1 : 0);
