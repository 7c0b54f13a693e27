// Passkeys in a browser with an authenticator of its own, as browser_passkeys.t asks.
//
// usage: passkeys.js CHROMIUM GATEWAY PAGE OTHER free|required
//   PAGE may use passkeys; OTHER may call the gateway, and no more

'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { chromium } = require('playwright-core');
const { ok, is, like, done } = require('./checks.js');

const [program, gateway, PAGE, OTHER, part] = process.argv.slice(2);
const library = fs.readFileSync(path.join(__dirname,
  'node_modules/@simplewebauthn/browser/dist/bundle/index.umd.min.js'), 'utf8');

const AUTHENTICATOR = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true,
  hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
const INVALID = '401 AUTH_FACTOR_INVALID';
const TOKEN_INVALID = '401 AUTH_FACTOR_TOKEN_INVALID';
const ADDED = '201 AUTH_FACTOR_ADDED';
const LOGGED_IN = '200 AUTH_LOGIN_SUCCESS';

// -- a page --------------------------------------------------------------------------

// What pages do, in the page: as a front end would, with nothing between.
function inPage(base) {
  // Keys of a page that binds its sessions: its own, which no script can export, and another.
  const keys = {};
  const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const hash = async (s) => text(await crypto.subtle.digest('SHA-256',
    new TextEncoder().encode(s)));
  const jwkOf = async (key) => {
    const { crv, kty, x, y } = await crypto.subtle.exportKey('jwk', key.publicKey);
    return { crv, kty, x, y };
  };
  window.bind = async () => {
    for (const name of ['own', 'other']) {
      keys[name] = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' },
        false, ['sign']);
    }
    return hash(JSON.stringify(await jwkOf(keys.own)));
  };
  const prove = async (key, htm, to, token) => {
    const parts = [{ typ: 'dpop+jwt', alg: 'ES256', jwk: await jwkOf(key) },
      { jti: crypto.randomUUID(), htm, htu: `${base}/api/auth/${to}`,
        iat: Math.floor(Date.now() / 1000), ...(token && { ath: await hash(token) }) }];
    const signed = parts.map((p) => text(new TextEncoder().encode(JSON.stringify(p)))).join('.');
    return `${signed}.${text(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' },
      key.privateKey, new TextEncoder().encode(signed)))}`;
  };

  // With the proof by a key, if the page has that key.
  window.call = async (method, to, body, token, { by = 'own', of = to,
    scheme = keys.own ? 'DPoP' : 'Bearer' } = {}) => {
    const proof = keys[by] && await prove(keys[by], method, of, token);
    const answer = await fetch(`${base}/api/auth/${to}`, { method,
      headers: { ...(body ? { 'Content-Type': 'application/json' } : {}),
        ...(proof ? { DPoP: proof } : {}),
        ...(token ? { Authorization: `${scheme} ${token}` } : {}) },
      body: body && JSON.stringify(body) });
    const json = await answer.json();
    return { ...json, was: `${answer.status} ${json.code}` };
  };
  const told = (e) => ({ error: e.name });
  window.create = (json) => navigator.credentials.create({ publicKey:
    PublicKeyCredential.parseCreationOptionsFromJSON(json) }).then((c) => c.toJSON(), told);
  window.get = (json) => navigator.credentials.get({ publicKey:
    PublicKeyCredential.parseRequestOptionsFromJSON(json) }).then((c) => c.toJSON(), told);
}

class Page {
  // With an authenticator that no other page has.
  static async open(browser, authenticator = {}) {
    const self = new Page();
    self.context = await browser.newContext();
    await self.context.addInitScript(inPage, gateway);
    await self.context.addInitScript(library);
    self.page = await self.context.newPage();
    await self.at(PAGE);
    self.devtools = await self.context.newCDPSession(self.page);
    await self.devtools.send('WebAuthn.enable');
    self.authenticatorId = (await self.ask('addVirtualAuthenticator',
      { options: { ...AUTHENTICATOR, ...authenticator } })).authenticatorId;
    return self;
  }

