// Many proofs of possession (RFC 9449), faster than Perl signs them.
//
// usage: node proofs.mjs KEY.pem COUNT METHOD URL IAT TOKEN [SECONDS]
//
// KEY.pem is for EdDSA.  Makes COUNT for each of SECONDS (1), the first of which is IAT.

import { createHash, createPrivateKey, createPublicKey, randomUUID, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [pem, count, htm, htu, iat, token, seconds = 1] = process.argv.slice(2);
const key = createPrivateKey(readFileSync(pem));
const jwk = createPublicKey(key).export({ format: 'jwk' });
const json = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const header = json({ typ: 'dpop+jwt', alg: 'EdDSA', jwk });
const ath = createHash('sha256').update(token).digest('base64url');
for (let n = 0; n < count * seconds; n++) {
  const at = Number(iat) + Math.floor(n / count);
  const input = `${header}.${json({ jti: randomUUID(), htm, htu, iat: at, ath })}`;
  console.log(`${input}.${sign(null, Buffer.from(input), key).toString('base64url')}`);
}
