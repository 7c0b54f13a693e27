// Walks through the playground in a browser, as browser_playground.t asks, and
// prints "ok - ..." or "not ok - ..." for each check.
//
// usage: playground.js CHROMIUM PAGE ACCESS_LOG SCREENSHOTS

'use strict';

const fs = require('node:fs');
const { chromium } = require('playwright-core');

const [program, origin, accessLog, shots] = process.argv.slice(2);
const CONTEXT = '/api/workspaces/current-context';
const NEWEST = '#log > :first-child';
const SEVERAL = '00000000-0000-4000-8000-000300000003';

// -- checks ----------------------------------------------------------------------

let failed = 0;

function ok(good, name, ...diag) {
  console.log(`${good ? 'ok' : 'not ok'} - ${name}`);
  if (!good) {
    failed += 1;
    diag.forEach((d) => console.log(`#   ${d}`));
  }
}

function is(got, want, name) {
  const [g, w] = [got, want].map((v) => JSON.stringify(v));
  ok(g === w, name, `got  ${g}`, `want ${w}`);
}

function like(got, pattern, name) {
  ok(pattern.test(got), name, `got  ${JSON.stringify(got)}`, `want ${pattern}`);
}

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
    self.page.on('console', (m) => {
      if (m.type() === 'error' || m.type() === 'warning') {
        self.errors.push(Page.brief(m));
      }
    });
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
      const { pathname } = new URL(request.url());
      if (pathname === '/explain') {
        continue;
      }
      const answer = await request.response();
      const headers = answer ? await answer.allHeaders() : {};
      calls.push({
        method: request.method(),
        path: pathname,
        origin: new URL(request.url()).origin,
        sent: await request.allHeaders(),
        body: request.postData(),
        status: answer ? answer.status() : 0,
        headers,
        json: answer && bodies ? await answer.json().catch(() => null) : null,
        timing: request.timing(),
      });
    }
    return calls;
  }

  // The step of a control is open before it is used.
  async open(selector) {
    const step = await this.page.$eval(selector, (e) => {
      const box = e.closest('.step');
      return box && !box.open ? box.id : '';
    });
    if (step) {
      await this.page.click(`#${step} > summary`);
    }
  }

  async click(selector) {
    await this.open(selector);
    return this.during(() => this.page.click(selector));
  }

  async select(selector, option) {
    await this.open(selector);
    return this.page.selectOption(selector, option);
  }

  // Of the newest answer's table; a short id has the whole one in its title.
  rows() {
    return this.page.$$eval(`${NEWEST} tbody tr`, (trs) => trs.map((tr) =>
      [...tr.children].map((c) => [...c.querySelectorAll('.id')]
        .map((id) => id.title).join() || c.textContent)));
  }

  sessionId() {
    return this.page.getAttribute('#session-id button', 'title');
  }

  // Of each card of the newest answer: where it went, how far, and why not on.
  way() {
    return this.page.$$eval(`${NEWEST} .call`, (boxes) => boxes.map((box) => ({
      steps: [...box.querySelectorAll('.way li')].map((li) =>
        `${li.dataset.at} ${li.className.replace(' end', '')}`),
      notes: Object.fromEntries([...box.querySelectorAll('.way li')].map((li) =>
        [li.dataset.at, li.querySelector('.note').textContent])),
      reason: (box.querySelector('.reason code') || {}).textContent || '',
      removed: [...box.querySelectorAll('.removed del')]
        .map((d) => d.textContent),
    })));
  }

  // Where the focus is: the nearest place with an id, and what has it.
  focus() {
    return this.page.evaluate(() => {
      const e = document.activeElement;
      const box = e.closest('.step, #log, #session, #beside');
      return `${box && box.id} ${e.tagName}`;
    });
  }

  text(selector) {
    return this.page.textContent(selector);
  }

  count(selector) {
    return this.page.locator(selector).count();
  }

  // The errors since the last time are those that refused calls leave.
  silent(name, ...expected) {
    is(this.errors.sort(), expected.sort(), `${name}: the console`);
    this.errors = [];
  }

  // Of the cards of a step: status, code, decision; and each one's request id
  // is what the network and the gateway's log had, with the same decision.
  async cards(step, name, calls, want) {
    is(await this.page.getAttribute(NEWEST, 'data-step'), step.slice(1),
      `${name}: the newest answer is of its step`);
    const cards = await this.page.$$eval(`${NEWEST} .call`, (boxes) =>
      boxes.map((box) => {
        const part = (q) => (box.querySelector(q) || {}).textContent || '';
        return {
          badge: part('.badge'),
          code: part('.call-line code'),
          time: part('.time'),
          decision: part('details:last-of-type summary .quiet'),
          ids: [...box.querySelectorAll('.facts dd')].map((d) =>
            (d.querySelector('.id') || {}).title || d.textContent),
          failed: part('.checks .failed'),
        };
      }));
    is(cards.map((c) => [c.badge, c.code, c.decision]), want,
      `${name}: what the page shows`);
    is(calls.map((c) => c.status ? String(c.status) : 'blocked'),
      cards.map((c) => c.badge), `${name}: what the network had`);
    is((await this.way()).map((w) => w.reason), want.map(([, , decision]) =>
      /^deny: (.*)/.test(decision) ? decision.slice(6) : ''),
    `${name}: the reason on the way back`);
    for (const [i, card] of cards.entries()) {
      like(card.time, /^\d+ ms$/, `${name}: how long it took`);
      if (!calls[i] || !calls[i].status) {
        continue;
      }
      is(card.ids, [calls[i].headers['x-request-id'],
        calls[i].headers['x-correlation-id']], `${name}: the ids`);
      const entry = await logged(card.ids[0]);
      is(`${entry.decision}: ${entry.reason}`, card.decision,
        `${name}: the gateway's log has that decision`);
      is(entry.correlationId, card.ids[1], `${name}: and the correlation id`);
    }
    return cards;
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
async function logged(id) {
  for (let i = 0; i < 500; i += 1) {
    const entry = entries().find((e) => e.requestId === id);
    if (entry) {
      return entry;
    }
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  return {};
}

function sentToken(call) {
  return (call.sent.authorization || '').replace('Bearer ', '');
}

// -- what must hold of any state of the page ------------------------------------------

async function looks(p, name) {
  is(await p.page.evaluate(() => document.documentElement.scrollWidth
    - document.documentElement.clientWidth), 0, `${name}: nothing sticks out`);

  is(await p.page.evaluate(() => {
    // What is scrolled out of a list is not there.
    const seen = (e) => {
      const r = e.getBoundingClientRect();
      const list = e.closest('#session-list') || e.closest('#beside');
      const { top, bottom } = (list || e).getBoundingClientRect();
      return { left: r.left, right: r.right, top: Math.max(r.top, top),
        bottom: Math.min(r.bottom, bottom) };
    };
    const boxes = [...document.querySelectorAll('button, select, input, summary,'
      + ' h2, h3, h4, p, table, pre, dl')]
      .filter((e) => e.checkVisibility() && !e.closest('.unseen'))
      .map((e) => [e, seen(e)]);
    const bad = [];
    for (const [a, r] of boxes) {
      for (const [b, s] of boxes) {
        if (a !== b && !a.contains(b) && !b.contains(a)
          && !a.closest('aside') && !b.closest('aside')
          && Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1
          && Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 1) {
          bad.push(`${a.tagName}#${a.id} over ${b.tagName}#${b.id}`);
        }
      }
    }
    return bad;
  }), [], `${name}: nothing overlaps`);

  is(await p.page.evaluate(() => {
    const numbers = (color) => color.match(/[\d.]+/g).map(Number);
    const light = (color) => {
      const [r, g, b] = numbers(color).map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (e) => {
      const color = getComputedStyle(e).backgroundColor;
      const [, , , alpha = 1] = numbers(color);
      return alpha === 1 || !e.parentElement ? color : behind(e.parentElement);
    };
    const bad = [];
    for (const e of document.querySelectorAll('body *')) {
      const own = [...e.childNodes].some((n) => n.nodeType === 3
        && n.textContent.trim());
      if (!own || !e.checkVisibility() || e.disabled || e.closest('option')) {
        continue;
      }
      const [a, b] = [getComputedStyle(e).color, behind(e)].map(light)
        .sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) {
        bad.push(`${e.tagName} "${e.textContent.slice(0, 20)}" ${ratio}`);
      }
    }
    return bad;
  }), [], `${name}: everything can be read (contrast 4.5 to 1)`);

  is(await p.page.evaluate(() => [...document.querySelectorAll(
    'input, select, button')]
    .filter((e) => !(e.labels && e.labels.length) && !e.textContent.trim())
    .map((e) => e.id)), [], `${name}: every field has a label`);

  is(await p.page.evaluate(() => [...document.querySelectorAll(
    'button, select, form input')]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height
      < (e.className.startsWith('id') && !matchMedia('(pointer: coarse)').matches
        ? 24 : 44))
    .map((e) => e.id)), [], `${name}: every control is large enough to touch`);
}

// -- the walk -------------------------------------------------------------------------

async function loginByKeyboard(p) {
  const order = [];
  for (const want of ['A.skip', 'SUMMARY.', 'demo', 'account', 'credential', 'BUTTON.']) {
    await p.page.keyboard.press('Tab');
    order.push(await p.page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return (e.id || `${e.tagName}.${e.className}`)
        + (style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2
          ? '' : ' without an outline');
    }));
    ok(want === order[order.length - 1], `keyboard: the focus is on ${want}`,
      order.join(', '));
    if (want === 'demo') {
      await p.page.keyboard.type('one');
      is(await p.page.inputValue('#account'), 'one@demo.test',
        'keyboard: a demo account is chosen');
    }
  }
  const [call] = await p.during(() => p.page.keyboard.press('Enter'));
  is(call.status, 200, 'keyboard: Enter logs in');
  is(await p.focus(), 'call SUMMARY', 'keyboard: the focus is on the next step');
  like(await p.text('[role=status]'), /login: 200\..*branch token/,
    'keyboard: what came of it is said aloud');
  like(await p.text('#session-state'), /^Working in /, 'keyboard: in a branch');

  // From there on: the step's own, the other steps, the session, the answers.
  const places = [];
  for (let i = 0; i < 40 && places[places.length - 1] !== 'log SUMMARY'; i += 1) {
    await p.page.keyboard.press('Tab');
    places.push(await p.focus());
  }
  is(places, ['call SELECT', 'call BUTTON', 'refresh SUMMARY', 'cheat SUMMARY',
    'sessions SUMMARY', 'logout SUMMARY', 'beside DIV', 'session BUTTON',
    'session SUMMARY', 'session SUMMARY', 'log SUMMARY'],
  'keyboard: from the left to the right, in the order of the steps');
  await p.page.keyboard.press('Enter');
  ok(!await p.page.$eval(NEWEST, (e) => e.open), 'keyboard: an answer folds');
  await p.page.keyboard.press('Enter');
  await p.page.keyboard.press('Tab');
  const id = await p.page.evaluate(() => document.activeElement.title);
  await p.page.keyboard.press('Enter');
  is([await p.page.evaluate(() => document.activeElement.textContent),
    await p.page.evaluate(() => navigator.clipboard.readText())], [id, id],
  'keyboard: Enter shows a whole id and copies it');
  is(id, call.headers['x-request-id'], 'keyboard: which is the request\'s');
  await p.page.keyboard.press('Tab');
  await p.page.keyboard.press('Enter');
  ok(await p.page.$eval(`${NEWEST} .folds details`, (e) => e.open),
    'keyboard: the request opens');
}