  ask(method, parameters) {
    return this.devtools.send(`WebAuthn.${method}`,
      { authenticatorId: this.authenticatorId, ...parameters });
  }

  at = (origin) => this.page.goto(`${origin}/`);

  close = () => this.context.close();

  run = (f, argument) => this.page.evaluate(f, argument);

  call = (...all) => this.run((a) => window.call(...a), all);

  // From now on its logins are bound to a key of the page.
  async bind() {
    this.jkt = await this.run(() => window.bind());
    return this;
  }

  create = (options) => this.run((o) => window.create(o), options);

  get = (options) => this.run((o) => window.get(o), options);

  // The answer to a login by the credential.
  login = (account) => this.call('POST', 'login',
    { account: `${account}@demo.test`, credential: 'Demo-passw0rd!' });

  async session(account) {
    const answer = await this.login(account);
    is(answer.was, LOGGED_IN, `${account}: a session`);
    return answer.accessToken || answer.accountAccessToken;
  }

  options = (token) => this.call('POST', 'passkeys/options', {}, token);

  add = (asked, credential, token, more = {}) => this.call('POST', 'passkeys',
    { challengeToken: asked.challengeToken, credential, ...more }, token);

  // Registers a passkey; changes the options, or what the browser made of them.
  async register(token, { options = (o) => o, credential = (c) => c, ...more } = {}) {
    const asked = await this.options(token);
    const made = await this.create(options(asked.options));
    return made.error ? { was: made.error } : this.add(asked, credential(made), token, more);
  }

  // A login without a name.
  async enter({ asked, options = (o) => o, credential = (c) => c } = {}) {
    const to = asked || await this.call('POST', 'login/passkey-options', {});
    const made = await this.get(options(to.options));
    return made.error ? { was: made.error } : this.call('POST', 'login/passkey',
      { challengeToken: to.challengeToken, credential: credential(made) });
  }

  // The second half of a login.
  async verify(account, { options = (o) => o, credential = (c) => c } = {}) {
    const asked = await this.login(account);
    const made = await this.get(options(asked.passkey));
    return made.error ? { was: made.error } : this.call('POST', 'verify-factor',
      { factorToken: asked.factorToken, type: 'passkey', credential: credential(made) });
  }

  async stepUp(token, { asked, options = (o) => o, credential = (c) => c } = {}) {
    const to = asked || await this.call('POST', 'step-up/passkey-options', {}, token);
    const made = await this.get(options(to.options));
    return made.error ? { was: made.error } : this.call('POST', 'step-up', { type: 'passkey',
      challengeToken: to.challengeToken, credential: credential(made) }, token);
  }

  // Gives the one credential of the authenticator another signature counter.
  async count(n) {
    const { credentials: [credential] } = await this.ask('getCredentials');
    await this.ask('removeCredential', { credentialId: credential.credentialId });
    await this.ask('addCredential', { credential: { ...credential, signCount: n(credential
      .signCount) } });
  }
}

const claims = ({ accessToken, accountAccessToken }) =>
  JSON.parse(Buffer.from((accessToken || accountAccessToken).split('.')[1], 'base64url'));

// Whether an answer's token is bound to the key of the page, if it has one.
const bound = (p, answer) => answer.tokenType === (p.jkt ? 'DPoP' : 'Bearer')
  && claims(answer).cnf?.jkt === p.jkt;

// Two changes of what a page sends, as somebody between would make them.
const flip = (text) => (text[0] === 'A' ? 'B' : 'A') + text.slice(1);
const broken = (member) => (c) =>
  ({ ...c, response: { ...c.response, [member]: flip(c.response[member]) } });
// A page that does not ask for the person's gesture.
const careless = (o) => ({ ...o, userVerification: 'discouraged',
  ...(o.authenticatorSelection ? { authenticatorSelection:
    { residentKey: 'required', userVerification: 'discouraged' } } : {}) });

