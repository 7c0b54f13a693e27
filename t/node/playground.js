// Walks through the playground in a browser, as browser_playground.t asks, and
// prints "ok - ..." or "not ok - ..." for each check.
//
// usage: playground.js CHROMIUM PAGE ACCESS_LOG SCREENSHOTS PSQL

'use strict';

const { execSync } = require('node:child_process');
const { createHmac } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const jsqr = require('jsqr');
const { chromium } = require('playwright-core');
const { ok, is, like, done } = require('./checks.js');

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [program, origin, accessLog, shots, psql] = process.argv.slice(2);
const CONTEXT = '/api/workspaces/current-context';
const REFRESH = '/api/auth/refresh';
const CALL = '#call-form button';
const NEWEST = '#log > :first-child';
const SEVERAL = '00000000-0000-4000-8000-000300000003';

// What the page shows of a call: status, code, decision.
const VERIFIED = '200 - allow: verified';
const ENDED = '401 GATEWAY_TOKEN_INVALID deny: session_revoked';

// -- a page and all that it does ----------------------------------------------------

class Page {
  // In a browser of its own, or in one that has pages already.
  static async open(browser, options = {}) {
    const self = new Page();
    self.context = options.newPage ? options
      : await browser.newContext(options);
    // Against hanging alone: a picture takes a while on a busy machine.
    self.context.setDefaultTimeout(120000);
    self.page = await self.context.newPage();
    self.seen = [];
    self.errors = [];
    self.page.on('request', (request) => self.seen.push(request));
    self.page.on('console', (m) => /error|warning/.test(m.type())
      && self.errors.push(Page.brief(m)));
    self.page.on('pageerror', (e) => self.errors.push(`thrown: ${e}`));
    await self.page.goto(origin);
    await self.settled();
    await self.page.waitForFunction(() =>
      document.getElementById('gateway-state').className === 'is-good');
    return self;
  }

  // A browser writes an error for each refused call; which one it was.
  static brief(message) {
    const text = message.text();
    const url = message.location().url;
    const path = url ? new URL(url).pathname : '';
    const status = /status of (\d+)/.exec(text);
    return status ? `${status[1]} ${path}`
      : /net::ERR_FAILED/.test(text) ? `no answer ${path}`
        : /blocked by CORS policy/.test(text) ? 'CORS' : text;
  }

  async settled() {
    await this.page.waitForFunction(() =>
      !document.querySelector('[aria-disabled="true"]'));
  }

  // Does something and tells which calls it made, in order of their paths'
  // first use; the question to explain is not one of them.
  async during(what, bodies = true) {
    const from = this.seen.length;
    await what();
    await this.settled();
    const calls = [];
    for (const request of this.seen.slice(from)) {
      const { pathname: path, origin: to } = new URL(request.url());
      const answer = await request.response();
      calls.push({
        method: request.method(), path, origin: to, body: request.postData(),
        sent: await request.allHeaders(), status: answer ? answer.status() : 0,
        headers: answer ? await answer.allHeaders() : {}, timing: request.timing(),
        json: answer && bodies ? await answer.json().catch(() => null) : null,
      });
    }
    return calls.filter((call) => call.path !== '/explain');
  }

  // The step of a control is open before it is used.
  async open(selector) {
    const [id, open] = await this.page.$eval(selector, (e) => {
      const box = e.closest('.step');
      return box ? [box.id, box.open] : ['', true];
    });
    if (!open) {
      await this.page.click(`#${id} > summary`);
    }
    return id;
  }

  // The console has an error for each call that was refused, and no other.
  async click(selector) {
    this.step = await this.open(selector);
    const calls = await this.during(() => this.page.click(selector));
    this.silent(selector, ...calls.flatMap(({ status, path }) =>
      !status ? ['CORS', `no answer ${path}`]
        : status >= 400 ? [`${status} ${path}`] : []));
    return calls;
  }

  // Clicks; each call that was made is shown so.
  async press(selector, name, ...want) {
    const calls = await this.click(selector);
    await this.shows(name, calls, ...want);
    return calls;
  }

  async select(selector, option) {
    await this.open(selector);
    return this.page.selectOption(selector, option);
  }

  // With a branch of that name: in that one.  The session's id.
  async login(account, branch) {
    await this.select('#demo', `${account}@demo.test`);
    await this.click('#login-form button');
    if (branch) {
      await this.choose(branch);
    }
    return this.page.getAttribute('#session-id button', 'title');
  }

  async choose(branch) {
    await this.select('#branches', { label: branch });
    return this.click('#branch-form button');
  }

  // Of the newest answer's table; a short id has the whole one in its title.
  rows() {
    return this.page.$$eval(`${NEWEST} tbody tr`, (trs) => trs.map((tr) =>
      [...tr.children].map((c) => [...c.querySelectorAll('.id')]
        .map((id) => id.title).join() || c.textContent)));
  }

  // Of each card of the newest answer: what it says, where the call went, how
  // far, and why not on.
  cards() {
    return this.page.$$eval(`${NEWEST} .call`, (boxes) => boxes.map((box) => {
      const part = (q) => (box.querySelector(q) || {}).textContent || '';
      const way = [...box.querySelectorAll('.way li')];
      return {
        badge: part('.badge'), code: part('.call-line code'), time: part('.time'),
        decision: part('.folds > :last-child summary .quiet'),
        ids: [...box.querySelectorAll('.facts dd')].map((d) =>
          (d.querySelector('.id') || {}).title || d.textContent),
        failed: part('.checks .failed'), reason: part('.reason code'),
        steps: way.map((li) => `${li.dataset.at} ${li.className.replace(' end', '')}`),
        notes: Object.fromEntries(way.map((li) =>
          [li.dataset.at, li.querySelector('.note').textContent])),
        removed: [...box.querySelectorAll('.removed del')].map((d) => d.textContent),
      };
    }));
  }

  // Where the focus is: the nearest place with an id, and what has it.
  focus() {
    return this.page.evaluate(() => {
      const e = document.activeElement;
      const box = e.closest('.step, #log, #session, #beside');
      return `${box && box.id} ${e.tagName}`;
    });
  }

  text = (selector) => this.page.textContent(selector);

  count = (selector) => this.page.locator(selector).count();

  silent(name, ...expected) {
    is(this.errors.sort(), expected.sort(), `${name}: the console`);
    this.errors = [];
  }

  // Each call gets its card; the card's request id is what the network and the
  // gateway's log had, with the same decision.
  async shows(name, calls, ...want) {
    is(await this.page.getAttribute(NEWEST, 'data-step'), this.step,
      `${name}: the newest answer is of its step`);
    const cards = await this.cards();
    is(cards.map((c) => `${c.badge} ${c.code || '-'} ${c.decision}`), want,
      `${name}: what the page shows`);
    is(calls.map((c) => c.status ? String(c.status) : 'blocked'),
      cards.map((c) => c.badge), `${name}: what the network had`);
    for (const [i, card] of cards.entries()) {
      const call = calls[i] || {};
      call.card = card;
      is([card.reason, /^\d+ ms$/.test(card.time)],
        [(/^deny: (.*)/.exec(card.decision) || ['', ''])[1], true],
        `${name}: the reason on the way back, and how long it took`);
      if (call.status) {
        const entry = await logged(card.ids[0]);
        is([...card.ids, card.decision], [call.headers['x-request-id'],
          call.headers['x-correlation-id'], `${entry.decision}: ${entry.reason}`],
        `${name}: the ids, and the decision that the gateway's log has`);
        is(entry.correlationId, card.ids[1], `${name}: and the correlation id`);
      }
    }
  }

  async refreshCookie() {
    const cookies = await this.context.cookies();
    return cookies.find((c) => c.name === 'platform_refresh_token');
  }
}

function entries() {
  return fs.readFileSync(accessLog, 'utf8').trim().split('\n').map(JSON.parse);
}

// nginx writes its line after the answer.
async function logged(id, left = 500) {
  const entry = entries().find((e) => e.requestId === id);
  if (entry || !left) {
    return entry || {};
  }
  await new Promise((resolve) => { setTimeout(resolve, 10); });
  return logged(id, left - 1);
}

function sentToken(call) {
  return (call.sent.authorization || '').replace('Bearer ', '');
}

// -- what must hold of any state of the page ------------------------------------------

