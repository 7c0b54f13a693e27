/*
 * A client of the platform gateway in this file and its types, without
 * dependencies: for browsers, and for whatever else has fetch.
 *
 *   const client = new PlatformClient({ base: 'https://api.example.com' });
 *   if (!await client.restore()) await client.login(account, credential);
 *   if (!client.ready) await client.selectBranch(client.branches[0].branchId);
 *   const answer = await client.fetch('/api/workspaces/current-context');
 *
 * In a browser the refresh token stays in its HttpOnly cookie, where no script
 * can read it.  Elsewhere give a `store` that keeps it: a keychain, say.
 *
 * Tabs of a browser share that cookie and its session, and each has a branch of
 * its own: a tab selects it again if a refresh finds the branch of another tab.
 * If another tab has logged in, no call is made as that session: each fails
 * with status 409, and on('sessionChanged') tells the page, which goes on with
 * restore() or login().
 *
 * One refresh runs at a time, over all tabs where there are Web Locks.  If its
 * answer is lost it is sent again with the same token, and gets the same answer
 * if the service has PLATFORM_AUTH_REFRESH_RETRY_WINDOW.  Calls do not wait for
 * that: they fail with the code OFFLINE in two seconds.
 *
 * With `dpop: true` the session is bound to a key, which no script can export
 * and pages of this origin share: tokens alone are worth nothing (RFC 9449).  If
 * the key is lost, log in again.
 *
 * Every failure is a PlatformError; go by its `code`.
 */

import type { AddedTotp, Answer, Branch, CallOptions, Challenge, ClientCode,
  Code, Context, Events, FactorAsked, Factors, Fault, InBranch, Me, Next, Options, OwnSession,
  Problem, Session, SteppedUp, TokenStore, Totp } from './types.js';

export type * from './types.js';

export class PlatformError extends Error {
  override readonly name = 'PlatformError';
  /** 0 where no answer came. */
  readonly status: number;
  readonly code: Code;
  /** For a report to the operator; '' where there is none. */
  readonly requestId: string;
  /** Seconds, or 0 where nothing was said. */
  readonly retryAfter: number;
  /** Each fault of what was sent, with a 400. */
  readonly errors: readonly Fault[];

  constructor(status: number, problem: Problem, retryAfter = 0,
    options?: ErrorOptions) {
    super(problem.detail ?? `status ${status}`, options);
    this.status = status;
    this.code = problem.code ?? 'UNKNOWN';
    this.requestId = problem.requestId ?? '';
    this.errors = problem.errors ?? [];
    this.retryAfter = retryAfter;
  }
}

interface Ended {
  endedSessions: number;
}

/* Messages between tabs: a session has ended or begun; a refresh got no answer
   (lost), or then got one. */
type News = { ended: string } | { began: string } | { lost: boolean };

interface Call extends CallOptions {
  token?: Token | undefined;
  method?: string;
  /** Not while tokens are replaced. */
  alone?: boolean;
}

/* Of a login that has to get a factor. */
type Login = Pick<FactorAsked, 'factorToken'>;

interface Token {
  type: Answer['tokenType'];
  text: string;
  expires: number;
}

/* A lost answer is asked for again within 21 seconds, so within a retry window
   of 30.  Where one in ten is lost, eight in a row are one in 100 million. */
const TRIES = 8;
const LOST_MS = 1000;         // before asking again after a lost answer
const OTHER_TAB_MS = 500;     // for the answer of a faster tab to arrive
const LONGEST_MS = 25_000;    // after which nothing is tried again: as above
const TIMEOUT_MS = 20_000;    // longer than the gateway waits itself
const EARLY_MS = 10_000;      // before its end a token is not used any more
const OFFLINE_MS = 1500;      // how often a waiting call checks the network

/* Refusals of what the user typed, or of the authentication: no other token
   helps. */
const JUDGED: Code[] = ['AUTH_INVALID_CREDENTIALS', 'AUTH_FACTOR_INVALID',
  'AUTH_FACTOR_TOKEN_INVALID', 'AUTH_STEP_UP_REQUIRED'];

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

export class PlatformClient {
  /** To choose from while there is no branch. */
  branches: Branch[] = [];