// Old answers fold, each may be opened again, and there is an end to them.
async function folding(p) {
  const opened = () => p.page.$$eval('.entry', (all) => all.map((e) => e.open));
  for (let i = 0; i < 14; i += 1) {
    await p.click('#call-form button');
  }
  is(await opened(), [true, ...Array(11).fill(false)],
    'folding: the newest is open, and twelve are kept');
  await p.page.click('.entry:nth-child(2) > summary');
  is((await opened()).slice(0, 3), [true, true, false],
    'folding: an old one opens');
  is(await p.page.$$eval('.step', (all) => all.filter((e) => e.open)
    .map((e) => e.id)), ['call'], 'folding: one step is open');
  is(await p.page.$$eval('.step', (all) => all.map((e) => e.querySelectorAll(
    '.body button:not(.second, .id)').length)), Array(7).fill(1),
  'folding: each step has one first button');
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
  await p.click('#call-form button');
  const [told] = await p.way();
  is(told.steps, ['browser passed', 'ids passed', 'strip passed',
    'route failed', 'token unreached', 'guard unreached', 'inject unreached',
    'service unreached'], 'another explanation: it ends at its first fault');
  is([told.notes.route, told.reason, told.removed], ['location',
    'such_and_such', said.stripped], 'another explanation: for its reason');
  answer = { status: 500, body: '' };
  await p.click('#call-form button');
  is((await p.way()).map((w) => w.steps), [[]], 'no explanation: no strip');
  await p.page.unroute('**/explain');
  p.errors = [];
}

