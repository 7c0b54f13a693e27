// Drives the compiled examples/client against a running gateway: node
// client.mjs FILE BASE [retries].  `retries` says that the service answers a
// retry.  Prints a line for each check; ends with 1 if one fails.  FILE.calls gets
// what was asked and answered, for validate.mjs.

import assert from 'node:assert/strict';
import { createHash, createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
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

// Waits are noted, and short; how often a call looks whether to wait on is not.
const wait = globalThis.setTimeout;
let waited = [];
let pace = 50;
globalThis.setTimeout = (work, ms, ...rest) => {
  waited.push(ms);
  return wait(work, ms / pace, ...rest);
};

// Clients of this process are in browsers of their own; see Net.channel().
globalThis.BroadcastChannel = undefined;

// A browser's cookie and channel, and what a network may do to calls: `before` gets each
// request that is sent, `after` each answer that the client will see.
class Net {
  cookie = '';
  calls = [];
  running = 0;
  most = 0;
  before = async () => {};
  after = async (answer) => answer;

  // From now on its tabs tell one another.
  channel() {
    const open = new Set();
    globalThis.BroadcastChannel = class {
      constructor() { open.add(this); }
      close() { open.delete(this); }
      postMessage(data) {
        for (const tab of open)
          if (tab !== this) wait(() => tab.onmessage({ data }), 0);
      }
    };
  }

  fetch = async (url, init) => {
    const path = new URL(url).pathname;
    const call = { path, url: `${url}`, method: init.method, body: init.body,
      headers: new Headers(init.headers) };
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

// What the client tells its page.
function listening(client) {
  const told = [];
  client.on('signedOut', () => told.push('signedOut'));
  client.on('sessionChanged', () => told.push('sessionChanged'));
  client.on('branchChanged', (now) => told.push(now));
  return told;
}

// In a branch of several; `told` gets what the page is told.
async function inBranch(n) {
  const { net, client } = await signedIn('several');
  const told = listening(client);
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

// What an authenticator shows in this step, or in the next one.
function totp(base32, offset = 0) {
  const bits = [...base32].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c)
    .toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(now() / 30_000) + offset));
  const mac = createHmac('sha1', key).update(step).digest();
  const at = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff;
  return String(at % 1_000_000).padStart(6, '0');
}

// A browser's passkeys; `refuses` has it throw.
class Passkeys {
  keys = [];
  refuses = undefined;

  constructor() {
    const parse = (options) => options;
    globalThis.PublicKeyCredential = { parseCreationOptionsFromJSON: parse,
      parseRequestOptionsFromJSON: parse };
    Object.defineProperty(globalThis, 'navigator', { configurable: true,
      value: { credentials: this } });
  }

  // Flags: present, verified, and a key follows.
  #answer(type, id, { challenge }, rpId, flags, rest, response) {
    const client = Buffer.from(JSON.stringify({ type: `webauthn.${type}`, challenge,
      origin: 'https://app.example.com', crossOrigin: false }));
    const data = Buffer.concat([createHash('sha256').update(rpId).digest(),
      Buffer.from([flags, 0, 0, 0, 0]), rest]);
    const text = Object.entries({ clientDataJSON: client, ...response(data, client) })
      .map(([name, bytes]) => [name, bytes.toString('base64url')]);
    return { toJSON: () => ({ id: id.toString('base64url'), rawId: id.toString('base64url'),
      type: 'public-key', clientExtensionResults: {}, response: Object.fromEntries(text) }) };
  }

  async create({ publicKey }) {
    if (this.refuses) throw this.refuses;
    const id = randomBytes(32);
    const key = generateKeyPairSync('ed25519');
    this.keys.push({ id, key, user: publicKey.user.id });
    const cose = Buffer.concat([Buffer.from('a4010103272006215820', 'hex'),
      key.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)]);
    const rest = Buffer.concat([Buffer.alloc(16), Buffer.from([0, 32]), id, cose]);
    const head = Buffer.from('a363666d74646e6f6e656761747453746d74a0686175746844617461', 'hex');
    return this.#answer('create', id, publicKey, publicKey.rp.id, 0x45, rest, (data) => ({
      attestationObject: Buffer.concat([head, Buffer.from([0x58, data.length]), data]) }));
  }

  async get({ publicKey, signal }) {
    if (this.refuses) throw this.refuses;
    signal?.throwIfAborted();
    const { id, key, user } = this.keys.at(-1);
    const hash = (client) => createHash('sha256').update(client).digest();
    return this.#answer('get', id, publicKey, publicKey.rpId, 0x05, Buffer.alloc(0),
      (data, client) => ({ authenticatorData: data, userHandle: Buffer.from(user, 'base64url'),
        signature: sign(null, Buffer.concat([data, hash(client)]), key.privateKey) }));
  }
}