  readonly #base: URL;
  readonly #store: TokenStore | undefined;
  readonly #fetch: typeof fetch;
  readonly #name: string;
  readonly #prover: Prover | undefined;
  readonly #tabs: BroadcastChannel | undefined;
  readonly #listeners: { [E in keyof Events]: Set<(...now: Events[E]) => void> }
    = { signedOut: new Set(), sessionChanged: new Set(),
      branchChanged: new Set() };
  #access: Token | undefined;
  #account: Token | undefined;
  /* Stays when the tokens go: what the page shows is of this one. */
  #context: Context | undefined;
  /* Tabs work in several branches, so each refresh gets an account token. */
  #several = false;
  #lostAt = 0; // when a refresh got no answer; 0 if the last one did
  #refreshes = new Map<boolean, Promise<void>>();
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: Options) {
    this.#base = new URL(options.base);
    this.#name = `platform-session ${this.#base.origin}`;
    this.#store = options.store;
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    if (options.dpop) this.#prover = new Prover(this.#name, options.dpop);
    if (!this.#store && typeof BroadcastChannel !== 'undefined') {
      this.#tabs = new BroadcastChannel(this.#name);
      this.#tabs.onmessage = ({ data }) => this.#hear(data);
      (this.#tabs as { unref?(): void }).unref?.(); // or node would not exit
    }
  }

  /** Stops listening to other tabs.  The session goes on. */
  close(): void {
    this.#tabs?.close();
  }

  /** Calls the listener at each such event, until the returned function is
      called. */
  on<E extends keyof Events>(event: E, listener: (...now: Events[E]) => void):
    () => void {
    this.#listeners[event].add(listener);
    return () => { this.#listeners[event].delete(listener); };
  }

  /** Account, session and branch of the tokens; undefined before a login. */
  get context(): Context | undefined {
    return this.#context;
  }

  /** Whether there are tokens of a session; if not, login() comes first. */
  get signedIn(): boolean {
    return (this.#access ?? this.#account) !== undefined;
  }

  /** Whether a branch is selected; if not, selectBranch() comes first. */
  get ready(): boolean {
    return this.#access !== undefined;
  }

  /** What comes next: a call of a service, selectBranch(), or for an account
      with a second factor verifyFactor() or enrolTotp(). */
  async login(account: string, credential: string, options: CallOptions = {}):
    Promise<Next> {
    return this.#begin('login', { account, credential }, options);
  }

  /** Ends a login that asked for a factor.  AUTH_FACTOR_INVALID: ask again, but
      not for a passkey.  That has no code: the browser asks for it. */
  async verifyFactor({ factorToken, passkey }:
    Pick<FactorAsked, 'factorToken' | 'passkey'>,
  type: 'totp' | 'recovery' | 'passkey', code?: string,
  options: CallOptions = {}): Promise<Next> {
    const shown = type === 'passkey' && passkey
      ? { credential: await answerOf(passkey, options) } : { code };
    return this.#begin('verify-factor', { factorToken, type, ...shown }, options);
  }

  /** A login by a passkey alone, which the browser asks for. */
  async loginWithPasskey(options: CallOptions = {}): Promise<Next> {
    const asked = await this.#post<
      Challenge<PublicKeyCredentialRequestOptionsJSON>>('login/passkey-options',
        {}, options);
    return this.#begin('login/passkey', await answered(asked, options), options);
  }

  /**
   * Goes on with the session that there is, an earlier page's or another tab's,
   * in its branch; false: log in.
   */
  async restore({ signal }: CallOptions = {}): Promise<boolean> {
    try {
      await this.#wait(signal, () => this.#alone(() => this.#rotate(false)));
      return true;
    } catch (error) {
      if (isSignedOut(error)) return false;
      throw error;
    }
  }

  /**
   * Gets new tokens; fetch() does so by itself.  Calls made meanwhile share
   * the answer, and a refresh goes on for 25 seconds when its callers have
   * given up.  A PlatformError with status 401 means: log in again; with
   * status 409: these are of another account, session or branch.
   */
  refresh(includeAccountToken = false, { signal }: CallOptions = {}):
    Promise<void> {
    return this.#wait(signal, () => {
      const running = this.#refreshes.get(includeAccountToken)
        ?? this.#alone(() => this.#rotate(includeAccountToken, this.#context))
          .finally(() => this.#refreshes.delete(includeAccountToken));
      this.#refreshes.set(includeAccountToken, running);
      return running;
    });
  }

  /** Works at any time, also to switch. */
  async selectBranch(branchId: string, { signal }: CallOptions = {}):
    Promise<void> {
    const select = () => this.#wait(signal, (stop) =>
      this.#alone(() => this.#select(branchId, stop)));
    const session = this.#context?.sessionId;
    /* In whichever branch the session is by now. */
    const renew = async () => {
      await this.refresh(true, { signal }).catch((error) => {
        if (!hasCode(error, 'CONTEXT_CHANGED') || !usable(this.#account))
          throw error;
      });
      if (session && session !== this.#context?.sessionId) throw changed();
    };
    if (!usable(this.#account)) await renew();
    await select().catch(async (error) => {
      if (!isSignedOut(error)) throw error;
      await renew();
      await select();
    });
  }

  /**
   * fetch() with a branch token.  One that is refused is replaced, once, and
   * the call made again: the service behind has not seen the first.  But not
   * in another context than the page called it in.
   */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const { signal } = init;
    const url = new URL(path, this.#base);
    if (url.origin !== this.#base.origin)
      throw own('OTHER_ORIGIN', `${url.origin} is not to see the token`);
    if (!usable(this.#access)) await this.#renew(signal);
    const token = this.#access;
    const context = this.#context;
    const answer = await this.#send(url, init, token);
    if (!isRefusedToken(answer) || init.body instanceof ReadableStream)
      return answer;
    /* If there is none, a refresh is under way, or the session is over. */
    if (!this.#access || this.#access === token)
      await this.refresh(false, { signal });
    if (!isSame(context, this.#context)) throw changed();
    return this.#send(url, init, this.#access);
  }

  /** Ends the session.  If it fails, try again: nothing is lost by that. */
  async logout({ signal }: CallOptions = {}): Promise<void> {
    await this.#wait(signal, (stop) => this.#alone(async () => {
      const body = this.#store && { refreshToken: await this.#store.load() };
      await this.#persist(() =>
        this.#post('logout', body, { token: this.#access, signal: stop }));
      await this.#end();
    }));
  }

  /** The account and session of the token, and its branch and roles. */
  async me(options: CallOptions = {}): Promise<Me> {
    return this.#own('me', {}, { method: 'GET', ...options });
  }

  /** This one and the newest others; `more`: there are still others. */
  async sessions(options: CallOptions = {}):
    Promise<{ sessions: OwnSession[]; more: boolean }> {
    return this.#own('sessions', {}, { method: 'GET', ...options });
  }

  /** Ends one of sessions().  RESOURCE_NOT_FOUND: it had ended already. */
  async endSession(session: Pick<OwnSession, 'sessionId' | 'current'>,
    options: CallOptions = {}): Promise<void> {
    await this.#own(`sessions/${encodeURIComponent(session.sessionId)}`, {},
      { method: 'DELETE', ...options });
    if (session.current) await this.#alone(() => this.#end());
  }

  /** Ends all other sessions, and tells how many; may be repeated. */
  async logoutOthers(options: CallOptions = {}): Promise<number> {
    return (await this.#own<Ended>('logout-others', {}, options)).endedSessions;
  }

  /** Ends all sessions, this one too.  Status 401: they had ended already. */
  async logoutAll(options: CallOptions = {}): Promise<number> {
    const { endedSessions } = await this.#own<Ended>('logout-all', {}, options);
    await this.#alone(() => this.#end());
    return endedSessions;
  }

  /**
   * Ends all other sessions, and tells how many.  AUTH_INVALID_CREDENTIALS:
   * the credential is wrong, ask again; this session goes on.
   */
  async changeCredential(credential: string, newCredential: string,
    options: CallOptions = {}): Promise<number> {
    return (await this.#own<Ended>('change-credential',
      { credential, newCredential }, options)).endedSessions;
  }

  /** Sets a credential by a code of the operator's; login() comes next. */
  async resetCredential(account: string, resetCode: string,
    newCredential: string, options: CallOptions = {}): Promise<void> {
    await this.#post('reset-credential', { account, resetCode, newCredential },
      options);
  }

  /**
   * Adds an authenticator: show `uri` as a QR code, then confirm() a code of
   * it.  That gives recovery codes with the first factor, else none.  With
   * `login`, of a login that has to get a factor, it ends that login.
   */
  async enrolTotp(name: string, { login, ...options }:
    CallOptions & { login?: Login } = {}): Promise<Totp> {
    const { factorId, secret, uri, expiresAt } = await this.#enrol<AddedTotp>(
      'factors', { type: 'totp', name }, login, options);
    return { factorId, secret, uri, expiresAt,
      confirm: (code, own = {}) => this.#enrolled(
        `factors/${factorId}/confirm`, { code }, login, own) };
  }

  /** Has the browser make a passkey.  The rest is as for enrolTotp(); there is
      nothing to confirm. */
  async registerPasskey(name: string, { login, ...options }:
    CallOptions & { login?: Login } = {}): Promise<string[]> {
    const { challengeToken, options: asked } = await this.#enrol<
      Challenge<PublicKeyCredentialCreationOptionsJSON>>('passkeys/options', {},
        login, options);
    const credential = await browser(options, (signal) =>
      navigator.credentials.create({ ...signal,
        publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(asked) }));
    return this.#enrolled('passkeys', { challengeToken, name, credential }, login,
      options);
  }

  /** The account's second factors. */
  async factors(options: CallOptions = {}): Promise<Factors> {
    return this.#own('factors', {}, { method: 'GET', ...options });
  }

  /* This and the next ones need a fresh session.  AUTH_STEP_UP_REQUIRED:
     stepUp(), then again. */
  async renameFactor(factorId: string, name: string,
    options: CallOptions = {}): Promise<void> {
    await this.#own(`factors/${encodeURIComponent(factorId)}`, { name },
      { method: 'PATCH', ...options });
  }

  /** AUTH_FACTOR_LAST: the account has to have one, add another one first. */
  async removeFactor(factorId: string, options: CallOptions = {}):
    Promise<void> {
    await this.#own(`factors/${encodeURIComponent(factorId)}`, {},
      { method: 'DELETE', ...options });
  }

  /** Ten new ones; the old ones end. */
  async recoveryCodes(options: CallOptions = {}): Promise<string[]> {
    return (await this.#own<{ recoveryCodes: string[] }>('recovery-codes', {},
      options)).recoveryCodes;
  }

  /** Authenticates the session again, in this tab's branch; the tokens of other
      tabs follow at their next refresh.  A passkey has no secret. */
  async stepUp(type: 'totp' | 'recovery' | 'credential' | 'passkey',
    secret?: string, { signal }: CallOptions = {}): Promise<void> {
    const context = this.#context;
    const shown = type === 'passkey' ? await answered(await this.#own<
      Challenge<PublicKeyCredentialRequestOptionsJSON>>(
        'step-up/passkey-options', {}, { signal }), { signal })
      : { [type === 'credential' ? type : 'code']: secret };
    const answer = await this.#own<SteppedUp>('step-up', { type, ...shown },
      { signal, alone: true });
    if (!isSame(context, this.#context)) throw changed();
    /* Another tab has selected another branch: get a token for this one. */
    if (!isSame(context, contextOf(answer)))
      return this.refresh(false, { signal });
    if (answer.accessToken !== undefined) {
      this.#access = issued(answer.accessToken, answer);
    } else {
      this.#account = issued(answer.accountAccessToken, answer);
      this.branches = answer.branches;
    }
  }

  /* In the session, or at a login. */
  #enrol<T>(what: string, data: object, login: Login | undefined,
    options: CallOptions): Promise<T> {
    return login
      ? this.#post<T>(what, { ...data, factorToken: login.factorToken }, options)
      : this.#own<T>(what, data, options);
  }

  /* The recovery codes. */
  async #enrolled(what: string, data: object, login: Login | undefined,
    options: CallOptions): Promise<string[]> {
    let answer: { recoveryCodes?: string[] } = {};
    if (login)
      await this.#begin(what, { ...data, factorToken: login.factorToken }, options,
        (session) => { answer = session; });
    else answer = await this.#own(what, data, options);
    return answer.recoveryCodes ?? [];
  }

  /* A login, or its end. */
  #begin(what: string, data: object, { signal }: CallOptions,
    keep: (answer: Session & { recoveryCodes?: string[] }) => void = () => {}):
    Promise<Next> {
    return this.#wait(signal, (stop) => this.#alone(async () => {
      const answer = await this.#post<Session | FactorAsked>(what, data,
        { signal: stop });
      if (answer.code === 'AUTH_FACTOR_REQUIRED') {
        const { factorToken, factors, expiresIn, passkey, nextAction } = answer;
        return { factorToken, factors, expiresIn, ...nextAction,
          ...(passkey && { passkey }) };
      }
      await this.#keep(answer);
      this.#tell({ began: answer.sessionId });
      keep(answer);
      return answer.nextAction;
    }));
  }

  #emit<E extends keyof Events>(event: E, ...now: Events[E]): void {
    for (const listener of this.#listeners[event])
      queueMicrotask(() => listener(...now));
  }

  #tell(news: News): void {
    this.#tabs?.postMessage(news);
  }

  #hear(news: News): void {
    const own = this.#context?.sessionId;
    if ('lost' in news) {
      this.#lostAt = news.lost ? Date.now() : 0;
    } else if ('ended' in news) {
      if (news.ended === own) this.#signOut();
    } else if (news.began !== own) {
      this.#drop();
      this.#emit('sessionChanged');
    }
  }

  /* Gives up when the caller's signal is aborted or the network is down, and
     then aborts the signal of the work. */
  #wait<T>(signal: AbortSignal | null | undefined,
    work: (stop: AbortSignal) => Promise<T>): Promise<T> {
    const stop = new AbortController();
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(noAnswer(undefined, signal));
      const give = (error: PlatformError) => {
        stop.abort(error);
        reject(error);
      };
      const abort = () => give(noAnswer(undefined, signal));
      const timer = setInterval(() => {
        if (Date.now() - this.#lostAt < 2 * OFFLINE_MS) give(noAnswer());
      }, OFFLINE_MS);
      signal?.addEventListener('abort', abort);
      work(stop.signal).then(resolve, reject).finally(() => {
        clearInterval(timer);
        signal?.removeEventListener('abort', abort);
      });
    });
  }

  /* One at a time: by Web Locks over all tabs, or at least in this one. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    const run = this.#queue.then(() =>
      locks ? locks.request(this.#name, work) as Promise<T> : work());
    this.#queue = run.catch(() => undefined);
    return run;
  }

  /* For a call that is yet to be made, in the context of now. */
  async #renew(signal: AbortSignal | null | undefined): Promise<void> {
    const context = this.#context;
    await this.refresh(false, { signal });
    if (context && !isSame(context, this.#context)) throw changed();
  }

  async #rotate(includeAccountToken: boolean, expected?: Context):
    Promise<void> {
    try {
      const both = includeAccountToken || this.#several;
      let now = await this.#turn(both, expected);
      if (await this.#keep(now, expected)) return;
      /* Another tab has selected another branch. */
      this.#several = true;
      const own = expected?.activeBranchId;
      if (own && !now.accountAccessToken) {
        now = await this.#turn(true, expected);
        if (await this.#keep(now, expected)) return;
      }
      if (!own || !await this.#selectAgain(own)) {
        this.#emit('branchChanged', contextOf(now));
        throw changed();
      }
    } catch (error) {
      if (isSignedOut(error)) await this.#forget();
      /* The store has the other session's token. */
      if (hasCode(error, 'AUTH_SESSION_CHANGED')) {
        this.#drop();
        this.#emit('sessionChanged');
      }
      throw error;
    }
  }

  /* One refresh token for the next. */
  async #turn(includeAccountToken: boolean, expected?: Context):
    Promise<Session> {
    let sent: string | null | undefined;
    let stale = 0;
    const once = async () => {
      sent = await this.#store?.load();
      return this.#post('refresh', {
        ...(sent ? { refreshToken: sent } : {}),
        ...(includeAccountToken ? { includeAccountToken } : {}),
        ...(expected ? { sessionId: expected.sessionId } : {}),
      });
    };
    /* The token was used already.  If another tab did, what it got is, or is
       about to be, in the cookie or the store. */
    const faster = async (error: unknown) => {
      if (!hasCode(error, 'AUTH_REFRESH_TOKEN_STALE') || stale++ === 2)
        return false;
      await sleep(OTHER_TAB_MS * (1 + Math.random()));
      return !this.#store || await this.#store.load() !== sent;
    };
    return this.#persist(once, faster);
  }

  /*
   * Tries again where that can help: the answer was lost, or the service is
   * busy.  The same refresh token is sent again: if it was not used up, or a
   * moment ago, all is well; otherwise AUTH_REFRESH_TOKEN_STALE says that a
   * login is needed.
   */
  async #persist<T>(once: () => Promise<T>,
    again: (error: unknown) => Promise<boolean> = async () => false) {
    const start = Date.now();
    for (let n = 1; ; n++) {
      try {
        const answer = await once();
        this.#note(false);
        return answer;
      } catch (error) {
        const lost = hasCode(error, 'OFFLINE');
        this.#note(lost);
        const wait = lost ? LOST_MS
          : error instanceof PlatformError
            && [429, 502, 503, 504].includes(error.status)
            ? Math.max(1, error.retryAfter) * 1000 : undefined;
        if (n === TRIES || Date.now() - start + (wait ?? 0) > LONGEST_MS)
          throw error;
        if (wait !== undefined) await sleep(wait);
        else if (!await again(error)) throw error;
      }
    }
  }

  /* Calls in other tabs wait for this refresh too. */
  #note(lost: boolean): void {
    if (lost || this.#lostAt) this.#tell({ lost });
    this.#lostAt = lost ? Date.now() : 0;
  }

  async #select(branchId: string, signal?: AbortSignal): Promise<void> {
    const selected = await this.#post<InBranch>('select-branch', { branchId },
      { token: this.#account, signal });
    this.#access = issued(selected.accessToken, selected);
    this.#context = contextOf(selected);
  }

  /* False: that branch cannot be selected any more. */
  async #selectAgain(branchId: string): Promise<boolean> {
    try {
      await this.#persist(() => this.#select(branchId));
      return true;
    } catch (error) {
      if (hasCode(error, 'AUTH_BRANCH_NOT_SELECTABLE')) return false;
      throw error;
    }
  }

  /* A new refresh token is stored before anything else happens to it.  The
     branch token of another branch than expected is not taken: false. */
  async #keep(session: Session, expected?: Context): Promise<boolean> {
    await this.#store?.save(session.refreshToken);
    const now = contextOf(session);
    this.#access = undefined;
    /* Release 0.2 does not look at sessionId. */
    if (expected && expected.sessionId !== now.sessionId)
      throw changed('AUTH_SESSION_CHANGED');
    /* An account token of another session must not select branches here. */
    if (this.#context?.sessionId !== now.sessionId) this.#drop();
    if (session.accountAccessToken !== undefined) {
      this.#account = issued(session.accountAccessToken, session);
      this.branches = session.branches;
    }
    if (expected && !isSame(expected, now)) return false;
    this.#context = now;
    if (session.accessToken !== undefined)
      this.#access = issued(session.accessToken, session);
    return true;
  }

  #drop(): void {
    this.#access = this.#account = undefined;
    this.branches = [];
  }

  #signOut(): void {
    const had = this.signedIn;
    this.#drop();
    if (had) this.#emit('signedOut');
  }

  async #forget(): Promise<void> {
    this.#signOut();
    await this.#store?.save(null);
  }

  /* The session is over for every tab. */
  async #end(): Promise<void> {
    if (this.#context) this.#tell({ ended: this.#context.sessionId });
    await this.#forget();
  }

  async #send(url: URL, init: RequestInit, token: Token | undefined) {
    if (!token)
      throw own('BRANCH_NOT_SELECTED', 'a branch has to be selected first');
    return this.#ask(url, init, token).catch((cause) => {
      throw noAnswer(cause, init.signal);
    });
  }

  /* With a proof.  If that is refused, once more with another one. */
  async #ask(url: URL, init: RequestInit, token?: Token): Promise<Response> {
    const prover = token?.type === 'Bearer' ? undefined : this.#prover;
    const headers = new Headers(init.headers);
    if (token) headers.set('Authorization', `${token.type} ${token.text}`);
    const ask = async () => {
      if (prover) headers.set('DPoP', await prover.proof(init.method, url, token));
      return this.#fetch(url, { ...init, headers });
    };
    const answer = await ask();
    return prover?.refused(answer) && !(init.body instanceof ReadableStream)
      ? ask() : answer;
  }

  /* With a token of either kind.  One that is refused is replaced, once. */
  async #own<T>(what: string, data: object, options: Call): Promise<T> {
    const { signal } = options;
    const token = () => usable(this.#access) ? this.#access : this.#account;
    if (!usable(token())) await this.#renew(signal);
    const used = token();
    const context = this.#context;
    const post = () =>
      this.#post<T>(what, data, { ...options, token: token() });
    const call = () => options.alone ? this.#alone(post) : post();
    return call().catch(async (error) => {
      if (!isSignedOut(error) || JUDGED.includes(error.code)) throw error;
      if (!token() || token() === used) await this.refresh(false, { signal });
      if (!isSame(context, this.#context)) throw changed();
      return call();
    });
  }

  async #post<T = Session>(what: string, data: object = {},
    { token, method = 'POST', signal }: Call = {}): Promise<T> {
    /* An empty body needs no preflight.  A refresh may outlive the page. */
    const empty = Object.keys(data).length === 0;
    const url = new URL(`/api/auth/${what}`, this.#base);
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const init: RequestInit = {
      method,
      credentials: this.#store ? 'omit' : 'include',
      headers: {
        ...(empty ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(empty ? {} : { body: JSON.stringify(data) }),
      ...(empty || what === 'refresh' ? { keepalive: true } : {}),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    };
    let answer;
    try {
      answer = await this.#ask(url, init, token);
      if (answer.ok) return await answer.json() as T;
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    throw new PlatformError(answer.status, await answer.json().catch(() => ({})),
      Number(answer.headers.get('Retry-After')) || 0);
  }
}

/* Makes proofs that this client has the key of its session. */
class Prover {
  readonly #name: string;
  readonly #given: CryptoKeyPair | undefined;
  #pair: Promise<CryptoKeyPair> | undefined;
  #nonce: string | null = null;
  #ahead = 0; // ms that the service's clock is before ours

  constructor(name: string, given: true | CryptoKeyPair) {
    this.#name = name;
    this.#given = given === true ? undefined : given;
  }

  async proof(method = 'GET', url: URL, token?: Token): Promise<string> {
    try {
      /* Without a token it is a login, say: by the key that there is by now. */
      if (!token || !this.#pair) this.#pair = this.#look(this.#pair);
      const { publicKey, privateKey } = await this.#pair;
      const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', publicKey);
      const text = [{ typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } }, {
        jti: crypto.randomUUID(),
        htm: method.toUpperCase(),
        htu: url.origin + url.pathname,
        iat: Math.floor((Date.now() + this.#ahead) / 1000),
        ...(token && { ath:
          base64url(await crypto.subtle.digest('SHA-256', bytes(token.text))) }),
        ...(this.#nonce && { nonce: this.#nonce }),
      }].map((part) => base64url(bytes(JSON.stringify(part)))).join('.');
      return `${text}.${base64url(await crypto.subtle.sign(
        { name: 'ECDSA', hash: 'SHA-256' }, privateKey, bytes(text)))}`;
    } catch (cause) {
      throw own('KEY_UNUSABLE', `no proof can be made: ${cause}`, cause);
    }
  }

  /* Whether a proof was refused; then the next one is as the answer tells. */
  refused({ headers }: Response): boolean {
    this.#nonce = headers.get('DPoP-Nonce') ?? this.#nonce;
    if (!/error="(use_dpop_nonce|invalid_dpop_proof)"/.test(
      headers.get('WWW-Authenticate') ?? '')) return false;
    const ahead = Date.parse(headers.get('Date') ?? '') - Date.now();
    if (!Number.isNaN(ahead)) this.#ahead = ahead;
    return true;
  }

  async #look(old: Promise<CryptoKeyPair> | undefined): Promise<CryptoKeyPair> {
    if (this.#given) return this.#given;
    const mine = await (old ?? crypto.subtle.generateKey(
      { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']));
    return typeof indexedDB === 'undefined' ? mine
      : kept(this.#name, mine).catch(() => mine);
  }
}

/* The pair that pages of this origin keep by the name: this one, if none has
   been before. */
function kept(name: string, pair: CryptoKeyPair): Promise<CryptoKeyPair> {
  return new Promise((resolve, reject) => {
    const open = indexedDB.open(name);
    open.onupgradeneeded = () => open.result.createObjectStore('keys');
    open.onerror = () => reject(open.error);
    open.onsuccess = () => {
      const work = open.result.transaction('keys', 'readwrite');
      const keys = work.objectStore('keys');
      const found = keys.get('dpop');
      found.onsuccess = () => {
        pair = found.result ?? pair;
        if (!found.result) keys.put(pair, 'dpop');
      };
      work.onabort = () => reject(work.error);
      work.oncomplete = () => {
        open.result.close();
        resolve(pair);
      };
    };
  });
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function base64url(data: ArrayBuffer | Uint8Array<ArrayBuffer>): string {
  return btoa(String.fromCharCode(...new Uint8Array(data)))
    .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/* Has the browser ask for a passkey; what it returns, as JSON. */
async function browser({ signal }: CallOptions,
  ask: (signal: { signal?: AbortSignal }) => Promise<Credential | null>):
  Promise<PublicKeyCredentialJSON> {
  try {
    return (await ask(signal ? { signal } : {}) as PublicKeyCredential).toJSON();
  } catch (cause) {
    throw signal?.aborted ? noAnswer(cause, signal)
      : own('PASSKEY_NOT_SHOWN', `the browser has none to show: ${cause}`, cause);
  }
}

function answerOf(asked: PublicKeyCredentialRequestOptionsJSON,
  options: CallOptions): Promise<PublicKeyCredentialJSON> {
  return browser(options, (signal) => navigator.credentials.get({ ...signal,
    publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked) }));
}

async function answered({ challengeToken, options: asked }:
  Challenge<PublicKeyCredentialRequestOptionsJSON>, options: CallOptions) {
  return { challengeToken, credential: await answerOf(asked, options) };
}

/* By our own clock from now on, whatever the server's says. */
function issued(text: string, { tokenType: type, expiresIn }: Answer): Token {
  return { type, text, expires: Date.now() + expiresIn * 1000 };
}

function usable(token: Token | undefined): boolean {
  return token !== undefined && Date.now() < token.expires - EARLY_MS;
}

function contextOf(
  { accountId, sessionId, workspaceId, activeBranchId }: Answer): Context {
  return { accountId, sessionId, workspaceId, activeBranchId };
}

function isSame(a: Context | undefined, b: Context | undefined): boolean {
  return a?.accountId === b?.accountId && a?.sessionId === b?.sessionId
    && a?.activeBranchId === b?.activeBranchId;
}

function own(code: ClientCode, detail: string, cause?: unknown) {
  return new PlatformError(0, { code, detail }, 0, { cause });
}

function noAnswer(cause?: unknown, signal?: AbortSignal | null): PlatformError {
  return signal?.aborted
    ? own('ABORTED', 'the caller has given up', signal.reason)
    : cause instanceof PlatformError ? cause
    : own('OFFLINE', `no answer came${cause ? `: ${cause}` : ''}`, cause);
}

/* A refusal of this client, like the service's AUTH_SESSION_CHANGED. */
function changed(code: Code = 'CONTEXT_CHANGED') {
  return new PlatformError(409, { code, detail:
    'the tokens are of another account, session or branch by now' });
}

function hasCode(error: unknown, code: Code): boolean {
  return error instanceof PlatformError && error.code === code;
}

function isSignedOut(error: unknown): error is PlatformError {
  return error instanceof PlatformError && error.status === 401;
}

/* The gateway's 401, not one of the service behind it. */
function isRefusedToken(answer: Response): boolean {
  const challenge = answer.headers.get('WWW-Authenticate') ?? '';
  return answer.status === 401 && /error="invalid_token"/.test(challenge);
}
