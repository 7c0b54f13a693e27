// The playground: calls the gateway as a front end would, and shows what was
// sent, what came back, and what the gateway says it decided.  Tokens are kept
// in this page's memory, and nowhere else.  The id of its session, which opens
// nothing, outlives a reload.

'use strict';

const AUTH = '/api/auth/';
const SYSTEM = '/api/system/';
const CONTEXT = '/api/workspaces/current-context';

// Headers of somebody who would like to be somebody else; the last one's name
// is another spelling of a trusted one.
const SPOOFED = {
  'X-Account-Id': 'somebody-else',
  'X-Roles': 'OWNER',
  'X_Workspace_Id': 'another-workspace',
};

// Members of a request or an answer that the log does not show; in answers "code" says
// what came of a call.
const SECRETS = ['credential', 'newCredential', 'resetCode', 'client_secret',
  'secret', 'uri', 'recoveryCodes', 'factorToken', 'challengeToken'];
const SENT_SECRETS = [...SECRETS, 'code'];

const $ = (id) => document.getElementById(id);

const state = {
  gateway: '',
  identity: '', // the command of operators
  passkeys: '', // the domain of passkeys
  access: '', // the branch token
  account: '', // the account token
  refresh: '',
  ended: '', // a branch token of a session that this page ended
  system: '', // the token of a program, which is not of the session
  pending: null, // the answer to a login that waits for a second factor
  branches: [],
  over: false, // an answer said that the session has ended
};

const TOKENS = {
  access: 'Branch token',
  account: 'Account token',
  refresh: 'Refresh token',
  system: 'System token',
};

// What a code means for whoever reads this page; the others have a detail.
const MEANING = {
  AUTH_REFRESH_SUCCESS: 'A new access token and a new refresh token. The old'
    + ' refresh token is used up, and the cookie was set anew.',
  AUTH_SELECT_BRANCH_SUCCESS: 'A branch token: services answer to it.',
  AUTH_SESSIONS_SUCCESS: 'The sessions that have not ended. Last used means'
    + ' the last refresh, or the login; of this window’s session, the login.',
  AUTH_END_SESSION_SUCCESS: 'That session is over: it cannot refresh any more,'
    + ' and within a second no token of it opens the gateway.',
  AUTH_INVALID_CREDENTIALS: 'Unknown account, wrong credential or disabled'
    + ' account: the answer does not tell which.',
  AUTH_RESET_CREDENTIAL_SUCCESS: 'The credential is set, and the code is used'
    + ' up. Every session that the account had is over. The form above has the'
    + ' new credential: log in.',
  AUTH_RESET_CODE_INVALID: 'Unknown or disabled account, or the code is wrong,'
    + ' used, replaced or expired: the answer does not tell which. Five wrong'
    + ' tries use up a code.',
  AUTH_REFRESH_TOKEN_MISSING: 'There was no cookie, so there was nothing to'
    + ' refresh with: log in.',
  AUTH_REFRESH_TOKEN_STALE: 'This refresh token was used before. The session'
    + ' goes on with the newer one.',
  AUTH_REFRESH_TOKEN_CONFLICT: 'The cookie holds another token than this page'
    + ' does: another tab refreshed or logged in. Refresh by cookie to go on'
    + ' with its session.',
  AUTH_SESSION_CHANGED: 'The cookie is of another session by now: another tab'
    + ' has logged in. Nothing was taken over: refresh by cookie to go on with'
    + ' that one, or log in.',
  AUTH_SESSION_NOT_ACTIVE: 'The session has ended: log in again.',
  AUTH_TOO_MANY_ATTEMPTS: 'Too many failed logins: wait as long as'
    + ' Retry-After says.',
  AUTH_FACTOR_INVALID: 'Not right, or used before: the answer does not tell'
    + ' which. Five tries use up a login that waits for a factor.',
  AUTH_FACTOR_TOKEN_INVALID: 'Its token was used, has expired, or had five'
    + ' tries: begin again.',
  AUTH_FACTOR_CHANGED: 'The factor has another name.',
  AUTH_FACTOR_REMOVED: 'No login asks for that one any more. The recovery codes'
    + ' go with the last factor.',
  AUTH_STEP_UP_REQUIRED: 'Not in this session, as it is: this needs a login of'
    + ' the last five minutes, by a second factor if the account has one.',
  GATEWAY_TOKEN_MISSING: 'The path is guarded and no token came along. The'
    + ' service was not asked.',
  AUTH_CLIENT_INVALID: 'Unknown or disabled client, or a wrong secret: the'
    + ' answer does not tell which.',
  AUTH_SCOPE_INVALID: 'A scope that does not exist, or that this client may not'
    + ' have: no token.',
  GATEWAY_TOKEN_EXPIRED: 'The token has expired: refresh, or as a program get'
    + ' another one. The service was not asked.',
  GATEWAY_CONTEXT_FORBIDDEN: 'A good token, but not of the kind that opens'
    + ' this path. The service was not asked.',
  GATEWAY_RATE_LIMITED: 'Too many requests: wait as long as Retry-After says.',
};

// -- making elements --------------------------------------------------------

function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? '' : value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// The name of an id says which it is, and what is seen of it; the whole one is
// in the title, and a click shows and copies it.
function idButton(name, id) {
  const button = el('button', { type: 'button', class: 'id', title: id });
  const write = (text) => {
    button.textContent = text;
    button.setAttribute('aria-label', `Copy ${name} ${text}`);
  };
  write(id.length > 16 ? `${id.slice(0, 6)}…${id.slice(-6)}` : id);
  button.addEventListener('click', async () => {
    write(id);
    try {
      await navigator.clipboard.writeText(id);
      button.classList.add('copied');
      say(`${name} copied`);
    } catch {
      say(`${name} ${id}`);
    }
  });
  return button;
}

