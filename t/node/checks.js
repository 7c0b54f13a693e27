// Checks of a script that a test of ours runs: "ok - ..." or "not ok - ..." for each.

'use strict';

let failed = 0;

function ok(good, name, ...diag) {
  console.log(`${good ? 'ok' : 'not ok'} - ${name}`);
  if (!good) {
    failed += 1;
    diag.forEach((d) => console.log(`#   ${d}`));
  }
}

function is(got, want, name) {
  const [g, w] = [got, want].map((v) => JSON.stringify(v));
  ok(g === w, name, `got  ${g}`, `want ${w}`);
}

function like(got, pattern, name) {
  ok(pattern.test(got), name, `got  ${JSON.stringify(got)}`, `want ${pattern}`);
}

// Ends the process with what came of it.
function done(main) {
  main().then(() => process.exit(failed ? 1 : 0), (e) => {
    console.log(`# ${e.stack}`);
    process.exit(2);
  });
}

module.exports = { ok, is, like, done };
