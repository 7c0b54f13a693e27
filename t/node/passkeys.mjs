// A second opinion of passkeys: an authenticator in software makes registrations and
// assertions, good ones and broken ones, and what @simplewebauthn/server refuses, our
// code has to refuse.
//
// usage: node passkeys.mjs JUDGE [SEED]    JUDGE is check_webauthn_json

import { execFileSync } from 'node:child_process';
import { createECDH, createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign,
  webcrypto } from 'node:crypto';
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server';

globalThis.crypto ??= webcrypto; // of node 18

const [judge, seed = '1'] = process.argv.slice(2);
const rpID = 'example.org';
const origin = 'https://example.org';
const challenge = Buffer.alloc(32, 'challenge');
const user = Buffer.from('a user handle');
const sha256 = (data) => createHash('sha256').update(data).digest();
const text = (bytes) => Buffer.from(bytes).toString('base64url');

// -- CBOR, as little as is needed

function head(major, n) {
  if (n < 24) return Buffer.of(major << 5 | n);
  if (n < 256) return Buffer.of(major << 5 | 24, n);
  return Buffer.of(major << 5 | 25, n >> 8, n & 255);
}
const int = (n) => n < 0 ? head(1, -1 - n) : head(0, n);
const bytes = (b) => Buffer.concat([head(2, b.length), b]);
const string = (s) => Buffer.concat([head(3, Buffer.byteLength(s)), Buffer.from(s)]);
const map = (pairs) => Buffer.concat([head(5, pairs.length), ...pairs.flat()]);
const cose = (pairs) => map(pairs.map(([k, v]) => [int(k), typeof v === 'number' ? int(v) : bytes(v)]));

// -- keys; those without a random part give the same cases each time

const raw = (n, label) => sha256(`${seed} ${label}`).subarray(0, n);

function es256() {
  const d = raw(32, 'es256');
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(d);
  const point = ecdh.getPublicKey();
  const [x, y] = [point.subarray(1, 33), point.subarray(33)];
  const key = createPrivateKey({ format: 'jwk',
    key: { kty: 'EC', crv: 'P-256', d: text(d), x: text(x), y: text(y) } });
  return { key, hash: 'sha256', cose: cose([[1, 2], [3, -7], [-1, 1], [-2, x], [-3, y]]) };
}

function eddsa() {
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), raw(32, 'ed')]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  const x = Buffer.from(key.export({ format: 'jwk' }).x, 'base64url');
  return { key, hash: null, cose: cose([[1, 1], [3, -8], [-1, 6], [-2, x]]) };
}

function rs256() {
  const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const { n, e } = key.export({ format: 'jwk' });
  return { key, hash: 'sha256', cose: cose([[1, 3], [3, -257],
    [-1, Buffer.from(n, 'base64url')], [-2, Buffer.from(e, 'base64url')]]) };
}

// -- what a browser returns; change() may break any part before it is signed

const UP = 1, UV = 4, BE = 8, AT = 64, ED = 128;
const id = raw(20, 'id');

