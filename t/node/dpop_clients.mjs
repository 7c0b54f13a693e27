// Clients that exist, and a gateway that checks proofs and demands nonces: oauth4webapi and
// openid-client make a key, and call a URL with a token that is bound to it.
//
// usage: node dpop_clients.mjs URL SKEW    SKEW is what the server's clock is ahead.  Writes a
// line with the thumbprint of a key, reads one with a token, writes what happened, twice.

import { createInterface } from 'node:readline';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';

const [url, skew] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const token = async (jkt) => {
  console.log(jkt);
  return (await lines.next()).value;
};

// oauth4webapi leaves it to its caller to try again.
{
  const client = { client_id: 'test', [oauth.clockSkew]: Number(skew) };
  const DPoP = oauth.DPoP(client, await oauth.generateKeyPair('ES256'));
  const access = await token(await DPoP.calculateThumbprint());
  const call = () => oauth.protectedResourceRequest(access, 'GET', new URL(url), new Headers(), null,
    { DPoP, [oauth.allowInsecureRequests]: true });
  const told = [];
  for (let n = 0; n < 3; n++) {
    try {
      told.push((await call()).status);
    } catch (error) {
      told.push(oauth.isDPoPNonceError(error) ? 'nonce' : String(error.cause ?? error));
    }
  }
  console.log(told.join(' '));
}

// openid-client tries again by itself.
{
  const config = new openid.Configuration({ issuer: 'https://issuer.test' }, 'test',
    { [openid.clockSkew]: Number(skew) });
  openid.allowInsecureRequests(config);
  const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair('Ed25519'));
  const access = await token(await DPoP.calculateThumbprint());
  const told = [];
  for (let n = 0; n < 2; n++) {
    const response = await openid.fetchProtectedResource(config, access, new URL(url), 'POST', '{}',
      new Headers(), { DPoP });
    told.push(response.status);
  }
  console.log(told.join(' '));
}
process.exit(0);