// -- what works ------------------------------------------------------------------------

// The standard's JSON, to the browser and back; then npm's library in the page.
async function works(p, account, name) {
  const token = await p.session(account);
  const first = await p.register(token, { name: 'Laptop' });
  is([first.was, first.recoveryCodes.length], [ADDED, 10],
    `${name}: a passkey is registered, with recovery codes`);

  const entered = await p.enter();
  const { amr, acr } = claims(entered);
  is([entered.was, amr, acr], [LOGGED_IN, ['hwk', 'user', 'mfa'], 'aal2'],
    `${name}: it logs in without a name, and is two factors`);
  is(entered.accountId, claims({ accessToken: token }).sub, `${name}: its account`);
  const asked = await p.login(account);
  is([asked.was, asked.factors, asked.nextAction],
    ['200 AUTH_FACTOR_REQUIRED', ['passkey', 'recovery'], { type: 'verify_factor' }],
    `${name}: a login by the credential asks for it`);
  const verified = await p.verify(account);
  is([verified.was, claims(verified).amr], [LOGGED_IN, ['pwd', 'hwk', 'user', 'mfa']],
    `${name}: and gets it as the second factor`);
  const before = claims({ accessToken: token });
  const stepped = await p.stepUp(token);
  is([stepped.was, claims(stepped).acr], ['200 AUTH_STEP_UP_SUCCESS', 'aal2'],
    `${name}: step-up`);
  is([entered, verified, stepped].map((answer) => bound(p, answer)), [true, true, true],
    `${name}: ${p.jkt ? 'the tokens are bound to its key' : 'no token is bound'}`);
  ok(claims(stepped).auth_time >= before.auth_time
    && claims(stepped).session_id === before.session_id, `${name}: of the same session`);
  return { token, factorId: first.factorId };
}

const factors = async (p, token) =>
  (await p.call('GET', 'factors', undefined, token)).factors;

// An authenticator has one passkey of an account, and an account may have several.
async function several(p, token, browser) {
  const asked = await p.options(token);
  is(asked.options.excludeCredentials.length, 1, 'excluded: the passkey of the account');
  is((await p.register(token)).was, 'InvalidStateError',
    'excluded: no second one on this authenticator');
  const q = await Page.open(browser);
  is((await q.register(token)).was, ADDED, 'excluded: but one on another');
  is((await q.enter()).was, LOGGED_IN, 'excluded: which logs in too');
  is((await factors(p, token)).map((f) => `${f.type} ${f.name}`),
    ['passkey Laptop', 'passkey Passkey'], 'the list has both');
  return q;
}

async function removal(p, q, { token, factorId }) {
  const renamed = await p.call('PATCH', `factors/${factorId}`, { name: 'Old laptop' }, token);
  is([renamed.was, (await factors(p, token))[0].name],
    ['200 AUTH_FACTOR_CHANGED', 'Old laptop'], 'renamed');
  is((await p.call('DELETE', `factors/${factorId}`, undefined, token)).was,
    '200 AUTH_FACTOR_REMOVED', 'removed');
  is((await p.enter()).was, INVALID, 'removed: it logs in no more');
  is((await p.verify('one')).was, 'NotAllowedError', 'removed: nor is it asked for');
  is((await p.stepUp(token)).was, 'NotAllowedError', 'removed: nor for a step-up');
  is((await q.enter()).was, LOGGED_IN, 'removed: the other one does');
  const [{ factorId: last }] = await factors(q, token);
  is((await q.call('DELETE', `factors/${last}`, undefined, token)).was,
    '200 AUTH_FACTOR_REMOVED', 'removed: the last one, which nothing requires');
  is([(await q.enter()).was, (await q.login('one')).was], [INVALID, LOGGED_IN],
    'removed: and a login is as before');
  await p.close();
  await q.close();
}

