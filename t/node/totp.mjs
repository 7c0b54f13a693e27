// A second opinion of one-time codes: otplib is asked of each secret, time and code what our
// code is asked, and has to give the same step, or to refuse as well.
//
// usage: node totp.mjs JUDGE    JUDGE is check_totp

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { generateSync, verifySync } from 'otplib';

const sha256 = (text) => createHash('sha256').update(text).digest();
const cases = [];
for (let n = 0; n < 8; n++) {
  const secret = sha256(`secret ${n}`).subarray(0, 20);
  for (let i = 0; i < 60; i++) {
    const epoch = 1_000_000_000 + sha256(`time ${n} ${i}`).readUInt32BE();
    const code = (steps) => generateSync({ secret, epoch: epoch + 30 * steps });
    for (let steps = -3; steps <= 3; steps++) cases.push([secret, epoch, code(steps)]);
    const now = code(0);
    const other = String((Number(now) + 1) % 1e6).padStart(6, '0');
    const full = now.replace(/./g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
    for (const text of [other, now.slice(1), `0${now}`, `${now}0`, ` ${now}`, `${now} `, `+${now.slice(1)}`,
      `-${now.slice(1)}`, `${now.slice(0, 3)} ${now.slice(3)}`, `0x${now.slice(2)}`, full, '']) {
      cases.push([secret, epoch, text]);
    }
  }
}

const input = cases.map(([secret, epoch, code]) => `${secret.toString('hex')} ${epoch} ${code}\n`).join('');
const said = execFileSync(process.argv[2], ['--judge'], { input, encoding: 'utf8' }).trimEnd().split('\n');
let accepted = 0;
let differ = 0;
cases.forEach(([, epoch, token], i) => {
  const [secret, step] = said[i].split(' ');
  let theirs = 0;
  try {
    theirs = verifySync({ secret, token, epoch, epochTolerance: 30 }).timeStep ?? 0;
  } catch { /* it refuses the form of a code so */ }
  accepted += theirs !== 0;
  if (Number(step) !== theirs && differ++ < 10) console.log(`# "${token}" at ${epoch}: ${step}, otplib ${theirs}`);
});
console.log(`${differ ? 'not ok' : 'ok'} ${said.length} codes, of which they accept ${accepted}`);
console.log('done');
