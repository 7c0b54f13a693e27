// A client, by the SDK: an agent that lists the notes of its user, and adds one.  It prints
// the page on which its user logs in and allows that.

import { createServer } from 'node:http';
import { Client, StreamableHTTPClientTransport, UnauthorizedError }
  from '@modelcontextprotocol/client';

const url = new URL('http://127.0.0.1:8090/mcp');
const port = 9101;

// What the SDK keeps between its calls; here it is gone with the process.
const kept = {};
const agent = {
  redirectUrl: `http://127.0.0.1:${port}/`,
  clientMetadata: { client_name: 'Example', redirect_uris: [`http://127.0.0.1:${port}/`],
    application_type: 'native', token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code'], response_types: ['code'] },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => { kept.discovery = discovery; },
  redirectToAuthorization: (page) => {
    kept.answer = answer();
    console.log(`Open ${page}`);
  },
};

// What the authorization server sends the user's browser back with.
function answer() {
  return new Promise((resolve) => {
    const server = createServer(({ url: path }, response) => {
      response.end('Go back to the terminal.\n');
      server.close();
      resolve(new URL(path, agent.redirectUrl).searchParams);
    }).listen(port, '127.0.0.1');
  });
}

// Does it, once its user has allowed it.
async function run(work) {
  for (;;) {
    const transport = new StreamableHTTPClientTransport(url, { authProvider: agent });
    const client = new Client({ name: 'example', version: '1.0.0' },
      { versionNegotiation: { mode: 'auto' } });
    try {
      await client.connect(transport);
      return await work(client);
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await transport.finishAuth(await kept.answer);
    } finally {
      await client.close();
    }
  }
}

const call = (name, args = {}) => run(async (client) => {
  const { content } = await client.callTool({ name, arguments: args });
  console.log(`${name}: ${content.map(({ text }) => text).join()}`);
});

await run(async (client) => {
  const { tools } = await client.listTools();
  console.log(`The tools are ${tools.map(({ name }) => name).join(', ')}`);
});
await call('add_note', { text: 'milk' });
await call('list_notes');
