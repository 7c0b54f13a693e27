// Many proofs of possession (RFC 9449), faster than Perl signs them.
//
// usage: node proofs.mjs KEY.pem COUNT METHOD URL IAT TOKEN    KEY.pem is for EdDSA

import { createHash, createPrivateKey, createPublicKey, randomUUID, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [pem, count, htm, htu, iat, token] = process.argv.slice(2);
const key = createPrivateKey(readFileSync(pem));
const jwk = createPublicKey(key).export({ format: 'jwk' });
const json = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const header = json({ typ: 'dpop+jwt', alg: 'EdDSA', jwk });
const ath = createHash('sha256').update(token).digest('base64url');
for (let n = 0; n < Number(count); n++) {
  const input = `${header}.${json({ jti: randomUUID(), htm, htu, iat: Number(iat), ath })}`;
  console.log(`${input}.${sign(null, Buffer.from(input), key).toString('base64url')}`);
}