// One line a fault: what sticks out, overlaps, is too small to touch.  Contrast and
// labels are axe's.
function faults() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const { scrollWidth, clientWidth } = document.documentElement;
  const bad = scrollWidth === clientWidth ? [] : ['something sticks out'];

  // What is scrolled out of a list is not there.
  const seen = (e) => {
    const r = e.getBoundingClientRect();
    const list = e.closest('.list') || e.closest('#beside');
    const { top, bottom } = (list || e).getBoundingClientRect();
    return { left: r.left, right: r.right, top: Math.max(r.top, top),
      bottom: Math.min(r.bottom, bottom) };
  };
  const boxes = all('button, select, input, summary, h2, h3, h4, p, table, pre, dl')
    .filter((e) => e.checkVisibility() && !e.closest('.unseen') && !e.closest('#session'))
    .map((e) => [e, seen(e)]);
  for (const [a, r] of boxes) {
    for (const [b, s] of boxes) {
      if (a !== b && !a.contains(b) && !b.contains(a)
        && Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1
        && Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 1) {
        bad.push(`${a.tagName}#${a.id} over ${b.tagName}#${b.id}`);
      }
    }
  }

  const touch = matchMedia('(pointer: coarse)').matches;
  return [...bad, ...all('button, select, form input')
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height
      < (e.className.startsWith('id') && !touch ? 24 : 44))
    .map((e) => `#${e.id} is too small to touch`)];
}

// axe leaves out by default whether a control's name has the text that is seen.
async function looks(p, name) {
  // Another width moves the answers in the next frame, and their strips begin anew.
  await p.page.evaluate(() => new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  }));
  await p.page.evaluate(() => document.getAnimations().forEach((a) => a.finish()));
  is(await p.page.evaluate(faults), [], `${name}: all can be seen and touched`);
  await p.page.evaluate(axe);
  is(await p.page.evaluate(async () => (await window.axe.run(document,
    { resultTypes: ['violations'],
      rules: { 'label-content-name-mismatch': { enabled: true } } })).violations
    .map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(' ')}`)), [],
  `${name}: axe finds nothing`);
}

// -- the walk -------------------------------------------------------------------------

async function loginByKeyboard(p) {
  const press = (key) => p.page.keyboard.press(key);
  const focused = (f) => p.page.evaluate(f);
  for (const want of ['A.skip', 'SUMMARY.', 'demo', 'account', 'credential', 'BUTTON.']) {
    await press('Tab');
    is(await focused(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return [e.id || `${e.tagName}.${e.className}`,
        style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2];
    }), [want, true], `keyboard: the focus is on ${want}, with an outline`);
    if (want === 'demo') {
      await p.page.keyboard.type('one');
      is(await p.page.inputValue('#account'), 'one@demo.test',
        'keyboard: a demo account is chosen');
    }
  }
  const [call] = await p.during(() => press('Enter'));
  is([call.status, await p.focus()], [200, 'call SUMMARY'],
    'keyboard: Enter logs in, and the focus is on the next step');
  like(await p.text('[role=status]'), /login: 200\..*branch token/,
    'keyboard: what came of it is said aloud');
  like(await p.text('#session-state'), /^Working in /, 'keyboard: in a branch');

  // From there on: the step's own, the other steps, the session, the answers.
  const places = [];
  for (let i = 0; i < 40 && places[places.length - 1] !== 'log SUMMARY'; i += 1) {
    await press('Tab');
    places.push(await p.focus());
  }
  is(places, ['call SELECT', 'call BUTTON', 'refresh SUMMARY', 'cheat SUMMARY',
    'sessions SUMMARY', 'factor SUMMARY', 'logout SUMMARY', 'client SUMMARY', 'people SUMMARY',
    'audit SUMMARY', 'beside DIV', 'session BUTTON', 'session SUMMARY', 'session SUMMARY',
    'log SUMMARY'],
  'keyboard: from the left to the right, in the order of the steps');
  await press('Enter');
  ok(!await p.page.$eval(NEWEST, (e) => e.open), 'keyboard: an answer folds');
  await press('Enter');
  await press('Tab');
  const id = await focused(() => document.activeElement.title);
  await press('Enter');
  is([await focused(() => document.activeElement.textContent),
    await focused(() => navigator.clipboard.readText()), id],
  Array(3).fill(call.headers['x-request-id']),
  'keyboard: Enter shows the whole id of the request, and copies it');
  await press('Tab');
  await press('Enter');
  ok(await p.page.$eval(`${NEWEST} .folds details`, (e) => e.open),
    'keyboard: the request opens');
}

// Old answers fold, each may be opened again, and there is an end to them.
async function folding(p) {
  const opened = () => p.page.$$eval('.entry', (all) => all.map((e) => e.open));
  for (let i = 0; i < 14; i += 1) {
    await p.click(CALL);
  }
  is(await opened(), [true, ...Array(11).fill(false)],
    'folding: the newest is open, and twelve are kept');
  await p.page.click('.entry:nth-child(2) > summary');
  is((await opened()).slice(0, 3), [true, true, false], 'folding: an old one opens');
  is(await p.page.$$eval('.step', (all) => [all.filter((e) => e.open).map((e) => e.id),
    all.map((e) => e.querySelectorAll('.body button:not(.second, .id)').length)]),
  [['call'], Array(11).fill(1)], 'folding: one step is open, each has one first button');
  ok(await p.page.evaluate(() => document.documentElement.scrollHeight) < 1200,
    'folding: the page does not grow');
}

// The strip says what the explanation says, whatever that is.
async function otherExplanations(p) {
  const check = (name, result, more) => ({ check: name, result, ...more });
  const said = { decision: 'deny', reason: 'such_and_such', location: null,
    stripped: ['Accept', 'X-Other'], headers: [], checks: [check('path', 'passed'),
      check('location', 'failed', { reason: 'such_and_such', detail: 'no way' }),
      check('bearer', 'passed'), check('context', 'failed', { detail: 'x' })] };
  let answer = { json: said };
  await p.page.route('**/explain', (route) => route.fulfill(answer));
  await p.click(CALL);
  const [told] = await p.cards();
  is([told.steps, told.notes.route, told.reason, told.removed], [['browser passed',
    'ids passed', 'strip passed', 'route failed', 'token unreached', 'guard unreached',
    'inject unreached', 'service unreached'], 'location', said.reason, said.stripped],
  'another explanation: it ends at its first fault, for its reason');
  answer = { status: 500, body: '' };
  await p.during(() => p.page.click(CALL));
  is((await p.cards()).map((c) => c.steps), [[]], 'no explanation: no strip');
  await p.page.unroute('**/explain');
  // Nobody answers: nobody knows how far it got.
  await p.page.route(`**${CONTEXT}`, (route) => route.abort());
  await p.during(() => p.page.click(CALL));
  const [lost] = await p.cards();
  is([lost.badge, lost.notes.browser, ...lost.steps.map((s) => s.split(' ')[1])],
    ['blocked', 'no answer', 'passed', ...Array(7).fill('unreached')],
    'no answer: it is drawn no further than the browser');
  await p.page.unroute(`**${CONTEXT}`);
  p.errors = [];
}

async function login(p) {
  await p.select('#demo', 'disabled@demo.test');
  await p.press('#login-form button', 'a disabled account',
    '401 AUTH_INVALID_CREDENTIALS allow: public');
  is(await p.refreshCookie(), undefined, 'a disabled account: no cookie');

  await p.select('#demo', 'several@demo.test');
  const [{ json, ...call }] = await p.press('#login-form button', 'login',
    '200 AUTH_LOGIN_SUCCESS allow: public');
  is([call.origin === origin, call.sent.origin, JSON.parse(call.body)],
    [false, origin, { account: 'several@demo.test', credential: 'Demo-passw0rd!' }],
    'login: to another origin, from this one, account and credential');
  const cookie = await p.refreshCookie();
  is([cookie.value, cookie.httpOnly, cookie.sameSite, cookie.path,
    await p.page.evaluate(() => document.cookie)],
  [json.refreshToken, true, 'Lax', '/api/auth', ''],
  'login: the browser has the cookie, and no script can read it');
  const shown = await p.text('#log');
  is(['passw0rd', json.refreshToken.slice(-40), json.accountAccessToken.slice(-40)]
    .filter((secret) => shown.includes(secret)), [],
  'login: neither the credential is shown nor any whole token');
  like(await p.text('#session-state'), /no branch chosen/, 'login: no branch');
  ok(entries().some((e) => e.method === 'OPTIONS'
    && e.path === '/api/auth/login' && e.reason === 'preflight'),
  'login: the gateway answered a preflight');
  return json;
}

// A command that the page shows, run where it says.
function operator(command) {
  return execSync(command, { cwd: path.join(__dirname, '../..'), encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

async function resetting(p) {
  const button = '#reset-form button';
  const fill = (code, credential) => p.page.fill('#reset-code', code)
    .then(() => p.page.fill('#new-credential', credential));
  await p.open(button);
  await p.page.fill('#reset-account', "o'neill @demo.test");
  like(await p.text('#reset-command'), /account reset-code 'o'\\''neill @demo\.test'$/,
    'reset: the command takes any name');
  await p.page.fill('#reset-account', 'none@demo.test');
  const code = operator(await p.text('#reset-command'));
  like(code, /^(\w{4}-){3}\w{4}$/, 'reset: the command makes a code');

  await fill('AAAA-AAAA-AAAA-AAAA', 'Changed-passw0rd!');
  await p.press(button, 'a wrong code', '401 AUTH_RESET_CODE_INVALID allow: public');
  await fill(code, 'short');
  await p.press(button, 'too short', '400 AUTH_CREDENTIAL_NOT_ALLOWED allow: public');
  await fill(code, 'Changed-passw0rd!');
  const [{ body }] = await p.press(button, 'reset',
    '200 AUTH_RESET_CREDENTIAL_SUCCESS allow: public');
  is(JSON.parse(body), { account: 'none@demo.test', resetCode: code,
    newCredential: 'Changed-passw0rd!' }, 'reset: what was sent');
  const shown = await p.text('#log');
  is([code, 'Changed-'].filter((secret) => shown.includes(secret)), [],
    'reset: neither code nor credential is shown');
  is([await p.page.inputValue('#reset-code'), await p.page.inputValue('#new-credential')],
    ['', ''], 'reset: nor kept in the form');
  await p.press('#login-form button', 'reset: and the login',
    '200 AUTH_LOGIN_SUCCESS allow: public');
  await fill(code, 'Another-passw0rd!');
  await p.press(button, 'a used code', '401 AUTH_RESET_CODE_INVALID allow: public');
  await p.click('#logout-button');
}

async function chooseBranch(p, told) {
  is(await p.page.$$eval('#branches option', (os) => os.map((o) => o.label)),
    told.branches.map((b) => b.branchName), 'branch: the list');
  await p.select('#branches', { label: 'Harbour North' });
  const [call] = await p.press('#branch-form button', 'branch',
    '200 AUTH_SELECT_BRANCH_SUCCESS allow: verified');
  is([sentToken(call), JSON.parse(call.body), await p.text('#session-state')],
    [told.accountAccessToken, { branchId: told.branches[1].branchId },
      'Working in Harbour North.'],
    'branch: by the account token, the chosen one, and the page says so');
  return { ...told, ...call.json };
}

async function decodeTokens(p, tokens) {
  for (const [kind, token] of Object.entries({ access: tokens.accessToken,
    account: tokens.accountAccessToken, refresh: tokens.refreshToken })) {
    const box = `.token[data-kind=${kind}]`;
    await p.page.click(`${box} summary`);
    const shown = await p.text(`${box} pre`);
    ok(token.split('.').slice(0, 2).every((part) => shown.includes(JSON.stringify(
      JSON.parse(Buffer.from(part, 'base64url')), null, 2))),
    `decode: the ${kind} token`, shown);
    like(await p.text(`${box} .left`), /^(\d+:\d\d|\d+ days) left$/,
      `decode: how long the ${kind} token lasts`);
    await p.page.click(`${box} summary`);
  }
}

const STEPS = ['browser', 'ids', 'strip', 'route', 'token', 'guard', 'inject', 'service'];

async function callService(p, tokens) {
  is(await p.page.inputValue('#call-token'), 'access', 'call: the branch token is offered');
  let call;
  for (const [kind, token, want, end, why] of [
    ['account', tokens.accountAccessToken,
      '403 GATEWAY_CONTEXT_FORBIDDEN deny: context_forbidden', 'guard', 'context'],
    ['refresh', tokens.refreshToken,
      '401 GATEWAY_TOKEN_INVALID deny: token_typ', 'token', 'typ'],
    ['none', '', '401 GATEWAY_TOKEN_MISSING deny: token_missing', 'token', 'bearer'],
    ['access', tokens.accessToken, VERIFIED, 'service', 'entitlement-service'],
  ]) {
    await p.select('#call-token', kind);
    [call] = await p.press(CALL, `call with ${kind}`, want);
    const { steps, notes } = call.card;
    const at = STEPS.indexOf(end);
    is([sentToken(call), steps, notes[end], await p.count(`${NEWEST} table`)],
      [token, STEPS.map((step, i) => `${step} ${i < at || want === VERIFIED ? 'passed'
        : i > at ? 'unreached' : 'failed'}`), why, want === VERIFIED ? 1 : 0],
      `call with ${kind}: which went, how far it got, and why`);
  }
  const { headers, authorization } = call.json;
  is(await p.rows(), Object.entries(headers),
    'call: the page shows the headers that arrived');
  is([headers['X-Account-Id'], authorization], [SEVERAL, false],
    'call: who asks, and no token');
}

async function refreshing(p, tokens) {
  const good = '200 AUTH_REFRESH_SUCCESS allow: public';
  let last = tokens.refreshToken;
  let call;
  for (const [by, name, token, cookie] of [['body', 'by body', true, true],
    ['body', 'without a cookie', true, false], ['cookie', 'by cookie', false, true]]) {
    if (!cookie) {
      await p.context.clearCookies();
    }
    [call] = await p.press(`#refresh-${by}`, `refresh ${name}`, good);
    is([JSON.parse(call.body), call.sent.cookie, (await p.refreshCookie()).value],
      [token ? { refreshToken: last } : null,
        cookie ? `platform_refresh_token=${last}` : undefined, call.json.refreshToken],
      `refresh ${name}: what was sent, and the cookie has the new one`);
    last = call.json.refreshToken;
  }

  const state = '#session-state';
  const session = await p.page.getAttribute('#session-id button', 'title');
  // The bodies of the page that was left never come to their end.
  const reload = async () => {
    const from = p.seen.length;
    await p.page.reload();
    await p.page.waitForSelector(NEWEST);
    await p.settled();
    const request = p.seen.slice(from).find((r) => r.method() === 'POST'
      && r.url().endsWith(REFRESH));
    return [request.postDataJSON(), (await request.allHeaders()).cookie,
      (await p.cards()).map((c) => `${c.badge} ${c.code}`)];
  };
  const kept = () => p.page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));
  is(await reload(), [{ sessionId: session }, `platform_refresh_token=${last}`,
    ['200 AUTH_REFRESH_SUCCESS']],
  'reload: the cookie brings back the session that the page had');
  like(await p.text(state), /^Working in /, 'reload: in its branch');
  is(await kept(), JSON.stringify([{}, { session }]), 'reload: no token was kept in storage');
  const two = await Page.open(p.context.browser(), p.context);
  is(await two.text(state), 'Not logged in.', 'reload: another window begins anew');
  await two.login('one');
  is([(await reload())[2], await p.text(state)],
    [['409 AUTH_SESSION_CHANGED'], 'Not logged in.'],
    'reload: the page does not go on as another account');
  await two.page.close();
  p.errors = [];
  await p.login('several', 'Harbour North');

  await p.open('#include-account');
  await p.page.check('#include-account');
  [call] = await p.click('#refresh-body');
  ok(call.json.accountAccessToken && JSON.parse(call.body).includeAccountToken,
    'refresh: with an account token');
  await p.page.uncheck('#include-account');
  await p.choose('Harbour West');
  is(await p.text('#session-state'), 'Working in Harbour West.',
    'refresh: and the branch can be switched');
}

