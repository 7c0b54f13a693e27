// A client of HTTP/3: the requests that gw_expiry.t writes to it, all of one
// browser's connection.
//
// usage: http3.js CHROMIUM ORIGIN CERTIFICATE
//
// A line of input is an id, a path, a token and, if that is bound, its proof.
// Of each request it prints
// "ID begun" once there is something of the body, and "ID whole PROTOCOL PORT"
// with the client's port or "ID ERROR" where it ends.

'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const readline = require('node:readline');
const { chromium } = require('playwright-core');

const [program, origin, certificate] = process.argv.slice(2);

// Runs in the page.
async function get([id, path, token, proof]) {
  try {
    const response = await fetch(path, { cache: 'no-store',
      signal: AbortSignal.timeout(60000), // a test has to end
      headers: { 'X-Request-Id': id,
        Authorization: `${proof ? 'DPoP' : 'Bearer'} ${token}`,
        ...(proof && { DPoP: proof }) } });
    const reader = response.body.getReader();
    for (let n = 0; ; n += 1) {
      const { done } = await reader.read();
      if (done) {
        let seen;
        // It comes some time after the last byte.
        while (!(seen = performance.getEntriesByName(response.url).pop())) {
          await new Promise((later) => { setTimeout(later, 10); });
        }
        return `whole ${seen.nextHopProtocol} ${response.headers.get('X-Port')}`;
      }
      if (n === 0) {
        console.log(`${id} begun`);
      }
    }
  } catch (e) {
    return null;
  }
}

async function main() {
  const key = new crypto.X509Certificate(fs.readFileSync(certificate)).publicKey;
  const pin = crypto.createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' })).digest('base64');
  const browser = await chromium.launch({ executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage',
      `--origin-to-force-quic-on=${new URL(origin).host}`,
      `--ignore-certificate-errors-spki-list=${pin}`] });
  try {
    const page = await browser.newPage();
    const failed = {};
    page.on('console', (message) => {
      if (/^\S+ begun$/.test(message.text())) {
        console.log(message.text());
      }
    });
    page.on('requestfailed', (request) => {
      failed[request.headers()['x-request-id']] = request.failure().errorText;
    });
    await page.goto(origin);
    console.log('ready');
    for await (const line of readline.createInterface(process.stdin)) {
      const [id, ...request] = line.split(' ');
      page.evaluate(get, [id, ...request]).then((end) => {
        console.log(`${id} ${end || failed[id] || 'failed'}`);
      }, () => {}); // the browser is closed
    }
  } finally {
    await browser.close();
  }
}

main().catch((e) => {
  console.log(e.stack);
  process.exit(2);
});