function make(kind, device, change = () => {}) {
  const p = { type: `webauthn.${kind}`, challenge: text(challenge), origin, members: {},
    rpID, flags: UP | UV, counter: 2, id, key: device.cose, tail: Buffer.alloc(0),
    fmt: 'none', statement: map([]), outer: {}, response: {}, kept: {} };
  change(p);
  const client = p.client ?? Buffer.from(JSON.stringify({ type: p.type,
    challenge: p.challenge, origin: p.origin, crossOrigin: false, ...p.members }));
  const counter = Buffer.alloc(4);
  counter.writeUInt32BE(p.counter);
  const attested = kind === 'create' ? [Buffer.alloc(16, 'aaguid'),
    Buffer.of(p.id.length >> 8, p.id.length & 255), p.id, p.key] : [];
  const flags = kind === 'create' ? p.flags ^ AT : p.flags;
  let data = Buffer.concat([sha256(p.rpID), Buffer.of(flags), counter, ...attested, p.tail]);
  data = p.data?.(data) ?? data;
  let response;
  if (kind === 'create') {
    const object = map([[string('fmt'), string(p.fmt)], [string('attStmt'), p.statement],
      [string('authData'), bytes(data)]]);
    response = { attestationObject: text(p.object?.(object) ?? object), transports: ['usb'] };
  } else {
    const signature = sign(device.hash, Buffer.concat([data, sha256(client)]), device.key);
    response = { authenticatorData: text(data), userHandle: text(user),
      signature: text(p.signature?.(signature) ?? signature) };
  }
  return { kind, kept: { counter: 1, key: device.cose, eligible: (p.flags & BE) > 0, ...p.kept },
    device, json: { id: text(p.id), rawId: text(p.id), type: 'public-key',
      clientExtensionResults: {}, response: { clientDataJSON: text(p.sent?.(client) ?? client),
        ...response, ...p.response }, ...p.outer } };
}

// -- both opinions

async function theirs({ kind, kept, json }) {
  const options = { response: json, expectedChallenge: text(challenge),
    expectedOrigin: origin, expectedRPID: rpID, requireUserVerification: true };
  try {
    const { verified } = kind === 'create'
      ? await verifyRegistrationResponse({ ...options, supportedAlgorithmIDs: [-8, -7, -257] })
      : await verifyAuthenticationResponse({ ...options,
        credential: { id: json.id, publicKey: kept.key, counter: kept.counter } });
    return verified ? 'ok' : 'not verified';
  } catch (e) {
    return e.message;
  }
}

function ours(cases) {
  const lines = cases.map(({ kind, kept, device, json }) => [kind, text(challenge),
    ...kind === 'create' ? [] : [text(user), text(createPublicKey(device.key)
      .export({ format: 'der', type: 'spki' })), kept.counter, Number(kept.eligible)],
    JSON.stringify(json)].join('\t'));
  return execFileSync(judge, ['--judge'], { input: lines.join('\n') + '\n',
    encoding: 'utf8', maxBuffer: 1 << 26 }).trimEnd().split('\n');
}

// -- cases: [what, how it is broken, whether both accept it]

const flip = (b, at, bit) => {
  const out = Buffer.from(b);
  out[at] ^= bit;
  return out;
};

const client = [
  ['as it is', () => {}, true],
  ['a later member', (p) => { p.members = { later: [{ a: null }] }; }, true],
  ['no member crossOrigin', (p) => { p.members = { crossOrigin: undefined }; }, true],
  ['another type', (p) => { p.type = 'webauthn.other'; }],
  ['a type in an array', (p) => { p.type = [p.type]; }],
  ['no type', (p) => { p.type = undefined; }],
  ['another challenge', (p) => { p.challenge = text(flip(challenge, 31, 1)); }],
  ['a padded challenge', (p) => { p.challenge += '='; }],
  ['a challenge in an array', (p) => { p.challenge = [p.challenge]; }],
  ['another origin', (p) => { p.origin = 'https://example.org.test'; }],
  ['another port', (p) => { p.origin += ':8443'; }],
  ['an origin in an array', (p) => { p.origin = [p.origin]; }],
  ['no JSON', (p) => { p.client = Buffer.from('{'); }],
  ['an array', (p) => { p.client = Buffer.from('[]'); }],
  ['null', (p) => { p.client = Buffer.from('null'); }],
  ['another site', (p) => { p.rpID = 'example.com'; }],
  ['another kind of credential', (p) => { p.outer = { type: 'password' }; }],
  ['another id', (p) => { p.outer = { rawId: text(Buffer.alloc(20)) }; }],
  ['no id', (p) => { p.outer = { id: '', rawId: '' }; }],
  ['an extension', (p) => { p.flags |= ED; p.tail = map([[string('x'), int(1)]]); }, true],
  ['an announced extension', (p) => { p.flags |= ED; }],
  ['bytes at the end', (p) => { p.tail = Buffer.of(0); }],
  ['an extension that nothing announces', (p) => { p.tail = map([]); }],
];