// A race is one only if both calls were on their way before one was answered.
async function raced(p) {
  for (let i = 1; ; i += 1) {
    const calls = await p.click('#refresh-race');
    if (calls[0].sent.cookie === calls[1].sent.cookie || i === 9) {
      return calls;
    }
    is(calls.map((c) => c.status), [200, 200],
      'no race: one after the other, once more');
  }
}

async function racing(p) {
  const calls = await raced(p);
  is(calls.map((c) => [c.body, c.sent.cookie]),
    Array(2).fill([null, calls[0].sent.cookie]), 'race: with one token');
  is(calls.map((c) => c.status).sort(), [200, 401], 'race: one wins');
  const won = calls.find((c) => c.status === 200);
  await p.shows('race', calls, ...calls.map((c) => c === won
    ? '200 AUTH_REFRESH_SUCCESS allow: public'
    : '401 AUTH_REFRESH_TOKEN_STALE allow: public'));
  like(await p.text(`${NEWEST} .verdict`),
    won === calls[0] ? /the first call/ : /the second call/, 'race: the page says which');
  const [after] = await p.click('#refresh-body');
  is([after.status, JSON.parse(after.body).refreshToken],
    [200, won.json.refreshToken], 'race: the session goes on');
}

async function cheating(p) {
  let calls = await p.press('#spoof', 'spoof', VERIFIED);
  const [{ sent, json: { headers: there }, card }] = calls;
  const claims = JSON.parse(Buffer.from(sentToken(calls[0]).split('.')[1], 'base64url'));
  const lies = [['X-Account-Id', 'somebody-else', SEVERAL],
    ['X-Roles', 'OWNER', claims.roles.join(',')],
    ['X_Workspace_Id', 'another-workspace', claims.workspace_id]];
  const id = sent['x-correlation-id'];
  is(lies.map(([name]) => sent[name.toLowerCase()]), lies.map(([, lie]) => lie),
    'spoof: was sent');
  is([...lies.map(([name]) => there[name.replaceAll('_', '-')]), there['X-Correlation-Id']],
    [...lies.map(([, , truth]) => truth), id],
    'spoof: the service got the token\'s, and an untrusted header as it was sent');
  is(await p.rows(), [...lies, ['X-Correlation-Id', id, id]], 'spoof: the page compares');
  is([card.removed, card.notes.strip, card.steps[0], card.notes.inject],
    [lies.map(([name]) => name), '3 removed', 'program passed', '11 headers'],
    'spoof: the strip shows what was stripped');

  const before = entries().length;
  calls = await p.press('#spoof-browser', 'spoof in the browser', VERIFIED,
    'blocked - deny: preflight_header_forbidden');
  like(await p.text(`${NEWEST} .call + .call`),
    /the header X-Account-Id is not allowed.*Not sent\./,
    'spoof in the browser: the page says what was refused');
  is(calls.map(({ card: c }) => [c.steps[3], c.notes.route, c.removed.length]),
    [['route passed', '/api/workspaces/', 0], ['route failed', 'cors', 3]],
    'spoof in the browser: the preflight ends at the route');
  is(entries().slice(before).filter((e) => e.path === CONTEXT
    && e.reason !== 'preflight').map((e) => [e.method, e.reason]).sort(),
  [['GET', 'verified'], ['OPTIONS', 'preflight_header_forbidden']],
  'spoof in the browser: the gateway saw one call and a refused preflight');

  for (const [page, decision, words] of [
    ['https://app.example.com', 'deny: origin_forbidden',
      /may not call it: the origin/],
    [origin, 'allow: verified', /may call it, and read/]]) {
    await p.open('#origin');
    await p.page.fill('#origin', page);
    is([await p.click('#origin-form button'),
      await p.text(`${NEWEST} details summary .quiet`)], [[], decision],
    `${page}: nothing is sent, and what the gateway would do`);
    like(await p.text(`${NEWEST} .what`), words, `${page}: in words`);
  }

  for (const [how, reason] of Object.entries({ roles: 'token_signature',
    exp: 'token_signature', none: 'token_alg', cut: 'token_signature' })) {
    await p.select('#tamper', how);
    calls = await p.press('#tamper-form button', `tamper: ${how}`, VERIFIED,
      `401 GATEWAY_TOKEN_INVALID deny: ${reason}`);
    const [a, b] = calls.map(sentToken);
    ok(a !== b && a.split('.').length === 3, `tamper: ${how}: two tokens`);
    ok(calls[1].card.failed, `tamper: ${how}: the check that failed is named`);
    is(calls.map((c) => c.card.steps.filter((step) => step.endsWith('failed'))),
      [[], ['token failed']],
      `tamper: ${how}: one goes through, the copy ends at the token`);
  }
}

