/* The state of a request, and what handlers share: callers, request bodies,
 * refusals, answers. */

#pragma once

#include "auth/keys.h"
#include "base/config.h"
#include "base/fault.h"
#include "base/http.h"
#include "base/jsonw.h"
#include "base/metrics.h"
#include "store/model.h"

#include <pj.h>

/* For the parsed tokens, bodies and rows of one request. */
#define WORKER_ARENA_BYTES (4 * 1024 * 1024)

/* One per thread, never shared. */
struct worker {
    const struct config *cfg;
    struct store store; /* with the deadline of the request */
    pj_arena_t arena;   /* reset before every request */
    /* The current request. */
    const struct http_request *req;
    struct http_response *res;
    pj_str_t path_ids[2]; /* values of the ids in the route's path */
    struct faults faults; /* of the request, for a 400 */
    struct keys *keys;
    const pj_key_t *signer;   /* this thread's copy of the signing key */
    bool late, disconnected;  /* see struct fcgi_call */
    char account[STORE_UUID]; /* account of the request, "" until known */
    bool counted_held;        /* counted by held_enter() */
    int64_t now_s;
    /* The key that the tokens of the answer are bound to, or "". */
    char jkt[PJ_THUMBPRINT_CHARS + 1];
    /* Of a program's call (auth/system.h): */
    unsigned may;           /* types of the accounts that it may change */
    pj_str_t scopes, jti;   /* of its token */
    char location[128];     /* of what it made, or "" */
    const char *subject_id; /* the account that the answer is about, or NULL */
};

/* Fills w->res.  Never fails: a problem is an answer too. */
typedef void handler_fn(struct worker *w);

/* -- callers: false with a refusal if the caller may not continue -- */

enum auth_caller {
    AUTH_CALLER_ACCOUNT,
    AUTH_CALLER_ANY,
    AUTH_CALLER_SYSTEM /* a system token */
};

/* Declares that the request may lock rows of this account.  Refuses it if too
 * many requests wait for rows of such accounts.  auth_leave() ends it. */
bool auth_enter(struct worker *w, pj_str_t account_id);
void auth_leave(struct worker *w);

/* Verifies the access token in Authorization.  AUTH_CALLER_ANY also accepts
 * branch tokens. */
bool auth_caller(struct worker *w, enum auth_caller kind, pj_claims_t *claims);

/* For a request that opens a session, before anything is counted: binds it to
 * the key of the proof, if there is one.  False with a refusal if the proof is
 * wrong, or missing with DPOP_REQUIRE. */
bool auth_proof_offer(struct worker *w);

/* Verifies the proof, if there is one, and binds the tokens of the answer to
 * its key.  False with a refusal if the proof is wrong. */
bool auth_proof_read(struct worker *w);

/* For a request with a token of a session, before anything is read: if the
 * token is bound to a key, demands a proof by that key, which proves this
 * access token unless it is empty, and binds the tokens of the answer to it.
 * False with a refusal. */
bool auth_proof_demand(struct worker *w, const pj_claims_t *claims,
                       pj_str_t access_token);

/* Reads the caller's session and refuses it unless it is alive.  branch_id
 * (NULL for the active branch) is the branch of view->selectable. */
bool auth_caller_session(struct worker *w, const pj_claims_t *claims,
                         const pj_str_t *branch_id, struct session_view *view);
/* The same for a session that a statement with this result has read. */
bool auth_caller_alive(struct worker *w, const pj_claims_t *claims,
                       enum store_result result, struct session_view *view);

/* Checks a new credential, which is at this pointer of the body, by the
 * operator's rules.  Reads the list of forbidden ones.  False with a refusal.
 */
bool auth_credential_allowed(struct worker *w, const char *pointer,
                             pj_str_t credential);

/* -- refusals: all return false, for callers to return -- */

/*
 * Answers with a problem.  A 401 has a challenge that opens no dialog in
 * browsers.
 *
 * A 503 has a Retry-After that spreads the retries of refused clients:
 * RETRIES_A_SECOND per second, in the order of refusal, and one earlier for
 * each request served (auth_served()).  If that exceeds retry_after_max_s, any
 * number up to it.
 */