async function login(p) {
  await p.select('#demo', 'disabled@demo.test');
  let calls = await p.click('#login-form button');
  await p.cards('#login', 'a disabled account', calls,
    [['401', 'AUTH_INVALID_CREDENTIALS', 'allow: public']]);
  is(await p.refreshCookie(), undefined, 'a disabled account: no cookie');
  p.silent('a disabled account', '401 /api/auth/login');

  const before = entries().length;
  await p.select('#demo', 'several@demo.test');
  calls = await p.click('#login-form button');
  await p.cards('#login', 'login', calls,
    [['200', 'AUTH_LOGIN_SUCCESS', 'allow: public']]);
  is(calls[0].origin === origin, false, 'login: to another origin');
  is(calls[0].sent.origin, origin, 'login: from this one');
  is(JSON.parse(calls[0].body),
    { account: 'several@demo.test', credential: 'Demo-passw0rd!' },
    'login: account and credential');
  const cookie = await p.refreshCookie();
  is([cookie.value, cookie.httpOnly, cookie.sameSite, cookie.path],
    [calls[0].json.refreshToken, true, 'Lax', '/api/auth'],
    'login: the browser has the cookie');
  is(await p.page.evaluate(() => document.cookie), '',
    'login: and no script can read it');
  is(await p.text(`${NEWEST} pre`).then((t) => /passw0rd/.test(t)), false,
    'login: the credential is not shown');
  is(await p.text('#log').then((t) => [calls[0].json.refreshToken,
    calls[0].json.accountAccessToken].some((w) => t.includes(w.slice(-40)))),
  false, 'login: nor is any whole token');
  like(await p.text('#session-state'), /no branch chosen/, 'login: no branch');
  ok(before > 0 && entries().some((e) => e.method === 'OPTIONS'
    && e.path === '/api/auth/login' && e.reason === 'preflight'),
  'login: the gateway answered a preflight');
  p.silent('login');
  return calls[0].json;
}

