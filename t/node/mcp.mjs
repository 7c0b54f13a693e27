// The whole flow of an MCP client, by the SDK: node mcp.mjs SDK URL ISSUER [dpop], where
// SDK is the package of the client.  A line of JSON for each step: [what, outcome, the
// requests that it took].  The last step is a stream, which somebody else ends.  With dpop
// its token is bound to a key, and there are no steps beyond that.

import { webcrypto } from 'node:crypto';

globalThis.crypto ??= webcrypto;

const [sdk, url, issuer, dpop] = process.argv.slice(2);
const modern = sdk === '@modelcontextprotocol/client';
const { auth, Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } = modern
  ? await import(sdk) : {
    ...await import(`${sdk}/client/index.js`), ...await import(`${sdk}/client/auth.js`),
    ...await import(`${sdk}/client/streamableHttp.js`),
  };

// What is sent, by whichever part of the SDK: the path, of the issuer behind "issuer".
let sent = [];
async function traced(input, init) {
  const at = new URL(input);
  const response = await fetch(input, init);
  const name = init?.headers && new Headers(init.headers).get('mcp-method');
  const on = at.origin === issuer ? `issuer ${at.pathname}` : at.pathname;
  sent.push(`${init?.method ?? 'GET'} ${on}${name ? ` ${name}` : ''}: ${response.status}`);
  return response;
}

function tell(what, outcome) {
  console.log(JSON.stringify([what, outcome, sent]));
  sent = [];
}

// The user's browser: follows redirects, and fills in the forms of the issuer, until it is
// sent to the client.  What it is sent there with.
async function browse(page) {
  const cookies = new Map();
  for (let form; ; form = undefined) {
    if (page.origin !== issuer) return page.searchParams;
    let response = await fetch(page, { redirect: 'manual', headers: cookie() });
    keep(response);
    if (response.status === 200) {
      const html = await response.text();
      const hidden = [...html.matchAll(/name="(\w+)" value="(\w+)"/g)];
      form = new URLSearchParams(hidden.map(([, name, value]) => [name, value]));
      if (form.get('prompt') === 'login') form.set('login', 'ann');
      if (form.get('prompt') === 'login') form.set('password', 'any');
      response = await fetch(html.match(/action="([^"]+)"/)[1],
        { method: 'POST', body: form, redirect: 'manual', headers: cookie() });
      keep(response);
    }
    page = new URL(response.headers.get('location'), page);
  }

  function cookie() {
    return { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') };
  }

  function keep(response) {
    for (const set of response.headers.getSetCookie()) {
      const [, name, value] = set.match(/^([^=]+)=([^;]*)/);
      cookies.set(name, value);
    }
  }
}

class Agent {
  redirectUrl = 'http://127.0.0.1:1/callback';
  clientMetadata = { client_name: 'agent', redirect_uris: [this.redirectUrl],
    application_type: 'native', token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code'], response_types: ['code'] };
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.held; }
  saveTokens(tokens) { this.held = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  discoveryState() { return this.discovery; }
  saveDiscoveryState(state) { this.discovery = state; }
  redirectToAuthorization(page) { this.page = page; }
}

const agent = new Agent();
const session = dpop && await DpopSession.create();
if (dpop) agent.dpop = () => session;
let client;
let transport;

async function connect() {
  transport = new StreamableHTTPClientTransport(new URL(url),
    { authProvider: agent, fetch: traced });
  client = new Client({ name: 'agent', version: '1.0.0' },
    modern ? { versionNegotiation: { mode: 'auto' } } : {});
  await client.connect(transport);
}

// Does it.  Where the user has to allow it first: what was asked of the user.
async function asks(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const { searchParams: asked } = agent.page;
    const back = await browse(agent.page);
    await transport.finishAuth(modern ? back : back.get('code'));
    return [asked.get('scope'), asked.get('resource'), asked.get('code_challenge_method')];
  }
}

const text = ({ content }) => content.map((part) => part.text).join();
const call = (name, args = {}, options = undefined) =>
  client.callTool({ name, arguments: args }, ...modern ? [options] : [undefined, options]);

tell('authorize', await asks(connect));
await connect();
tell('connect', client.getServerVersion()?.name);
tell('tools', (await client.listTools()).tools.map(({ name }) => name));
tell('list', text(await call('list_notes')));
tell('token', agent.held.access_token);
if (dpop) process.exit();

// Tokens that no request here needs, for requests that are not honest.
for (const [what, scope, resource] of modern ? [['other', 'notes:read', '/other'],
  ['write', 'notes:write notes:share', '/mcp']] : []) {
  const own = Object.assign(new Agent(),
    { validateResourceURL: () => new URL(resource, url) });
  await auth(own, { serverUrl: url, scope });
  const back = await browse(own.page);
  await auth(own, { serverUrl: url, authorizationCode: back.get('code'), iss: back.get('iss') });
  tell(what, own.held.access_token);
}

const first = await asks(() => call('add_note', { text: 'milk' }));
tell('add', first.content ? text(first) : first);
if (!first.content) {
  await connect();
  tell('connect', client.getServerVersion()?.name);
  tell('add', text(await call('add_note', { text: 'milk' })));
}
tell('list', text(await call('list_notes')));
tell('token', agent.held.access_token);

const seen = [];
client.onerror = ({ message }) => {
  tell('end', message.match(/^SSE stream disconnected/)?.[0] ?? message);
  process.exit();
};
await call('watch_notes', {}, { timeout: 60_000, onprogress: async ({ message }) => {
  seen.push(message);
  if (message === 'watching') await call('add_note', { text: 'bread' });
  else if (seen.length === 2) tell('watch', seen);
} });
tell('end', 'whole');