#define RETRIES_A_SECOND 200
bool auth_refuse(struct worker *w, int status, const char *code,
                 const char *detail);
int64_t auth_retry_after_s(const struct config *cfg); /* that of a 503 */
void auth_served(void); /* call for each request served */

/* Records a fault of the request, whose strings are copied.  The format is of a
 * sentence: the first fault's is the refusal's detail. */
bool auth_fault(struct worker *w, struct fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* True if no fault was recorded; otherwise refuses with all of them. */
bool auth_faultless(struct worker *w);
/* Refuses with this fault, and with those recorded before. */
#define auth_invalid(w, ...) (auth_fault((w), __VA_ARGS__), auth_faultless(w))

/* For a failed statement. */
bool auth_database_unavailable(struct worker *w);
/* True for STORE_OK and STORE_NONE, otherwise auth_database_unavailable(). */
bool auth_answered(struct worker *w, enum store_result result);
/* Gives a request that has run out of time another half second, in which it
 * takes back what it has counted against a client. */
void auth_extend(struct worker *w);
#define auth_busy(w)                                                           \
    auth_refuse(w, 503, "AUTH_BUSY", "The service is overloaded; try again.")
/* A 500 for internal failures (randomness, memory, signing). */
bool auth_failed(struct worker *w, const char *what);

/* A 401 with a challenge for a bearer token (RFC 6750 section 3.1). */
bool auth_refuse_token(struct worker *w, const char *code, const char *detail);

#define AUTH_NOT_ACTIVE                                                        \
    "AUTH_SESSION_NOT_ACTIVE",                                                 \
        "The session does not exist, has ended or was revoked."

/* -- answers -- */

struct auth_answer {
    const char *code;
    const char *message;
    const struct session_view *view; /* its scope and branches are used */
    bool scoped; /* false if the client must select a branch */
    /* add the list of branches and an account token to a scoped answer */
    bool account_access;
    int64_t as_of_us; /* time of the access tokens by the database's clock; 0
                         for the time the session was read */
    /* Omitted if empty. */
    pj_str_t refresh_token, access_token, account_token;
    const struct store_list *recovery_codes; /* or NULL */
};

/* Starts a JSON answer; the caller continues its object. */
void auth_json(struct worker *w, struct jsonw *json);
/* The same, with the members code and message. */
void auth_success(struct worker *w, struct jsonw *json, const char *code,
                  const char *message);

/* Writes a member with an array of the list's items, which are JSON. */
void auth_list(struct jsonw *json, const char *name,
               const struct store_list *list);

/* Sign the access tokens of the answer, and a refresh token.  False on
 * failure. */
bool auth_sign_access(struct worker *w, struct auth_answer *answer);
bool auth_sign_refresh(struct worker *w, const struct session *s,
                       const char *jti, int64_t iat, int64_t exp,
                       pj_str_t *out);

/* Writes the 200 to w->res, after signing the access tokens unless they are
 * signed already.  On failure refuses and returns false. */
bool auth_answer(struct worker *w, struct auth_answer *answer);

/* Sets the ids for the access log. */
void auth_set_ids(struct worker *w, const char *account_id,
                  const char *session_id);

/* States who makes the changes of this request, for the rows of the audit:
 * account_id and the token jti (NULL if not a token's).  credential names the
 * event of a changed credential (NULL for the usual name), session the event of
 * an ended session (NULL to write none). */
void auth_actor(struct worker *w, const char *account_id, const pj_str_t *jti,
                const char *credential, const char *session);

/* Writes an audit line; account_id and session_id may be NULL. */
void auth_audit(struct worker *w, const char *event, const char *account_id,
                const char *session_id);

/* Counts the revoked sessions and writes an audit line for each. */
void auth_record_revoked(struct worker *w, const struct session_refs *done,
                         enum metrics_counter counter, const char *event);

/* Writes an audit line: caller ended this number of the account's sessions. */
void auth_audit_sessions(struct worker *w, const char *event,
                         const struct session *caller, int64_t ended);