async function chooseBranch(p, told) {
  is(await p.page.$$eval('#branches option', (os) => os.map((o) => o.label)),
    told.branches.map((b) => b.branchName), 'branch: the list');
  await p.select('#branches', { label: 'Harbour North' });
  const calls = await p.click('#branch-form button');
  await p.cards('#branch', 'branch', calls,
    [['200', 'AUTH_SELECT_BRANCH_SUCCESS', 'allow: verified']]);
  is(sentToken(calls[0]), told.accountAccessToken, 'branch: the account token');
  is(JSON.parse(calls[0].body), { branchId: told.branches[1].branchId },
    'branch: the chosen one');
  is(await p.text('#session-state'), 'Working in Harbour North.',
    'branch: the page says so');
  p.silent('branch');
  return { ...told, ...calls[0].json };
}

async function decodeTokens(p, tokens) {
  for (const [kind, token] of Object.entries({ access: tokens.accessToken,
    account: tokens.accountAccessToken, refresh: tokens.refreshToken })) {
    const box = `.token[data-kind=${kind}]`;
    await p.page.click(`${box} summary`);
    const shown = await p.text(`${box} pre`);
    const [header, claims] = token.split('.').slice(0, 2)
      .map((part) => JSON.parse(Buffer.from(part, 'base64url')));
    ok(shown.includes(JSON.stringify(header, null, 2))
      && shown.includes(JSON.stringify(claims, null, 2)),
    `decode: the ${kind} token`, shown);
    like(await p.text(`${box} .left`), /^(\d+:\d\d|\d+ days) left$/,
      `decode: how long the ${kind} token lasts`);
    await p.page.click(`${box} summary`);
  }
}

const STEPS = ['browser', 'ids', 'strip', 'route', 'token', 'guard', 'inject',
  'service'];

async function callService(p, tokens) {
  const ends = { account: ['guard', 'context'], refresh: ['token', 'typ'],
    none: ['token', 'bearer'], access: ['service', 'entitlement-service'] };
  const expected = {
    account: ['403', 'GATEWAY_CONTEXT_FORBIDDEN', 'deny: context_forbidden'],
    refresh: ['401', 'GATEWAY_TOKEN_INVALID', 'deny: token_typ'],
    none: ['401', 'GATEWAY_TOKEN_MISSING', 'deny: token_missing'],
    access: ['200', '', 'allow: verified'],
  };
  const token = { ...tokens, access: tokens.accessToken,
    account: tokens.accountAccessToken, refresh: tokens.refreshToken };
  is(await p.page.inputValue('#call-token'), 'access',
    'call: the branch token is offered');
  for (const [kind, want] of Object.entries(expected)) {
    await p.select('#call-token', kind);
    const calls = await p.click('#call-form button');
    await p.cards('#call', `call with ${kind}`, calls, [want]);
    is(sentToken(calls[0]), token[kind] || '', `call with ${kind}: which went`);
    const [told] = await p.way();
    const at = STEPS.indexOf(ends[kind][0]);
    is(told.steps, STEPS.map((step, i) => `${step} ${i < at ? 'passed'
      : i > at ? 'unreached' : kind === 'access' ? 'passed' : 'failed'}`),
    `call with ${kind}: how far it got`);
    is(told.notes[ends[kind][0]], ends[kind][1], `call with ${kind}: and why`);
    is(await p.count(`${NEWEST} table`), want[0] === '200' ? 1 : 0,
      `call with ${kind}: headers arrived or not`);
    p.silent(`call with ${kind}`,
      ...want[0] === '200' ? [] : [`${want[0]} ${CONTEXT}`]);
    if (want[0] === '200') {
      const rows = await p.rows();
      is(rows, Object.entries(calls[0].json.headers),
        'call: the page shows the headers that arrived');
      is([calls[0].json.headers['X-Account-Id'], calls[0].json.authorization],
        [SEVERAL, false], 'call: who asks, and no token');
    }
  }
}

async function refreshing(p, tokens) {
  let calls = await p.click('#refresh-body');
  await p.cards('#refresh', 'refresh by body', calls,
    [['200', 'AUTH_REFRESH_SUCCESS', 'allow: public']]);
  is(JSON.parse(calls[0].body), { refreshToken: tokens.refreshToken },
    'refresh by body: the token');
  is((await p.refreshCookie()).value, calls[0].json.refreshToken,
    'refresh by body: the cookie has the new one');

  await p.context.clearCookies();
  let last = calls[0].json.refreshToken;
  calls = await p.click('#refresh-body');
  is([calls[0].status, calls[0].sent.cookie, JSON.parse(calls[0].body)],
    [200, undefined, { refreshToken: last }],
    'refresh by body: works without a cookie');

  last = calls[0].json.refreshToken;
  calls = await p.click('#refresh-cookie');
  await p.cards('#refresh', 'refresh by cookie', calls,
    [['200', 'AUTH_REFRESH_SUCCESS', 'allow: public']]);
  is([calls[0].body, calls[0].sent.cookie], [null,
    `platform_refresh_token=${last}`], 'refresh by cookie: by nothing else');
  p.silent('refresh');

  await p.page.reload();
  is(await p.text('#session-state'), 'Not logged in.', 'reload: tokens are gone');
  ok(await p.page.isDisabled('#refresh-body'), 'reload: no token for a body');
  calls = await p.click('#refresh-cookie');
  is(calls.map((c) => [c.status, c.sent.cookie]).pop(), [200,
    `platform_refresh_token=${calls.length && last
      && calls[calls.length - 1].sent.cookie.split('=')[1]}`],
  'reload: the cookie brings the session back');
  like(await p.text('#session-state'), /^Working in /, 'reload: in its branch');

  await p.open('#include-account');
  await p.page.check('#include-account');
  calls = await p.click('#refresh-body');
  ok(calls[0].json.accountAccessToken && JSON.parse(calls[0].body)
    .includeAccountToken, 'refresh: with an account token');
  await p.page.uncheck('#include-account');
  await p.select('#branches', { label: 'Harbour West' });
  await p.click('#branch-form button');
  is(await p.text('#session-state'), 'Working in Harbour West.',
    'refresh: and the branch can be switched');
  p.silent('switching');
  return { ...calls[0].json };
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
  await p.cards('#refresh', 'race', calls, calls.map((c) => c === won
    ? ['200', 'AUTH_REFRESH_SUCCESS', 'allow: public']
    : ['401', 'AUTH_REFRESH_TOKEN_STALE', 'allow: public']));
  like(await p.text(`${NEWEST} .verdict`),
    won === calls[0] ? /the first call/ : /the second call/,
    'race: the page says which');
  p.silent('race', '401 /api/auth/refresh');
  const [after] = await p.click('#refresh-body');
  is([after.status, JSON.parse(after.body).refreshToken],
    [200, won.json.refreshToken], 'race: the session goes on');
}