// What is as long and opaque as an id, or a list of such.
function value(name, text) {
  const id = /^[0-9a-f]{32}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
  const parts = text.split(',');
  return parts.every((part) => id.test(part))
    ? el('span', { class: 'ids' }, ...parts.map((part) => idButton(name, part)))
    : el('code', {}, text);
}

function say(text) {
  $('said').textContent = text;
}

function plural(n, one, many) {
  return n === 1 ? `${n} ${one}` : `${n} ${many}`;
}

// -- tokens -------------------------------------------------------------------

function fromBase64url(text) {
  const raw = atob(text.replace(/-/g, '+').replace(/_/g, '/'));
  const bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

function toBase64url(text) {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

// Reading is not verifying: a page has no use for a token's signature.
function decode(token) {
  const [header, claims, signature] = token.split('.');
  return {
    header: JSON.parse(fromBase64url(header)),
    claims: JSON.parse(fromBase64url(claims)),
    signature: signature || '',
  };
}

function short(text, most) {
  return text.length <= most ? text
    : `${text.slice(0, most - 8)}… (${text.length.toLocaleString('en')}`
      + ' characters)';
}

// Tokens in what is shown are cut: whole ones are noise, and stand decoded
// under "Your session".
function withoutTokens(text) {
  return text.replace(/eyJ[\w-]+\.[\w-]+\.[\w-]*/g, (token) => short(token, 28));
}

function pretty(text, secrets) {
  try {
    return withoutTokens(JSON.stringify(JSON.parse(text, (name, value) =>
      (secrets.includes(name) ? '…' : value)), null, 2));
  } catch {
    return withoutTokens(text);
  }
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleString('en-GB');
}

function left(exp) {
  const s = Math.floor(exp - Date.now() / 1000);
  if (s <= 0) {
    return 'expired';
  }
  if (s >= 2 * 86400) {
    return `${Math.floor(s / 86400)} days left`;
  }
  const two = (n) => String(n).padStart(2, '0');
  return s >= 3600
    ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)} h left`
    : `${Math.floor(s / 60)}:${two(s % 60)} left`;
}

function sessionOf(token) {
  return token && decode(token).claims.session_id;
}

function changed(token, how) {
  const [header, claims, signature] = token.split('.');
  const edit = (part, f) => {
    const value = JSON.parse(fromBase64url(part));
    f(value);
    return toBase64url(JSON.stringify(value));
  };
  switch (how) {
    case 'roles':
      return [header, edit(claims, (c) => { c.roles = ['OWNER']; }), signature]
        .join('.');
    case 'exp':
      return [header, edit(claims, (c) => { c.exp += 365 * 86400; }), signature]
        .join('.');
    case 'none':
      return [edit(header, (h) => { h.alg = 'none'; }), claims, signature]
        .join('.');
    default:
      return token.slice(0, -12);
  }
}

// -- calls ----------------------------------------------------------------------

// Makes a call and tells all of it: never throws.
async function send(o) {
  const headers = { ...o.headers };
  if (o.correlation) {
    headers['X-Correlation-Id'] = o.correlation;
  }
  if (o.token) {
    headers.Authorization = `Bearer ${o.token}`;
  }
  if (o.body !== undefined) {
    headers['Content-Type'] = 'application/json';
  }
  const call = { ...o, headers, url: state.gateway + o.path };
  // Of a call that ends its own session the gateway thinks otherwise later.
  const before = o.ends && await explain(call);
  const start = performance.now();
  try {
    const answer = await fetch(o.relay ? '/relay' : call.url, {
      method: o.relay ? 'POST' : o.method,
      headers,
      body: o.form ? new URLSearchParams(o.form)
        : o.body === undefined ? undefined : JSON.stringify(o.body),
      credentials: o.credentials || 'omit',
      cache: 'no-store',
    });
    call.text = await answer.text();
    call.end = performance.now();
    call.ms = call.end - start;
    call.status = answer.status;
    call.statusText = answer.statusText;
    call.answered = [...answer.headers];
    call.requestId = answer.headers.get('X-Request-Id');
    call.correlationId = answer.headers.get('X-Correlation-Id');
    try {
      call.json = JSON.parse(call.text);
    } catch {
      call.json = null;
    }
  } catch {
    call.ms = performance.now() - start;
    call.status = 0;
    call.json = null;
  }
  call.explained = before || await explain(call);
  const token = call.token || (call.body && call.body.refreshToken);
  if (isOver(call) && token && sessionOf(token) === sessionOf(state.refresh)) {
    state.over = true;
    showSession();
  }
  return call;
}

// Whether it was refused because the session has ended.
function isOver(call) {
  return call.status === 401
    && ((call.json && call.json.code === 'AUTH_SESSION_NOT_ACTIVE')
      || (call.explained && call.explained.reason === 'session_revoked'));
}

// What the gateway would do with the same request, and why.
async function explain(call) {
  const question = { method: call.method, path: call.path };
  if (call.token) {
    question.token = call.token;
  }
  question.headers = Object.keys(call.headers).join(', ');
  if (!call.relay) {
    question.origin = call.origin || location.origin;
  }
  try {
    const answer = await fetch('/explain', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(question),
      credentials: 'omit',
      cache: 'no-store',
    });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

// One name for all calls of one click, in every log on the way.
function correlation() {
  const bytes = crypto.getRandomValues(new Uint8Array(4));
  return 'playground-' + [...bytes]
    .map((b) => b.toString(16).padStart(2, '0')).join('');
}

function refreshCall(id, body) {
  const wanted = $('include-account').checked
    ? { includeAccountToken: true } : {};
  const whole = { ...body, ...wanted };
  return {
    method: 'POST',
    path: AUTH + 'refresh',
    body: Object.keys(whole).length ? whole : undefined,
    credentials: 'include',
    correlation: id,
  };
}

// -- showing a call -----------------------------------------------------------------

function requestText(call) {
  const lines = [`${call.method} ${call.path} HTTP/1.1`,
    `Host: ${new URL(state.gateway).host}`];
  if (!call.relay) {
    lines.push(`Origin: ${location.origin}`);
  }
  for (const [name, value] of Object.entries(call.headers)) {
    lines.push(`${name}: ${withoutTokens(value)}`);
  }
  if (call.form) {
    // The browser's own header, for which it need not ask first.
    lines.push('Content-Type: application/x-www-form-urlencoded;charset=UTF-8',
      '', Object.entries(call.form).map(([name, text]) =>
        `${name}=${SENT_SECRETS.includes(name) ? '…'
          : encodeURIComponent(text)}`).join('&'));
  }
  if (call.body !== undefined) {
    lines.push('', pretty(JSON.stringify(call.body), SENT_SECRETS));
  }
  return lines.join('\n');
}

// Why a browser asks first; "" where it need not.
function preflight(call) {
  if (call.relay) {
    return 'Sent by this page’s own server, as a program would: no browser,'
      + ' so no preflight.';
  }
  const why = Object.keys(call.headers).join(', ');
  const asked = !why ? 'No preflight: nothing here needs one.'
    : `The browser asked first (OPTIONS), because of ${why}. `
      + (call.status ? 'It remembers the permission for ten minutes.'
        : 'It was refused.');
  return asked
    + (call.credentials === 'include'
      ? ' Credentials are included: the browser sends and keeps the cookie.'
      : ' Credentials are omitted: no cookie goes along.');
}

function responseText(call) {
  const lines = [`HTTP/1.1 ${call.status} ${call.statusText}`.trim()];
  for (const [name, value] of call.answered) {
    lines.push(`${name}: ${value}`);
  }
  lines.push('', pretty(call.text, SECRETS));
  return lines.join('\n');
}

const MARKS = { passed: '✓', failed: '✗', skipped: '–' };

function decision(call) {
  const e = call.explained;
  if (!e) {
    return el('p', { class: 'small' }, 'The gateway gave no explanation.');
  }
  // Each check that failed, in order, then the others in a line each.
  const list = el('ul', { class: 'checks' });
  const row = (result, text) => list.append(el('li', { class: result },
    el('span', { class: 'mark', 'aria-hidden': 'true' }, MARKS[result]),
    el('span', {}, text)));
  const of = (result) => e.checks.filter((c) => c.result === result);
  for (const c of of('failed')) {
    row('failed', `${c.check}: ${c.detail || c.reason}`);
  }
  for (const result of ['passed', 'skipped']) {
    if (of(result).length) {
      row(result, `${result}: ${of(result).map((c) => c.check).join(', ')}`);
    }
  }
  const where = e.location && e.location.name
    ? `Location ${e.location.name} takes: ${(e.location.access || [])
      .join(' or ')}.` : '';
  const then = e.decision !== 'allow' ? ''
    : e.headers.length
      ? ` Passed on with ${plural(e.headers.length, 'trusted header',
        'trusted headers')}.`
      : ' Passed on without a trusted header: nobody is verified here.';
  const answered = e.decision !== 'allow'
    ? call.status && call.status < 400
      ? ' It was let in a moment before that.' : ''
    : call.status < 400 ? ''
    : /^GATEWAY_/.test(call.json && call.json.code)
      ? ' The refusal came later: limits and the state of the service are not'
        + ' part of an explanation.'
      : ' The refusal is the service’s own.';
  return el('div', {}, el('p', { class: 'small' }, where + then + answered),
    list);
}

// -- the way of a request -----------------------------------------------------------

// The gateway's steps that explain() has checks for, each with the first of them.
const CHECKED = { route: 'path', token: 'bearer', guard: 'session|context' };

// Explain's checks by step, in its order.
function checksByStep(checks) {
  const groups = { route: [], token: [], guard: [] };
  let at = 'route';
  for (const c of checks) {
    at = Object.keys(CHECKED).find((step) =>
      CHECKED[step].split('|').includes(c.check)) || at;
    groups[at].push(c);
  }
  return groups;
}

function checkedStep(name, checks, note) {
  const of = (result) => checks.filter((c) => c.result === result);
  const [failed] = of('failed');
  return failed ? { name, result: 'failed', note: failed.check }
    : of('passed').length
      ? { name, result: 'passed', note: note || plural(of('passed').length,
        'check', 'checks') }
      : { name, result: 'skipped', note: 'not needed' };
}

// How far a request gets: what explain() said, and what became of the call.
function steps(call) {
  const e = call.explained;
  const { route, token, guard } = checksByStep(e.checks);
  const at = e.location || {};
  const own = !/^GATEWAY_/.test((call.json && call.json.code) || '');
  const lost = !call.status && !call.origin && e.decision !== 'deny';
  const all = [
    { name: call.relay ? 'program' : call.origin ? 'other page' : 'browser',
      result: 'passed', end: true, note: lost ? 'no answer' : '' },
    { name: 'ids', result: call.requestId ? 'passed' : 'skipped',
      note: call.requestId ? 'in the answer' : 'not told' },
    { name: 'strip', result: 'passed', note: e.stripped.length
      ? `${e.stripped.length} removed` : 'nothing found' },
    checkedStep('route', route, at.name),
    checkedStep('token', token),
    checkedStep('guard', guard, (at.access || []).join(' or ')),
    { name: 'inject', result: e.headers.length ? 'passed' : 'skipped',
      note: e.headers.length ? plural(e.headers.length, 'header', 'headers')
        : 'nobody verified' },
    { name: 'service', end: true, note: at.serviceName,
      result: !call.status || !own ? 'skipped'
        : call.status < 400 ? 'passed' : 'failed' },
  ];
  // It ends where the first check failed, or before a service that was not
  // asked: what a limit refuses is no part of an explanation.  How far a call
  // without an answer got, nobody knows.
  const stop = lost ? 0 : e.decision === 'deny'
    ? all.findIndex((step) => step.result === 'failed')
    : call.status && !own ? all.length - 2 : all.length - 1;
  all.slice(stop + 1).forEach((step) => {
    Object.assign(step, { result: 'unreached', note: '' });
  });
  return all;
}

const SAID = { passed: 'passed', failed: 'refused here', skipped: 'skipped',
  unreached: 'not reached' };

function way(call) {
  if (!call.explained || call.explained.decision === undefined) {
    return '';
  }
  const all = steps(call);
  const list = el('ol', { class: 'way', 'aria-label': 'The way of the request' },
    ...all.map((step) => el('li', { class: step.end
      ? `${step.result} end` : step.result, 'data-at': step.name },
    el('span', { class: 'dot', 'aria-hidden': 'true' },
      step.end ? '' : MARKS[step.result] || ''),
    el('span', { class: 'at' }, step.name),
    el('span', { class: 'unseen' }, `: ${SAID[step.result]}. `),
    el('span', { class: 'note' }, ...breakable(step.note || '')))));
  // The answer's way back begins where the request ended.
  const back = el('div', { class: 'back', 'aria-hidden': 'true' }, el('span'));
  back.style.setProperty('--length',
    all.filter((step) => step.result !== 'unreached').length);
  const no = call.explained.decision === 'deny'
    ? el('p', { class: 'reason' }, `${failedCheck(call)} `,
      el('code', {}, call.explained.reason)) : '';
  return el('div', {}, list, back, no);
}

function removed(call) {
  const names = call.explained ? call.explained.stripped || [] : [];
  return names.length ? el('p', { class: 'removed' }, 'Stripped: ',
    ...names.flatMap((name) => [el('del', {}, name), ' '])) : '';
}

function fold(title, note, content) {
  return el('details', {},
    el('summary', {}, title + ' ', el('span', { class: 'quiet' }, note)),
    ...[].concat(content));
}

function decisionFold(call) {
  const e = call.explained;
  return fold('Gateway', e ? `${e.decision || 'none'}: ${e.reason}`
    : 'not told', decision(call));
}

function meaning(call) {
  if (call.what) {
    return call.what;
  }
  if (!call.status) {
    return 'No answer reached this page. Either the browser was refused when it'
      + ' asked first (CORS), or nothing listens there.';
  }
  const json = call.json || {};
  if (json.code === 'GATEWAY_TOKEN_INVALID') {
    return (call.explained && call.explained.decision === 'deny' ? ''
      : `Refused: ${json.detail}. `) + 'The service was not asked.'
      + (isOver(call) ? ' By itself the token is good, with '
        + `${left(decode(call.token).claims.exp)}.` : '');
  }
  if (json.code === 'AUTH_SESSION_NOT_ACTIVE' && call.path.startsWith(SYSTEM)) {
    return 'The token is over: the program was disabled, or lost a secret, a key'
      + ' or a scope.';
  }
  if (json.code === 'AUTH_SCOPE_REQUIRED') {
    const [, scope] = /scope="([^"]*)"/.exec(new Headers(call.answered)
      .get('WWW-Authenticate')) || ['', 'it needs'];
    return `The token lacks the scope ${scope}.`;
  }
  return MEANING[json.code] || json.detail || json.message || '';
}

function loginAgain() {
  return el('a', { class: 'again', href: '#login' }, 'Log in again');
}

// The way out after a token that is good no more.
function again(call) {
  return call.path.startsWith(SYSTEM)
    ? call.status === 401
      && el('a', { class: 'again', href: '#client' }, 'Get another token')
    : call.json && call.json.code === 'AUTH_STEP_UP_REQUIRED'
      ? el('a', { class: 'again', href: '#factor' }, 'Step up')
      : isOver(call) && loginAgain();
}

function facts(rows) {
  const list = el('dl', { class: 'facts' });
  for (const [name, text] of rows) {
    if (text) {
      list.append(el('dt', {}, name), el('dd', {}, value(name, text)));
    }
  }
  return list;
}

// A path that a narrow screen breaks after a slash, and nowhere else.
function breakable(path) {
  return (path.match(/[^/]*\/|[^/]+/g) || [])
    .map((part) => el('span', { class: 'part' }, part));
}

function badge(call) {
  return el('span', { class: call.status >= 200 && call.status < 300
    ? 'badge' : 'badge bad' }, call.status ? String(call.status) : 'blocked');
}

function card(call) {
  const code = (call.json && call.json.code) || '';
  const ok = call.status >= 200 && call.status < 300;
  const box = el('article', { class: ok ? 'call' : 'call refused' },
    call.name ? el('p', { class: 'call-name' }, call.name) : null,
    el('h3', {}, el('code', {}, `${call.method} `, ...breakable(call.path))),
    way(call),
    el('p', { class: 'call-line' }, badge(call),
      code ? el('code', {}, code) : null,
      el('span', { class: 'time' }, `${Math.round(call.ms)} ms`)),
    el('p', { class: 'what' }, meaning(call)));
  box.append(again(call) || '', removed(call), ...(call.tables || []),
    facts([['X-Request-Id', call.requestId],
      ['X-Correlation-Id', call.correlationId]]));

  const pre = (text, label) =>
    el('pre', { tabindex: '0', role: 'group', 'aria-label': label }, text);
  box.append(el('div', { class: 'folds' },
    fold('Request', call.relay ? 'of the relay'
      : call.status ? 'as sent' : 'not sent',
      [pre(requestText(call), 'Request'),
        el('p', { class: 'small' }, preflight(call))]),
    call.status
      ? fold('Response', 'as scripts read it',
        pre(responseText(call), 'Response'))
      : '',
    decisionFold(call)));
  return box;
}

// Shows what came of a step, newest first; what was shown before folds.
const KEPT = 12;

function log(step, cards, badges, verdict, title) {
  const name = title || $(step).querySelector('h2').textContent;
  const entry = el('details', { class: 'entry', 'data-step': step, open: true },
    el('summary', {}, el('span', { class: 'entry-title' }, name),
      ...badges, el('span', { class: 'time' },
        new Date().toLocaleTimeString('en-GB'))),
    ...(verdict ? [el('p', { class: 'verdict' }, verdict)] : []), ...cards);
  for (const old of document.querySelectorAll('.entry')) {
    old.open = false;
  }
  $('log').prepend(entry);
  [...$('log').children].slice(KEPT).forEach((old) => old.remove());
  $('nothing-yet').hidden = true;
  place($(step));
  $('beside').scrollTop = 0;
  if (narrow.matches) {
    entry.scrollIntoView({ block: 'nearest',
      behavior: calm.matches ? 'auto' : 'smooth' });
  }
}

function show(step, calls, { verdict, title } = {}) {
  log(step, calls.map(card), calls.map(badge), verdict, title);
  say(verdict || calls.map((c) => `${c.path}: ${c.status || 'blocked'}. `
    + meaning(c)).join(' '));
}

// -- the steps of the page ------------------------------------------------------------

const narrow = matchMedia('(max-width: 60rem)');
const calm = matchMedia('(prefers-reduced-motion: reduce)');

// Where there is one column, the session stands above the steps, and what
// happened below its step.
function place(step) {
  if (narrow.matches) {
    $('steps').before($('beside'));
    (step || $('steps').lastElementChild).after($('happened'));
  } else {
    $('steps').after($('beside'));
    $('beside').append($('happened'));
  }
}

// Only one is open.  The focus does not stay in one that closes.
function openStep(id) {
  const from = document.activeElement.closest('.step');
  for (const step of document.querySelectorAll('.step')) {
    step.open = step.id === id;
  }
  if (from && from.id !== id) {
    $(id).querySelector('summary').focus({ preventScroll: narrow.matches });
  }
}

// -- the session ---------------------------------------------------------------------

// Takes over what an answer brought; it may be another window's session.
function take(json) {
  if (json.refreshToken
    && sessionOf(json.refreshToken) !== sessionOf(state.refresh)) {
    forget();
  }
  state.pending = null;
  state.refresh = json.refreshToken || state.refresh;
  state.account = json.accountAccessToken || state.account;
  state.branches = json.branches || state.branches;
  sessionStorage.setItem('session', sessionOf(state.refresh));
  state.access = json.accessToken
    || (json.nextAction && json.nextAction.type === 'select_branch'
      ? '' : state.access);
  showSession();
}

function forget() {
  Object.assign(state, { access: '', account: '', refresh: '', branches: [],
    over: false });
  sessionStorage.removeItem('session');
  showSessions({ sessions: [] });
  forgetFactors();
  showSession();
}

// The session is over since this page ended it.
function leave() {
  state.ended = state.access || state.ended;
  forget();
}

function branchName(id) {
  const branch = state.branches.find((b) => b.branchId === id);
  return branch ? branch.branchName : id;
}

function tokenBox(kind) {
  const token = state[kind];
  const { header, claims, signature } = decode(token);
  const times = `Issued ${clock(claims.iat)}, expires ${clock(claims.exp)}.`;
  return el('details', { class: 'token', 'data-kind': kind },
    el('summary', {}, TOKENS[kind],
      el('span', { class: 'left', 'data-exp': claims.exp }, left(claims.exp))),
    el('p', { class: 'small' }, times),
    el('pre', { tabindex: '0', role: 'group',
      'aria-label': `${TOKENS[kind]}, decoded` },
    `${JSON.stringify(header, null, 2)}\n\n`
      + `${JSON.stringify(claims, null, 2)}\n\n`
      + `signature: ${short(signature, 28)}`));
}

function showSession() {
  const open = [...document.querySelectorAll('.token[open]')]
    .map((box) => box.dataset.kind);
  const kinds = Object.keys(TOKENS)
    .filter((kind) => state[kind] && kind !== 'system');
  $('tokens').replaceChildren(...kinds.map(tokenBox));
  $('client-token').replaceChildren(state.system ? tokenBox('system') : '');
  for (const box of document.querySelectorAll('.token')) {
    box.open = open.includes(box.dataset.kind);
  }

  $('session-state').replaceChildren(...state.over
    ? ['This session has ended: its tokens are refused. ', loginAgain()]
    : state.access
    ? [`Working in ${branchName(decode(state.access).claims.active_branch_id)}.`]
    : state.account ? ['Logged in, no branch chosen.']
      : state.pending ? ['Not logged in: a second factor is missing.']
        : ['Not logged in.']);
  $('session-id').replaceChildren(state.refresh
    ? idButton('Session', sessionOf(state.refresh)) : '');
  $('session-id').parentElement.hidden = !state.refresh;
  $('memory').hidden = !state.refresh;
  for (const [step, done] of [['login', state.refresh],
    ['branch', state.access], ['client', state.system]]) {
    const n = $(step).querySelector('.n');
    n.dataset.n = n.dataset.n || n.textContent;
    n.textContent = done ? '✓' : n.dataset.n;
    n.classList.toggle('done', Boolean(done));
  }

  const groups = new Map();
  for (const b of state.branches) {
    const key = b.workspaceId;
    if (!groups.has(key)) {
      groups.set(key, el('optgroup', { label: b.workspaceName }));
    }
    groups.get(key).append(el('option', { value: b.branchId }, b.branchName));
  }
  $('branches').replaceChildren(...groups.values());
  $('branch-form').hidden = !state.account || !state.branches.length;
  $('branch-hint').hidden = !$('branch-form').hidden;
  $('branch-hint').textContent = !kinds.length
    ? 'Log in first.'
    : state.account ? 'This account has no branch to choose.'
      : 'Nothing to choose: the session is in a branch already. To switch,'
        + ' refresh and ask for an account token (step 4).';

  const token = $('call-token');
  for (const option of token.options) {
    option.disabled = option.value !== 'none' && !state[option.value];
  }
  token.value = state.access ? 'access' : state.account ? 'account' : 'none';

  const waits = state.pending && state.pending.nextAction.type;
  const { factors: asked = [] } = state.pending || {};
  $('asked').hidden = waits !== 'verify_factor';
  $('verify-form').hidden = !asked.some((kind) => kind !== 'passkey');
  $('verify-passkey').parentElement.hidden = !asked.includes('passkey');
  const has = { ...state, owner: state.refresh || waits === 'enroll_factor' };
  for (const kind of ['access', 'refresh', 'system', 'owner']) {
    for (const button of document.querySelectorAll(`.needs-${kind}`)) {
      button.disabled = !has[kind];
    }
    for (const hint of document.querySelectorAll(`.for-${kind}`)) {
      hint.hidden = Boolean(has[kind]);
    }
  }
}

function time(text) {
  return text && clock(Date.parse(text) / 1000);
}

function sessionItem(s) {
  const end = el('button', { type: 'button', class: 'second danger',
    'aria-label': `End session ${s.sessionId}` }, 'End session');
  on(end, 'click', () => endSession(s));
  return el('li', { class: s.current ? 'item current' : 'item' },
    el('div', { class: 'item-head' },
      el('p', {}, el('strong', {}, s.branchId
        ? `${s.workspaceName}, ${s.branchName}` : 'No branch chosen'),
      s.current ? el('span', { class: 'badge' }, 'this window') : null),
      end),
    facts([['Logged in', time(s.createdAt)], ['Last used', time(s.usedAt)],
      ['Address', s.address], ['User-Agent', s.agent],
      ['Session', s.sessionId]]));
}

function showSessions({ sessions, more }) {
  $('session-list').replaceChildren(...sessions.map(sessionItem));
  $('session-list').hidden = !sessions.length;
  $('session-more').hidden = !more;
}

function tick() {
  for (const span of document.querySelectorAll('[data-exp]')) {
    span.textContent = left(Number(span.dataset.exp));
  }
}

// -- tables ----------------------------------------------------------------------------

function table(caption, heads, rows) {
  return el('table', {}, el('caption', {}, caption),
    el('thead', {}, el('tr', {},
      ...heads.map((h) => el('th', { scope: 'col' }, h)))),
    el('tbody', {}, ...rows.map(([first, ...others]) => el('tr', {},
      el('th', { scope: 'row' }, first),
      ...others.map((text) => el('td', {}, value(first, text)))))));
}

function arrived(call) {
  const rows = Object.entries(call.json.headers)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, short(value, 160)]);
  return table('Headers that reached the service', ['Header', 'Value'], rows);
}

function compared(call) {
  const spelled = (name) => name.replace(/_/g, '-');
  const rows = Object.entries({ ...SPOOFED,
    'X-Correlation-Id': call.correlation })
    .map(([name, value]) =>
      [name, value, call.json.headers[spelled(name)] || 'nothing']);
  return table('Sent, and what reached the service',
    ['Header', 'Sent', 'Arrived'], rows);
}

// -- the steps ----------------------------------------------------------------------------

function isLogin(call) {
  return Boolean(call.json) && call.json.code === 'AUTH_LOGIN_SUCCESS';
}

// Takes over what a login brought, and says what that is.
function begun(call) {
  take(call.json);
  const n = state.branches.length;
  call.what = state.access
    ? 'One branch, so nothing to choose: here is the branch token.'
    : n ? `${plural(n, 'branch', 'branches')} to choose from: an account`
      + ' token and the list.'
      : 'No branch: an account token, and nothing that it opens.';
  call.what += ' The refresh token came twice, in the body and as an HttpOnly'
    + ' cookie.';
}

function goOn() {
  if (state.access || state.branches.length) {
    openStep(state.access ? 'call' : 'branch');
  }
}

async function login() {
  const call = await send({
    method: 'POST',
    path: AUTH + 'login',
    body: { account: $('account').value, credential: $('credential').value },
    credentials: 'include',
    correlation: correlation(),
  });
  if (isLogin(call)) {
    begun(call);
  } else if (call.status === 200) {
    half(call);
  }
  show('login', [call]);
  if (isLogin(call)) {
    goOn();
  } else if (call.status === 200) {
    goOnWithHalf();
  }
}

// An argument as a shell reads it.
function quoted(text) {
  return /^[\w@.+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

// A command of operators, which breaks where a shell lets it.
function command(...words) {
  return [state.identity.replace(' --', ' \\\n  --'), ...words].join(' \\\n  ');
}

function showCommands() {
  $('reset-command').textContent = command('account reset-code '
    + quoted($('reset-account').value));
}

async function resetCredential() {
  const account = $('reset-account').value;
  const newCredential = $('new-credential').value;
  const call = await send({
    method: 'POST',
    path: AUTH + 'reset-credential',
    body: { account, resetCode: $('reset-code').value, newCredential },
    correlation: correlation(),
  });
  if (call.status === 200) {
    $('reset-form').reset();
    $('reset-account').value = account;
    $('account').value = account;
    $('credential').value = newCredential;
  }
  show('login', [call], { title: 'Set a credential with a reset code' });
}

async function chooseBranch() {
  const call = await send({
    method: 'POST',
    path: AUTH + 'select-branch',
    token: state.account,
    body: { branchId: $('branches').value },
    correlation: correlation(),
  });
  if (call.status === 200) {
    const chosen = $('branches').value;
    take(call.json);
    $('branches').value = chosen;
  }
  show('branch', [call]);
  if (call.status === 200) {
    openStep('call');
  }
}

function contextCall(token, more) {
  return { method: 'GET', path: CONTEXT, token, ...more };
}

// The answer of the stand-in, in words.
function describeContext(call) {
  if (call.status === 200) {
    call.what = 'The service answered. It was sent no token, only who is'
      + ' asking, in headers that nobody but the gateway can have set.';
    call.tables = [arrived(call)];
  }
  return call;
}

async function callService() {
  const kind = $('call-token').value;
  const call = await send(contextCall(state[kind] || '',
    { correlation: correlation() }));
  show('call', [describeContext(call)]);
}

async function refresh(body) {
  const call = await send(refreshCall(correlation(), body));
  if (call.status === 200) {
    take(call.json);
  }
  show('refresh', [call]);
}

// After a reload.  By its id: the cookie may be of another session by now.
async function restore() {
  const sessionId = sessionStorage.getItem('session');
  if (!sessionId) {
    return;
  }
  const call = await send(refreshCall(correlation(), { sessionId }));
  if (call.status === 200) {
    take(call.json);
  } else if (call.status) {
    forget();
  }
  show('refresh', [call], { title: 'Reload' });
  if (call.status === 200) {
    openStep(state.access ? 'call' : 'branch');
  }
}

// As two tabs do it: by the cookie, and with nothing that the browser would have
// to ask for first, so that both are on their way before one is answered.
async function race() {
  const o = { method: 'POST', path: AUTH + 'refresh', credentials: 'include' };
  const calls = await Promise.all([send({ ...o, name: 'First call' }),
    send({ ...o, name: 'Second call' })]);
  const won = calls.filter((call) => call.status === 200)
    .sort((a, b) => a.end - b.end);
  won.forEach((call) => take(call.json));
  show('refresh', calls, { verdict: [
    'Neither won: log in again.',
    `One of the two won: the ${won.length && won[0].name.toLowerCase()}. The`
      + ' session goes on with its tokens, so two tabs do no harm.',
    'No race: the second call was sent after the first was answered, with the'
      + ' new cookie. Try again.',
  ][won.length] });
}

// What the first check that failed says.
function failedCheck(call) {
  const checks = call.explained ? call.explained.checks : [];
  const failed = checks.find((c) => c.result === 'failed');
  return failed && (failed.detail || failed.reason);
}

async function spoof() {
  const call = await send(contextCall(state.access,
    { headers: SPOOFED, relay: true, correlation: correlation() }));
  if (call.status === 200) {
    call.what = 'Let through, as you. What was claimed is gone: the headers were'
      + ' removed and set from the verified token. A header that is not trusted,'
      + ' such as X-Correlation-Id, arrives as it was sent.';
    call.tables = [compared(call)];
  }
  show('cheat', [call], { title: 'Claim to be somebody else' });
}

async function spoofInBrowser() {
  const id = correlation();
  const plain = await send(contextCall(state.access,
    { correlation: id, name: 'Without them' }));
  const call = await send(contextCall(state.access,
    { headers: SPOOFED, correlation: id, name: 'With them' }));
  if (plain.status === 200) {
    plain.what = 'The same call without the claims: let through.';
  }
  if (!call.status && failedCheck(call)) {
    call.what = 'Not sent. The browser asked the gateway whether this page may'
      + ' send these headers, and it may not.';
  }
  show('cheat', [plain, call], { title: 'Claim to be somebody else' });
}

async function tamper() {
  const id = correlation();
  const how = $('tamper').value;
  const calls = await Promise.all([
    send(contextCall(state.access,
      { correlation: id, name: 'The token as it is' })),
    send(contextCall(changed(state.access, how),
      { correlation: id, name: 'The changed copy' })),
  ]);
  if (calls[0].status === 200) {
    calls[0].what = 'Verified: the service was asked.';
  }
  show('cheat', calls, { title: 'Tamper with the token' });
}

// What the gateway would say to another page: no page can send for one.
async function askForPage() {
  const call = contextCall(state.access, { origin: $('origin').value,
    headers: { Authorization: '' }, status: 0 });
  call.explained = await explain(call);
  const no = call.explained ? failedCheck(call) : 'the gateway did not answer';
  const said = no ? `A page of ${call.origin} may not call it: ${no}.`
    : `A page of ${call.origin} may call it, and read the answer.`;
  log('cheat', [el('article', { class: no ? 'call refused' : 'call' },
    el('h3', {}, el('code', {}, `${call.method} `, ...breakable(call.path))),
    way(call), el('p', { class: 'what' }, said),
    el('div', { class: 'folds' }, decisionFold(call)))],
  [el('span', { class: no ? 'badge bad' : 'badge' }, no ? 'would be refused'
    : 'would be allowed')], '', 'Call from another page');
  say(said);
}

function authorized(method, what, more) {
  return { method, path: AUTH + what, token: state.access || state.account,
    correlation: correlation(), ...more };
}

// What is shown below the list is what was asked for, and then the list.
async function sessions(...before) {
  const call = await send(authorized('GET', 'sessions',
    before.length ? { correlation: before[0].correlation } : {}));
  showSessions(call.status === 200 ? call.json : { sessions: [] });
  show('sessions', [...before, call]);
  if (before.length) {
    $('sessions-show').focus();
  }
}

// `own`: of this session too, so the cookie goes along, to be cleared.
async function end(o, own) {
  const call = await send({ ...o, ends: own,
    credentials: own ? 'include' : 'omit' });
  const n = call.json && call.json.endedSessions;
  if (call.status === 200 && n !== undefined) {
    call.what = `${plural(n, 'session', 'sessions')} ended. Within a second no`
      + ' token of theirs opens the gateway.';
  }
  if (call.status === 200 && own) {
    leave();
    show('sessions', [call]);
  } else {
    await sessions(call);
  }
}

function endSession(s) {
  return end(authorized('DELETE', `sessions/${s.sessionId}`), s.current);
}

async function logout() {
  const call = await send({
    method: 'POST',
    path: AUTH + 'logout',
    token: state.access || state.account,
    credentials: 'include',
    correlation: correlation(),
  });
  if (call.status === 200) {
    leave();
  }
  show('logout', [call]);
}

// -- beginning ------------------------------------------------------------------------------

let busy = false;

// One step at a time; its button keeps the focus.
function on(box, event, step) {
  box.addEventListener(event, async (e) => {
    e.preventDefault();
    if (busy) {
      return;
    }
    busy = true;
    const button = event === 'submit' ? box.querySelector('button') : box;
    button.setAttribute('aria-disabled', 'true');
    try {
      await step();
    } finally {
      button.removeAttribute('aria-disabled');
      busy = false;
    }
  });
}

async function begin() {
  $('page-origin').textContent = location.origin;
  $('spoofed').textContent = Object.entries(SPOOFED)
    .map(([name, value]) => `${name}: ${value}`).join('\n');
  showSession();

  $('demo').addEventListener('change', () => {
    $('account').value = $('demo').value;
    $('credential').value = 'Demo-passw0rd!';
  });
  on($('login-form'), 'submit', login);
  on($('reset-form'), 'submit', resetCredential);
  $('reset-account').addEventListener('input', showCommands);
  on($('branch-form'), 'submit', chooseBranch);
  on($('call-form'), 'submit', callService);
  on($('refresh-body'), 'click', () => refresh({ refreshToken: state.refresh }));
  on($('refresh-cookie'), 'click', () => refresh({}));
  on($('refresh-race'), 'click', race);
  on($('spoof'), 'click', spoof);
  on($('spoof-browser'), 'click', spoofInBrowser);
  on($('origin-form'), 'submit', askForPage);
  on($('tamper-form'), 'submit', tamper);
  on($('sessions-show'), 'click', () => sessions());
  on($('logout-others'), 'click', () =>
    end(authorized('POST', 'logout-others'), false));
  on($('logout-all'), 'click', () =>
    end(authorized('POST', 'logout-all'), true));
  on($('logout-button'), 'click', logout);
  openFactors();
  openOffice();
  document.addEventListener('click', (e) => {
    const link = e.target.closest('a[href^="#"]');
    const to = link && document.querySelector(link.hash);
    if (to && to.matches('.step')) {
      openStep(to.id);
      to.querySelector('summary').focus();
    }
  });
  const arrange = () => {
    const [newest] = document.querySelectorAll('.entry');
    place(newest && $(newest.dataset.step));
  };
  narrow.addEventListener('change', arrange);
  arrange();
  setInterval(tick, 1000);

  Object.assign(state, await (await fetch('settings.json')).json());
  showCommands();
  showClientCommands();
  offerPasskeys();
  $('gateway-origin').textContent = state.gateway;
  if (new URL(state.gateway).hostname !== location.hostname) {
    $('site-warning').hidden = false;
    $('site-warning').textContent = 'The gateway has another host name than'
      + ' this page, so the browser takes them for two sites and the cookie'
      + ' does not come along. Refresh by body works.';
  }
  await restore();
  let ready = false;
  try {
    ready = (await fetch(`${state.gateway}/readyz`)).ok;
  } catch {
    // Then it is not.
  }
  $('gateway-state').textContent = ready ? 'ready' : 'not ready';
  $('gateway-state').className = ready ? 'is-good' : 'is-bad';
}

begin();