async function byLibrary(browser) {
  const p = await Page.open(browser);
  p.create = (o) => p.run((optionsJSON) => window.SimpleWebAuthnBrowser
    .startRegistration({ optionsJSON }).catch((e) => ({ error: e.name })), o);
  p.get = (o) => p.run((optionsJSON) => window.SimpleWebAuthnBrowser
    .startAuthentication({ optionsJSON }).catch((e) => ({ error: e.name })), o);
  const { token } = await works(p, 'none', '@simplewebauthn/browser');
  is((await p.register(token)).was, 'InvalidStateError', '@simplewebauthn/browser: excluded');
  await p.close();
}

// Sessions that are bound to a key of the page, from the login to the last passkey.
async function bySession(browser) {
  const p = await (await Page.open(browser)).bind();
  const { token, factorId } = await works(p, 'one', 'bound');
  const wrong = [{ scheme: 'Bearer' }, { by: 'none' }, { by: 'other' }];
  // The gateway lets calls pass that may come with a factorToken, so identity refuses them.
  const refusals = (to) => to.startsWith('step-up')
    ? ['401 GATEWAY_TOKEN_INVALID', '401 GATEWAY_PROOF_REQUIRED', '401 GATEWAY_PROOF_INVALID']
    : ['401 AUTH_PROOF_REQUIRED', '401 AUTH_PROOF_REQUIRED', '401 AUTH_PROOF_INVALID'];
  const [asked, again] = [await p.options(token),
    await p.call('POST', 'step-up/passkey-options', {}, token)];
  const credential = await p.get(again.options);
  const stepUp = ['POST', 'step-up', { type: 'passkey', challengeToken: again.challengeToken,
    credential }, token];
  const calls = [['POST', 'passkeys/options', {}, token],
    ['POST', 'passkeys', { challengeToken: asked.challengeToken, credential: {} }, token],
    ['POST', 'step-up/passkey-options', {}, token], stepUp, ['GET', 'factors', undefined, token],
    ['DELETE', `factors/${factorId}`, undefined, token]];
  for (const [method, to, ...more] of calls) {
    is(await Promise.all(wrong.map(async (how) =>
      (await p.call(method, to, ...more, how)).was)), refusals(to),
    `bound: ${method} ${to.replace(factorId, 'ID')} as Bearer, without a proof, by another key`);
  }
  is((await p.call(...stepUp)).was, '200 AUTH_STEP_UP_SUCCESS',
    'bound: by its key that challenge is still good');

  const entering = await p.call('POST', 'login/passkey-options', {});
  const login = ['POST', 'login/passkey', { challengeToken: entering.challengeToken,
    credential: await p.get(entering.options) }, undefined];
  const waiting = await p.login('one');
  const second = ['POST', 'verify-factor', { factorToken: waiting.factorToken, type: 'passkey',
    credential: await p.get(waiting.passkey) }, undefined];
  for (const call of [login, second]) {
    is((await p.call(...call, { of: 'login' })).was, '401 AUTH_PROOF_INVALID',
      `bound: ${call[1]} with a proof of another call`);
    const answer = await p.call(...call);
    is([answer.was, bound(p, answer)], [LOGGED_IN, true], 'bound: with its own it is bound');
  }
  is((await p.call('DELETE', `factors/${factorId}`, undefined, token)).was,
    '200 AUTH_FACTOR_REMOVED', 'bound: the passkey is removed');
  await p.close();
}

// -- what is refused, and the same without that ----------------------------------------

const refused = (answer) => [answer.was, answer.detail];
const not = (reason) => ['400 AUTH_PASSKEY_INVALID',
  `The passkey is not accepted: ${reason}.`];