async function cheating(p) {
  let calls = await p.click('#spoof');
  await p.cards('#cheat', 'spoof', calls, [['200', '',
    'allow: verified']]);
  const { sent } = calls[0];
  is([sent['x-account-id'], sent['x-roles'], sent.x_workspace_id],
    ['somebody-else', 'OWNER', 'another-workspace'], 'spoof: was sent');
  const there = calls[0].json.headers;
  const claims = JSON.parse(Buffer.from(sentToken(calls[0]).split('.')[1],
    'base64url'));
  is([there['X-Account-Id'], there['X-Roles'], there['X-Workspace-Id']],
    [SEVERAL, claims.roles.join(','), claims.workspace_id],
    'spoof: what the service got is the token\'s');
  is(there['X-Correlation-Id'], sent['x-correlation-id'],
    'spoof: an untrusted header arrived as it was sent');
  is(await p.rows(), [
    ['X-Account-Id', 'somebody-else', SEVERAL],
    ['X-Roles', 'OWNER', there['X-Roles']],
    ['X_Workspace_Id', 'another-workspace', there['X-Workspace-Id']],
    ['X-Correlation-Id', sent['x-correlation-id'], sent['x-correlation-id']],
  ], 'spoof: the page compares');
  const [way] = await p.way();
  is([way.removed, way.notes.strip, way.steps[0], way.notes.inject], [
    ['X-Account-Id', 'X-Roles', 'X_Workspace_Id'], '3 removed',
    'program passed', '11 headers'], 'spoof: the strip shows what was stripped');
  p.silent('spoof');

  const before = entries().length;
  calls = await p.click('#spoof-browser');
  await p.cards('#cheat', 'spoof in the browser', calls,
    [['200', '', 'allow: verified'],
      ['blocked', '', 'deny: preflight_header_forbidden']]);
  like(await p.text(`${NEWEST} .call + .call`),
    /the header X-Account-Id is not allowed.*Not sent\./,
    'spoof in the browser: the page says what was refused');
  is((await p.way()).map((w) => [w.steps[3], w.notes.route, w.removed.length]),
    [['route passed', '/api/workspaces/', 0], ['route failed', 'cors', 3]],
    'spoof in the browser: the preflight ends at the route');
  await logged(calls[0].headers['x-request-id']);
  is(entries().slice(before).filter((e) => e.path === CONTEXT
    && e.reason !== 'preflight').map((e) => [e.method, e.reason]).sort(),
  [['GET', 'verified'], ['OPTIONS', 'preflight_header_forbidden']],
  'spoof in the browser: the gateway saw one call and a refused preflight');
  p.silent('spoof in the browser', 'CORS', `no answer ${CONTEXT}`);

  for (const [page, decision, words] of [
    ['https://app.example.com', 'deny: origin_forbidden',
      /may not call it: the origin/],
    [origin, 'allow: verified', /may call it, and read/]]) {
    await p.open('#origin');
    await p.page.fill('#origin', page);
    is(await p.click('#origin-form button'), [], `${page}: nothing is sent`);
    is(await p.text(`${NEWEST} details summary .quiet`), decision,
      `${page}: what the gateway would do`);
    like(await p.text(`${NEWEST} .what`), words, `${page}: in words`);
  }
  p.silent('another page');

  const reasons = { roles: 'token_signature', exp: 'token_signature',
    none: 'token_alg', cut: 'token_signature' };
  for (const [how, reason] of Object.entries(reasons)) {
    await p.select('#tamper', how);
    calls = await p.click('#tamper-form button');
    const cards = await p.cards('#cheat', `tamper: ${how}`, calls,
      [['200', '', 'allow: verified'],
        ['401', 'GATEWAY_TOKEN_INVALID', `deny: ${reason}`]]);
    const [a, b] = calls.map(sentToken);
    ok(a !== b && a.split('.').length === 3, `tamper: ${how}: two tokens`);
    ok(cards[1].failed, `tamper: ${how}: the check that failed is named`);
    is((await p.way()).map((w) => w.steps.filter((step) =>
      step.endsWith('failed'))), [[], ['token failed']],
    `tamper: ${how}: one goes through, the copy ends at the token`);
    p.silent(`tamper: ${how}`, `401 ${CONTEXT}`);
  }
}