// Calls until the call is refused, which is a moment after the session ended.
async function refused(p, button, ...shown) {
  const statuses = [];
  let calls;
  for (const end = Date.now() + 30000; Date.now() < end && statuses.at(-1) !== 401;) {
    calls = await p.click(button);
    statuses.push(calls[0].status);
  }
  ok(statuses.pop() === 401 && statuses.every((s) => s === 200),
    'sessions: it is refused, and was not before', statuses);
  if (shown.length) {
    await p.shows('sessions: after', calls, ...shown);
  }
  return calls;
}

function sessionItems(p) {
  return p.page.$$eval('#session-list .item', (items) => items.map((item) => ({
    where: item.querySelector('strong').textContent,
    current: Boolean(item.querySelector('.badge')),
    facts: Object.fromEntries([...item.querySelectorAll('dt')].map((dt) =>
      [dt.textContent, (dt.nextSibling.querySelector('.id') || {}).title
        || dt.nextSibling.textContent])),
  })));
}

// Two windows of one browser, and one of another, all of one account.
async function sessions(browser) {
  const success = (what) => `200 AUTH_${what}_SUCCESS allow: verified`;
  const one = await Page.open(browser, { userAgent: 'Mozilla/5.0 (X11; Linux'
    + ' x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0'
    + ' Safari/537.36', viewport: { width: 1280, height: 840 } });
  const two = await Page.open(browser, one.context);
  const agent = 'Mozilla/5.0 (Android 16; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0';
  const far = await Page.open(browser, { userAgent: agent });
  ok(await one.page.isDisabled('#sessions-show'), 'sessions: log in first');
  const id = { one: await one.login('several', 'Harbour East'),
    two: await two.login('several', 'Harbour West'), far: await far.login('several') };
  const listed = async () => (await sessionItems(one))
    .filter((s) => Object.values(id).includes(s.facts.Session));

  let calls = await one.press('#sessions-show', 'sessions', success('SESSIONS'));
  const shown = await listed();
  is(shown.map((s) => [s.facts.Session, s.where, s.current]), [
    [id.one, 'Harbour Cafes, Harbour East', true],
    [id.far, 'No branch chosen', false],
    [id.two, 'Harbour Cafes, Harbour West', false],
  ], 'sessions: the three, this window first, and where each is');
  const told = calls[0].json.sessions.find((s) => s.sessionId === id.far);
  const [created, used] = await one.page.evaluate((times) => times.map((t) =>
    new Date(t).toLocaleString('en-GB')), [told.createdAt, told.usedAt]);
  is(shown[1].facts, { 'Logged in': created, 'Last used': used, Address: told.address,
    'User-Agent': agent, Session: id.far }, 'sessions: since when, and from where');
  await shot(one, 'playground-sessions', '#sessions');

  // One is ended from the other.
  await two.press(CALL, 'sessions: before', VERIFIED);
  calls = await one.press(`[aria-label="End session ${id.two}"]`, 'sessions: one is ended',
    success('END_SESSION'), success('SESSIONS'));
  is(calls.map((c) => [c.method, c.path]), [
    ['DELETE', `/api/auth/sessions/${id.two}`], ['GET', '/api/auth/sessions']],
  'sessions: one is ended');
  is([await one.page.evaluate(() => document.activeElement.id),
    (await listed()).map((s) => s.facts.Session)], ['sessions-show', [id.one, id.far]],
  'sessions: it is gone from the list, and the focus stays in place');
  calls = await refused(two, CALL, ENDED);
  like(await two.text(`${NEWEST} .call`),
    /the session of the token has ended session_revoked.* with \d+:\d\d left\./,
    'sessions: the page says why');
  const [{ card }] = calls;
  is([card.steps[5], card.notes.guard], ['guard failed', 'session'],
    'sessions: it ends at the guard');
  like(await two.text('#session-state'), /^This session has ended/,
    'sessions: and so does the state');
  await shot(two, 'playground-ended');
  await one.press(CALL, 'sessions: the other window', VERIFIED);

  await two.page.click(`${NEWEST} .again`);
  await two.page.keyboard.press('Tab');
  is((await two.focus()).split(' ')[0], 'login', 'sessions: the offer leads to the login');
  await two.click('#login-form button');
  like(await two.text('#session-state'), /no branch chosen/,
    'sessions: which begins another one');
  await two.click('#branch-form button');

  // All the others.
  const [{ json: { endedSessions: ended } }] = await one.press('#logout-others',
    'sessions: the others', success('LOGOUT_OTHERS'), success('SESSIONS'));
  ok(ended >= 2 && (await one.text(`${NEWEST} .what`)).startsWith(`${ended} sessions ended.`),
    'sessions: how many that were');
  is((await sessionItems(one)).map((s) => s.facts.Session), [id.one],
    'sessions: one is left');
  await refused(far, '#branch-form button');
  await refused(two, CALL);
  await one.press(CALL, 'sessions: this window goes on', VERIFIED);

  // All.  The branch token is kept for a try.
  await one.press('#logout-all', 'sessions: all', success('LOGOUT_ALL'));
  is([await one.text('#session-state'), await one.count('#session-list .item'),
    await one.refreshCookie(), await one.page.inputValue('#call-token')],
  ['Not logged in.', 0, undefined, 'none'],
  'sessions: nothing is left of this one, and there is no token to send');
  await one.select('#call-token', 'ended');
  await refused(one, CALL, ENDED);
  is(await one.text('#session-state'), 'Not logged in.',
    'sessions: which is no session of this window any more');
  await one.context.close();
  await far.context.close();
}

async function loggingOut(p) {
  await p.press('#logout-button', 'logout', '200 AUTH_LOGOUT_SUCCESS allow: public');
  is([await p.refreshCookie(), await p.text('#session-state'), await p.count('.token')],
    [undefined, 'Not logged in.', 0], 'logout: the cookie is gone, and so are the tokens');
  await p.press('#refresh-cookie', 'after logout',
    '401 AUTH_REFRESH_TOKEN_MISSING allow: public');
}

