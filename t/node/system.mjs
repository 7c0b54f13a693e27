// Drives the compiled examples/client/system.ts against a running gateway: node
// system.mjs FILE BASE CLIENT_ID CLIENT_SECRET LESS_ID LESS_SECRET.  The second client
// may only read people.  Prints a line for each check; ends with 1 if one fails.
// FILE.calls gets what was asked and answered, for validate.mjs.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [file, base, clientId, clientSecret, lessId, lessSecret]
  = process.argv.slice(2);
const { SystemClient, PlatformError } = await import(pathToFileURL(file));
const same = assert.deepEqual;
const exchanges = [];
const now = Date.now;
const later = (seconds) => { const time = Date.now(); Date.now = () => time + seconds * 1000; };
let names = 0;
const name = () => `program-${process.pid}-${++names}@example.com`;

// Waits are noted, and short.
const wait = globalThis.setTimeout;
let waited = [];
globalThis.setTimeout = (work, ms, ...rest) => {
  waited.push(ms);
  return wait(work, ms / 50, ...rest);
};

// What a network may do to calls: `before` gets each request, `after` each answer.
class Net {
  calls = [];
  before = async () => {};
  after = async (answer) => answer;

  fetch = async (url, init) => {
    const { pathname: path, search } = new URL(url);
    const call = { path, search, method: init.method, headers: new Headers(init.headers),
      body: init.body };
    this.calls.push(call);
    await this.before(call);
    const answer = await fetch(url, { ...init, headers: call.headers });
    exchanges.push({ path, method: init.method, requestBody: String(init.body ?? ''),
      status: answer.status, headers: [...answer.headers],
      body: await answer.clone().text() });
    return this.after(answer, call);
  };

  tokens() {
    return this.calls.filter((c) => c.path === '/api/auth/token').length;
  }

  others() {
    return this.calls.filter((c) => c.path !== '/api/auth/token');
  }

  // The next `n` calls get another answer, or lose theirs.
  answer(n, status, code, headers = {}) {
    this.before = async () => {};
    this.after = async (answer, call) => {
      if (call.path === '/api/auth/token' || n-- <= 0) return answer;
      if (!status) throw new TypeError('lost');
      return Response.json({ status, code }, { status, headers });
    };
  }
}

function opened(options = {}) {
  const net = new Net();
  return { net, api: new SystemClient({ base, clientId, clientSecret,
    fetch: net.fetch, ...options }) };
}

async function fails(call, code) {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof PlatformError, error.stack);
    same(error.code, code);
    return error;
  }
  return assert.fail(`no ${code}`);
}

async function all(items) {
  const got = [];
  for await (const item of items) got.push(item);
  return got;
}

