// Libraries of services, given the issuer and the audience: each finds the keys by
// itself, takes an access token, and refuses the same token with one bit changed and
// the refresh token of the same login.
//
// usage: node consumers.mjs ISSUER AUDIENCE TOKEN CHANGED REFRESH JWT|at+jwt

import assert from 'node:assert/strict';
import { createPublicKey, webcrypto } from 'node:crypto';
import { expressjwt } from 'express-jwt';
import { auth } from 'express-oauth2-jwt-bearer';
import { createVerifier } from 'fast-jwt';
import getJwks from 'get-jwks';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import jwt from 'jsonwebtoken';
import jwksRsa from 'jwks-rsa';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import passport from 'passport-jwt';

globalThis.crypto ??= webcrypto; // of node 18

const [issuer, audience, token, changed, refresh, typ] = process.argv.slice(2);
const keySet = `${issuer}/.well-known/jwks.json`;

// Its metadata by openid-client, then the token as jose checks it.
async function discovered(text, algorithm) {
  const config = await openid.discovery(new URL(issuer), 'service', undefined, undefined,
    { algorithm, execute: [openid.allowInsecureRequests] });
  const { jwks_uri: keys, ...told } = config.serverMetadata();
  const { payload } = await jwtVerify(text, createRemoteJWKSet(new URL(keys)),
    { issuer, audience, algorithms: told.id_token_signing_alg_values_supported });
  return payload;
}

async function jose(text, more) {
  const { payload } = await jwtVerify(text, createRemoteJWKSet(new URL(keySet)),
    { issuer, ...more });
  return payload;
}

// The key by get-jwks, whose getPublicKey() has no EdDSA.
function byKey(text, options) {
  const keys = getJwks(options);
  const key = async ({ header: { kid, alg } }) =>
    createPublicKey({ key: await keys.getJwk({ domain: issuer, alg, kid }), format: 'jwk' })
      .export({ type: 'spki', format: 'pem' });
  return createVerifier({ allowedIss: issuer, allowedAud: audience, key })(text);
}

const request = (text) => ({ method: 'GET', protocol: 'http', url: '/', query: {}, body: {},
  headers: { host: 'service.test', authorization: `Bearer ${text}` },
  get(name) { return this.headers[name.toLowerCase()]; }, is: () => false });

const through = async (handler, text) => {
  const r = request(text);
  await new Promise((done, fail) => {
    handler(r, {}, (error) => (error ? fail(error) : done()));
  });
  return r.auth;
};

const express = async (text, strict) =>
  (await through(auth({ issuerBaseURL: issuer, audience, strict }), text)).payload;

// The keys by jwks-rsa.  jsonwebtoken has neither EdDSA nor a limit to one algorithm.
const rsa = { jwksUri: keySet };
const algorithms = ['RS256', 'ES256'];

function byJsonwebtoken(text, more) {
  const client = jwksRsa(rsa);
  return new Promise((done, fail) => {
    jwt.verify(text, ({ kid }, got) => client.getSigningKey(kid).then(
      (key) => got(null, key.getPublicKey()), got), { issuer, algorithms, ...more },
    (error, payload) => (error ? fail(error) : done(payload)));
  });
}

function byPassport(text, more) {
  return new Promise((done, fail) => {
    const strategy = new passport.Strategy({ issuer, algorithms, ...more,
      jwtFromRequest: passport.ExtractJwt.fromAuthHeaderAsBearerToken(),
      secretOrKeyProvider: jwksRsa.passportJwtSecret(rsa),
    }, (payload, verified) => verified(null, payload));
    Object.assign(strategy, { success: done, fail, error: fail });
    strategy.authenticate(request(text));
  });
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
  'jose': (text) => jose(text, { audience }),
  'get-jwks and fast-jwt, by discovery': (text) => byKey(text, { providerDiscovery: true }),
  'get-jwks and fast-jwt, by domain': (text) => byKey(text, {}),
  'express-oauth2-jwt-bearer': (text) => express(text, false),
};
const strict = {
  'express-oauth2-jwt-bearer, strict': (text) => express(text, true),
  'oauth4webapi, RFC 9068': rfc9068,
};
const noEdDSA = {
  'jwks-rsa and jsonwebtoken': (text) => byJsonwebtoken(text, { audience }),
  'jwks-rsa and express-jwt': (text) => through(expressjwt({ issuer, audience, algorithms,
    secret: jwksRsa.expressJwtSecret(rsa) }), text),
  'jwks-rsa and passport-jwt': (text) => byPassport(text, { audience }),
};

async function tries(name, work) {
  try {
    await work();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}\n${error.stack}`);
  }
}

const { alg } = JSON.parse(Buffer.from(token.split('.')[0], 'base64url'));
if (alg !== 'EdDSA') Object.assign(consumers, noEdDSA);
if (typ === 'at+jwt') Object.assign(consumers, strict);
else
  for (const [name, consumer] of Object.entries(strict))
    await tries(`${name}: wants at+jwt`, () => assert.rejects(consumer(token), /typ/));
for (const [name, consumer] of Object.entries(consumers)) {
  await tries(`${name}: a token`, async () =>
    assert.equal((await consumer(token)).token_type, 'workspace'));
  await tries(`${name}: one bit changed`, () =>
    assert.rejects(consumer(changed), /signature/));
  await tries(`${name}: the refresh token`, () =>
    assert.rejects(consumer(refresh), name in strict ? /typ/ : /aud/));
}

// It is the audience alone that keeps it out.
for (const [name, consumer] of Object.entries({ jose,
  ...(alg === 'EdDSA' ? {} : { 'jsonwebtoken': byJsonwebtoken, 'passport-jwt': byPassport }) }))
  await tries(`${name}, without an audience: the refresh token passes`, async () =>
    assert.equal((await consumer(refresh, {})).token_type, 'refresh'));
console.log('done');
