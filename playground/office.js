// The playground's back office: a program with a token of its own, which looks
// after accounts by /api/system/.  playground.js has what it calls with and shows
// calls by.

'use strict';

// What the back office of this page may do.
const SCOPES = ['people:read', 'people:write', 'credentials:write',
  'audit:read'];

// A name of its own each time: a client outlives the page, and its secret is lost.
function showClientCommands() {
  const name = correlation();
  $('client-command').textContent = [
    command(`client add ${name}`, ...SCOPES.map((s) => `--allow ${s}`)),
    command('client secret add', name)].join('\n\n');
}

async function getToken() {
  const form = { grant_type: 'client_credentials',
    client_id: $('client-id').value, client_secret: $('client-secret').value };
  if ($('client-scope').value) {
    form.scope = $('client-scope').value;
  }
  const call = await send({ method: 'POST', path: AUTH + 'token', form,
    correlation: correlation() });
  if (call.status === 200) {
    state.system = call.json.access_token;
    showSession();
    call.what = `A system token with the scopes ${call.json.scope}.`;
  }
  show('client', [call]);
  if (call.status === 200) {
    openStep('people');
  }
}

function office(method, what, more) {
  return send({ method, path: SYSTEM + what, token: state.system,
    correlation: correlation(), ...more });
}

// A path with a query of what is given.
function query(what, fields) {
  return `${what}?${new URLSearchParams(Object.entries(fields)
    .filter(([, text]) => text))}`;
}

// The member of an answer that has the list of a step, and what shows one of it.
const LISTS = { people: ['accounts', accountItem], audit: ['events', eventItem] };

function showList(step, json, path) {
  const [member, item] = LISTS[step];
  const [box, next] = [$(`${step}-list`), $(`${step}-next`)];
  box.replaceChildren(...json[member].map((one) => item(one)));
  box.hidden = !json[member].length;
  box.scrollTop = 0;
  next.hidden = !json.next;
  next.dataset.path = `${path.replace(/&after=.*/, '')}&after=`
    + encodeURIComponent(json.next);
}

async function list(step, path) {
  const call = await office('GET', path);
  if (call.status === 200) {
    const [member] = LISTS[step];
    showList(step, call.json, path);
    call.what = plural(call.json[member].length, member.slice(0, -1), member)
      + (call.json.next ? ', and there are more.' : ', and no more.');
  }
  show(step, [call]);
}

async function nextPage(step) {
  await list(step, $(`${step}-next`).dataset.path);
  if ($(`${step}-next`).hidden) {
    $(`${step}-list`).focus();
  }
}

// `code`: a reset code, which is shown nowhere else, and once.
function accountItem(a, code) {
  const off = a.status !== 'ACTIVE';
  const button = (text, f, kind = '') => {
    const b = el('button', { type: 'button', class: `second ${kind}`,
      'aria-label': `${text}: ${a.account}` }, text);
    on(b, 'click', f);
    return b;
  };
  return el('li', { class: 'item', 'data-id': a.accountId },
    el('div', { class: 'item-head' },
      el('p', {}, el('strong', {}, a.account)),
      el('span', { class: off ? 'badge bad' : 'badge' }, a.status)),
    facts([['Type', a.type], ['Made', time(a.createdAt)],
      ['Account', a.accountId]]),
    code ? el('div', { class: 'code' },
      el('p', { class: 'small' }, `Reset code, until ${time(code.expiresAt)}`),
      el('p', {}, el('code', {}, code.resetCode)),
      button('Set a credential', () => useCode(a, code))) : null,
    el('div', { class: 'actions' },
      button('Reset code', () => resetCode(a)),
      button(off ? 'Enable' : 'Disable', () => changeStatus(a,
        off ? 'ACTIVE' : 'DISABLED'), off ? '' : 'danger'),
      button('Audit', () => auditOf(a))));
}

// Instead of what is shown of this account; the focus is on the button that is
// in the place of the one that was pressed.
function showAccount(a, code) {
  const old = [...$('people-list').children]
    .find((item) => item.dataset.id === a.accountId);
  const at = [...old.querySelectorAll('.actions button')]
    .indexOf(document.activeElement);
  const item = accountItem(a, code);
  old.replaceWith(item);
  if (at >= 0) {
    item.querySelectorAll('.actions button')[at].focus();
  }
}

async function invite() {
  const call = await office('POST', 'accounts',
    { body: { account: $('invite-name').value } });
  if (call.status === 201) {
    $('invite-form').reset();
    showList('people', { accounts: [call.json], next: null }, '');
    await resetCode(call.json, call);
  } else {
    show('people', [call], { title: 'Invite' });
  }
}

async function resetCode(a, ...before) {
  const call = await office('POST', `accounts/${a.accountId}/reset-code`,
    { body: {} });
  if (call.status === 201) {
    showAccount(a, call.json);
    call.what = 'A code with which this person sets a credential. It is shown'
      + ' in step 10 alone, and once.';
  }
  show('people', [...before, call],
    { title: before.length ? 'Invite' : 'Make a reset code' });
}

function useCode(a, code) {
  $('reset-account').value = a.account;
  $('reset-code').value = code.resetCode;
  showCommands();
  showAccount(a);
  openStep('login');
  $('new-credential').focus();
}

async function changeStatus(a, status) {
  const call = await office('PATCH', `accounts/${a.accountId}`,
    { body: { status } });
  if (call.status === 200) {
    showAccount({ ...a, ...call.json });
  }
  show('people', [call],
    { title: status === 'ACTIVE' ? 'Enable an account' : 'Disable an account' });
}

function eventItem(e) {
  return el('li', { class: 'item' },
    el('div', { class: 'item-head' }, el('p', {}, el('strong', {}, e.event))),
    facts([['Time', time(e.time)], ['Account', e.accountId],
      ['By', e.operator || e.byAccountId], ['Address', e.address],
      ['Request', e.requestId]]));
}

function readAudit() {
  return list('audit', query('audit',
    { accountId: $('audit-account').value, limit: 5 }));
}

async function auditOf(a) {
  $('audit-account').value = a.accountId;
  openStep('audit');
  await readAudit();
}

function openOffice() {
  on($('client-form'), 'submit', getToken);
  on($('people-form'), 'submit', () => list('people', query('accounts',
    { name: $('people-name').value, limit: 5 })));
  on($('invite-form'), 'submit', invite);
  on($('audit-form'), 'submit', readAudit);
  for (const step of Object.keys(LISTS)) {
    on($(`${step}-next`), 'click', () => nextPage(step));
  }
}