// What the database has: lines of it.
function sql(text) {
  return execSync(psql, { input: text, encoding: 'utf8' }).trim().split('\n').filter(Boolean);
}

// What is shown of a list, on all of its pages.
async function pages(p, step) {
  const shown = [];
  for (let next = true; next;) {
    shown.push(...await p.page.$$eval(`#${step}-list .item`, (items) => items.map((item) =>
      [item.querySelector('strong').textContent, ...[...item.querySelectorAll('dd .id')]
        .map((id) => id.title)])));
    next = await p.page.isVisible(`#${step}-next`);
    if (next) {
      await p.press(`#${step}-next`, `${step}: the next page`, SYSTEM_DONE);
    }
  }
  return shown;
}

const SYSTEM_DONE = '200 SYSTEM_SUCCESS allow: verified';
const SYSTEM_MADE = '201 SYSTEM_SUCCESS allow: verified';
const ROBIN = '<img src=x onerror="document.title=1">&lt;b>robin@demo.test';

// A program's token; what the page says of it is one line.
async function clientToken(p, name, want, says, fields) {
  await p.open('#client-id');
  for (const [field, text] of Object.entries(fields)) {
    await p.page.fill(`#client-${field}`, text);
  }
  await p.press('#client-form button', name, want);
  is(await p.text(`${NEWEST} .what`), says, `${name}: what the page says`);
}

// A code made, used, and made again to be too late.
async function inviting(p) {
  await p.open('#invite-name');
  await p.page.fill('#invite-name', ROBIN);
  const [made] = await p.press('#invite-form button', 'invite', SYSTEM_MADE, SYSTEM_MADE);
  is([await p.text('#people-list strong'), await p.count('#people-list img'),
    await p.page.title()], [ROBIN, 0, 'Gateway playground'], 'invite: a name is text');
  const got = await (await fetch(`${made.origin}/api/system/accounts/${made.json.accountId}`,
    { headers: { Authorization: made.sent.authorization } })).json();
  is([got.account, got.type, got.status, got.hasCredential],
    [ROBIN, 'CUSTOMER', 'ACTIVE', false],
    'invite: an account without a credential');
  const use = async (name, want) => {
    const code = await p.text('#people-list .code code');
    await p.click('#people-list .code button');
    is([await p.page.inputValue('#reset-account'), await p.page.inputValue('#reset-code'),
      await p.count('#people-list .code')], [ROBIN, code, 0],
    `${name}: the form has account and code, and the list no more`);
    await p.page.fill('#new-credential', 'Robin-passw0rd!');
    await p.press('#reset-form button', name, want);
    ok(!(await p.text('#log')).includes(code), `${name}: the log has no code`);
  };
  await use('a code', '200 AUTH_RESET_CREDENTIAL_SUCCESS allow: public');
  await p.press('#login-form button', 'invited', '200 AUTH_LOGIN_SUCCESS allow: public');
  await p.press('#people-list [aria-label^="Reset code"]', 'a code again', SYSTEM_MADE);
  is(sql(`UPDATE reset_codes SET expires_at = now() - interval '1 s' FROM accounts a
    WHERE a.account_id = reset_codes.account_id AND account_name = $$${ROBIN}$$ RETURNING 1`),
  ['1'], 'a code again: there is one, and its time is over');
  await use('an expired code', '401 AUTH_RESET_CODE_INVALID allow: public');
  like(await p.text(`${NEWEST} .what`), /the code is wrong, used, replaced or expired/,
    'an expired code: what the page says');
}

// The program of the page; what its calls do is asked of the database.
async function backOffice(browser) {
  const p = await Page.open(browser, { viewport: { width: 1280, height: 1000 } });
  await p.open('#client-id');
  const commands = await p.text('#client-command');
  const said = operator(commands);
  const [, id] = /^client id +(\S+)/m.exec(said);
  const secret = said.split('\n').pop();
  like(secret, /^pgs_.{43}$/, 'office: the commands make a client and a secret');
  ok(await p.page.isDisabled('#people-form button'), 'office: get a token first');
  await clientToken(p, 'a wrong secret', '401 AUTH_CLIENT_INVALID allow: public', 'Unknown or'
    + ' disabled client, or a wrong secret: the answer does not tell which.',
  { id, secret: `pgs_${'A'.repeat(43)}` });
  await clientToken(p, 'a scope too many', '400 AUTH_SCOPE_INVALID allow: public', 'A scope that'
    + ' does not exist, or that this client may not have: no token.',
  { secret, scope: 'places:write' });
  await clientToken(p, 'some scopes', '200 - allow: public',
    'A system token with the scopes people:read.', { scope: 'people:read' });
  await p.page.fill('#invite-name', ROBIN);
  await p.press('#invite-form button', 'a missing scope',
    '403 AUTH_SCOPE_REQUIRED allow: verified');
  is([await p.text(`${NEWEST} .what`), sql(`SELECT 1 FROM accounts
    WHERE account_name = $$${ROBIN}$$`)], ['The token lacks the scope people:write.', []],
  'a missing scope: what the page says, and nothing is done');
  await p.select('#call-token', 'system');
  await p.press(CALL, 'a program elsewhere', '403 GATEWAY_CONTEXT_FORBIDDEN deny: context_forbidden');
  await clientToken(p, 'all scopes', '200 - allow: public', 'A system token with the scopes'
    + ' audit:read credentials:write people:read people:write.', { scope: '' });
  is([await p.page.content(), JSON.stringify(p.seen.map((r) => r.url())),
    fs.readFileSync(accessLog, 'utf8'), await p.page.evaluate(() =>
      JSON.stringify([localStorage, sessionStorage, document.cookie]))]
    .map((text) => text.includes(secret.slice(4))), Array(4).fill(false),
  'office: the secret is in no text, address, log or storage');

  await p.press('#people-form button', 'accounts', SYSTEM_DONE);
  is((await pages(p, 'people')).map((a) => a.reverse().join()).sort(), sql(
    'SELECT account_id, account_name FROM accounts').map((a) => a.replace('|', ',')).sort(),
  'accounts: each one, on one page');
  await p.page.fill('#people-name', 'one@');
  await p.press('#people-form button', 'a name', SYSTEM_DONE);
  is((await pages(p, 'people')).map(([name]) => name), ['one@demo.test'], 'a name: the one');
  await p.click('#people-list [aria-label^="Reset code"]');
  await p.page.fill('#invite-name', '');
  await shot(p, 'playground-office', '.group');
  await inviting(p);
  for (const [press, status, then] of [['Disable', 'DISABLED', 'Enable'],
    ['Enable', 'ACTIVE', 'Disable']]) {
    await p.press(`#people-list [aria-label^="${press}"]`, press, SYSTEM_DONE);
    is([sql(`SELECT status FROM accounts WHERE account_name = $$${ROBIN}$$`)[0],
      await p.text('#people-list .badge'),
      await p.page.evaluate(() => document.activeElement.textContent)],
    [status, status, then], `${press}: it is done and shown, and the focus stays in place`);
  }
  await p.click('#people-list [aria-label^="Audit"]');
  const account = await p.page.inputValue('#audit-account');
  is((await pages(p, 'audit')).map((e) => e.slice(0, 3).join()), sql(`SELECT event, account_id,
    by_account FROM audit_events WHERE account_id = '${account}'
    ORDER BY event_id DESC`).map((e) => e.replaceAll('|', ',')), 'audit: of one account');
  await p.page.fill('#audit-account', '');
  await p.press('#audit-form button', 'audit', SYSTEM_DONE);
  await p.open('#people-list');
  await looks(p, 'office');
  await p.page.setViewportSize({ width: 390, height: 844 });
  await looks(p, 'office, narrow');
  await p.page.setViewportSize({ width: 1280, height: 1000 });

  operator((await p.text('#reset-command')).replace(/account reset-code[^]*/,
    `account disable ${/client add (\S+)/.exec(commands)[1]}`));
  await refused(p, '#people-form button');
  await p.page.click(`${NEWEST} .again`);
  await p.page.keyboard.press('Tab');
  is((await p.focus()).split(' ')[0], 'client', 'office: and the way to another token');
  await p.context.close();
}

// Everything that a page can show at once.
async function everything(p, account) {
  await p.login(account);
  await p.click('#branch-form button');
  await p.click(CALL);
  await raced(p);
  for (const button of ['#spoof-browser', '#spoof', '#origin-form button',
    '#tamper-form button', '#sessions-show']) {
    await p.click(button);
  }
}

async function shot(p, name, selector = 'body') {
  // A page behind another one does not come to their end by itself.
  await p.page.evaluate((q) => {
    document.querySelector(q).scrollIntoView({ block: 'start' });
    document.getAnimations().forEach((a) => a.finish());
    document.activeElement.blur();
  }, selector);
  await p.page.mouse.move(0, 0);
  await p.page.screenshot({ path: `${shots}/${name}.png` });
  ok(fs.statSync(`${shots}/${name}.png`).size > 10000, `a picture: ${name}`);
}

