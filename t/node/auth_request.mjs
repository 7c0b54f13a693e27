// A service for nginx's auth_request, as one writes it with npm's jose: node
// auth_request.mjs PORT KEYS_URL ISSUER MAX_AGE_MS.  200 with X-Account-Id, or 401.

import { createServer } from 'node:http';
import { webcrypto } from 'node:crypto';

globalThis.crypto ??= webcrypto;    // node 18
const { createRemoteJWKSet, jwtVerify } = await import('jose');

const [port, url, issuer, maxAge] = process.argv.slice(2);
const keys = createRemoteJWKSet(new URL(url), { cacheMaxAge: Number(maxAge) });

createServer(async (req, res) => {
  const [, token] = /^Bearer (\S+)$/i.exec(req.headers.authorization ?? '') ?? [];
  try {
    const { payload } = await jwtVerify(token ?? '', keys, { issuer });
    res.writeHead(200, { 'X-Account-Id': String(payload.account_id) });
  } catch {
    res.writeHead(401, { 'WWW-Authenticate': 'Bearer' });
  }
  res.end();
}).listen(Number(port), '127.0.0.1');
