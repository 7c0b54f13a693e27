// The playground's second factors: an authenticator app, passkeys, recovery codes,
// step-up.  playground.js has what it calls with and shows calls by.

'use strict';

// -- authenticators that hold passkeys ----------------------------------------

// What a browser says when it makes no passkey, or uses none.
const CEREMONY = {
  NotAllowedError: 'it was cancelled, or has no passkey that fits',
  InvalidStateError: 'it holds a passkey of this account already',
};

const authenticator = {
  create: (options) => navigator.credentials.create({ publicKey:
    PublicKeyCredential.parseCreationOptionsFromJSON(options) }),
  get: (options) => navigator.credentials.get({ publicKey:
    PublicKeyCredential.parseRequestOptionsFromJSON(options) }),
};

// Its answer as JSON, which the next call takes; or null, and the call that
// brought the options tells why.
async function answerOf(kind, options, call) {
  try {
    return (await authenticator[kind](options)).toJSON();
  } catch (e) {
    call.what = 'The authenticator did not answer: '
      + `${CEREMONY[e.name] || e.message}. ${e.name}.`;
    return null;
  }
}

// Between two calls with a passkey: the first brings options, and a token for the
// challenge in them.
async function byPasskey(kind, first, second) {
  const asked = await first();
  const credential = asked.status === 200
    && await answerOf(kind, asked.json.options, asked);
  if (!credential) {
    return [asked];
  }
  asked.what = 'A challenge for the authenticator, which answers it once this'
    + ' person has allowed that.';
  return [asked, await second({ credential,
    challengeToken: asked.json.challengeToken }, asked.correlation)];
}

// Passkeys are of a host name, which an address is not.
function offerPasskeys() {
  const named = state.passkeys === location.hostname;
  const here = Boolean(named && window.PublicKeyCredential
    && PublicKeyCredential.parseCreationOptionsFromJSON);
  for (const e of document.querySelectorAll('.passkeys')) {
    e.hidden = !here;
  }
  for (const e of document.querySelectorAll('.no-passkeys')) {
    e.hidden = here;
    e.textContent = named ? 'No passkeys: this browser is too old.'
      : 'No passkeys: they need a host name, and this page has an address. Start'
        + ' make run with GATEWAY_HOST=localhost, and open '
        + `http://localhost:${location.port}.`;
  }
}

// -- logging in ------------------------------------------------------------------

// The answer to a login whose credential is right, and no more.
function half(call) {
  const enroll = call.json.nextAction.type === 'enroll_factor';
  state.pending = call.json;
  $('verify-form').reset();
  call.what = 'The credential is right. No session, and no cookie: '
    + (enroll ? 'this account has to have a second factor, and has none. The'
      + ' factor token lets it add one (step 7), and opens nothing else.'
      : 'the factor token is good for the second half of this login, for five'
        + ' minutes and five tries.');
  showSession();
}

function goOnWithHalf() {
  if (state.pending.nextAction.type === 'enroll_factor') {
    openStep('factor');
  } else {
    $(state.pending.factors.includes('totp') ? 'verify-code'
      : 'verify-title').focus();
  }
}

// What ends a login, without the session that there may be.
function ending(what, body, id) {
  return send({ method: 'POST', path: AUTH + what, body, credentials: 'include',
    correlation: id || correlation() });
}

async function endLogin(calls, title) {
  const last = calls[calls.length - 1];
  const good = isLogin(last);
  if (good) {
    begun(last);
  } else if (last.json && last.json.code === 'AUTH_FACTOR_TOKEN_INVALID') {
    state.pending = null;
    showSession();
  }
  $('verify-form').reset();
  show('login', calls, { title });
  if (good) {
    goOn();
  }
}

// A recovery code is longer than one of an app.
function codeType(code) {
  return code.length > 8 ? 'recovery' : 'totp';
}

async function verifyCode() {
  const code = $('verify-code').value.trim();
  await endLogin([await ending('verify-factor', {
    factorToken: state.pending.factorToken, type: codeType(code), code })],
  'Second half of a login');
}

