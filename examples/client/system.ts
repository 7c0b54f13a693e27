/*
 * A client for programs: a back office, a support desk, a nightly job.  It gets
 * system tokens as an OAuth client and calls /api/system/, without dependencies.
 *
 *   const api = new SystemClient({
 *     base: 'https://api.example.com', clientId, clientSecret });
 *   for await (const account of api.accounts({ type: 'CUSTOMER' }))
 *     console.log(account.account);
 *   const { accountId } = await api.addAccount({ account: 'ann@example.com' });
 *   await api.putMember(workspaceId, accountId, { grants });
 *
 * Its types are made of docs/openapi-system.yaml:
 *
 *   npx openapi-typescript openapi-system.yaml -o system-api.ts
 *
 * A token is renewed before it expires, once for all calls that wait.  What was
 * not answered, or answered with 429 or 503, is sent again when the service says
 * so, for a minute at most.  Each POST has an Idempotency-Key, the same in each
 * try, so it is carried out once; give your own to repeat a call tomorrow.
 *
 * Every failure is a PlatformError; go by its `code`.
 */

import type { components, operations } from './system-api';

type Schemas = components['schemas'];
type Operation = keyof operations;

/** The client's own codes, with status 0. */
export type ClientCode =
  | 'ABORTED'  // by the caller's signal
  | 'OFFLINE'  // no answer came
  | 'UNKNOWN'; // the answer had no code

export type Code = Schemas['ErrorCode'] | ClientCode;

/** The one kind of error. */
export class PlatformError extends Error {
  override readonly name = 'PlatformError';
  /** 0 where no answer came. */
  readonly status: number;
  readonly code: Code;
  /** What is wrong with the call, of a 400. */
  readonly errors: Schemas['Fault'][];
  /** For a report to the operator; '' where there is none. */
  readonly requestId: string;
  /** Seconds, or 0 where nothing was said. */
  readonly retryAfter: number;

  constructor(status: number, problem: Problem, retryAfter = 0,
    options?: ErrorOptions) {
    super(problem.detail ?? problem.error_description ?? `status ${status}`,
      options);
    this.status = status;
    this.code = problem.code ?? 'UNKNOWN';
    this.errors = problem.errors ?? [];
    this.requestId = problem.requestId ?? '';
    this.retryAfter = retryAfter;
  }
}

interface Problem {
  code?: Code;
  detail?: string;
  error_description?: string;
  errors?: Schemas['Fault'][];
  requestId?: string;
}

export interface Options {
  /** Where the gateway is: https://api.example.com */
  base: string;
  clientId: string;
  clientSecret: string;
  /** Some of the allowed scopes; by default all of them. */
  scope?: string;
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the wait for the answer.  The service may still do what was asked. */
  signal?: AbortSignal | null | undefined;
}

export interface PostOptions extends CallOptions {
  /** 1 to 255 visible ASCII characters; by default a new one. */
  idempotencyKey?: string | undefined;
}

type Json<R> = R extends { content: { 'application/json': infer T } } ? T : never;
type Answers<R> = { [S in keyof R]: S extends 200 | 201 ? Json<R[S]> : never };
type Answer<O extends Operation> =
  Answers<operations[O]['responses']>[keyof operations[O]['responses']];
type Body<O extends Operation> = NonNullable<operations[O]['requestBody']> extends
  { content: { 'application/json': infer T } } ? T : never;
type Query<O extends Operation> =
  Omit<NonNullable<operations[O]['parameters']['query']>, 'after'>;

/* renew: when to get the next one. */
type Token = { text: string; renew: number; expires: number };

const TRIES = 8;
const LONGEST_MS = 60_000; // for all tries of a call
const TIMEOUT_MS = 20_000; // for one; longer than the gateway waits itself

export class SystemClient {
  readonly #base: URL;
  readonly #client: string;
  readonly #scope: string | undefined;
  readonly #fetch: typeof fetch;
  #token: Token | undefined;
  #renewal: Promise<Token> | undefined;

