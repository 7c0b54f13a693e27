// Drives the compiled examples/client against a running gateway: node
// client.mjs FILE BASE [retries].  `retries` says that the service answers a
// retry.  Prints a line for each check; ends with 1 if one fails.  FILE.calls gets
// what was asked and answered, for validate.mjs.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [file, base, mode] = process.argv.slice(2);
const retries = mode === 'retries';
const { PlatformClient, PlatformError } = await import(pathToFileURL(file));
const credential = 'Demo-passw0rd!';
const context = '/api/workspaces/current-context';
const refresh = '/api/auth/refresh';
const now = Date.now;
const same = assert.deepEqual;
const exchanges = [];

// Waits are noted, and short.
const wait = globalThis.setTimeout;
let waited = [];
globalThis.setTimeout = (work, ms, ...rest) => {
  waited.push(ms);
  return wait(work, ms / 50, ...rest);
};

// A browser's cookie, and what a network may do to calls: `before` gets each
// request that is sent, `after` each answer that the client will see.
class Net {
  cookie = '';
  calls = [];
  running = 0;
  most = 0;
  before = async () => {};
  after = async (answer) => answer;

  fetch = async (url, init) => {
    const path = new URL(url).pathname;
    const call = { path, headers: new Headers(init.headers), body: init.body };
    this.calls.push(call);
    if (init.credentials === 'include' && this.cookie)
      call.headers.set('Cookie', this.cookie);
    this.running += path === refresh;
    this.most = Math.max(this.most, this.running);
    try {
      await this.before(call);
      const answer = await fetch(url, { ...init, headers: call.headers,
        body: call.body });
      if (path !== context)
        exchanges.push({ path, method: init.method ?? 'GET', requestBody: init.body,
          status: answer.status, headers: [...answer.headers],
          body: await answer.clone().text() });
      const set = answer.headers.get('Set-Cookie');
      if (set && init.credentials === 'include')
        this.cookie = /=;/.test(set) ? '' : set.replace(/;.*/, '');
      return await this.after(answer, call);
    } finally {
      this.running -= path === refresh;
    }
  };

  refreshes() {
    return this.calls.filter((c) => c.path === refresh).length;
  }

  // Calls of the service, refused or not.
  reached() {
    return this.calls.filter((c) => c.path === context).length;
  }

  // The next `n` calls of the path lose something: the request, the answer, or
  // the answer's body.
  lose(path, what, n = 1) {
    const lost = (call) => call.path === path && n-- > 0;
    this.before = async (call) => {
      if (what === 'request' && lost(call)) throw new TypeError('lost');
    };
    this.after = async (answer, call) => {
      if (what === 'request' || !lost(call)) return answer;
      if (what === 'answer') throw new TypeError('lost');
      return new Response(new ReadableStream({
        start: (stream) => stream.error(new TypeError('lost')),
      }), { status: answer.status });
    };
  }

  // The next `n` calls with a branch token have a bad one.
  spoil(n) {
    this.before = async (call) => {
      if (call.path === context && n-- > 0)
        call.headers.set('Authorization',
          call.headers.get('Authorization') + 'x');
    };
  }
}

function store() {
  return {
    token: null, saved: 0,
    load() { return this.token; },
    save(token) { this.token = token; this.saved++; },
  };
}

const opened = (net, options = {}) =>
  new PlatformClient({ base, fetch: net.fetch, ...options });

async function signedIn(account, options) {
  const net = new Net();
  const client = opened(net, options);
  await client.login(`${account}@demo.test`, credential);
  return { net, client };
}

// In a branch of several; `told` gets what the page is told.
async function inBranch(n) {
  const told = [];
  const { net, client } = await signedIn('several',
    { onChange: (now) => told.push(now) });
  await client.selectBranch(client.branches[n].branchId);
  return { net, client, told };
}

async function fails(promise, code) {
  const error = await promise.then(() => assert.fail('worked'), (e) => e);
  assert.ok(error instanceof PlatformError, error.stack);
  assert.equal(error.code, code);
  return error;
}