async function verifyPasskey() {
  const { factorToken, passkey } = state.pending;
  const before = {};
  const credential = await answerOf('get', passkey, before);
  if (!credential) {
    say(before.what);
    $('verify-said').textContent = before.what;
    return;
  }
  $('verify-said').textContent = '';
  await endLogin([await ending('verify-factor',
    { factorToken, type: 'passkey', credential })], 'Second half of a login');
}

async function passkeyLogin() {
  await endLogin(await byPasskey('get',
    () => ending('login/passkey-options', {}),
    (body, id) => ending('login/passkey', body, id)), 'Log in with a passkey');
}

// -- the account's factors ----------------------------------------------------------

// A call of the account's owner: by the token of a login that has to get a factor,
// or by the session.
function owned(what, body, id) {
  const { factorToken } = state.pending || {};
  return factorToken ? ending(what, { ...body, factorToken }, id)
    : send(authorized('POST', what, { body, ...(id ? { correlation: id } : {}) }));
}

// Recovery codes are shown at this step alone, until the next ones or a logout.
function showRecovery(codes) {
  $('recovery').hidden = !codes;
  $('recovery-codes').replaceChildren(...(codes || []).map((code) =>
    el('li', {}, el('code', {}, code))));
}

// The end of adding a factor: of the login too, where that waited for it.
async function added(calls, title) {
  const last = calls[calls.length - 1];
  const good = isLogin(last) || Boolean(last.json)
    && ['AUTH_FACTOR_ADDED', 'AUTH_FACTOR_CONFIRMED'].includes(last.json.code);
  const codes = good && last.json.recoveryCodes;
  if (isLogin(last)) {
    begun(last);
  }
  if (good) {
    last.what = 'The factor counts: the next login asks for one.'
      + (codes ? ' With the first factor there are ten recovery codes, which are'
        + ' shown in step 7 alone, and once.' : '')
      + (isLogin(last) ? ' And the login has ended: here are its tokens.' : '');
    $('totp-new').hidden = true;
  }
  if (codes) {
    showRecovery(codes);
  }
  if (good) {
    await factors(title, ...calls);
  } else {
    show('factor', calls, { title });
  }
}

async function addApp() {
  const call = await owned('factors', { type: 'totp', name: 'Authenticator app' });
  if (call.status === 201) {
    const { factorId, secret, uri } = call.json;
    $('totp-new').hidden = false;
    $('totp-new').dataset.id = factorId;
    $('totp-qr').replaceChildren((uri && QR.picture(uri,
      'QR code for the authenticator app')) || '');
    $('totp-secret').textContent = secret;
    $('totp-command').textContent = `oathtool -b --totp ${secret}`;
    $('totp-form').reset();
    call.what = 'A secret for the app, which is shown in step 7 alone. The factor'
      + ' counts once a code confirms it.';
  }
  show('factor', [call], { title: 'Add an authenticator app' });
  if (call.status === 201) {
    $('totp-code').focus();
  }
}

async function confirmApp() {
  const call = await owned(`factors/${$('totp-new').dataset.id}/confirm`,
    { code: $('totp-code').value.trim() });
  $('totp-form').reset();
  await added([call], 'Confirm the authenticator app');
}

async function addPasskey() {
  await added(await byPasskey('create', () => owned('passkeys/options', {}),
    (body, id) => owned('passkeys', body, id)), 'Add a passkey');
}

async function newRecovery() {
  const call = await send(authorized('POST', 'recovery-codes', { body: {} }));
  if (call.status === 200) {
    showRecovery(call.json.recoveryCodes);
    call.what = 'Ten new recovery codes. The ones before are worth nothing any'
      + ' more.';
  }
  show('factor', [call], { title: 'New recovery codes' });
}

// -- the list ---------------------------------------------------------------------------