async function walk(browser) {
  const p = await Page.open(browser, { viewport: { width: 1280, height: 900 },
    permissions: ['clipboard-read', 'clipboard-write'] });
  await looks(p, 'empty');
  await loginByKeyboard(p);
  await p.click('#logout-button');
  await resetting(p);

  const tokens = await chooseBranch(p, await login(p));
  for (const part of [decodeTokens, callService, folding, otherExplanations, refreshing,
    racing, cheating, loggingOut]) {
    await part(p, tokens);
  }
  const gateway = await p.text('#gateway-origin');
  is([...new Set(p.seen.map((r) => new URL(r.url()).origin))].sort(),
    [origin, gateway].sort(), 'nothing is asked of anybody else');

  // Markup from a string, which a page is attacked by, has no way in.
  const write = (member) => p.page.evaluate((name) => {
    document.body[name] += '<b>may not</b>';
  }, member).catch((e) => e.message);
  like(await write('innerHTML'), /TypeError/, 'the policy keeps markup out');
  is(await write('title'), undefined, 'and takes text');
  await p.context.close();
}

// Both kinds of window, light and dark; the pictures are those of the page.
async function appearances(browser) {
  const desktop = { viewport: { width: 1280, height: 1000 } };
  const phone = { viewport: { width: 360, height: 780 }, deviceScaleFactor: 2,
    isMobile: true, hasTouch: true };
  const backgrounds = [];
  for (const [options, colorScheme, account, picture, last] of [
    [desktop, 'light', 'several', 'playground', CALL],
    [desktop, 'dark', 'several', 'playground-dark', '#spoof'],
    [phone, 'light', 'two-hundred', 'playground-phone', CALL],
  ]) {
    const small = options === phone;
    const dark = colorScheme === 'dark';
    const p = await Page.open(browser, { ...options, colorScheme,
      reducedMotion: dark ? 'reduce' : 'no-preference' });
    backgrounds.push(await p.page.evaluate(() =>
      getComputedStyle(document.body).backgroundColor));
    await everything(p, account);
    is(await p.page.evaluate(() => [getComputedStyle(document.querySelector(
      '.entry:first-child .way li')).animationName,
    document.getElementById('happened').parentElement.id]),
    [dark ? 'none' : 'arrive', small ? 'steps' : 'beside'], `${picture}: the strip moves`
      + ' unless that is unwanted, answers stand beside the steps or below their own');
    ok(await p.page.evaluate(() =>
      document.getElementById('session').getBoundingClientRect().top + window.scrollY) < 400,
    `${picture}: the session is in sight`);
    if (small) {
      await p.select('#call-token', 'account');
    }
    await p.click(last);
    await shot(p, picture, small ? '#call' : 'body');
    await p.page.click('.token[data-kind=access] summary');
    await p.page.evaluate(() => document.querySelectorAll('details')
      .forEach((d) => { d.removeAttribute('name'); d.open = true; }));
    await looks(p, `${picture}, all open`);
    p.silent(picture);
    await p.context.close();
  }
  ok(backgrounds[0] === backgrounds[2] && backgrounds[0] !== backgrounds[1],
    'light and dark differ');
}

// examples/client, served beside the playground: in two tabs of one browser,
// with its cookies and its locks, which t/http_client.t has not.  What a tab does when
// another one changes the account is there.
async function clients(browser) {
  const one = await Page.open(browser);
  const two = await Page.open(browser, one.context);
  const gateway = await one.text('#gateway-origin');
  // A body that nobody reads never comes to its end.
  const run = async (p, path, f) => (await p.during(() => p.page.evaluate(f), false))
    .filter((c) => c.path === path && c.method !== 'OPTIONS');
  for (const p of [one, two]) {
    await p.page.evaluate(async (base) => {
      const { PlatformClient } = await import('/client.js');
      window.client = new PlatformClient({ base });
    }, gateway);
  }
  const login = await run(one, '/api/auth/login', () =>
    window.client.login('one@demo.test', 'Demo-passw0rd!'));
  const restored = await run(two, REFRESH, () => window.client.restore());
  is([...login, ...restored, await one.refreshCookie()].map((c) => c.status || c.httpOnly),
    [200, 200, true], 'client: login by the cookie, by which a second tab goes on');

  // Two that overlapped would send one token, and one of them lose it.
  const tabs = (await Promise.all([one, two].map((p) => run(p, REFRESH, () =>
    window.client.refresh().then(() => window.client.refresh()))))).flat();
  is(tabs.map((c) => c.status), Array(4).fill(200),
    'client: two tabs refresh at once, and neither is refused');
  const spans = tabs.map(({ timing: t }) => [t.startTime + t.requestStart,
    t.startTime + t.responseStart]).sort((x, y) => x[0] - y[0]);
  ok(spans.every(([from], i) => i === 0 || from >= spans[i - 1][1]),
    'client: since they take turns', JSON.stringify(spans));
  for (const p of [one, two]) {
    const calls = await run(p, CONTEXT, () =>
      window.client.fetch('/api/workspaces/current-context'));
    is(calls.map((c) => c.status), [200], 'client: each tab goes on');
    p.silent('client: two tabs');
  }
  await otherAccount(one, two);
  await ownBranches(one, two);
  await offline(one, two);

  // A refresh outlives its page, and the other tab goes on with what it brought.
  const before = (await one.refreshCookie()).value;
  await two.page.evaluate(() => {
    window.client.refresh();
    window.location = 'about:blank';
  });
  for (const end = Date.now() + 10000; Date.now() < end
    && (await one.refreshCookie()).value === before;) {
    await one.page.waitForTimeout(20);
  }
  ok((await one.refreshCookie()).value !== before, 'client: a refresh outlives its page');
  is(await one.page.evaluate(() => window.client.restore()), true,
    'client: and the session goes on');
  await run(one, '', () => window.client.logout());
  is(await one.refreshCookie(), undefined, 'client: logout');
  await boundTabs(one, two, gateway);
  await one.context.close();
}

// Two tabs that make a key at once have one, which no script can take along; without
// it they log in again.
async function boundTabs(one, two, gateway) {
  const start = async (p) => {
    await p.page.reload();
    await p.page.evaluate(async (base) => {
      const { PlatformClient } = await import('/client.js');
      window.client = new PlatformClient({ base, dpop: true });
    }, gateway);
  };
  const login = (p) => p.page.evaluate(() =>
    window.client.login('one@demo.test', 'Demo-passw0rd!').then(({ type }) => type));
  const restore = (p) => p.page.evaluate(() => window.client.restore());
  const bound = (p) => p.page.evaluate(async () => {
    const { status } = await window.client.fetch('/api/workspaces/current-context');
    const { sessions } = await window.client.sessions();
    return [status, sessions[0].bound];
  });
  // What any script of the page can do.
  const pairs = (p) => p.page.evaluate(async () => {
    const found = [];
    for (const { name } of await indexedDB.databases()) {
      const open = indexedDB.open(name);
      await new Promise((done) => { open.onsuccess = done; });
      const asked = open.result.transaction('keys').objectStore('keys').getAll();
      await new Promise((done) => { asked.onsuccess = done; });
      open.result.close();
      for (const { privateKey } of asked.result) {
        const taken = await Promise.all(['jwk', 'pkcs8'].map((form) =>
          crypto.subtle.exportKey(form, privateKey).then(() => form, (e) => e.name)));
        found.push([privateKey.type, privateKey.extractable, ...taken]);
      }
    }
    return found;
  });
  const KEPT = [['private', false, 'InvalidAccessError', 'InvalidAccessError']];

  await Promise.all([one, two].map(start));
  is(await pairs(one), [], 'client: no key before a login');
  is((await Promise.all([one, two].map(login))), Array(2).fill('load_current_context'),
    'client: two tabs make a key and log in, at once');
  is(await pairs(two), KEPT, 'client: one key is kept, and cannot be exported');
  for (const p of [one, two]) {
    is([await restore(p), ...await bound(p)], [true, 200, true],
      'client: each tab goes on with the session that is bound to it');
  }
  await start(one);
  is([await restore(one), ...await bound(one)], [true, 200, true], 'client: so does a new page');
  one.silent('client: a key');
  two.silent('client: a key');

  await two.page.evaluate(async () => {
    for (const { name } of await indexedDB.databases()) indexedDB.deleteDatabase(name);
  });
  await start(one);
  is([await restore(one), await login(one), ...await bound(one)],
    [false, 'load_current_context', 200, true], 'client: the key is lost, so log in again');
  is([await restore(two), ...await bound(two)], [true, 200, true],
    'client: another tab takes the new key with the new session');

  // This page is of another origin than the gateway, whose time it reads all the same.
  await start(one);
  await one.page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 3_600_000;
  });
  is([await login(one), ...await bound(one)], ['load_current_context', 200, true],
    'client: a clock that is an hour ahead');

  // As a browser may in a private window.
  await start(one);
  await one.page.evaluate(() => {
    indexedDB.open = () => { throw new DOMException('not here', 'SecurityError'); };
  });
  is([await restore(one), await login(one), ...await bound(one)],
    [false, 'load_current_context', 200, true], 'client: a key of this page alone');
  await one.page.evaluate(() => window.client.logout());
  is(await one.refreshCookie(), undefined, 'client: logout with it');
}