const checks = {
  async 'one token for all calls that begin at once, and for later ones'() {
    const { net, api } = opened();
    await Promise.all([1, 2, 3, 4, 5].map(() => all(api.workspaces())));
    await all(api.workspaces());
    same([net.tokens(), net.others().length], [1, 6]);
  },

  async 'it is renewed before it expires, once'() {
    const { net, api } = opened();
    await all(api.workspaces());
    later(300 * 0.8 + 1);
    await Promise.all([1, 2, 3].map(() => all(api.workspaces())));
    same(net.tokens(), 2);
  },

  async 'an early renewal that fails stops no call'() {
    const { net, api } = opened();
    await all(api.workspaces());
    later(300 * 0.8 + 1);
    net.after = async (answer, call) => call.path === '/api/auth/token'
      ? Response.json({ error: 'server_error', code: 'INTERNAL_ERROR' }, { status: 500 })
      : answer;
    await all(api.workspaces());
    later(60);
    const error = await fails(all(api.workspaces()), 'INTERNAL_ERROR');
    same([error.status, net.others().length], [500, 2]);
  },

  async 'a token that is refused is replaced, once'() {
    const { net, api } = opened();
    let n = 1;
    net.before = async (call) => {
      if (call.path !== '/api/auth/token' && n-- > 0)
        call.headers.set('Authorization', 'Bearer x.y.z');
    };
    await all(api.workspaces());
    same([net.tokens(), net.others().length], [2, 2]);
    n = 2;
    await fails(all(api.workspaces()), 'GATEWAY_TOKEN_INVALID');
    same([net.tokens(), net.others().length], [3, 4]);
  },

  async 'pages: each item once, and no page that nobody wants'() {
    const { net, api } = opened();
    const accounts = await all(api.accounts({ limit: 2, type: 'CUSTOMER' }));
    same(net.others().length, Math.ceil(accounts.length / 2));
    assert.ok(net.others().length > 2);
    same(new Set(accounts.map((a) => a.accountId)).size, accounts.length);
    same(accounts, await all(api.accounts({ limit: 1000, type: 'CUSTOMER' })));
    net.calls = [];
    for await (const account of api.accounts({ limit: 2, status: 'ACTIVE' })) {
      same(account.status, 'ACTIVE');
      break;
    }
    same(net.calls.length, 1);
    same(net.calls[0].search, '?limit=2&status=ACTIVE');
  },

  async 'a lost answer: the same key, and one account'() {
    const { net, api } = opened();
    const account = name();
    net.answer(2);
    const made = await api.addAccount({ account });
    const keys = net.others().map((c) => c.headers.get('Idempotency-Key'));
    same([keys.length, new Set(keys).size], [3, 1]);
    assert.match(keys[0], /^[!-~]{1,255}$/);
    same((await all(api.accounts({ name: account }))).map((a) => a.accountId),
      [made.accountId]);
    await fails(api.addAccount({ account }), 'RESOURCE_EXISTS');
    const mine = name();
    const first = await api.addAccount({ account: mine }, { idempotencyKey: mine });
    const again = await api.addAccount({ account: mine }, { idempotencyKey: mine });
    same(again, first);
    await fails(api.addAccount({ account: name() }, { idempotencyKey: mine }),
      'REQUEST_IDEMPOTENCY_MISMATCH');
    same(new Set(net.others().map((c) => c.headers.get('Idempotency-Key'))).size, 4);
  },

  async 'a DELETE whose answer is lost is left to the caller'() {
    const { net, api } = opened();
    net.answer(1);
    const sent = net.others().length;
    await fails(api.removeMember('x', 'y'), 'OFFLINE');
    same(net.others().length - sent, 1);
  },

  async 'busy: sent again when the service says, and not forever'() {
    const { net, api } = opened();
    for (const [status, code] of [[429, 'GATEWAY_RATE_LIMITED'], [503, 'AUTH_BUSY']]) {
      net.answer(2, status, code, { 'Retry-After': '3' });
      waited = [];
      await all(api.workspaces());
      same(waited.filter((ms) => ms === 3000).length, 2);
    }
    net.answer(1, 409, 'REQUEST_IN_PROGRESS');
    await api.addAccount({ account: name() });
    net.answer(99, 503, 'AUTH_BUSY', { 'Retry-After': '70' });
    net.calls = [];
    same((await fails(all(api.workspaces()), 'AUTH_BUSY')).retryAfter, 70);
    same(net.calls.length, 1);
    net.answer(99, 503, 'AUTH_BUSY', { 'Retry-After': '1' });
    net.calls = [];
    await fails(all(api.workspaces()), 'AUTH_BUSY');
    same(net.calls.length, 8);
    net.answer(99);
    net.calls = [];
    same((await fails(all(api.workspaces()), 'OFFLINE')).status, 0);
    assert.ok(net.calls.length > 4 && net.calls.length <= 8);
  },

  async 'what is wrong with a call is told'() {
    const { net, api } = opened();
    const error = await fails(api.addAccount({ account: '', type: 'NOBODY' }),
      'REQUEST_INVALID');
    same([error.status, error.errors.map((e) => e.pointer).sort()],
      [400, ['/account', '/type']]);
    assert.match(error.requestId, /^[0-9a-f]{32}$/);
    same(net.others().length, 1);
    const none = '00000000-0000-4000-8000-ffffffffffff';
    same((await fails(api.account(none), 'RESOURCE_NOT_FOUND')).status, 404);
    await fails(api.account('../audit'), 'GATEWAY_PATH_AMBIGUOUS');
  },

  async 'a client that may less, and one that is not'() {
    const { net, api } = opened({ clientId: lessId, clientSecret: lessSecret });
    await all(api.accounts({ limit: 1000 }));
    await fails(api.addAccount({ account: name() }), 'AUTH_SCOPE_REQUIRED');
    same(net.others().length, 2);
    await fails(all(opened({ clientSecret: lessSecret }).api.audit()),
      'AUTH_CLIENT_INVALID');
    await fails(all(opened({ scope: 'none:at-all' }).api.audit()),
      'AUTH_SCOPE_INVALID');
    const some = opened({ scope: 'places:read' }).api;
    await all(some.workspaces());
    await fails(all(some.audit()), 'AUTH_SCOPE_REQUIRED');
  },

  async 'a signal ends the wait, and not the renewal that others wait for'() {
    const { net, api } = opened();
    const gone = AbortSignal.abort('enough');
    for (const call of [all(api.audit({}, { signal: gone })),
      api.account('x', { signal: gone }),
      api.addAccount({ account: name() }, { signal: gone })]) {
      const error = await fails(call, 'ABORTED');
      same([error.status, error.cause], [0, 'enough']);
    }
    same(net.others().length, 0);
    const other = opened();
    const stop = new AbortController();
    other.net.before = async (call) => {
      if (call.path === '/api/auth/token') stop.abort();
    };
    const [left, stays] = await Promise.allSettled([
      all(other.api.workspaces({}, { signal: stop.signal })),
      all(other.api.workspaces())]);
    same([left.reason.code, stays.status, other.net.tokens()],
      ['ABORTED', 'fulfilled', 1]);
  },

  async 'a person, from the account to the end'() {
    const { api } = opened();
    const account = name();
    const credential = 'a-new-credential';
    const { accountId } = await api.addAccount({ account, credential });
    same((await api.account(accountId)).hasCredential, true);
    const { workspaceId } = await api.addWorkspace(
      { workspaceName: `Shop ${process.pid}`, newTenant: `Tenant ${process.pid}` });
    const { branchId } = await api.addBranch(workspaceId, { branchName: 'Here' });
    await api.putMember(workspaceId, accountId,
      { grants: [{ branchId, roles: ['CASHIER'] }] });
    same((await all(api.members(workspaceId))).map((m) => m.accountId), [accountId]);
    const login = () => fetch(`${base}/api/auth/login`, { method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ account, credential }) });
    same((await (await login()).json()).activeBranchId, branchId);
    await api.changeBranch(branchId, { branchName: 'There' });
    same((await api.branch(branchId)).branchName, 'There');
    same((await all(api.branches(workspaceId))).length, 1);
    await api.changeWorkspace(workspaceId, { status: 'INACTIVE' });
    same((await api.workspace(workspaceId)).status, 'INACTIVE');
    await api.removeMember(workspaceId, accountId);
    await api.changeAccount(accountId, { status: 'DISABLED' });
    same((await login()).status, 401);
    const events = await all(api.audit({ accountId }));
    assert.ok(events.length > 3);
    same(new Set(events.map((e) => e.byAccountId)).has(clientId), true);
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
}
writeFileSync(`${file}.calls`, JSON.stringify(exchanges));
console.log(`${Object.keys(checks).length} checks`);
