// Libraries of services, given only the issuer: each finds the keys by itself, takes
// an access token and refuses the same token with one bit changed.
//
// usage: node consumers.mjs ISSUER AUDIENCE TOKEN CHANGED JWT|at+jwt

import assert from 'node:assert/strict';
import { createPublicKey, verify, webcrypto } from 'node:crypto';
import { auth } from 'express-oauth2-jwt-bearer';
import getJwks from 'get-jwks';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';

globalThis.crypto ??= webcrypto; // of node 18

const [issuer, audience, token, changed, typ] = process.argv.slice(2);

// Its metadata by openid-client, then the token as jose checks it.
async function discovered(text, algorithm) {
  const config = await openid.discovery(new URL(issuer), 'service', undefined, undefined,
    { algorithm, execute: [openid.allowInsecureRequests] });
  const { jwks_uri: keys, ...told } = config.serverMetadata();
  const { payload } = await jwtVerify(text, createRemoteJWKSet(new URL(keys)),
    { issuer, audience, typ, algorithms: told.id_token_signing_alg_values_supported });
  return payload;
}

// The key by get-jwks, then the signature as node checks it.
async function byKey(text, options) {
  const [header, payload, signature] = text.split('.');
  const { alg, kid } = JSON.parse(Buffer.from(header, 'base64url'));
  const jwk = await getJwks(options).getJwk({ domain: issuer, alg, kid });
  const key = createPublicKey({ key: jwk, format: 'jwk' });
  assert.ok(verify(alg === 'EdDSA' ? null : 'sha256', Buffer.from(`${header}.${payload}`),
    { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')), 'signature');
  return JSON.parse(Buffer.from(payload, 'base64url'));
}

async function express(text, strict) {
  const request = { method: 'GET', protocol: 'http', url: '/', query: {}, body: {},
    headers: { host: 'service.test', authorization: `Bearer ${text}` },
    get(name) { return this.headers[name.toLowerCase()]; }, is: () => false };
  await new Promise((done, fail) => {
    auth({ issuerBaseURL: issuer, audience, strict })(request, {},
      (error) => (error ? fail(error) : done()));
  });
  return request.auth.payload;
}

// RFC 9068 as the one who demands all of it reads it.
async function rfc9068(text) {
  const at = new URL(issuer);
  const insecure = { [oauth.allowInsecureRequests]: true };
  const server = await oauth.processDiscoveryResponse(at,
    await oauth.discoveryRequest(at, { ...insecure, algorithm: 'oauth2' }));
  return oauth.validateJwtAccessToken(server, new Request('http://service.test/',
    { headers: { authorization: `Bearer ${text}` } }), audience, insecure);
}

const consumers = {
  'openid-client, openid-configuration': (text) => discovered(text, 'oidc'),
  'openid-client, oauth-authorization-server': (text) => discovered(text, 'oauth2'),
  'get-jwks, by discovery': (text) => byKey(text, { providerDiscovery: true }),
  'get-jwks, by domain': (text) => byKey(text, {}),
  'express-oauth2-jwt-bearer': (text) => express(text, false),
};
const strict = {
  'express-oauth2-jwt-bearer, strict': (text) => express(text, true),
  'oauth4webapi, RFC 9068': rfc9068,
};

async function tries(name, work) {
  try {
    await work();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}\n${error.stack}`);
  }
}

if (typ === 'at+jwt') Object.assign(consumers, strict);
else
  for (const [name, consumer] of Object.entries(strict))
    await tries(`${name}: wants at+jwt`, () => assert.rejects(consumer(token), /typ/));
for (const [name, consumer] of Object.entries(consumers)) {
  await tries(`${name}: a token`, async () =>
    assert.equal((await consumer(token)).token_type, 'workspace'));
  await tries(`${name}: one bit changed`, () =>
    assert.rejects(consumer(changed), /signature/));
}
console.log('done');