const payload = (jwt) => JSON.parse(Buffer.from(jwt.split('.')[1], 'base64url'));
const claims = ({ headers }) => payload(headers.get('Authorization'));
const proof = ({ headers }) => payload(headers.get('DPoP'));
const makePair = () => crypto.subtle.generateKey(
  { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']);

// Time flies for the client alone.
function later(seconds) {
  Date.now = () => now() + seconds * 1000;
}

const checks = {
  async 'one branch: a call goes through, the cookie has the refresh token'() {
    const { net, client } = await signedIn('one');
    same([client.signedIn, client.ready], [true, true]);
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
    same(error.errors, []);
  },

  async 'each fault of a form is told'() {
    const error = await fails(opened(new Net()).login('', 'x'.repeat(1025)), 'REQUEST_INVALID');
    same(error.errors, [{ pointer: '/account', code: 'too_short', minimum: 1 },
      { pointer: '/credential', code: 'too_long', maximum: 1024 }]);
  },

  async 'the token is for the gateway alone'() {
    const { net, client } = await signedIn('one');
    await fails(client.fetch('http://127.0.0.1:1/x'), 'OTHER_ORIGIN');
    await fails(client.fetch('//127.0.0.1:1/x'), 'OTHER_ORIGIN');
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
    same([client.signedIn, client.ready], [true, false]);
    await fails(client.fetch(context), 'BRANCH_NOT_SELECTED');
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
        [how === 'refused' ? 1 : 0, ['sessionChanged', 'sessionChanged'], false]);
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

  async 'another login in this page: no token of before is left'() {
    const { client } = await signedIn('several');
    const { branchId } = client.branches[0];
    await client.login('one@demo.test', credential);
    same(client.branches, []);
    await fails(client.selectBranch(branchId), 'AUTH_BRANCH_NOT_SELECTABLE');
    later(1000);
    same((await client.me()).account, 'one@demo.test');
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
    same(told, ['sessionChanged', 'sessionChanged']);
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
    same([net.reached() - sent, told], [0, ['signedOut', 'sessionChanged']]);
  },

  // Each tab selects its own branch again: with one refresh more, the first time.
  async 'another branch in another tab: calls go on in the own one'() {
    for (const what of ['nothing', 'request', 'answer']) {
      const { net, client, told } = await inBranch(0);
      const tab = opened(net);
      await tab.restore();
      const [here, there] = client.branches.map((b) => b.branchId);
      await tab.selectBranch(there);
      net.lose('/api/auth/select-branch', what, what === 'nothing' ? 0 : 1);
      const { before } = net;
      net.spoil(3);
      const { before: spoil } = net;
      net.before = async (call) => { await before(call); await spoil(call); };
      const sent = net.reached();
      const made = await Promise.all([1, 2, 3].map(async () =>
        (await (await client.fetch(context, { method: 'POST', body: 'x' })).json())
          .headers['X-Active-Branch-Id']));
      same([made, net.reached() - sent, net.refreshes(), told],
        [[here, here, here], 6, 4, []]);
      same((await reach(tab))['X-Active-Branch-Id'], there);
      for (const [one, branch] of [[tab, there], [client, here], [client, here]]) {
        await one.refresh();
        same((await reach(one))['X-Active-Branch-Id'], branch);
      }
      same(net.refreshes(), 8);
      // Or it goes there.
      await tab.refresh();
      await client.restore();
      same((await reach(client))['X-Active-Branch-Id'], there);
    }
  },

  async 'the own branch cannot be selected any more: no call goes on in another'() {
    const { net, client, told } = await inBranch(0);
    const tab = opened(net);
    await tab.restore();
    const [here, there] = client.branches.map((b) => b.branchId);
    await tab.selectBranch(there);
    net.spoil(1);
    net.after = async (answer, call) => call.path === '/api/auth/select-branch'
      && call.body.includes(here) ? Response.json({ status: 403,
        code: 'AUTH_BRANCH_NOT_SELECTABLE' }, { status: 403 }) : answer;
    const sent = net.reached();
    await fails(client.fetch(context, { method: 'POST' }), 'CONTEXT_CHANGED');
    same([net.reached() - sent, client.ready, told.map((c) => c.activeBranchId),
      client.context.activeBranchId], [1, false, [there], here]);
    await client.selectBranch(there);
    same((await reach(client))['X-Active-Branch-Id'], there);
  },

  async 'a tab without a branch does not take that of another one'() {
    const { net, client } = await signedIn('several');
    const told = listening(client);
    const tab = opened(net);
    await tab.restore();
    const { branchId } = client.branches[0];
    await tab.selectBranch(branchId);
    await fails(client.fetch(context), 'CONTEXT_CHANGED');
    same(told.map((c) => c.activeBranchId), [branchId]);
  },

  async 'tabs tell one another who logs in and out'() {
    const { net } = await signedIn('several');
    net.channel();
    const [one, two, closed] = [opened(net), opened(net), opened(net)];
    for (const tab of [one, two, closed]) same(await tab.restore(), true);
    const [told, heard] = [listening(one), listening(two)];
    const late = [];
    const off = one.on('signedOut', () => late.push('signedOut'));
    closed.close();
    const silent = listening(closed);
    const settled = () => new Promise((done) => { wait(done, 50); });

    await one.login('one@demo.test', credential);
    await settled();
    same([told, heard], [[], ['sessionChanged']]);
    const sent = net.calls.length;
    await fails(two.sessions(), 'AUTH_SESSION_CHANGED');
    same(net.calls.length, sent + 1);
    same(await two.restore(), true);
    same(two.context.accountId, one.context.accountId);

    heard.length = 0;
    await two.logout();
    await settled();
    same([told, heard, late, one.ready, net.refreshes()],
      [['signedOut'], ['signedOut'], ['signedOut'], false, 5]);
    off();
    // Told once, and not of what is no session of theirs.
    await fails(one.fetch(context), 'AUTH_REFRESH_TOKEN_MISSING');
    await one.login('one@demo.test', credential);
    await settled();
    new globalThis.BroadcastChannel().postMessage({ ended: two.context.sessionId });
    await settled();
    same([told, heard, late, silent, one.ready],
      [['signedOut'], ['signedOut', 'sessionChanged'], ['signedOut'], [], true]);
  },

  async 'whose the token is'() {
    const { client } = await signedIn('several');
    const { branchId, ...place } = client.branches[0];
    const told = await client.me();
    same([told.account, told.type, told.accountId, told.sessionId, told.branchId],
      ['several@demo.test', 'CUSTOMER', client.context.accountId,
        client.context.sessionId, undefined]);
    await client.selectBranch(branchId);
    const { code, message, ...me } = await client.me();
    same([code, typeof message, me], ['AUTH_ME_SUCCESS', 'string', {
      accountId: told.accountId, account: told.account, type: told.type,
      sessionId: told.sessionId, createdAt: told.createdAt, branchId, ...place,
      roles: ['BRANCH_MANAGER', 'CASHIER'] }]);
  },

  async 'a signal ends each call before it is sent'() {
    const { net, client } = await signedIn('several');
    const signal = AbortSignal.abort('enough');
    const { branchId } = client.branches[0];
    const n = exchanges.length;
    for (const call of [
      (o) => client.login('one@demo.test', credential, o), (o) => client.restore(o),
      (o) => client.refresh(false, o), (o) => client.selectBranch(branchId, o),
      (o) => client.logout(o), (o) => client.me(o), (o) => client.sessions(o),
      (o) => client.endSession({ sessionId: 'x', current: false }, o),
      (o) => client.logoutOthers(o), (o) => client.logoutAll(o),
      (o) => client.changeCredential(credential, 'another-credential', o)]) {
      const error = await fails(call({ signal }), 'ABORTED');
      same([error.status, error.cause], [0, 'enough']);
    }
    same(exchanges.length, n);
    await client.selectBranch(branchId);
    await fails(client.fetch(context, { signal }), 'ABORTED');
    await reach(client);
  },

  async 'a signal ends the wait, and not the refresh that others wait for'() {
    const { net, client } = await signedIn('one');
    const stop = new AbortController();
    net.before = async (call) => {
      if (call.path === refresh) stop.abort();
    };
    later(895);
    const [gone, stays] = await Promise.allSettled(
      [client.fetch(context, { signal: stop.signal }), client.fetch(context)]);
    same([gone.reason.code, stays.value.status, net.refreshes()], ['ABORTED', 200, 1]);
  },

  async 'a login that was given up is none'() {
    const net = new Net();
    const client = opened(net);
    const stop = new AbortController();
    net.before = async () => stop.abort();
    await fails(client.login('one@demo.test', credential, { signal: stop.signal }),
      'ABORTED');
    same([client.ready, client.context, net.cookie], [false, undefined, '']);
  },

  async 'no network: told in two seconds, and the refresh goes on'() {
    const { net, client } = await signedIn('one');
    net.channel();
    const tab = opened(net);
    await tab.restore();
    await client.restore();
    const before = net.refreshes();
    net.lose(refresh, 'request', 2);
    later(895);
    pace = 1;
    const start = now();
    const error = await fails(client.fetch(context), 'OFFLINE');
    const took = now() - start;
    assert.ok(took >= 1000 && took < 2000, `after ${took} ms`);
    same([error.status, net.refreshes() - before], [0, 2]);
    // It is still asked for, and then all is well.
    await reach(client);
    same(net.refreshes() - before, 3);
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
    assert.match((await fails(client.refresh(), 'OFFLINE')).message, /lost/);
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
    same([client.signedIn, client.ready], [false, false]);
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

  async 'a reset code: a wrong one sets nothing'() {
    const { client } = await signedIn('one');
    await fails(client.resetCredential('one@demo.test', 'AAAA-AAAA-AAAA-AAAA',
      'another-credential'), 'AUTH_RESET_CODE_INVALID');
    await fails(client.resetCredential('one@demo.test', 'AAAA-AAAA-AAAA-AAAA', 'short'),
      'AUTH_CREDENTIAL_NOT_ALLOWED');
    await client.sessions();
  },

  async 'a second factor: added, shown at a login, removed'() {
    const { client } = await signedIn('one');
    same(await client.factors(), { factors: [], recoveryCodesLeft: 0,
      code: 'AUTH_FACTORS_SUCCESS', message: 'These are the account\'s second factors.' });
    const added = await client.enrolTotp('Phone');
    assert.match(added.uri, new RegExp(`secret=${added.secret}&`));
    await fails(added.confirm('00000x'), 'AUTH_FACTOR_INVALID');
    same((await added.confirm(totp(added.secret))).length, 10);
    same((await client.factors()).recoveryCodesLeft, 10);
    const { net, client: other } = await signedIn('one');
    same([net.cookie, other.ready], ['', false]);
    const { type, factors, factorToken, expiresIn } = await other.login('one@demo.test', credential);
    same([type, factors, expiresIn], ['verify_factor', ['totp', 'recovery'], 300]);
    await fails(other.verifyFactor({ factorToken }, 'totp', '00000x'), 'AUTH_FACTOR_INVALID');
    same(net.refreshes(), 0);
    same(await other.verifyFactor({ factorToken }, 'totp', totp(added.secret, 1)),
      { type: 'load_current_context' });
    await fails(other.verifyFactor({ factorToken }, 'totp', totp(added.secret, 1)),
      'AUTH_FACTOR_TOKEN_INVALID');
    await reach(other);
    await other.renameFactor(added.factorId, 'Mine');
    same((await other.factors()).factors.map((f) => f.name), ['Mine']);
    const codes = await other.recoveryCodes();
    same(codes.length, 10);
    await fails(other.stepUp('credential', credential), 'AUTH_STEP_UP_REQUIRED');
    await fails(other.stepUp('recovery', 'x'), 'AUTH_FACTOR_INVALID');
    await other.stepUp('recovery', codes[0]);
    same(net.refreshes(), 0);
    await other.removeFactor(added.factorId);
    await fails(other.removeFactor(added.factorId), 'RESOURCE_NOT_FOUND');
    same(await other.login('one@demo.test', credential), { type: 'load_current_context' });
  },

  async 'a passkey: registered, and all that it does'() {
    const browser = new Passkeys();
    const { client } = await signedIn('none');
    same((await client.registerPasskey('Laptop')).length, 10);
    same(await client.registerPasskey('Tablet'), []);
    same((await client.factors()).factors.map((f) => `${f.type} ${f.name}`),
      ['passkey Laptop', 'passkey Tablet']);
    const net = new Net();
    const other = opened(net, { dpop: true });
    same(await other.loginWithPasskey(), { type: 'select_branch' });
    same((await other.me()).account, 'none@demo.test');
    await other.stepUp('passkey');
    same(claims(net.calls.at(-1)).acr, 'aal2');
    const next = await other.login('none@demo.test', credential);
    same([next.type, next.factors, next.passkey.allowCredentials.length],
      ['verify_factor', ['passkey', 'recovery'], 2]);
    browser.refuses = new DOMException('the person cancelled', 'NotAllowedError');
    const error = await fails(other.verifyFactor(next, 'passkey'), 'PASSKEY_NOT_SHOWN');
    same(error.cause, browser.refuses);
    for (const ask of ['loginWithPasskey', 'registerPasskey'])
      await fails(client[ask]('x'), 'PASSKEY_NOT_SHOWN');
    browser.refuses = undefined;
    await fails(other.loginWithPasskey({ signal: AbortSignal.abort() }), 'ABORTED');
    same(await other.verifyFactor(next, 'passkey'), { type: 'select_branch' });
    await fails(other.verifyFactor(next, 'passkey'), 'AUTH_FACTOR_TOKEN_INVALID');
    for (const { factorId } of (await other.factors()).factors) await other.removeFactor(factorId);
    await fails(client.loginWithPasskey(), 'AUTH_FACTOR_INVALID');
    delete globalThis.navigator;
  },

  async 'a login that has to get a passkey'() {
    new Passkeys();
    const net = new Net();
    const client = opened(net);
    const login = await client.login('passkey@demo.test', credential);
    same(login.type, 'enroll_factor');
    same((await client.registerPasskey('Laptop', { login })).length, 10);
    same((await client.me()).account, 'passkey@demo.test');
    delete globalThis.navigator;
  },

  async 'a login that has to get a second factor'() {
    const net = new Net();
    net.channel();
    const [client, tab] = [opened(net, { dpop: true }), opened(net)];
    const told = listening(tab);
    const next = await client.login('enrol@demo.test', credential);
    same([next.type, next.factors, client.context], ['enroll_factor', [], undefined]);
    const added = await client.enrolTotp('Phone', { login: next });
    await fails(added.confirm('00000x'), 'AUTH_FACTOR_INVALID');
    same((await added.confirm(totp(added.secret))).length, 10);
    same([client.ready, client.branches], [false, []]);
    same((await client.me()).account, 'enrol@demo.test');
    same((await client.sessions()).sessions[0].bound, true);
    await fails(client.removeFactor(added.factorId), 'AUTH_FACTOR_LAST');
    await new Promise((done) => wait(done, 50));
    same(told, ['sessionChanged']);
  },

  async 'a step-up gives this tab a token of its own branch'() {
    const { net, client } = await inBranch(0);
    const mine = client.context;
    await reach(client);
    const before = claims(net.calls.at(-1));
    same(before.acr, 'aal1');
    const other = opened(net);
    await other.restore();
    await other.selectBranch(other.branches[1]?.branchId
      ?? (await other.refresh(true), other.branches[1].branchId));
    await new Promise((done) => wait(done, 1100));
    await fails(client.stepUp('credential', 'x'), 'AUTH_INVALID_CREDENTIALS');
    await client.stepUp('credential', credential);
    same(client.context, mine);
    await reach(client);
    const after = claims(net.calls.at(-1));
    same(after.active_branch_id, mine.activeBranchId);
    assert.ok(after.auth_time > before.auth_time);
    const refreshes = net.refreshes();
    await client.stepUp('credential', credential);
    await reach(client);
    same([claims(net.calls.at(-1)).active_branch_id, net.refreshes()],
      [mine.activeBranchId, refreshes]);
  },

  async 'a key: each call has a proof of its own'() {
    const { net, client } = await signedIn('several', { dpop: true });
    await client.selectBranch(client.branches[0].branchId);
    await reach(client);
    same((await client.fetch(`${context}?x=1#y`, { method: 'post', body: 'x' })).status, 200);
    await client.stepUp('credential', credential);
    await client.refresh();
    same((await client.sessions()).sessions[0].bound, true);
    await client.selectBranch(client.branches[1].branchId);
    await client.logout();
    for (const call of net.calls) {
      const { htm, htu, ath, nonce } = proof(call);
      same([htm, htu], [(call.method ?? 'GET').toUpperCase(), call.url.replace(/[?#].*/, '')]);
      const [scheme, token] = call.headers.get('Authorization')?.split(' ') ?? [];
      same([scheme, ath], token ? ['DPoP', createHash('sha256').update(token).digest('base64url')]
        : [undefined, undefined]);
      if (token) assert.match(claims(call).cnf.jkt, /^[\w-]{43}$/);
      if (call === net.calls.at(-1)) same(nonce !== undefined, retries, 'a nonce is used');
    }
    // One was told the nonce and sent again.
    same(net.calls.length, retries ? 10 : 9);
    same(new Set(net.calls.map((call) => proof(call).jti)).size, net.calls.length);
    // Control.
    const { net: free, client: other } = await signedIn('one');
    await reach(other);
    same(free.calls.map(({ headers }) => headers.get('DPoP')), [null, null]);
    assert.match(free.calls[1].headers.get('Authorization'), /^Bearer /);
  },

  async 'a key: its tokens are worth nothing without it'() {
    const dpop = await makePair();
    const { net, client } = await signedIn('one', { dpop });
    const tab = opened(net, { dpop });
    same(await tab.restore(), true);
    await reach(client, tab);
    for (const [thief, code] of [[opened(net), 'AUTH_PROOF_REQUIRED'],
      [opened(net, { dpop: true }), 'AUTH_PROOF_INVALID']]) {
      await fails(thief.refresh(), code);
      await fails(thief.logout(), code);
      same([await thief.restore(), thief.ready], [false, false]);
    }
    await client.refresh();
    await reach(client, tab);
    // A session that was opened without a key is not bound later.
    const { net: free } = await signedIn('one');
    const late = opened(free, { dpop });
    same(await late.restore(), true);
    await reach(late);
    same((await late.sessions()).sessions[0].bound, false);
    assert.match(free.calls.at(-1).headers.get('Authorization'), /^Bearer /);
  },

  async 'a key: a lost answer is asked for with another proof'() {
    const mine = store();
    const { net, client } = await signedIn('one', { store: mine, dpop: true });
    net.lose(refresh, 'answer');
    if (retries) await client.refresh();
    else await fails(client.refresh(), 'AUTH_REFRESH_TOKEN_STALE');
    const sent = net.calls.filter((c) => c.path === refresh);
    same([sent[0].body, proof(sent[0]).jti === proof(sent[1]).jti], [sent[1].body, false]);
    if (retries) await reach(client);
  },

  async 'a key: clocks that differ'() {
    for (const seconds of [-3600, 3600]) {
      later(seconds);
      const { net, client } = await signedIn('one', { dpop: true });
      await reach(client);
      await client.refresh();
      same(net.calls.filter((c) => /auth/.test(c.path)).length, 3);
      // It is set right.
      Date.now = now;
      await client.refresh();
      await client.refresh();
      same(net.refreshes(), 4);
    }
  },

  async 'a key that cannot sign'() {
    const { publicKey } = await makePair();
    const net = new Net();
    const dpop = { publicKey, privateKey: publicKey };
    const error = await fails(opened(net, { dpop }).login('one@demo.test', credential),
      'KEY_UNUSABLE');
    same([error.status, error.cause.name, net.calls.length], [0, 'InvalidAccessError', 0]);
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
  pace = 50;
  globalThis.BroadcastChannel = undefined;
  Object.defineProperty(globalThis, 'navigator',
    { configurable: true, value: undefined });
}
writeFileSync(`${file}.calls`, JSON.stringify(exchanges));
console.log(`${Object.keys(checks).length} checks`);
