// Works with the pages of examples/client in two tabs of a browser, as
// browser_playground.t asks: once in plain JavaScript, once in React.
//
// usage: client_pages.js CHROMIUM ORIGIN GATEWAY_PORT DIRECTORY WWW
//
// DIRECTORY has node_modules with the client's package; ORIGIN serves WWW.

'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { buildSync } = require('esbuild');
const { generateSync } = require('otplib');
const { chromium } = require('playwright-core');
const { ok, is, like, done } = require('./checks.js');

const [program, origin, gateway, dir, www] = process.argv.slice(2);
const CREDENTIAL = 'Demo-passw0rd!';
const sources = path.join(__dirname, '../../examples/client');

// The pages, with the gateway here, and what they load.
function lay(www) {
  const here = (name) => fs.readFileSync(path.join(sources, name), 'utf8')
    .replaceAll('localhost:8080', `localhost:${gateway}`);
  const write = (name, text) => {
    fs.mkdirSync(path.dirname(path.join(www, name)), { recursive: true });
    fs.writeFileSync(path.join(www, name), text);
  };
  const installed = 'node_modules/platform-gateway-client/dist/client.js';
  write(installed, fs.readFileSync(path.join(dir, installed)));
  write('plain.html', here('plain.html'));
  write('react.html', '<!doctype html><title>A page</title><div id="root"></div>'
    + '<script type="module" src="./react.js"></script>');
  fs.writeFileSync(path.join(dir, 'react.tsx'), here('react.tsx'));
  buildSync({ entryPoints: [path.join(dir, 'react.tsx')], bundle: true, format: 'esm',
    jsx: 'automatic', define: { 'process.env.NODE_ENV': '"production"' },
    outfile: path.join(www, 'react.js') });
}

class Tab {
  static async open(context, page) {
    const self = new Tab();
    self.page = await context.newPage();
    self.calls = [];
    self.errors = [];
    self.page.on('pageerror', (e) => self.errors.push(`${e}`));
    self.page.on('response', async (response) => {
      const request = response.request();
      const url = new URL(request.url());
      if (url.port === gateway && request.method() !== 'OPTIONS') {
        self.calls.push([url.pathname.replace(/.*\//, ''), response.status(),
          (request.headers().authorization ?? '').replace(/ .*/, '')]);
      }
    });
    await self.page.goto(`${origin}/app/${page}`);
    return self;
  }

  button(name) { return this.page.getByRole('button', { name, exact: true }); }

  fill(label, text) { return this.page.getByLabel(label, { exact: true }).fill(text); }

  async login(account, credential = CREDENTIAL) {
    await this.fill('Account', `${account}@demo.test`);
    await this.fill('Credential', credential);
    await this.button('Log in').click();
  }

  // Waits until the page says so.
  says(text) {
    return this.page.locator('pre', { hasText: text }).waitFor();
  }

  // What the service got, once the page shows it.
  async call() {
    const answered = this.page.waitForResponse((r) => r.url().endsWith('/current-context')
      && r.request().method() === 'GET');
    await this.button('Call').click();
    const { headers } = await (await answered).json();
    await this.says(headers['X-Request-Id']);
    return headers;
  }

  // Until the tokens of this tab have to be replaced, by its own clock.
  later() {
    return this.page.evaluate(() => {
      const now = Date.now;
      Date.now = () => now() + 895_000;
    });
  }

  // Which buttons there are to see.
  async buttons() {
    return (await this.page.getByRole('button').allTextContents()).join(' ');
  }
}

async function work(browser, page) {
  // Without the playground's policy, which allows no script in a page.
  const context = await browser.newContext({ bypassCSP: true });
  context.setDefaultTimeout(60000);
  const one = await Tab.open(context, page);
  await one.button('Log in').waitFor();
  is(await one.buttons(), 'Log in', `${page}: it asks for a login`);
  await one.login('one', 'wrong');
  await one.says('AUTH_INVALID_CREDENTIALS');
  is(await one.buttons(), 'Log in', `${page}: a wrong credential is told`);
  await one.login('one');
  like((await one.call())['X-Account-Id'], /0001$/, `${page}: a call as the account`);
  is([await one.buttons(), one.calls.at(-1)],
    ['Call Log out', ['current-context', 200, 'DPoP']], `${page}: by a bound token`);

  const two = await Tab.open(context, page);
  like((await two.call())['X-Account-Id'], /0001$/, `${page}: a second tab goes on with it`);
  is(two.calls, [['refresh', 200, ''], ['current-context', 200, 'DPoP']],
    `${page}: by the same key`);
  for (const tab of [one, two]) {
    tab.calls.length = 0;
    await tab.later();
  }
  await Promise.all([one, two].map((tab) => tab.call()));
  is([one, two].map(({ calls }) => calls), Array(2).fill(
    [['refresh', 401, ''], ['refresh', 200, ''], ['current-context', 200, 'DPoP']]),
  `${page}: both tabs refresh at once, and none is refused but for the proof of its clock`);

  await two.button('Log out').click();
  await one.says('Logged out');
  is(await one.buttons(), 'Log in', `${page}: a logout in one tab ends the other`);

  await one.login('several');
  await one.button('Harbour West').click();
  await one.button('Call').waitFor();
  is([await one.buttons(), (await one.call())['X-Active-Branch-Id'].slice(-2)],
    ['Harbour East Harbour North Harbour West Call Log out', '33'],
    `${page}: a branch is chosen`);
  await two.button('Log out').waitFor();
  ok(!/Log in/.test(await two.buttons()), `${page}: the other tab goes on with a login in this one`);

  await secondFactor(one, two, page);
  is([...one.errors, ...two.errors], [], `${page}: no script fails`);
  await context.close();
}

// A login by credential and code, with a wrong code first.  The account's factor is
// made, and removed, by another client of the same browser.
async function secondFactor(one, two, page) {
  const code = (secret, ahead) => generateSync({ secret,
    epoch: Math.floor(Date.now() / 1000) + 30 * ahead });
  await one.button('Log out').click();
  await one.login('one');
  await one.button('Call').waitFor();
  const secret = await two.page.evaluate(async (base) => {
    const { PlatformClient } = await import(
      '/app/node_modules/platform-gateway-client/dist/client.js');
    window.other = new PlatformClient({ base, dpop: true });
    await window.other.restore();
    window.totp = await window.other.enrolTotp('App');
    return window.totp.secret;
  }, `http://localhost:${gateway}`);
  await two.page.evaluate((text) => window.totp.confirm(text), code(secret, 0));

  await one.button('Log out').click();
  await one.login('one');
  const right = code(secret, 1);
  await one.fill('Code', right === '000000' ? '000001' : '000000');
  await one.button('Confirm').click();
  await one.says('AUTH_FACTOR_INVALID');
  ok(!/Call/.test(await one.buttons()), `${page}: a wrong code opens nothing`);
  await one.fill('Code', right);
  await one.button('Confirm').click();
  like((await one.call())['X-Account-Id'], /0001$/, `${page}: a code ends the login`);
  await two.page.evaluate(async () => {
    await window.other.restore();
    await window.other.removeFactor(window.totp.factorId);
    await window.other.logout();
  });
  await one.says('Logged out');
}

async function main() {
  lay(path.join(www, 'app'));
  const browser = await chromium.launch({ executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  try {
    for (const page of ['plain.html', 'react.html']) {
      await work(browser, page);
    }
  } finally {
    await browser.close();
  }
}

done(main);