// Until it fails so: what the gateway is told takes a moment.
async function eventually(attempt, code) {
  for (const end = now() + 30_000; now() < end;) {
    const error = await attempt().then((answer) => same(answer.status, 200), (e) => e);
    if (error) return same(error.code, code);
  }
  return assert.fail(`not ${code} within half a minute`);
}

// Each client's call arrives; with which headers the last one did.
async function reach(...clients) {
  let answer;
  for (const client of clients) same((answer = await client.fetch(context)).status, 200);
  return (await answer.json()).headers;
}

// Time flies for the client alone.
function later(seconds) {
  Date.now = () => now() + seconds * 1000;
}

const checks = {
  async 'one branch: a call goes through, the cookie has the refresh token'() {
    const { net, client } = await signedIn('one');
    same(client.ready, true);
    assert.match((await reach(client))['X-Account-Id'], /0001$/);
    assert.match(net.cookie, /^platform_refresh_token=./);
    same(net.refreshes(), 0);
    const answer = await client.fetch(context,
      { method: 'POST', body: 'x', headers: { 'X-Request-Id': 'mine' } });
    same((await answer.json()).headers['X-Request-Id'], 'mine');
  },

  async 'a wrong credential is told'() {
    const error = await fails(opened(new Net()).login('one@demo.test', 'x'),
      'AUTH_INVALID_CREDENTIALS');
    same(error.status, 401);
    assert.match(error.requestId, /^[0-9a-f]{32}$/);
  },

  async 'the token is for the gateway alone'() {
    const { net, client } = await signedIn('one');
    await assert.rejects(client.fetch('http://127.0.0.1:1/x'), TypeError);
    await assert.rejects(client.fetch('//127.0.0.1:1/x'), TypeError);
    same(net.calls.length, 1);
  },

  async 'a refused token is replaced once, for all who wait'() {
    const { net, client } = await signedIn('one');
    net.spoil(5);
    await Promise.all(Array.from({ length: 5 }, () => reach(client)));
    same(net.refreshes(), 1);
  },

  async 'one that was replaced meanwhile is not replaced again'() {
    const { net, client } = await signedIn('one');
    net.spoil(2);
    let second;
    net.after = async (answer, call) => {
      if (call.path === context && !second) await (second = client.fetch(context));
      return answer;
    };
    await reach(client);
    same([(await second).status, net.refreshes()], [200, 1]);
  },

  async 'one that is refused again is the caller\'s'() {
    const { net, client } = await signedIn('one');
    net.spoil(99);
    same([(await client.fetch(context)).status, net.refreshes(), net.calls.length],
      [401, 1, 4]);
  },

  async 'a token at its end is not even sent'() {
    const { net, client } = await signedIn('one');
    later(895);
    await reach(client);
    same(net.refreshes(), 1);
    await reach(client);
    same(net.refreshes(), 1);
  },

  async 'several branches: choose, and switch at any time'() {
    const { net, client } = await signedIn('several');
    same(client.ready, false);
    await assert.rejects(client.fetch(context), /selected first/);
    for (const { branchId } of client.branches.slice(0, 2)) {
      await client.selectBranch(branchId);
      same((await reach(client))['X-Active-Branch-Id'], branchId);
      later(1000);
    }
    assert.match(net.calls.findLast((c) => c.path === refresh).body, /includeAccountToken/);
    await fails(client.selectBranch('none'), 'AUTH_BRANCH_NOT_SELECTABLE');
  },

  async 'a new page goes on by the cookie'() {
    const { net } = await signedIn('one');
    const page = opened(net);
    same([await page.restore(), await opened(new Net()).restore()], [true, false]);
    await reach(page);
  },

  async 'two tabs at once: both go on'() {
    const { net, client } = await signedIn('one');
    const tab = opened(net);
    // Both are sent before either is answered.
    let arrived = 0;
    let open;
    const gate = new Promise((done) => { open = done; });
    net.before = async () => {
      if (++arrived === 2) open();
      await gate;
    };
    await Promise.all([client.refresh(), tab.refresh()]);
    same([net.most, net.refreshes()], [2, retries ? 2 : 3]);
    await reach(client, tab);
  },

  async 'two tabs with Web Locks: one after the other'() {
    const { net, client } = await signedIn('one');
    const tab = opened(net);
    let last = Promise.resolve();
    const names = new Set();
    const request = (name, work) => {
      names.add(name);
      return last = last.then(work, work);
    };
    Object.defineProperty(globalThis, 'navigator',
      { configurable: true, value: { locks: { request } } });
    await Promise.all([client.refresh(), tab.refresh()]);
    same([net.most, net.refreshes(), names.size], [1, 2, 1]);
    // Also while one of them asks again.
    net.lose(refresh, 'request');
    await Promise.all([client.refresh(), tab.refresh()]);
    same([net.most, net.refreshes()], [1, 5]);
  },

  // Tabs share the cookie, so that a refresh brings what the other tab made of it.
  async 'another account in another tab: no call goes on as that one'() {
    for (const how of ['refused', 'at its end']) {
      const { net, client, told } = await inBranch(0);
      const tab = opened(net);
      if (how === 'refused') {
        await tab.restore();
        await tab.logout();
        net.spoil(1);
      }
      await tab.login('one@demo.test', credential);
      if (how !== 'refused') later(895);
      const sent = net.reached();
      for (let i = 0; i < 2; i++)
        await fails(client.fetch(context, { method: 'POST', body: 'x' }),
          'AUTH_SESSION_CHANGED');
      same([net.reached() - sent, told, client.ready],
        [how === 'refused' ? 1 : 0, [undefined, undefined], false]);
      await fails(client.logoutAll(), 'AUTH_SESSION_CHANGED');
      await fails(client.selectBranch(client.branches[0]?.branchId ?? 'x'),
        'AUTH_SESSION_CHANGED');
      assert.match((await reach(tab))['X-Account-Id'], /0001$/);
      // The page agrees to what it was told.
      same(await client.restore(), true);
      assert.match((await reach(client))['X-Account-Id'], /0001$/);
      Date.now = now;
    }
  },

  async 'a service that does not look at sessionId'() {
    const { net, client, told } = await inBranch(0);
    await opened(net).login('one@demo.test', credential);
    net.before = async (call) => {
      if (call.path === refresh) call.body = undefined;
    };
    later(895);
    await fails(client.fetch(context), 'AUTH_SESSION_CHANGED');
    await fails(client.selectBranch('x'), 'AUTH_SESSION_CHANGED');
    same(told, [undefined, undefined]);
  },

  async 'a session that ended is not followed by another one'() {
    const { net, client, told } = await inBranch(0);
    const tab = opened(net);
    await tab.restore();
    await tab.logout();
    net.spoil(1);
    await fails(client.fetch(context), 'AUTH_REFRESH_TOKEN_MISSING');
    await tab.login('one@demo.test', credential);
    const sent = net.reached();
    await fails(client.fetch(context, { method: 'POST' }), 'AUTH_SESSION_CHANGED');
    same([net.reached() - sent, told], [0, [undefined]]);
  },

  async 'another branch in another tab: no call goes on there'() {
    const { net, client, told } = await inBranch(0);
    const tab = opened(net);
    await tab.restore();
    const [here, there] = client.branches.map((b) => b.branchId);
    await tab.selectBranch(there);
    net.spoil(3);
    const sent = net.reached();
    for (const error of await Promise.all([1, 2, 3].map(() =>
      client.fetch(context, { method: 'POST', body: 'x' }).catch((e) => e))))
      same(error.code, 'CONTEXT_CHANGED');
    same([net.reached() - sent, net.refreshes(), client.ready], [3, 3, false]);
    same(told.map((c) => c.activeBranchId), [there]);
    await client.selectBranch(here);
    same((await reach(client))['X-Active-Branch-Id'], here);
    same((await reach(tab))['X-Active-Branch-Id'], there);
    // Or it goes there.
    await tab.selectBranch(there);
    await fails(client.refresh(), 'CONTEXT_CHANGED');
    await client.restore();
    same((await reach(client))['X-Active-Branch-Id'], there);
  },

  async 'another login in this page: a waiting call is not repeated'() {
    for (const change of [
      (c) => c.login('one@demo.test', credential),
      (c) => c.selectBranch(c.branches[1].branchId)]) {
      const { net, client, told } = await inBranch(0);
      net.spoil(1);
      let waits = true;
      net.after = async (answer, call) => {
        if (call.path === context && waits) {
          waits = false;
          await change(client);
        }
        return answer;
      };
      const sent = net.reached();
      await fails(client.fetch(context, { method: 'POST' }), 'CONTEXT_CHANGED');
      same([net.reached() - sent, told], [1, []]);
      await reach(client);
    }
  },

  async 'a lost request, a lost body: asked again'() {
    for (const what of ['request', 'body']) {
      const { net, client } = await signedIn('one');
      net.lose(refresh, what);
      await client.refresh();
      same(net.refreshes(), 2);
      await reach(client);
    }
  },

  async 'a lost answer: sent again with the same token'() {
    const mine = store();
    const { net, client } = await signedIn('one', { store: mine });
    const used = mine.token;
    let lost;
    net.lose(refresh, 'answer');
    const { after } = net;
    net.after = async (answer, call) => {
      if (call.path === refresh) lost ??= (await answer.clone().json()).refreshToken;
      return after(answer, call);
    };
    if (retries) {
      await client.refresh();
      same([mine.token, mine.saved, net.refreshes()], [lost, 2, 2]);
    } else {
      await fails(client.refresh(), 'AUTH_REFRESH_TOKEN_STALE');
      same([mine.token, client.ready], [null, false]);
      await client.login('one@demo.test', credential);
    }
    for (const call of net.calls.slice(1).filter((c) => c.path === refresh))
      same(JSON.parse(call.body).refreshToken, used);
    await client.refresh();
    await reach(client);
  },

  async 'seven lost answers in a row'() {
    if (!retries) return;
    const { net, client } = await signedIn('one');
    net.lose(refresh, 'answer', 7);
    await client.refresh();
    same(net.refreshes(), 8);
    await client.refresh();
    await reach(client);
  },

  // A try then could come after the window, and count as a reuse.
  async '25 seconds later: gives up'() {
    const { net, client } = await signedIn('one');
    net.lose(refresh, 'request', 8);
    const { before } = net;
    net.before = (call) => {
      later(25);
      return before(call);
    };
    await assert.rejects(client.refresh(), /lost/);
    same(net.refreshes(), 1);
  },

  // The cookie with it: the second one is sent the old one again.
  async 'a lost answer in a page, while another tab asks too'() {
    if (!retries) return;
    const { net, client } = await signedIn('one');
    const tab = opened(net);
    const { cookie } = net;
    let n = 0;
    net.after = async (answer, call) => {
      if (call.path !== refresh || n++ > 1) return answer;
      net.cookie = cookie;
      throw new TypeError('lost');
    };
    await Promise.all([client.refresh(), tab.refresh()]);
    assert.ok(net.refreshes() >= 3);
    assert.notEqual(net.cookie, cookie);
    await client.refresh();
    await tab.refresh();
    await reach(client, tab);
  },

  async 'no network: gives up, and forgets nothing'() {
    const { net, client } = await signedIn('one');
    net.lose(refresh, 'request', 8);
    await assert.rejects(client.refresh(), /lost/);
    await client.refresh();
    await reach(client);
  },

  async 'a busy service is asked again, when it says'() {
    const { net, client } = await signedIn('one');
    let busy = 2;
    net.before = async (call) => {
      if (call.path === refresh && busy > 0) call.headers.delete('Cookie');
    };
    net.after = async (answer, call) => call.path === refresh && busy-- > 0
      ? Response.json({ code: 'AUTH_BUSY' },
        { status: 503, headers: { 'Retry-After': '1' } }) : answer;
    waited = [];
    await client.refresh();
    same(net.refreshes(), 3);
    assert.ok(waited.filter((ms) => ms >= 1000).length >= 2, `${waited}`);
  },

  async 'a store: the token in the body, no cookie'() {
    const mine = store();
    const { net, client } = await signedIn('one', { store: mine });
    same(net.cookie, '');
    const first = mine.token;
    await client.refresh();
    assert.notEqual(mine.token, first);
    same(mine.saved, 2);
    const app = opened(net, { store: mine });
    same(await app.restore(), true);
    await app.logout();
    same([mine.token, await app.restore()], [null, false]);
  },

  async 'sessions: seen, and ended from another one'() {
    const { client } = await signedIn('several');
    const { client: other, net } = await signedIn('several');
    const [here, there] = client.branches.map((b) => b.branchId);
    await client.selectBranch(here);
    await other.selectBranch(there);
    await reach(other);

    const { sessions, more } = await client.sessions();
    same([more, sessions[0].current, sessions[0].branchId], [false, true, here]);
    const mine = sessions.find((s) => s.branchId === there);
    same(mine.current, false);
    assert.ok(Date.parse(mine.createdAt) <= Date.now() + 60_000);

    await client.endSession(mine);
    await eventually(() => other.fetch(context), 'AUTH_SESSION_NOT_ACTIVE');
    same([other.ready, net.cookie], [false, '']);
    await reach(client);
    await fails(client.endSession(mine), 'RESOURCE_NOT_FOUND');
    await client.endSession(sessions[0]);
    same(client.ready, false);
    await fails(client.sessions(), 'AUTH_REFRESH_TOKEN_MISSING');
  },

  async 'sessions: all others, or all; with an account token too'() {
    const { client, net } = await signedIn('several');
    const { client: other } = await signedIn('several');
    assert.ok(await client.logoutOthers() >= 1);
    same((await client.sessions()).sessions.length, 1);
    await fails(other.refresh(), 'AUTH_SESSION_NOT_ACTIVE');
    same([await client.logoutOthers(), await client.logoutAll(), net.cookie], [0, 1, '']);
    await fails(client.logoutAll(), 'AUTH_REFRESH_TOKEN_MISSING');
    same(net.calls.filter((c) => c.path === '/api/auth/logout-all').length, 1);
  },

  async 'sessions: a token that is refused, or at its end, is replaced'() {
    const { client, net } = await signedIn('one');
    let n = 1;
    net.before = async (call) => {
      if (/sessions/.test(call.path) && n-- > 0)
        call.headers.set('Authorization', 'Bearer x.y.z');
    };
    await client.sessions();
    same(net.refreshes(), 1);
    later(895);
    await client.sessions();
    same(net.refreshes(), 2);
    n = 2;
    await fails(client.sessions(), 'GATEWAY_TOKEN_INVALID');
    same(net.refreshes(), 3);
  },

  async 'a new credential: others end, a wrong one ends nothing'() {
    const { client, net } = await signedIn('two-workspaces');
    const { client: other } = await signedIn('two-workspaces');
    const next = 'another-credential';
    await fails(client.changeCredential('wrong', next),
      'AUTH_INVALID_CREDENTIALS');
    await fails(client.changeCredential(credential, 'short'),
      'AUTH_CREDENTIAL_NOT_ALLOWED');
    same(net.refreshes(), 0);
    try {
      assert.ok(await client.changeCredential(credential, next) >= 1);
      await fails(other.refresh(), 'AUTH_SESSION_NOT_ACTIVE');
      await fails(other.login('two-workspaces@demo.test', credential),
        'AUTH_INVALID_CREDENTIALS');
      await client.sessions();
      same(net.refreshes(), 0);
    } finally {
      await client.changeCredential(next, credential);
    }
  },

  async 'logout ends it, and may be repeated'() {
    const { net, client } = await signedIn('one');
    const { cookie } = net;
    net.lose('/api/auth/logout', 'answer');
    await client.logout();
    same(net.cookie, '');
    same(client.ready, false);
    net.cookie = cookie;
    await fails(client.refresh(), 'AUTH_SESSION_NOT_ACTIVE');
    await client.logout();
  },
};

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}\n${error.stack}`);
    process.exitCode = 1;
  }
  Date.now = now;
  Object.defineProperty(globalThis, 'navigator',
    { configurable: true, value: undefined });
}
writeFileSync(`${file}.calls`, JSON.stringify(exchanges));
console.log(`${Object.keys(checks).length} checks`);
