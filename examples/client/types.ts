/*
 * The types of client.ts: what it takes, answers, tells and throws.
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

export interface Owner {
  accountId: string;
  /** The name to log in with. */
  account: string;
  type: 'CUSTOMER' | 'OPERATOR' | 'SYSTEM';
  sessionId: string;
  /** When the session began. */
  createdAt: string;
}

export interface Place {
  workspaceId: string;
  workspaceName: string;
  branchId: string;
  branchName: string;
  roles: string[];
}

/** The answer of me().  It has a place if the token has a branch. */
export type Me = Owner & (Place | { [K in keyof Place]?: never });

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
  /** To a key of its client. */
  bound: boolean;
}

export interface Answer extends Context {
  code: 'AUTH_LOGIN_SUCCESS' | 'AUTH_REFRESH_SUCCESS'
    | 'AUTH_SELECT_BRANCH_SUCCESS' | 'AUTH_STEP_UP_SUCCESS';
  message: string;
  /** DPoP: of a session that is bound to a key. */
  tokenType: 'Bearer' | 'DPoP';
  expiresIn: number;
}

export interface InBranch extends Answer {
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

/** A login whose account has, or has to get, a second factor. */
export interface FactorAsked {
  code: 'AUTH_FACTOR_REQUIRED';
  factorToken: string;
  /** Seconds that it lives. */
  expiresIn: number;
  factors: ('passkey' | 'totp' | 'recovery')[];
  /** If there is one among the factors. */
  passkey?: PublicKeyCredentialRequestOptionsJSON;
  nextAction: { type: 'verify_factor' | 'enroll_factor' };
}

/** After a login: its session works in a branch, or has to select one, or there
    is none yet. */
export type Next = { type: 'load_current_context' } | { type: 'select_branch' }
  | Pick<FactorAsked, 'factorToken' | 'expiresIn' | 'factors' | 'passkey'>
    & { type: 'verify_factor' | 'enroll_factor' };

/** Of a step-up; like a session without its refresh token. */
export type SteppedUp = InBranch & { accountAccessToken?: never }
  | Choice & { accessToken?: never };

export interface Factor {
  factorId: string;
  type: 'totp' | 'passkey';
  name: string;
  createdAt: string;
  usedAt: string | null;
}

export interface Factors {
  factors: Factor[];
  recoveryCodesLeft: number;
}

/** What a passkey has to answer. */
export interface Challenge<Options> {
  challengeToken: string;
  options: Options;
}

export interface AddedTotp {
  factorId: string;
  /** Base32, to type in. */
  secret: string;
  /** The same, for a QR code. */
  uri: string;
  /** Confirm it by then. */
  expiresAt: string;
}

export interface Totp extends AddedTotp {
  /** Recovery codes, if it is the first factor. */
  confirm(code: string, options?: CallOptions): Promise<string[]>;
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
  /** Binds sessions to a key, if the service does: to one that the browser
      keeps (elsewhere it ends with the client), or to this pair of P-256. */
  dpop?: boolean | CryptoKeyPair;
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the wait for the answer.  The service may still do what was asked. */
  signal?: AbortSignal | null | undefined;
}

/** What on() listens to. */
export interface Events {
  /** The session has ended: by this tab, another tab or another device. */
  signedOut: [];
  /** Another tab has logged in: restore() goes on with that session. */
  sessionChanged: [];
  /** This client's branch cannot be selected any more, or it had none and
      another tab selected one. */
  branchChanged: [now: Context];
}

/** The codes of docs/http-api.md.  Later releases may add some. */
export type ServiceCode =
  | 'REQUEST_INVALID' | 'REQUEST_TOO_LARGE' | 'REQUEST_IN_PROGRESS'
  | 'REQUEST_IDEMPOTENCY_MISMATCH' | 'RESOURCE_NOT_FOUND' | 'RESOURCE_EXISTS'
  | 'RESOURCE_CONFLICT' | 'RESOURCE_LIMIT_REACHED'
  | 'METHOD_NOT_ALLOWED' | 'MEDIA_TYPE_UNSUPPORTED' | 'PRECONDITION_FAILED'
  | 'INTERNAL_ERROR' | 'DATABASE_UNAVAILABLE' | 'SERVICE_NOT_READY'
  | 'AUTH_ACCESS_TOKEN_REQUIRED' | 'AUTH_ACCOUNT_TOKEN_REQUIRED'
  | 'AUTH_BRANCH_NOT_SELECTABLE' | 'AUTH_BUSY' | 'AUTH_CLIENT_INVALID'
  | 'AUTH_CREDENTIAL_NOT_ALLOWED' | 'AUTH_GRANT_TYPE_UNSUPPORTED' | 'AUTH_SCOPE_INVALID' | 'AUTH_SCOPE_REQUIRED'
  | 'AUTH_FACTOR_INVALID' | 'AUTH_FACTOR_LAST' | 'AUTH_FACTOR_NOT_OFFERED'
  | 'AUTH_FACTOR_TOKEN_INVALID' | 'AUTH_STEP_UP_REQUIRED'
  | 'AUTH_INVALID_CREDENTIALS' | 'AUTH_ORIGIN_NOT_ALLOWED' | 'AUTH_PASSKEY_INVALID'
  | 'AUTH_PROOF_INVALID' | 'AUTH_PROOF_REQUIRED'
  | 'AUTH_REFRESH_TOKEN_CONFLICT' | 'AUTH_REFRESH_TOKEN_INVALID'
  | 'AUTH_REFRESH_TOKEN_MISSING' | 'AUTH_REFRESH_TOKEN_STALE'
  | 'AUTH_RESET_CODE_INVALID' | 'AUTH_SESSION_CHANGED' | 'AUTH_SESSION_NOT_ACTIVE'
  | 'AUTH_TOO_MANY_ATTEMPTS' | 'GATEWAY_AUTHENTICATION_REQUIRED'
  | 'GATEWAY_BAD_REQUEST' | 'GATEWAY_CLAIM_REQUIRED'
  | 'GATEWAY_CONTEXT_FORBIDDEN' | 'GATEWAY_ERROR' | 'GATEWAY_FORBIDDEN'
  | 'GATEWAY_HEADER_TOO_LARGE' | 'GATEWAY_KEYS_UNAVAILABLE'
  | 'GATEWAY_ORIGIN_NOT_ALLOWED' | 'GATEWAY_PATH_AMBIGUOUS'
  | 'GATEWAY_PREFLIGHT_NOT_ALLOWED' | 'GATEWAY_PROOF_INVALID'
  | 'GATEWAY_PROOF_REQUIRED' | 'GATEWAY_PROOF_STORE_FULL'
  | 'GATEWAY_RATE_LIMITED'
  | 'GATEWAY_REQUEST_TOO_LARGE' | 'GATEWAY_REVOCATIONS_STALE'
  | 'GATEWAY_ROUTE_NOT_FOUND' | 'GATEWAY_TOKEN_EXPIRED'
  | 'GATEWAY_TOKEN_INVALID' | 'GATEWAY_TOKEN_MISSING' | 'GATEWAY_UNAUTHORIZED'
  | 'GATEWAY_UPSTREAM_TIMEOUT' | 'GATEWAY_UPSTREAM_UNAVAILABLE'
  | 'GATEWAY_URI_TOO_LONG';

/** The client's own, with status 0, or 409 where the context changed. */
export type ClientCode =
  | 'ABORTED'             // by the caller's signal
  | 'BRANCH_NOT_SELECTED' // selectBranch() comes first
  | 'CONTEXT_CHANGED'     // the branch, or the session by this very page
  | 'KEY_UNUSABLE'        // there is no WebCrypto, or it refuses; see cause
  | 'OFFLINE'             // no answer came
  | 'OTHER_ORIGIN'        // it is not to see the token
  | 'PASSKEY_NOT_SHOWN'   // the person cancelled, or there is none; see cause
  | 'UNKNOWN';            // the answer had no code

export type Code = ServiceCode | ClientCode;

/** A fault of what was sent, at one of pointer, parameter and header. */
export interface Fault {
  /** JSON pointer into the body; '' is all of it. */
  pointer?: string;
  /** Name in the query. */
  parameter?: string;
  header?: string;
  code: 'conflict' | 'malformed' | 'missing' | 'not_allowed' | 'out_of_range'
    | 'too_long' | 'too_short' | 'unknown' | 'wrong_type';
  minimum?: number;
  maximum?: number;
}

/** An error's body, or what there is of it. */
export interface Problem {
  code?: Code;
  detail?: string;
  requestId?: string;
  errors?: Fault[];
}