// Calls until the call is refused, which is a moment after the session ended.
async function refused(p, button) {
  const statuses = [];
  let calls;
  for (const end = Date.now() + 30000; Date.now() < end;) {
    calls = await p.click(button);
    statuses.push(calls[0].status);
    if (calls[0].status === 401) {
      break;
    }
  }
  ok(statuses.pop() === 401 && statuses.every((s) => s === 200),
    'sessions: it is refused, and was not before', statuses);
  return calls;
}

async function sessionItems(p) {
  return p.page.$$eval('.session', (items) => items.map((item) => ({
    where: item.querySelector('strong').textContent,
    current: Boolean(item.querySelector('.badge')),
    facts: Object.fromEntries([...item.querySelectorAll('dt')].map((dt) =>
      [dt.textContent, (dt.nextSibling.querySelector('.id') || {}).title
        || dt.nextSibling.textContent])),
  })));
}

// Two windows of one browser, and one of another, all of one account.
async function sessions(browser) {
  const one = await Page.open(browser, { userAgent: 'Mozilla/5.0 (X11; Linux'
    + ' x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0'
    + ' Safari/537.36', viewport: { width: 1280, height: 840 } });
  const two = await Page.open(browser, one.context);
  const agent = 'Mozilla/5.0 (Android 16; Mobile; rv:145.0) Gecko/145.0'
    + ' Firefox/145.0';
  const far = await Page.open(browser, { userAgent: agent });
  ok(await one.page.isDisabled('#sessions-show'), 'sessions: log in first');
  const id = {};
  for (const [name, p, branch] of [['one', one, 'Harbour East'],
    ['two', two, 'Harbour West'], ['far', far, '']]) {
    await p.select('#demo', 'several@demo.test');
    await p.click('#login-form button');
    if (branch) {
      await p.select('#branches', { label: branch });
      await p.click('#branch-form button');
    }
    id[name] = await p.sessionId();
  }

  let calls = await one.click('#sessions-show');
  await one.cards('#sessions', 'sessions', calls,
    [['200', 'AUTH_SESSIONS_SUCCESS', 'allow: verified']]);
  const shown = (await sessionItems(one))
    .filter((s) => Object.values(id).includes(s.facts.Session));
  is(shown.map((s) => [s.facts.Session, s.where, s.current]), [
    [id.one, 'Harbour Cafes, Harbour East', true],
    [id.far, 'No branch chosen', false],
    [id.two, 'Harbour Cafes, Harbour West', false],
  ], 'sessions: the three, this window first, and where each is');
  const told = calls[0].json.sessions.find((s) => s.sessionId === id.far);
  is(shown[1].facts, {
    'Logged in': await one.page.evaluate((t) =>
      new Date(t).toLocaleString('en-GB'), told.createdAt),
    'Last used': await one.page.evaluate((t) =>
      new Date(t).toLocaleString('en-GB'), told.usedAt),
    Address: told.address, 'User-Agent': agent, Session: id.far,
  }, 'sessions: since when, and from where');
  await shot(one, 'playground-sessions', '#sessions');
  one.silent('sessions');

  // One is ended from the other.
  await two.cards('#call', 'sessions: before', await two.click(
    '#call-form button'), [['200', '', 'allow: verified']]);
  calls = await one.click(`[aria-label="End session ${id.two}"]`);
  is(calls.map((c) => [c.method, c.path]), [
    ['DELETE', `/api/auth/sessions/${id.two}`], ['GET', '/api/auth/sessions']],
  'sessions: one is ended');
  await one.cards('#sessions', 'sessions: one is ended', calls,
    [['200', 'AUTH_END_SESSION_SUCCESS', 'allow: verified'],
      ['200', 'AUTH_SESSIONS_SUCCESS', 'allow: verified']]);
  is(await one.page.evaluate(() => document.activeElement.id), 'sessions-show',
    'sessions: the focus stays in place');
  is((await sessionItems(one)).map((s) => s.facts.Session)
    .filter((s) => Object.values(id).includes(s)), [id.one, id.far],
  'sessions: it is gone from the list');
  calls = await refused(two, '#call-form button');
  await two.cards('#call', 'sessions: after', calls,
    [['401', 'GATEWAY_TOKEN_INVALID', 'deny: session_revoked']]);
  like(await two.text(`${NEWEST} .call`),
    /the session of the token has ended session_revoked.* with \d+:\d\d left\./,
    'sessions: the page says why');
  is((await two.way()).map((w) => [w.steps[5], w.notes.guard]),
    [['guard failed', 'session']], 'sessions: it ends at the guard');
  like(await two.text('#session-state'), /^This session has ended/,
    'sessions: and so does the state');
  await shot(two, 'playground-ended');
  two.silent('sessions: after', `401 ${CONTEXT}`);
  calls = await one.click('#call-form button');
  await one.cards('#call', 'sessions: the other window', calls,
    [['200', '', 'allow: verified']]);

  await two.page.click(`${NEWEST} .again`);
  await two.page.keyboard.press('Tab');
  is(await two.page.evaluate(() =>
    document.activeElement.closest('.step').id), 'login',
  'sessions: the offer leads to the login');
  await two.click('#login-form button');
  like(await two.text('#session-state'), /no branch chosen/,
    'sessions: which begins another one');
  id.two = await two.sessionId();
  await two.click('#branch-form button');

  // All the others.
  calls = await one.click('#logout-others');
  await one.cards('#sessions', 'sessions: the others', calls,
    [['200', 'AUTH_LOGOUT_OTHERS_SUCCESS', 'allow: verified'],
      ['200', 'AUTH_SESSIONS_SUCCESS', 'allow: verified']]);
  ok(calls[0].json.endedSessions >= 2
    && (await one.text(`${NEWEST} .what`))
      .startsWith(`${calls[0].json.endedSessions} sessions ended.`),
  'sessions: how many that were');
  is((await sessionItems(one)).map((s) => s.facts.Session), [id.one],
    'sessions: one is left');
  await refused(far, '#branch-form button');
  await refused(two, '#call-form button');
  calls = await one.click('#call-form button');
  is(calls.map((c) => c.status), [200], 'sessions: this window goes on');
  one.silent('sessions: the others');

  // All.  The branch token is kept for a try.
  calls = await one.click('#logout-all');
  await one.cards('#sessions', 'sessions: all', calls,
    [['200', 'AUTH_LOGOUT_ALL_SUCCESS', 'allow: verified']]);
  is([await one.text('#session-state'), await one.count('.session'),
    await one.refreshCookie()], ['Not logged in.', 0, undefined],
  'sessions: nothing is left of this one');
  is(await one.page.inputValue('#call-token'), 'none',
    'sessions: there is no token to send');
  await one.select('#call-token', 'ended');
  calls = await refused(one, '#call-form button');
  await one.cards('#call', 'sessions: with the old token', calls,
    [['401', 'GATEWAY_TOKEN_INVALID', 'deny: session_revoked']]);
  is(await one.text('#session-state'), 'Not logged in.',
    'sessions: which is no session of this window any more');
  one.silent('sessions: all', `401 ${CONTEXT}`);
  await one.context.close();
  await far.context.close();
}