function factorItem(f) {
  const id = `name-${f.factorId}`;
  const name = el('input', { id, autocomplete: 'off', required: true,
    maxlength: 64, value: f.name });
  const form = el('form', {}, el('label', { class: 'wide', for: id }, 'Name', name),
    el('div', { class: 'actions wide' },
      el('button', { type: 'submit', class: 'second',
        'aria-label': `Rename: ${f.name}` }, 'Rename')));
  const remove = el('button', { type: 'button', class: 'second danger',
    'aria-label': `Remove: ${f.name}` }, 'Remove');
  on(form, 'submit', () => changeFactor('PATCH', f, { body: { name: name.value } }));
  on(remove, 'click', () => changeFactor('DELETE', f));
  form.querySelector('.actions').append(remove);
  return el('li', { class: 'item' },
    el('div', { class: 'item-head' }, el('p', {}, el('strong', {}, f.name)),
      el('span', { class: 'badge' }, f.type)),
    facts([['Added', time(f.createdAt)], ['Last used', time(f.usedAt)],
      ['Factor', f.factorId]]), form);
}

function showFactors({ factors: list, recoveryCodesLeft: left }) {
  $('factor-list').replaceChildren(...list.map(factorItem));
  $('factor-list').hidden = !list.length;
  $('recovery-left').hidden = !list.length;
  $('recovery-left').textContent = `${plural(left, 'recovery code is',
    'recovery codes are')} left.`;
}

// What is shown is what was asked for, and then the list.
async function factors(title, ...before) {
  const call = await send(authorized('GET', 'factors',
    before.length ? { correlation: before[0].correlation } : {}));
  if (call.status === 200) {
    showFactors(call.json);
    call.what = `${plural(call.json.factors.length, 'factor', 'factors')}, and `
      + `${plural(call.json.recoveryCodesLeft, 'recovery code', 'recovery codes')}.`;
  }
  show('factor', [...before, call], { title });
  if (before.length) {
    $('factors-show').focus();
  }
}

async function changeFactor(method, f, more) {
  const title = method === 'PATCH' ? 'Rename a factor' : 'Remove a factor';
  const call = await send(authorized(method, `factors/${f.factorId}`, more));
  if (call.status === 200) {
    await factors(title, call);
  } else {
    show('factor', [call], { title });
  }
}

// -- step-up ---------------------------------------------------------------------------

function steppedUp(calls) {
  const last = calls[calls.length - 1];
  if (last.json && last.json.code === 'AUTH_STEP_UP_SUCCESS') {
    state[last.json.accessToken ? 'access' : 'account'] = last.json.accessToken
      || last.json.accountAccessToken;
    showSession();
    last.what = 'The same session, with a new access token: its auth_time, amr and'
      + ' acr tell services of it. For five minutes this session may change'
      + ' factors and the credential.';
  }
  $('step-up-form').reset();
  show('factor', calls, { title: 'Step up' });
}

async function stepUp() {
  const kind = $('step-up-type').value;
  const secret = $('step-up-secret').value;
  const body = kind === 'credential' ? { type: kind, credential: secret }
    : { type: codeType(secret.trim()), code: secret.trim() };
  steppedUp([await send(authorized('POST', 'step-up', { body }))]);
}

async function stepUpByPasskey() {
  steppedUp(await byPasskey('get',
    () => send(authorized('POST', 'step-up/passkey-options', { body: {} })),
    (body, id) => send(authorized('POST', 'step-up',
      { body: { type: 'passkey', ...body }, correlation: id }))));
}

// -- beginning -----------------------------------------------------------------------------

// What the page shows of a session that is over, or of another one.
function forgetFactors() {
  $('totp-new').hidden = true;
  showRecovery(null);
  showFactors({ factors: [] });
}

function openFactors() {
  on($('verify-form'), 'submit', verifyCode);
  on($('verify-passkey'), 'click', verifyPasskey);
  on($('passkey-login'), 'click', passkeyLogin);
  on($('totp-add'), 'click', addApp);
  on($('totp-form'), 'submit', confirmApp);
  on($('passkey-add'), 'click', addPasskey);
  on($('factors-show'), 'click', () => factors('Show the factors'));
  on($('recovery-new'), 'click', newRecovery);
  on($('step-up-form'), 'submit', stepUp);
  on($('step-up-passkey'), 'click', stepUpByPasskey);
}