const created = [
  ['a counter', (p) => { p.counter = 0xffffffff; }, true],
  ['another algorithm', (p) => { p.key = cose([[1, 2], [3, -36], [-1, 3]]); }],
  ['no algorithm', (p) => { p.key = cose([[1, 2], [-1, 1]]); }],
  ['no key', (p) => { p.key = Buffer.alloc(0); }],
  ['a statement', (p) => { p.statement = map([[string('alg'), int(-7)]]); }],
  ['another format', (p) => { p.fmt = 'other'; }],
  ['packed, unsigned', (p) => { p.fmt = 'packed'; }],
  ['no object', (p) => { p.object = () => Buffer.alloc(0); }],
  ['no map', (p) => { p.object = () => bytes(Buffer.alloc(200)); }],
];

const asserted = [
  ['a counter that stands', (p) => { p.counter = 1; }],
  ['a counter that fell', (p) => { p.kept = { counter: 3 }; }],
  ['no counter any more', (p) => { p.counter = 0; }],
  ['never a counter', (p) => { p.counter = 0; p.kept = { counter: 0 }; }, true],
  ['another client data than signed', (p) => { p.sent = (b) => Buffer.concat([b, Buffer.from(' ')]); }],
  ['no signature', (p) => { p.signature = () => Buffer.alloc(0); }],
  ['a user handle in an array', (p) => { p.response = { userHandle: [text(user)] }; }],
];

// The same numbers for the same seed.
let state = Number(seed) >>> 0;
function random(n) {
  state = Math.imul(state, 1664525) + 1013904223 >>> 0;
  return (state >>> 8) % n;
}
function broken(b) {
  let out = b;
  for (let i = random(4); i >= 0; i--) out = flip(out, random(b.length), 1 + random(255));
  return out;
}
function cut(b) {
  const at = random(b.length);
  return random(2) ? b.subarray(0, at)
    : Buffer.concat([b.subarray(0, at), b.subarray(at + 1 + random(8))]);
}

function* all(device) {
  for (const kind of ['create', 'get']) {
    for (const [what, change, good] of [...client, ...kind === 'create' ? created : asserted])
      yield [`${kind}: ${what}`, make(kind, device, change), good];
    for (let flags = 0; flags < 256; flags++) {
      for (const tail of [Buffer.alloc(0), map([])])
        yield [`${kind}: flags ${flags}, ${tail.length}`, make(kind, device, (p) => {
          Object.assign(p, { flags, tail });
        })];
    }
    for (let i = 0; i < 300; i++) {
      const part = kind === 'create' ? ['object', 'data'][i % 2] : ['data', 'signature', 'sent'][i % 3];
      for (const how of [broken, cut])
        yield [`${kind}: ${part} ${how.name}, ${i}`, make(kind, device, (p) => { p[part] = how; })];
    }
  }
}

for (const device of [es256(), eddsa(), rs256()]) {
  const cases = [...all(device)];
  const verdicts = ours(cases.map(([, one]) => one));
  const name = device.key.asymmetricKeyType;
  let refused = 0, looser = 0;
  for (const [i, [what, one, good]] of cases.entries()) {
    const their = await theirs(one);
    const we = verdicts[i];
    refused += their !== 'ok';
    if (good && (their !== 'ok' || we !== 'ok')) console.log(`not ok ${name}: ${what}: ${their}, ${we}`);
    if (their !== 'ok' && we === 'ok') {
      looser++;
      console.log(`not ok ${name}: ${what}: they refuse it: ${their}: ${JSON.stringify(one.json)}`);
    }
  }
  console.log(`${looser ? 'not ok' : 'ok'} ${name}: ${cases.length} cases, of which they refuse`
    + ` ${refused}; we refuse ${verdicts.filter((v) => v !== 'ok').length}, and all of these`);
}
console.log('done');