async function loggingOut(p) {
  let calls = await p.click('#logout-button');
  await p.cards('#logout', 'logout', calls,
    [['200', 'AUTH_LOGOUT_SUCCESS', 'allow: public']]);
  is(await p.refreshCookie(), undefined, 'logout: the cookie is gone');
  is([await p.text('#session-state'), await p.count('.token')],
    ['Not logged in.', 0], 'logout: so are the tokens');
  p.silent('logout');
  calls = await p.click('#refresh-cookie');
  await p.cards('#refresh', 'after logout', calls,
    [['401', 'AUTH_REFRESH_TOKEN_MISSING', 'allow: public']]);
  p.silent('after logout', '401 /api/auth/refresh');
}

// Everything that a page can show at once.
async function everything(p, account) {
  await p.select('#demo', account);
  await p.click('#login-form button');
  await p.click('#branch-form button');
  await p.click('#call-form button');
  await raced(p);
  await p.click('#spoof-browser');
  await p.click('#spoof');
  await p.click('#origin-form button');
  await p.click('#tamper-form button');
  await p.click('#sessions-show');
}

async function shot(p, name, selector = 'body') {
  await p.page.evaluate((q) => document.querySelector(q)
    .scrollIntoView({ block: 'start' }), selector);
  // A page behind another one does not come to their end by itself.
  await p.page.evaluate(() => document.getAnimations()
    .forEach((a) => a.finish()));
  await p.page.mouse.move(0, 0);
  await p.page.evaluate(() => document.activeElement.blur());
  await p.page.screenshot({ path: `${shots}/${name}.png` });
  ok(fs.statSync(`${shots}/${name}.png`).size > 10000, `a picture: ${name}`);
}

async function walk(browser) {
  const p = await Page.open(browser, { viewport: { width: 1280, height: 900 },
    permissions: ['clipboard-read', 'clipboard-write'] });
  await looks(p, 'empty');
  p.silent('empty');
  await loginByKeyboard(p);
  p.silent('keyboard');
  await p.click('#logout-button');

  const told = await login(p);
  const tokens = await chooseBranch(p, told);
  await decodeTokens(p, tokens);
  await callService(p, tokens);
  await folding(p);
  await otherExplanations(p);
  await refreshing(p, tokens);
  await racing(p);
  await cheating(p);
  await loggingOut(p);
  const gateway = await p.text('#gateway-origin');
  is([...new Set(p.seen.map((r) => new URL(r.url()).origin))].sort(),
    [origin, gateway].sort(), 'nothing is asked of anybody else');

  // Markup from a string, which a page is attacked by, has no way in.
  is(await p.page.evaluate(() => {
    document.body.dataset.text = 'may be set';
    try {
      document.body.innerHTML = '<b>may not</b>';
      return 'was let in';
    } catch (e) {
      return `${document.body.dataset.text}: ${e.name}`;
    }
  }), 'may be set: TypeError', 'the policy keeps markup out');
  await p.context.close();
}

