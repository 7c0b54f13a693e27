/*
 * A client of the platform gateway in one file, without dependencies: for
 * browsers, and for whatever else has fetch.
 *
 *   const client = new PlatformClient({ base: 'https://api.example.com' });
 *   if (!await client.restore()) await client.login(account, credential);
 *   if (!client.ready) await client.selectBranch(client.branches[0].branchId);
 *   const answer = await client.fetch('/api/workspaces/current-context');
 *
 * In a browser the refresh token stays in its HttpOnly cookie, where no script
 * can read it.  Elsewhere give a `store` that keeps it: a keychain, say.
 *
 * Tabs of a browser share that cookie.  If a refresh finds another account,
 * session or branch, since another tab has logged in or selected one, no call
 * is made as that one: each fails with status 409, and `onChange` tells the
 * page.  The page then goes on with restore(), selectBranch() or login().
 *
 * One refresh runs at a time, over all tabs where there are Web Locks.  If its
 * answer is lost it is sent again with the same token, and gets the same answer
 * if the service has PLATFORM_AUTH_REFRESH_RETRY_WINDOW.
 */

export interface Branch {
  branchId: string;
  branchName: string;
  workspaceId: string;
  workspaceName: string;
}

/** Whose tokens the client has; without a branch until one is selected. */
export interface Context {
  accountId: string;
  sessionId: string;
  workspaceId?: string | undefined;
  activeBranchId?: string | undefined;
}

/** One of the account's; what the operator does not keep is null. */
export interface OwnSession {
  sessionId: string;
  /** Whether it is this client's. */
  current: boolean;
  createdAt: string;
  usedAt: string;
  expiresAt: string;
  address: string | null;
  agent: string | null;
  workspaceId: string | null;
  workspaceName: string | null;
  branchId: string | null;
  branchName: string | null;
}

/** Keeps the refresh token where there is no cookie; null: there is none. */
export interface TokenStore {
  load(): string | null | Promise<string | null>;
  save(token: string | null): void | Promise<void>;
}

export interface Options {
  /** Where the gateway is: https://api.example.com */
  base: string;
  store?: TokenStore;
  fetch?: typeof fetch;
  /**
   * A refresh found another branch of the session; or, if `now` is undefined,
   * another session.
   */
  onChange?: (now: Context | undefined) => void;
}

/** What the gateway or the identity service refuses (RFC 9457). */
export class PlatformError extends Error {
  readonly status: number;
  /** Go by this one; docs/http-api.md lists them. */
  readonly code: string;
  readonly requestId: string;
  /** Seconds, or 0 where nothing was said. */
  readonly retryAfter: number;

  constructor(status: number, problem: Partial<Record<string, string>>,
    retryAfter: number) {
    super(problem['detail'] ?? `status ${status}`);
    this.name = 'PlatformError';
    this.status = status;
    this.code = problem['code'] ?? '';
    this.requestId = problem['requestId'] ?? '';
    this.retryAfter = retryAfter;
  }
}

interface Answer extends Context {
  code: string;
  message: string;
  tokenType: 'Bearer';
  expiresIn: number;
}

interface InBranch extends Answer {
  accessToken: string;
  workspaceId: string;
  activeBranchId: string;
  nextAction: { type: 'load_current_context' };
}

interface Choice extends Answer {
  accountAccessToken: string;
  branches: Branch[];
}

/** Of a login or a refresh: accessToken, or what a branch is chosen with, or
    after a refresh that asks for it both. */
export type Session = { refreshToken: string } & (
  | InBranch & { accountAccessToken?: never; branches?: never }
  | InBranch & Choice
  | Choice & { accessToken?: never; nextAction: { type: 'select_branch' } }
);

interface Ended {
  endedSessions: number;
}

interface Token {
  text: string;
  expires: number;
}

/* A lost answer is asked for again 21 seconds after the request at the latest:
   within a retry window of 30.  Where a network loses one answer in ten, eight
   in a row are one in a hundred million. */
const TRIES = 8;
const LOST_MS = 1000;         // before asking again after a lost answer
const OTHER_TAB_MS = 500;     // for the answer of a faster tab to arrive
const LONGEST_MS = 25_000;    // after which nothing is tried again: as above
const TIMEOUT_MS = 20_000;    // longer than the gateway waits itself
const EARLY_MS = 10_000;      // before its end a token is not used any more

const REPLACED = 'AUTH_SESSION_CHANGED'; // the session
const CHANGED = 'CONTEXT_CHANGED';       // its branch, or by this very page

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

export class PlatformClient {
  /** To choose from while there is no branch. */
  branches: Branch[] = [];

