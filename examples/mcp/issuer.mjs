// The authorization server, npm's oidc-provider, to try the example with: it lets anybody
// in who types a name.  A client registers itself; its access token is a JWT for the one
// resource that it names.

import { generateKeyPairSync } from 'node:crypto';
import { errors, Provider } from 'oidc-provider';

const port = process.env.PORT ?? 9100;
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const key = privateKey.export({ format: 'jwk' });

// The servers behind the gateway, and what a client may ask for at each.
const resources = new Map([
  ['http://127.0.0.1:8090/mcp', 'notes:read notes:write'],
  ['http://127.0.0.1:8090/other', 'notes:read notes:write'],
]);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...key, kid: 'one', alg: 'ES256', use: 'sig' }] },
  cookies: { keys: ['only for a trial'] },
  scopes: ['notes:read', 'notes:write'],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  // A client registers with the scope that it needs first, and may need more later on.
  extraClientMetadata: {
    properties: ['scope'],
    validator(ctx, key, value, metadata) { delete metadata[key]; },
  },
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(ctx, resource) {
        if (!resources.has(resource)) throw new errors.InvalidTarget();
        return {
          audience: resource, scope: resources.get(resource), accessTokenTTL: 600,
          accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } },
        };
      },
    },
  },
});

provider.listen(port, '127.0.0.1', () => console.log('ready'));