  constructor(options: Options) {
    this.#base = new URL(options.base);
    this.#client = btoa([options.clientId, options.clientSecret]
      .map(encodeURIComponent).join(':'));
    this.#scope = options.scope;
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
  }

  accounts(query: Query<'listAccounts'> = {}, options?: CallOptions) {
    return this.#all<Schemas['Account']>('accounts', 'accounts', query, options);
  }
  /** Without a credential nobody can log in before a reset code is used. */
  addAccount(account: Body<'addAccount'>, options?: PostOptions) {
    return this.#call<'addAccount'>('POST', 'accounts', options, account);
  }
  account(id: string, options?: CallOptions) {
    return this.#call<'getAccount'>('GET', at`accounts/${id}`, options);
  }
  changeAccount(id: string, change: Body<'changeAccount'>, options?: CallOptions) {
    return this.#call<'changeAccount'>('PATCH', at`accounts/${id}`, options, change);
  }
  /** For good; gives what was held. */
  deleteAccount(id: string, options?: CallOptions) {
    return this.#call<'deleteAccount'>('DELETE', at`accounts/${id}`, options);
  }
  revokeSessions(id: string, options?: PostOptions) {
    return this.#call<'revokeSessions'>('POST', at`accounts/${id}/revoke-sessions`, options, {});
  }
  unlockAccount(id: string, options?: PostOptions) {
    return this.#call<'unlockAccount'>('POST', at`accounts/${id}/unlock`, options, {});
  }
  accountSessions(id: string, query: Query<'listAccountSessions'> = {}, options?: CallOptions) {
    return this.#all<Schemas['HeldSession']>(at`accounts/${id}/sessions`, 'sessions', query, options);
  }
  endAccountSession(id: string, session: string, options?: CallOptions) {
    return this.#call<'endAccountSession'>('DELETE', at`accounts/${id}/sessions/${session}`, options);
  }
  /** Of 300 to 86400 seconds (3600).  A repeat makes another one. */
  makeResetCode(id: string, request: Body<'makeResetCode'> = {}, options?: PostOptions) {
    return this.#call<'makeResetCode'>('POST', at`accounts/${id}/reset-code`, options, request);
  }
  workspaces(query: Query<'listWorkspaces'> = {}, options?: CallOptions) {
    return this.#all<Schemas['Workspace']>('workspaces', 'workspaces', query, options);
  }
  addWorkspace(workspace: Body<'addWorkspace'>, options?: PostOptions) {
    return this.#call<'addWorkspace'>('POST', 'workspaces', options, workspace);
  }
  workspace(id: string, options?: CallOptions) {
    return this.#call<'getWorkspace'>('GET', at`workspaces/${id}`, options);
  }
  changeWorkspace(id: string, change: Body<'changeWorkspace'>,
    options?: CallOptions) {
    return this.#call<'changeWorkspace'>('PATCH', at`workspaces/${id}`, options,
      change);
  }
  branches(workspaceId: string, query: Query<'listBranches'> = {},
    options?: CallOptions) {
    return this.#all<Schemas['PlacedBranch']>(at`workspaces/${workspaceId}/branches`,
      'branches', query, options);
  }
  addBranch(workspaceId: string, branch: Body<'addBranch'>, options?: PostOptions) {
    return this.#call<'addBranch'>('POST', at`workspaces/${workspaceId}/branches`,
      options, branch);
  }
  branch(id: string, options?: CallOptions) {
    return this.#call<'getBranch'>('GET', at`branches/${id}`, options);
  }
  changeBranch(id: string, change: Body<'changeBranch'>, options?: CallOptions) {
    return this.#call<'changeBranch'>('PATCH', at`branches/${id}`, options, change);
  }
  members(workspaceId: string, query: Query<'listMembers'> = {},
    options?: CallOptions) {
    return this.#all<Schemas['Member']>(at`workspaces/${workspaceId}/members`,
      'members', query, options);
  }
  /** With grants the member has exactly these from then on. */
  putMember(workspaceId: string, accountId: string, member: Body<'putMember'> = {},
    options?: CallOptions) {
    return this.#call<'putMember'>('PUT',
      at`workspaces/${workspaceId}/members/${accountId}`, options, member);
  }
  removeMember(workspaceId: string, accountId: string, options?: CallOptions) {
    return this.#call<'removeMember'>('DELETE',
      at`workspaces/${workspaceId}/members/${accountId}`, options);
  }
  /** Newest first. */
  audit(query: Query<'listAuditEvents'> = {}, options?: CallOptions) {
    return this.#all<Schemas['AuditEvent']>('audit', 'events', query, options);
  }

  /* The items of all pages; a page is asked for when it is come to. */
  async *#all<T>(path: string, member: string, query: object,
    options?: CallOptions): AsyncGenerator<T, void, undefined> {
    const parameters = new URLSearchParams(Object.entries(query)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, String(value)]));
    let next: string | null;
    do {
      const page = await this.#repeat('GET', `${path}?${parameters}`,
        { ...options }) as { [member: string]: T[] } & { next: string | null };
      yield* page[member] ?? [];
      next = page.next;
      parameters.set('after', next ?? '');
    } while (next !== null);
  }

  async #call<O extends Operation>(method: string, path: string,
    options?: PostOptions, body?: object): Promise<Answer<O>> {
    const key = method === 'POST'
      ? options?.idempotencyKey ?? crypto.randomUUID() : undefined;
    return await this.#repeat(method, path,
      { ...options, idempotencyKey: key },
      body && JSON.stringify(body)) as Answer<O>;
  }

  /* Tries until there is an answer, or no time. */
  async #repeat(method: string, path: string, call: PostOptions,
    body?: string): Promise<unknown> {
    const start = Date.now();
    for (let tries = 1, renewed = false; ; tries++) {
      const token = await wait(this.#current(), call.signal);
      try {
        return await this.#send(method, `/api/system/${path}`, call, {
          Authorization: `Bearer ${token.text}`,
          ...(body ? { 'Content-Type': 'application/json' } : {}),
          ...(call.idempotencyKey
            ? { 'Idempotency-Key': call.idempotencyKey } : {}),
        }, body);
      } catch (error) {
        if (!(error instanceof PlatformError)) throw error;
        /* Nothing was done with a token that is refused. */
        if (error.status === 401 && !renewed) {
          renewed = true;
          if (this.#token === token) this.#token = undefined;
          continue;
        }
        const ms = pause(error, method, tries);
        if (ms === undefined || tries >= TRIES
          || Date.now() - start + ms > LONGEST_MS) throw error;
        await wait(sleep(ms), call.signal);
      }
    }
  }

  /* A good token.  The renewal goes on when a caller has given up. */
  #current(): Promise<Token> | Token {
    const token = this.#token;
    if (token && Date.now() < token.renew) return token;
    this.#renewal ??= this.#renew()
      .finally(() => { this.#renewal = undefined; });
    /* An early renewal that fails harms nobody yet. */
    return token && Date.now() < token.expires
      ? this.#renewal.catch(() => token) : this.#renewal;
  }

  async #renew(): Promise<Token> {
    const now = Date.now();
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#send('POST', '/api/auth/token', {}, {
          Authorization: `Basic ${this.#client}`,
        }, new URLSearchParams({ grant_type: 'client_credentials',
          ...(this.#scope ? { scope: this.#scope } : {}) }),
        ) as Schemas['TokenIssued'];
        const life = answer.expires_in * 1000;
        return this.#token = { text: answer.access_token,
          renew: now + life * 0.8, expires: now + life - 10_000 };
      } catch (error) {
        const ms = error instanceof PlatformError
          ? pause(error, 'POST', tries) : undefined;
        if (ms === undefined || tries >= TRIES
          || Date.now() - now + ms > LONGEST_MS) throw error;
        await sleep(ms);
      }
    }
  }

  async #send(method: string, path: string, { signal }: CallOptions,
    headers: Record<string, string>, body?: BodyInit): Promise<unknown> {
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const init = { method, headers, ...(body ? { body } : {}),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout };
    let answer;
    try {
      answer = await this.#fetch(new URL(path, this.#base), init);
      if (answer.ok) return await answer.json();
    } catch (cause) {
      throw noAnswer(cause, signal);
    }
    throw new PlatformError(answer.status,
      await answer.json().catch(() => ({})) as Problem,
      Number(answer.headers.get('Retry-After')) || 0);
  }
}