  readonly #base: URL;
  readonly #store: TokenStore | undefined;
  readonly #fetch: typeof fetch;
  readonly #onChange: ((now: Context | undefined) => void) | undefined;
  #access: Token | undefined;
  #account: Token | undefined;
  /* Stays when the tokens go: what the page shows is of this one. */
  #context: Context | undefined;
  #refreshes = new Map<boolean, Promise<void>>();
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: Options) {
    this.#base = new URL(options.base);
    this.#store = options.store;
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    this.#onChange = options.onChange;
  }

  /** Whether a branch is selected; if not, selectBranch() comes first. */
  get ready(): boolean {
    return this.#access !== undefined;
  }

  async login(account: string, credential: string): Promise<void> {
    await this.#alone(async () => {
      await this.#keep(await this.#post('login', { account, credential }));
    });
  }

  /**
   * Goes on with the session that there is, an earlier page's or another tab's,
   * in its branch; false: log in.
   */
  async restore(): Promise<boolean> {
    try {
      await this.#alone(() => this.#rotate(false));
      return true;
    } catch (error) {
      if (isSignedOut(error)) return false;
      throw error;
    }
  }

  /**
   * Gets new tokens; fetch() does so by itself.  Calls made meanwhile share
   * the answer.  A PlatformError with status 401 means: log in again; with
   * status 409: these are of another account, session or branch.
   */
  refresh(includeAccountToken = false): Promise<void> {
    let running = this.#refreshes.get(includeAccountToken);
    if (!running) {
      running = this.#alone(() =>
        this.#rotate(includeAccountToken, this.#context))
        .finally(() => this.#refreshes.delete(includeAccountToken));
      this.#refreshes.set(includeAccountToken, running);
    }
    return running;
  }

  /** Works at any time, also to switch. */
  async selectBranch(branchId: string): Promise<void> {
    const select = () =>
      this.#post<InBranch>('select-branch', { branchId }, this.#account?.text);
    const session = this.#context?.sessionId;
    /* In whichever branch the session is by now. */
    const renew = async () => {
      await this.refresh(true).catch((error) => {
        if (!hasCode(error, CHANGED) || !usable(this.#account)) throw error;
      });
      if (session && session !== this.#context?.sessionId) throw changed();
    };
    if (!usable(this.#account)) await renew();
    const selected = await select().catch(async (error) => {
      if (!isSignedOut(error)) throw error;
      await renew();
      return select();
    });
    this.#access = issued(selected.accessToken, selected);
    this.#context = contextOf(selected);
  }

  /**
   * fetch() with a branch token.  One that is refused is replaced, once, and
   * the call made again: the service behind has not seen the first.  But not
   * in another context than the page called it in.
   */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(path, this.#base);
    if (url.origin !== this.#base.origin)
      throw new TypeError(`${url.origin} is not to see the token`);
    if (!usable(this.#access)) await this.#renew();
    const token = this.#access;
    const context = this.#context;
    const answer = await this.#send(url, init, token);
    if (!isRefusedToken(answer) || init.body instanceof ReadableStream)
      return answer;
    if (this.#access === token) await this.refresh();
    /* A refresh that ended meanwhile may have left no token. */
    if (!this.#access || !isSame(context, this.#context)) throw changed();
    return this.#send(url, init, this.#access);
  }

  /** Ends the session.  If it fails, try again: nothing is lost by that. */
  async logout(): Promise<void> {
    await this.#alone(async () => {
      const body = this.#store && { refreshToken: await this.#store.load() };
      await this.#persist(() =>
        this.#post('logout', body, this.#access?.text));
      await this.#forget();
    });
  }

  /** This one and the newest others; `more`: there are still others. */
  async sessions(): Promise<{ sessions: OwnSession[]; more: boolean }> {
    return this.#own('sessions', {}, 'GET');
  }

  /** Ends one of sessions().  RESOURCE_NOT_FOUND: it had ended already. */
  async endSession(session: Pick<OwnSession, 'sessionId' | 'current'>):
    Promise<void> {
    await this.#own(`sessions/${encodeURIComponent(session.sessionId)}`, {},
      'DELETE');
    if (session.current) await this.#alone(() => this.#forget());
  }

  /** Ends all other sessions, and tells how many; may be repeated. */
  async logoutOthers(): Promise<number> {
    return (await this.#own<Ended>('logout-others')).endedSessions;
  }

  /** Ends all sessions, this one too.  Status 401: they had ended already. */
  async logoutAll(): Promise<number> {
    const { endedSessions } = await this.#own<Ended>('logout-all');
    await this.#alone(() => this.#forget());
    return endedSessions;
  }

  /**
   * Ends all other sessions, and tells how many.  AUTH_INVALID_CREDENTIALS:
   * the credential is wrong, ask again; this session goes on.
   */
  async changeCredential(credential: string, newCredential: string):
    Promise<number> {
    return (await this.#own<Ended>('change-credential',
      { credential, newCredential })).endedSessions;
  }

  /* One at a time: by Web Locks over all tabs, or at least in this one. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const locks = globalThis.navigator?.locks as LockManager | undefined;
    const name = `platform-session ${this.#base.origin}`;
    const run = this.#queue.then(() =>
      locks ? locks.request(name, work) as Promise<T> : work());
    this.#queue = run.catch(() => undefined);
    return run;
  }

  /* For a call that is yet to be made, in the context of now. */
  async #renew(): Promise<void> {
    const context = this.#context;
    await this.refresh();
    if (context && !isSame(context, this.#context)) throw changed();
  }

  async #rotate(includeAccountToken: boolean, expected?: Context):
    Promise<void> {
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
      if (!(error instanceof PlatformError)
        || error.code !== 'AUTH_REFRESH_TOKEN_STALE' || stale++ === 2)
        return false;
      await sleep(OTHER_TAB_MS * (1 + Math.random()));
      return !this.#store || await this.#store.load() !== sent;
    };
    try {
      await this.#keep(await this.#persist(once, faster), expected);
    } catch (error) {
      if (isSignedOut(error)) await this.#forget();
      /* The store has the other session's token. */
      if (hasCode(error, REPLACED)) {
        this.#drop();
        this.#onChange?.(undefined);
      }
      throw error;
    }
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
        return await once();
      } catch (error) {
        const wait = error instanceof PlatformError
          ? ([429, 502, 503, 504].includes(error.status)
            ? Math.max(1, error.retryAfter) * 1000 : undefined)
          : LOST_MS;
        if (n === TRIES || Date.now() - start + (wait ?? 0) > LONGEST_MS)
          throw error;
        if (wait !== undefined) await sleep(wait);
        else if (!await again(error)) throw error;
      }
    }
  }

  /* A new refresh token is stored before anything else happens to it.  The
     branch token of another branch than expected is not taken. */
  async #keep(session: Session, expected?: Context): Promise<void> {
    await this.#store?.save(session.refreshToken);
    const now = contextOf(session);
    this.#access = undefined;
    /* Release 0.2 does not look at sessionId. */
    if (expected && expected.sessionId !== now.sessionId)
      throw changed(REPLACED);
    if (session.accountAccessToken !== undefined) {
      this.#account = issued(session.accountAccessToken, session);
      this.branches = session.branches;
    }
    if (expected && !isSame(expected, now)) {
      this.#onChange?.(now);
      throw changed();
    }
    this.#context = now;
    if (session.accessToken !== undefined)
      this.#access = issued(session.accessToken, session);
  }

  #drop(): void {
    this.#access = this.#account = undefined;
    this.branches = [];
  }

  async #forget(): Promise<void> {
    this.#drop();
    await this.#store?.save(null);
  }

  #send(url: URL, init: RequestInit, token: Token | undefined) {
    if (!token) throw new Error('a branch has to be selected first');
    const headers = new Headers(init.headers);
    headers.set('Authorization', `Bearer ${token.text}`);
    return this.#fetch(url, { ...init, headers });
  }

  /* With a token of either kind.  One that is refused is replaced, once. */
  async #own<T>(what: string, data: object = {}, method = 'POST'): Promise<T> {
    const token = () => usable(this.#access) ? this.#access : this.#account;
    if (!usable(token())) await this.#renew();
    const used = token();
    const context = this.#context;
    const call = () => this.#post<T>(what, data, token()?.text, method);
    return call().catch(async (error) => {
      if (!isSignedOut(error) || error.code === 'AUTH_INVALID_CREDENTIALS')
        throw error;
      if (token() === used) await this.refresh();
      if (!isSame(context, this.#context)) throw changed();
      return call();
    });
  }

  async #post<T = Session>(what: string, data: object = {}, token?: string,
    method = 'POST'): Promise<T> {
    /* An empty body needs no preflight.  A refresh may outlive the page. */
    const empty = Object.keys(data).length === 0;
    const answer = await this.#fetch(new URL(`/api/auth/${what}`, this.#base), {
      method,
      credentials: this.#store ? 'omit' : 'include',
      headers: {
        ...(empty ? {} : { 'Content-Type': 'application/json' }),
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
      },
      ...(empty ? {} : { body: JSON.stringify(data) }),
      ...(empty || what === 'refresh' ? { keepalive: true } : {}),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.ok) return await answer.json() as T;
    const problem = await answer.json().catch(() => ({}));
    throw new PlatformError(answer.status, problem,
      Number(answer.headers.get('Retry-After')) || 0);
  }
}

/* By our own clock from now on, whatever the server's says. */
function issued(text: string, { expiresIn }: Answer): Token {
  return { text, expires: Date.now() + expiresIn * 1000 };
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

/* This client's own refusals, beside the service's AUTH_SESSION_CHANGED. */
function changed(code = CHANGED): PlatformError {
  return new PlatformError(409, { code, detail:
    'the tokens are of another account, session or branch by now' }, 0);
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof PlatformError && error.code === code;
}

function isSignedOut(error: unknown): error is PlatformError {
  return error instanceof PlatformError && error.status === 401;
}

/* The gateway's 401, not one of the service behind it. */
function isRefusedToken(answer: Response): boolean {
  return answer.status === 401
    && /error="invalid_token"/.test(
      answer.headers.get('WWW-Authenticate') ?? '');
}
