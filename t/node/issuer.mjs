// A real OpenID provider, npm's oidc-provider: node issuer.mjs PORT.  Its one client
// gets JWT access tokens by its credentials, for a resource that ends in the algorithm
// to sign with.  POST /rotate: new keys sign, the old ones stay published; /retire:
// they are not.

import { createServer } from 'node:http';
import { generateKeyPairSync, webcrypto } from 'node:crypto';

// What node 18 has elsewhere, or not.
globalThis.crypto ??= webcrypto;
URL.parse ??= (text) => (URL.canParse(text) ? new URL(text) : null);
const { Provider } = await import('oidc-provider');

const [port] = process.argv.slice(2);
const types = { RS256: ['rsa', { modulusLength: 2048 }],
  ES256: ['ec', { namedCurve: 'P-256' }], EdDSA: ['ed25519'] };
let generation = 0;

function generate() {
  generation++;
  return Object.entries(types).map(([alg, type]) => ({
    ...generateKeyPairSync(...type).privateKey.export({ format: 'jwk' }),
    kid: `${alg}-${generation}`, alg, use: 'sig',
  }));
}

// The first key of an algorithm signs.
function answers(keys) {
  return new Provider(`http://127.0.0.1:${port}`, {
    jwks: { keys },
    clients: [{ client_id: 'shop', client_secret: 'secret', redirect_uris: [],
      response_types: [], grant_types: ['client_credentials'] }],
    scopes: ['orders:read'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource) => ({
          audience: 'shop-api', scope: 'orders:read', accessTokenFormat: 'jwt',
          jwt: { sign: { alg: resource.slice(resource.lastIndexOf('/') + 1) } },
        }),
      },
    },
  }).callback();
}

let keys = generate();
let answer = answers(keys);

createServer((request, response) => {
  if (request.url !== '/rotate' && request.url !== '/retire')
    return answer(request, response);
  keys = request.url === '/rotate' ? [...generate(), ...keys] : keys.slice(0, 3);
  answer = answers(keys);
  return response.end();
}).listen(port, '127.0.0.1', () => console.log('ready'));