async function registrations(browser) {
  const p = await Page.open(browser);
  const q = await Page.open(browser, { isUserVerified: false });
  const plain = await Page.open(browser, { hasUserVerification: false,
    isUserVerified: false });
  const token = await p.session('several');
  const other = await p.session('several');

  is((await q.register(token)).was, 'NotAllowedError',
    'registration: whom the authenticator does not verify has no passkey');
  is(refused(await plain.register(token, { options: careless })), not('user_verified'),
    'registration: nor if the page does not ask for it');
  await q.close();
  await plain.close();

  await p.at(OTHER);
  is(refused(await p.register(token)), not('origin'),
    'registration: by a page of another origin');
  await p.at(PAGE);
  is(refused(await p.register(token, { credential: broken('attestationObject') })),
    not('attestation'), 'registration: a broken attestation');

  const [asked, again, last] = [await p.options(token), await p.options(token),
    await p.options(token)];
  const made = await p.create(asked.options);
  is(refused(await p.add(again, made, token)), not('challenge'),
    'registration: for another challenge');
  is((await p.add(again, made, token)).was, TOKEN_INVALID, 'registration: a challenge twice');
  is((await p.add(asked, made, other)).was, TOKEN_INVALID,
    'registration: the challenge of another session');
  is((await p.add(await p.call('POST', 'login/passkey-options', {}), made, token)).was,
    TOKEN_INVALID, 'registration: the challenge of a login');
  is((await p.add(last, await p.create(last.options), token)).was, ADDED,
    'registration: without any of that');
  await p.close();
}

// Each by a login without a name, as a second factor, and for a step-up, by an account
// of its own: ten failures are the limit.
async function assertions(browser) {
  const all = async (account, f) => {
    const p = await Page.open(browser);
    const token = await p.session(account);
    is((await p.register(token)).was, ADDED, `${account}: a passkey`);
    await f(p, async (name, want, change = {}) => {
      is([(await p.enter(change)).was, (await p.verify(account, change)).was,
        (await p.stepUp(token, change)).was],
      want || [LOGGED_IN, LOGGED_IN, '200 AUTH_STEP_UP_SUCCESS'], `assertion: ${name}`);
    }, token);
    await p.close();
  };
  const invalid = Array(3).fill(INVALID);

  await all('two-hundred', async (p, each) => {
    await p.ask('setUserVerified', { isUserVerified: false });
    await each('whom the authenticator does not verify is not asked',
      Array(3).fill('NotAllowedError'));
    await each('unless the page sees to it', invalid, { options: careless });
    await p.ask('setUserVerified', { isUserVerified: true });
    await p.at(OTHER);
    await each('by a page of another origin', invalid);
    await p.at(PAGE);
    await each('a broken signature', invalid, { credential: broken('signature') });
    await each('without any of that');
  });

  await all('two-workspaces', async (p, each, token) => {
    await p.count((n) => n + 10);
    await each('a signature counter that has gone up');
    await p.count(() => 1);
    await each('one that has fallen', invalid);
    await p.count(() => 1000);
    await each('one that is right again');

    const other = (await p.enter()).accountAccessToken;
    const asked = await p.call('POST', 'step-up/passkey-options', {}, other);
    is((await p.stepUp(token, { asked })).was, TOKEN_INVALID,
      'assertion: the challenge of another session');
    is((await p.stepUp(token, { asked })).was, TOKEN_INVALID, 'assertion: or a used one');
    is((await p.stepUp(token, { asked: await p.call('POST', 'login/passkey-options', {}) }))
      .was, TOKEN_INVALID, 'assertion: or that of a login');
    is((await p.enter({ asked: await p.call('POST', 'step-up/passkey-options', {}, token) }))
      .was, TOKEN_INVALID, 'assertion: the challenge of a step-up logs nobody in');
    const [one, two] = [await p.call('POST', 'login/passkey-options', {}),
      await p.call('POST', 'login/passkey-options', {})];
    is((await p.enter({ asked: { ...one, options: two.options } })).was, INVALID,
      'assertion: for another challenge');
    is((await p.enter({ asked: two })).was, LOGGED_IN, 'assertion: for its own');
    is((await p.enter({ asked: two })).was, TOKEN_INVALID, 'assertion: once');
    is((await p.enter({ credential: broken('userHandle') })).was, INVALID,
      'assertion: another user handle');
    is((await p.verify('several', { options: (o) => ({ ...o, allowCredentials: [] }) })).was,
      INVALID, "assertion: another account's passkey as the second factor");
    await each('without any of that');
  });
}