function at(parts: TemplateStringsArray, ...ids: string[]): string {
  return String.raw({ raw: parts }, ...ids.map(encodeURIComponent));
}

/* Before the next try, or undefined if none helps.  A DELETE that was carried
   out would be 404 the next time. */
function pause({ status, code, retryAfter }: PlatformError, method: string,
  tries: number): number | undefined {
  const slower = Math.min(250 * 2 ** tries, 8000) * (1 + Math.random());
  if (status === 429 || status === 503 || code === 'REQUEST_IN_PROGRESS')
    return retryAfter * 1000 || slower;
  const lost = code === 'OFFLINE' || status === 502 || status === 504;
  return lost && method !== 'DELETE' ? slower : undefined;
}

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

function noAnswer(cause: unknown, signal?: AbortSignal | null): PlatformError {
  return signal?.aborted
    ? new PlatformError(0, { code: 'ABORTED', detail: 'the caller has given up' },
      0, { cause: signal.reason })
    : new PlatformError(0, { code: 'OFFLINE', detail: `no answer came: ${cause}` },
      0, { cause });
}

/* The caller may give up, and then the work goes on. */
function wait<T>(work: Promise<T> | T, signal?: AbortSignal | null): Promise<T> {
  let abort = () => {};
  const given = new Promise<never>((_, reject) => {
    abort = () => reject(noAnswer(undefined, signal));
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort);
  });
  return Promise.race([work, given])
    .finally(() => signal?.removeEventListener('abort', abort));
}
