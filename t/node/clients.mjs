// OAuth libraries as clients: each finds the token endpoint by the issuer, gets a
// token in three ways, and calls routes of the gateway with it.
//
// usage: node clients.mjs ISSUER CLIENT_ID SECRET KEY.pem ROUTE...

import * as dpop from 'dpop';
import { webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { importPKCS8 } from 'jose';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';

globalThis.crypto ??= webcrypto; // of node 18

const [issuer, id, secret, file, ...routes] = process.argv.slice(2);
const key = await importPKCS8(readFileSync(file, 'utf8'), 'ES256');
const http = { [oauth.allowInsecureRequests]: true };

async function viaOpenid(method, scope) {
  const config = await openid.discovery(new URL(issuer), id, undefined, method(openid),
    { algorithm: 'oauth2', execute: [openid.allowInsecureRequests] });
  return openid.clientCredentialsGrant(config, scope ? { scope } : undefined);
}

async function viaOauth(method, scope) {
  const at = new URL(issuer);
  const server = await oauth.processDiscoveryResponse(at,
    await oauth.discoveryRequest(at, { algorithm: 'oauth2', ...http }));
  const client = { client_id: id };
  return oauth.processClientCredentialsResponse(server, client,
    await oauth.clientCredentialsGrantRequest(server, client, method(oauth),
      new URLSearchParams(scope ? { scope } : {}), http));
}

const methods = {
  client_secret_basic: (lib) => lib.ClientSecretBasic(secret),
  client_secret_post: (lib) => lib.ClientSecretPost(secret),
  private_key_jwt: (lib) => lib.PrivateKeyJwt(key),
};

async function tell(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}: ${error.message} ${error.code ?? ''} ${error.error ?? ''}`);
  }
}

async function calls(token) {
  if (token.token_type !== 'bearer') throw new Error(`a ${token.token_type} token`);
  for (const route of routes) {
    const { status } = await fetch(issuer + route,
      { headers: { authorization: `Bearer ${token.access_token}` } });
    if (status !== 200) throw new Error(`the gateway answers ${route} with ${status}`);
  }
}

// -- tokens that are bound to a key (RFC 9449)

async function boundOauth() {
  const at = new URL(issuer);
  const server = await oauth.processDiscoveryResponse(at,
    await oauth.discoveryRequest(at, { algorithm: 'oauth2', ...http }));
  const client = { client_id: id };
  const options = { DPoP: oauth.DPoP(client, await oauth.generateKeyPair('ES256')), ...http };
  const token = await oauth.processClientCredentialsResponse(server, client,
    await oauth.clientCredentialsGrantRequest(server, client, oauth.ClientSecretPost(secret),
      new URLSearchParams(), options));
  return [token, (url) => oauth.protectedResourceRequest(token.access_token, 'GET', url,
    new Headers(), null, options)];
}

async function boundOpenid() {
  const config = await openid.discovery(new URL(issuer), id, undefined,
    openid.ClientSecretPost(secret),
    { algorithm: 'oauth2', execute: [openid.allowInsecureRequests] });
  const options = { DPoP: openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('ES256')) };
  const token = await openid.clientCredentialsGrant(config, undefined, options);
  return [token, (url) => openid.fetchProtectedResource(config, token.access_token, url, 'GET',
    null, new Headers(), options)];
}

async function boundCalls([token, call]) {
  if (token.token_type !== 'dpop') throw new Error(`a ${token.token_type} token`);
  for (const route of routes) {
    const { status } = await call(new URL(route, issuer));
    if (status !== 200) throw new Error(`the gateway answers ${route} with ${status}`);
    const stolen = await fetch(issuer + route,
      { headers: { authorization: `Bearer ${token.access_token}` } });
    if (stolen.status !== 401) throw new Error(`as Bearer: ${stolen.status}`);
  }
}

await tell('oauth4webapi: a bound token', async () => boundCalls(await boundOauth()));
await tell('openid-client: a bound token', async () => boundCalls(await boundOpenid()));

for (const alg of ['ES256', 'Ed25519', 'RS256', 'PS256']) {
  await tell(`dpop: a bound session, by ${alg}`, async () => {
    const keys = await dpop.generateKeyPair(alg);
    const call = async (method, path, body, token) => {
      const url = `${issuer}/api/auth/${path}`;
      const proof = await dpop.generateProof(keys, url, method, undefined, token);
      const response = await fetch(url, { method, body: body && JSON.stringify(body), headers: {
        DPoP: proof, ...(body ? { 'content-type': 'application/json' } : {}),
        ...(token ? { authorization: `DPoP ${token}` } : {}) } });
      const said = await response.json();
      if (response.status !== 200) throw new Error(`${path}: ${response.status} ${said.code}`);
      return said;
    };
    const login = await call('POST', 'login',
      { account: 'one@demo.test', credential: 'Demo-passw0rd!' });
    if (login.tokenType !== 'DPoP') throw new Error(login.tokenType);
    await call('GET', 'me', undefined, login.accessToken);
    const next = await call('POST', 'refresh', { refreshToken: login.refreshToken });
    await call('GET', 'me', undefined, next.accessToken);
    await call('POST', 'logout', { refreshToken: next.refreshToken }, next.accessToken);
  });
}

for (const [lib, via] of [['openid-client', viaOpenid], ['oauth4webapi', viaOauth]]) {
  for (const [name, method] of Object.entries(methods)) {
    await tell(`${lib}: ${name}`, async () => calls(await via(method)));
  }
  await tell(`${lib}: a wrong secret is invalid_client`, async () => {
    try {
      await via((l) => l.ClientSecretPost(`${secret}x`));
    } catch (error) {
      if (error.error === 'invalid_client' || error.cause?.error === 'invalid_client'
        || error.cause?.[0]?.parameters?.realm === 'platform') return;
      throw error;
    }
    throw new Error('it got a token');
  });
  await tell(`${lib}: a scope that is not allowed is invalid_scope`, async () => {
    try {
      await via(methods.client_secret_basic, 'people:write');
    } catch (error) {
      if (error.error === 'invalid_scope' || error.cause?.error === 'invalid_scope') return;
      throw error;
    }
    throw new Error('it got a token');
  });
}
console.log('done');