// -- whoever has to have a second factor gets one at the login -------------------------

async function enrolment(browser) {
  const p = await (await Page.open(browser)).bind();
  const [asked, other] = [await p.login('none'), await p.login('one')];
  is([asked.was, asked.factors, asked.nextAction, asked.accessToken],
    ['200 AUTH_FACTOR_REQUIRED', ['passkey', 'recovery'], { type: 'verify_factor' }, undefined],
    'required: who has a passkey is asked for it');
  is([other.was, other.factors, other.nextAction],
    ['200 AUTH_FACTOR_REQUIRED', [], { type: 'enroll_factor' }],
    'required: who has none has to get one');

  const { factorToken } = other;
  is((await p.call('POST', 'passkeys/options', { factorToken: asked.factorToken })).was,
    TOKEN_INVALID, 'required: the token of a login that waits for a passkey adds none');
  const options = await p.call('POST', 'passkeys/options', { factorToken });
  is(options.was, '200 AUTH_PASSKEY_OPTIONS', 'required: the one that waits for a new one does');
  const credential = await p.create(options.options);
  const add = (more, how) => p.call('POST', 'passkeys',
    { challengeToken: options.challengeToken, credential, ...more }, undefined, how);
  is((await add({})).was, '401 AUTH_ACCESS_TOKEN_REQUIRED', 'required: not without its token');
  is((await add({ factorToken }, { of: 'login' })).was, '401 AUTH_PROOF_INVALID',
    'required: nor with a proof of another call');
  const entered = await add({ factorToken, name: 'Phone' });
  is([entered.was, entered.recoveryCodes.length, claims(entered).acr, bound(p, entered)],
    [LOGGED_IN, 10, 'aal2', true], 'required: the passkey ends the login, which is bound');
  is((await p.call('POST', 'passkeys/options', { factorToken })).was, TOKEN_INVALID,
    'required: the token was used');
  is([(await p.verify('one')).was, (await p.enter()).was], [LOGGED_IN, LOGGED_IN],
    'required: the next logins are by it');

  const token = entered.accessToken;
  const [{ factorId }] = await factors(p, token);
  const remove = async (id) =>
    (await p.call('DELETE', `factors/${id}`, undefined, token)).was;
  is(await remove(factorId), '409 AUTH_FACTOR_LAST', 'required: the last one stays');
  const q = await Page.open(browser);
  const more = await p.options(token);
  is((await p.add(more, await q.create(more.options), token)).was, ADDED,
    'required: with another one');
  is(await remove(factorId), '200 AUTH_FACTOR_REMOVED', 'required: it is removed');
  is([(await p.enter()).was, (await q.enter()).was], [INVALID, LOGGED_IN],
    'required: and logs in no more');
}

// A page without content, at an origin.
function serve(origin) {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve) => {
    http.createServer((_, answer) => answer.setHeader('Content-Type', 'text/html')
      .end('<!doctype html><title>A page</title>')).listen(port, hostname, resolve);
  });
}

async function main() {
  await Promise.all([PAGE, OTHER].map(serve));
  const browser = await chromium.launch({ executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  try {
    if (part === 'free') {
      const p = await Page.open(browser);
      const made = await works(p, 'one', 'the standard');
      await removal(p, await several(p, made.token, browser), made);
      await bySession(browser);
      await byLibrary(browser);
      await registrations(browser);
      await assertions(browser);
    } else {
      await enrolment(browser);
    }
  } finally {
    await browser.close();
  }
}

done(main);