// An order in the tab's own name: who it arrived as, and where, or the code.
function order(p) {
  return p.page.evaluate(() =>
    window.client.fetch('/api/workspaces/current-context', { method: 'POST', body: 'order' })
      .then((answer) => answer.json()).then(({ headers: h }) =>
        [h['X-Account-Id'], h['X-Active-Branch-Id']], (e) => e.code));
}

// Until the tokens of a tab have to be replaced.
function later(p) {
  return p.page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 895_000;
  });
}

// The first tab works as several, in a branch.  The second one logs out, and logs in
// as somebody else; the first one's call must not be made as that account.
async function otherAccount(one, two) {
  await one.page.evaluate(async () => {
    window.told = [];
    window.client.close();
    window.client = new window.client.constructor({
      base: document.getElementById('gateway-origin').textContent });
    for (const event of ['signedOut', 'sessionChanged', 'branchChanged']) {
      window.client.on(event, () => window.told.push(event));
    }
    await window.client.login('several@demo.test', 'Demo-passw0rd!');
    await window.client.selectBranch(window.client.branches[0].branchId);
  });
  const told = (n) => one.page.waitForFunction((count) => window.told.length >= count
    && window.told, n).then((t) => t.jsonValue());
  is((await order(one))[0], SEVERAL, 'client: a tab in a branch');
  await two.page.evaluate(async () => {
    await window.client.restore();
    await window.client.logout();
  });
  is(await told(1), ['signedOut'], 'client: a tab is told of the logout in another one');
  await two.page.evaluate(() => window.client.login('one@demo.test', 'Demo-passw0rd!'));
  is(await told(2), ['signedOut', 'sessionChanged'], 'client: and of the login');
  is([await order(one), await order(one)], ['AUTH_SESSION_CHANGED', 'AUTH_SESSION_CHANGED'],
    'client: no call is made as the account that another tab logged in');
  const account = (p) => p.page.evaluate(() =>
    window.client.fetch('/api/workspaces/current-context')
      .then((a) => a.json()).then((json) => json.headers['X-Account-Id']));
  like(await account(two), /0001$/, 'client: the other tab goes on');
  is(await one.page.evaluate(() => window.client.restore()), true,
    'client: the page may go on with it too');
  like(await account(one), /0001$/, 'client: as that account');
  one.errors = []; // the refused calls
}

// Two tabs of a session in two branches: each stays in its own.
async function ownBranches(one, two) {
  const branches = await one.page.evaluate(async () => {
    await window.client.login('several@demo.test', 'Demo-passw0rd!');
    await window.client.selectBranch(window.client.branches[0].branchId);
    return window.client.branches.map((b) => b.branchId);
  });
  await two.page.evaluate(async (branch) => {
    await window.client.restore();
    await window.client.selectBranch(branch);
    window.told = [];
    window.client.on('branchChanged', () => window.told.push('branchChanged'));
  }, branches[1]);
  for (let n = 0; n < 2; n++) {
    await Promise.all([one, two].map(later));
    is(await Promise.all([order(one), order(two)]),
      [[SEVERAL, branches[0]], [SEVERAL, branches[1]]],
      'client: both tabs get new tokens, each for its own branch');
  }
  is([await two.page.evaluate(() => window.told),
    await one.page.evaluate(() => window.told.includes('branchChanged')),
    (await one.page.evaluate(() => window.client.me())).branchId], [[], false, branches[0]],
  'client: no branch has changed');
  for (const p of [one, two]) {
    p.silent('client: two branches');
  }
}

// Each tab tells so in two seconds, though one of them waits for the other's refresh.
async function offline(one, two) {
  await Promise.all([one, two].map(later));
  await one.context.setOffline(true);
  const timed = async (p) => p.page.evaluate(async () => {
    const start = performance.now();
    const code = await window.client.fetch('/api/workspaces/current-context')
      .then((answer) => answer.status, (e) => e.code);
    return [code, performance.now() - start];
  });
  const told = await Promise.all([one, two].map(timed));
  ok(told.every(([code, ms]) => code === 'OFFLINE' && ms < 2000),
    'client: no network, and both tabs tell so in two seconds', JSON.stringify(told));
  await one.context.setOffline(false);
  for (const p of [one, two]) {
    let back;
    for (let n = 0; n < 20 && back !== 200; n++) {
      [back] = await timed(p);
    }
    is(back, 200, 'client: it goes on when the network is back');
    p.errors = []; // the lost calls
  }
}

// -- second factors ---------------------------------------------------------------------

// The code of an authenticator app (RFC 6238).
function totp(secret, ahead = 0) {
  const bits = [...secret].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c)
    .toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + ahead));
  const mac = createHmac('sha1', key).update(step).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1000000)
    .padStart(6, '0');
}