// Both kinds of window, light and dark; the pictures are those of the page.
async function appearances(browser) {
  const desktop = { viewport: { width: 1280, height: 1000 } };
  const phone = { viewport: { width: 360, height: 780 }, deviceScaleFactor: 2,
    isMobile: true, hasTouch: true };
  const backgrounds = [];
  for (const [kind, colorScheme, options, account, picture, last] of [
    ['desktop', 'light', desktop, 'several@demo.test', 'playground',
      '#call-form button'],
    ['desktop', 'dark', desktop, 'several@demo.test', 'playground-dark', '#spoof'],
    ['phone', 'light', phone, 'two-hundred@demo.test', 'playground-phone',
      '#call-form button'],
  ]) {
    const name = `${kind}, ${colorScheme}`;
    const motion = colorScheme === 'dark' ? 'reduce' : 'no-preference';
    const p = await Page.open(browser, { ...options, colorScheme,
      reducedMotion: motion });
    backgrounds.push(await p.page.evaluate(() =>
      getComputedStyle(document.body).backgroundColor));
    await everything(p, account);
    is(await p.page.$eval('.entry:first-child .way li', (e) =>
      getComputedStyle(e).animationName), motion === 'reduce' ? 'none'
      : 'arrive', `${name}: the strip moves unless that is unwanted`);
    is(await p.page.evaluate(() => document.getElementById('happened')
      .parentElement.id), kind === 'phone' ? 'steps' : 'beside',
    `${name}: answers stand ${kind === 'phone' ? 'below their step'
      : 'beside the steps'}`);
    if (kind === 'phone') {
      await p.select('#call-token', 'account');
    }
    await p.click(last);
    await shot(p, picture, kind === 'phone' ? '#call' : 'body');
    await p.page.click('.token[data-kind=access] summary');
    await p.page.evaluate(() => document.querySelectorAll('details')
      .forEach((d) => { d.removeAttribute('name'); d.open = true; }));
    await looks(p, `${name}, all open`);
    p.silent(name, '401 /api/auth/refresh', `401 ${CONTEXT}`, 'CORS',
      `no answer ${CONTEXT}`, ...kind === 'phone' ? [`403 ${CONTEXT}`] : []);
    await p.context.close();
  }
  ok(backgrounds[0] === backgrounds[2] && backgrounds[0] !== backgrounds[1],
    'light and dark differ');
}

// examples/client, served beside the playground: in two tabs of one browser,
// which is what t/http_client.t has not.
async function clients(browser) {
  const one = await Page.open(browser);
  const two = await Page.open(browser, one.context);
  const REFRESH = '/api/auth/refresh';
  // A body that nobody reads never comes to its end.
  const run = (p, f, arg) => p.during(() => p.page.evaluate(f, arg), false);
  const statuses = (calls, path) => calls
    .filter((c) => c.path === path && c.method !== 'OPTIONS')
    .map((c) => c.status);
  const gateway = await one.text('#gateway-origin');
  for (const p of [one, two]) {
    await p.page.evaluate(async (base) => {
      const { PlatformClient } = await import('/client.js');
      window.client = new PlatformClient({ base });
    }, gateway);
  }
  let calls = await run(one, () =>
    window.client.login('one@demo.test', 'Demo-passw0rd!'));
  is([statuses(calls, '/api/auth/login'), (await one.refreshCookie()).httpOnly],
    [[200], true], 'client: login, by the cookie');
  calls = await run(two, async () => {
    window.restored = await window.client.restore();
  });
  is([await two.page.evaluate(() => window.restored), statuses(calls, REFRESH)],
    [true, [200]], 'client: a second tab goes on by the cookie');

  // Two that overlapped would send one token, and one of them lose it.
  const refresh = (p) => run(p, () => window.client.refresh()
    .then(() => window.client.refresh()));
  const tabs = await Promise.all([refresh(one), refresh(two)]);
  is(tabs.map((c) => statuses(c, REFRESH)), [[200, 200], [200, 200]],
    'client: two tabs refresh at once, and neither is refused');
  const spans = tabs.flat().filter((c) => c.path === REFRESH)
    .map(({ timing: t }) => [t.startTime + t.requestStart,
      t.startTime + t.responseStart]).sort((x, y) => x[0] - y[0]);
  ok(spans.every(([from], i) => i === 0 || from >= spans[i - 1][1]),
    'client: since they take turns', JSON.stringify(spans));
  for (const p of [one, two]) {
    calls = await run(p, (path) => window.client.fetch(path), CONTEXT);
    is(statuses(calls, CONTEXT), [200], 'client: each tab goes on');
    p.silent('client: two tabs');
  }
  await run(two, () => window.client.logout());
  is(await one.refreshCookie(), undefined, 'client: logout');
  await one.context.close();
}

async function main() {
  const browser = await chromium.launch({ executablePath: program,
    args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  try {
    await walk(browser);
    await sessions(browser);
    await clients(browser);
    await appearances(browser);
  } finally {
    await browser.close();
  }
}

main().then(() => process.exit(failed ? 1 : 0), (e) => {
  console.log(`# ${e.stack}`);
  process.exit(2);
});