// What an app reads of the picture, as it is seen.
async function scanned(p, selector) {
  const png = (await p.page.locator(selector).screenshot()).toString('base64');
  const blank = await p.context.browser().newPage();
  const { data, width, height } = await blank.evaluate(async (text) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${text}`))
      .blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
    canvas.drawImage(image, 0, 0);
    const all = canvas.getImageData(0, 0, image.width, image.height);
    return { data: [...all.data], width: image.width, height: image.height };
  }, png);
  await blank.close();
  return (jsqr(Uint8ClampedArray.from(data), width, height) || {}).data;
}

// Of the encoder alone: each version, filled and not, with bytes of any kind.
function qrCodes() {
  const code = fs.readFileSync(path.join(__dirname, '../../playground/qr.js'), 'utf8');
  const QR = vm.runInNewContext(`${code}; QR`, { TextEncoder });
  const bad = [];
  for (const n of [1, 17, 18, 32, 33, 53, 54, 78, 79, 106, 107, 134, 135, 154, 155, 192, 193,
    230, 231, 271]) {
    const text = 'é' + Array.from({ length: n - 2 }, (_, i) =>
      String.fromCharCode(32 + (i * 7 + n) % 95)).join('');
    const rows = QR.rows(n > 1 ? text : 'x');
    const size = 4 * (rows.length + 8);
    const pixels = new Uint8ClampedArray(size * size * 4).fill(255);
    for (let at = 0; at < size * size; at += 1) {
      const [x, y] = [at % size, Math.floor(at / size)].map((z) => Math.floor(z / 4) - 4);
      if (rows[y] && rows[y][x]) {
        pixels.fill(0, at * 4, at * 4 + 3);
      }
    }
    if ((jsqr(pixels, size, size) || {}).data !== (n > 1 ? text : 'x')) {
      bad.push(n);
    }
  }
  is([bad, QR.rows('x'.repeat(272))], [[], null], 'QR: another program reads what was written');
}

// At both widths.
async function looksBoth(p, name) {
  for (const viewport of [{ width: 390, height: 844 }, { width: 1280, height: 900 }]) {
    await p.page.setViewportSize(viewport);
    await looks(p, `${name}, ${viewport.width} px`);
  }
}

const WHO = 'two-workspaces';
const ASKED = '200 AUTH_FACTOR_REQUIRED allow: public';
const PASSKEY = '200 AUTH_PASSKEY_OPTIONS allow: public';
const IN = '200 AUTH_LOGIN_SUCCESS allow: public';
const LIST = '200 AUTH_FACTORS_SUCCESS allow: public';
const again = () => sql('update factors set last_step = 0; delete from factor_failures');

// A login whose credential is right.
async function halfLogin(p, name) {
  await p.click('#logout-button');
  await p.select('#demo', `${WHO}@demo.test`);
  await p.press('#login-form button', name, ASKED);
}

async function addApp(p) {
  const [{ json: made }] = await p.press('#totp-add', 'app: added',
    '201 AUTH_FACTOR_ADDED allow: public');
  is(await p.text('#totp-secret'), made.secret, 'app: the secret is there');
  for (const colorScheme of ['dark', 'light']) {
    await p.page.emulateMedia({ colorScheme });
    is(await scanned(p, '#totp-qr svg'), made.uri, `app: its code is read, ${colorScheme}`);
    await looksBoth(p, `app: the code, ${colorScheme}`);
  }
  await shot(p, 'playground-factor', '#factor');
  const fill = (code) => p.page.fill('#totp-code', code);
  await fill('123');
  await p.press('#totp-form button', 'app: a wrong code',
    '401 AUTH_FACTOR_INVALID allow: public');
  const code = totp(made.secret);
  await fill(code);
  const [{ json }] = await p.press('#totp-form button', 'app: confirmed',
    '200 AUTH_FACTOR_CONFIRMED allow: public', LIST);
  is([await p.page.isVisible('#totp-new'), await p.page.$$eval('#recovery-codes li', (all) =>
    all.map((li) => li.textContent))], [false, json.recoveryCodes],
  'app: the secret is gone, and the recovery codes are there');
  await looksBoth(p, 'app: recovery codes');
  await p.page.$$eval('#log details', (all) => all.forEach((d) => { d.open = true; }));
  const shown = await p.text('#log');
  is([made.secret, 'otpauth', code, ...json.recoveryCodes]
    .filter((secret) => shown.includes(secret)), [], 'app: no secret is in what happened');
  return { secret: made.secret, used: code, codes: json.recoveryCodes };
}

async function logInByCodes(p, { secret, used, codes }) {
  await halfLogin(p, 'code: asked for');
  is([await p.text('#session-state'), await p.refreshCookie(), await p.focus(),
    await p.page.isVisible('#verify-passkey'), await p.page.isVisible('#recovery')],
  ['Not logged in: a second factor is missing.', undefined, 'login INPUT', false, false],
  'code: no session, the field has the focus, and the recovery codes are gone');
  await looksBoth(p, 'code: asked for');
  const enter = async (code, name, want) => {
    await p.page.fill('#verify-code', code);
    return p.press('#verify-form button', name, want);
  };
  await enter(used, 'code: used', '401 AUTH_FACTOR_INVALID allow: public');
  const [{ json, body }] = await enter(totp(secret, 1), 'code: the next one', IN);
  is([json.refreshToken, JSON.parse(body).type, await p.page.isVisible('#asked')],
    [(await p.refreshCookie()).value, 'totp', false], 'code: it ends the login');
  await halfLogin(p, 'recovery code');
  const [call] = await enter(codes[0], 'recovery code: it ends the login', IN);
  is(JSON.parse(call.body).type, 'recovery', 'recovery code: it is taken for one');
  await halfLogin(p, 'recovery code: again');
  await enter(codes[0], 'recovery code: used', '401 AUTH_FACTOR_INVALID allow: public');
  for (const n of [2, 3, 4, 5]) {
    await enter('000', `try ${n}`, '401 AUTH_FACTOR_INVALID allow: public');
  }
  await enter(codes[1], 'five tries', '401 AUTH_FACTOR_TOKEN_INVALID allow: public');
  ok(!await p.page.isVisible('#asked'), 'five tries: the login begins again');
  again();
  await halfLogin(p, 'recovery code: another');
  await enter(codes[1], 'recovery code: another one', IN);
}

async function passkeys(p, ask) {
  await p.press('#passkey-add', 'passkey: added', PASSKEY,
    '201 AUTH_FACTOR_ADDED allow: public', LIST);
  await p.press('#passkey-add', 'passkey: twice', PASSKEY);
  like(await p.text(`${NEWEST} .what`), /holds a passkey of this account already/,
    'passkey: an authenticator has one of an account');
  is(await p.page.$$eval('#factor-list .badge', (all) => all.map((e) => e.textContent)),
    ['totp', 'passkey'], 'passkey: the list has both');
  await looksBoth(p, 'passkey: the list');

  await p.click('#logout-button');
  await p.press('#passkey-login', 'passkey: without a name', PASSKEY, IN);
  await halfLogin(p, 'passkey: as the second factor');
  await looksBoth(p, 'passkey: asked for');
  await ask('setUserVerified', { isUserVerified: false });
  await p.click('#verify-passkey');
  like(await p.text('#verify-said'), /it was cancelled/, 'passkey: cancelled');
  await p.press('#passkey-login', 'passkey: cancelled without a name', PASSKEY);
  like(await p.text(`${NEWEST} .what`), /it was cancelled/, 'passkey: the page says so');
  await ask('setUserVerified', { isUserVerified: true });
  await p.press('#verify-passkey', 'passkey: it ends the login', IN);
}

async function steppingUp(p, { secret }) {
  const rename = '#factor-list form button[type=submit]';
  const stale = () => sql("update auth_sessions set authenticated_at = now() - interval '6 min'");
  const stepUp = async (type, text, name, ...want) => {
    await p.select('#step-up-type', type);
    await p.page.fill('#step-up-secret', text);
    await p.press('#step-up-form button', name, ...want);
  };
  await p.press('#factors-show', 'step-up: the list', LIST);
  stale();
  await p.press(rename, 'step-up: needed', '401 AUTH_STEP_UP_REQUIRED allow: public');
  is(await p.text(`${NEWEST} .again`), 'Step up', 'step-up: the page leads there');
  await looksBoth(p, 'step-up: needed');
  await stepUp('credential', 'Demo-passw0rd!', 'step-up: not by the credential',
    '401 AUTH_STEP_UP_REQUIRED allow: verified');
  const by = '200 AUTH_STEP_UP_SUCCESS allow: verified';
  again();
  await stepUp('code', totp(secret), 'step-up: by a code', by);
  await p.page.fill('#factor-list input', 'My phone');
  await p.press(rename, 'step-up: then', '200 AUTH_FACTOR_CHANGED allow: public', LIST);
  is(await p.page.$$eval('#factor-list strong', (all) => all.map((e) => e.textContent)),
    ['My phone', 'Passkey'], 'step-up: renamed');
  stale();
  await p.press('#step-up-passkey', 'step-up: by a passkey',
    '200 AUTH_PASSKEY_OPTIONS allow: verified', by);
  const [{ json }] = await p.press('#recovery-new', 'step-up: new recovery codes',
    '200 AUTH_RECOVERY_CODES_SUCCESS allow: verified');
  is(await p.page.$$eval('#recovery-codes li', (all) => all.map((li) => li.textContent)),
    json.recoveryCodes, 'step-up: which are shown');
  const shown = await p.text('#log');
  is(json.recoveryCodes.filter((code) => shown.includes(code)), [], 'step-up: and nowhere else');
}

async function required(p) {
  const set = (to) => sql(`update accounts set factor_required = ${to}
    where account_name = '${WHO}@demo.test'`);
  const remove = '#factor-list .danger';
  const gone = '200 AUTH_FACTOR_REMOVED allow: public';
  await p.press(remove, 'remove: the app', gone, LIST);
  await p.press(remove, 'remove: the passkey', gone, LIST);
  is(await p.count('#factor-list li'), 0, 'remove: none is left');

  set('true');
  await halfLogin(p, 'required: a login');
  ok(await p.page.$eval('#factor', (e) => e.open), 'required: the page leads to step 7');
  await looksBoth(p, 'required');
  await p.press('#passkey-add', 'required: a passkey ends the login', PASSKEY, IN, LIST);
  is([await p.count('#recovery-codes li'), await p.text('#session-state')],
    [10, 'Logged in, no branch chosen.'], 'required: with recovery codes and a session');
  await p.press(remove, 'required: it stays', '409 AUTH_FACTOR_LAST allow: public');
  set('false');
  await p.press(remove, 'required: no more', gone, LIST);
  await p.click('#logout-button');
  await p.select('#demo', `${WHO}@demo.test`);
  await p.press('#login-form button', 'required: and a login is as before', IN);
}

async function factoring(browser) {
  qrCodes();
  const p = await Page.open(browser, { viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce' });
  const devtools = await p.context.newCDPSession(p.page);
  await devtools.send('WebAuthn.enable');
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator',
    { options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true,
      hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true } });
  await p.login(WHO);
  const app = await addApp(p);
  await logInByCodes(p, app);
  await passkeys(p, (method, parameters) =>
    devtools.send(`WebAuthn.${method}`, { authenticatorId, ...parameters }));
  await steppingUp(p, app);
  await required(p);

  // As make run GATEWAY_HOST=127.0.0.1 has it.
  await p.page.route('**/settings.json', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ json: { ...await answer.json(), passkeys: '' } });
  });
  await p.page.reload();
  await p.settled();
  await p.open('#account');
  like(await p.text('#login .no-passkeys'), /^No passkeys: .* open http:\/\/localhost:\d+\.$/,
    'no passkeys: the page says what to do');
  ok(!await p.page.isVisible('#passkey-login'), 'no passkeys: and offers none');
  await looksBoth(p, 'no passkeys');
  await p.context.close();
}

async function main() {
  const browser = await chromium.launch({ executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  try {
    for (const part of [walk, factoring, sessions, backOffice, clients, appearances]) {
      await part(browser);
    }
  } finally {
    await browser.close();
  }
}

done(main);
