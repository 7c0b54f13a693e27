/* What handlers are given and have in common: callers, bodies, answers. */

#pragma once

#include "auth/keys.h"
#include "base/config.h"
#include "base/http.h"
#include "base/jsonw.h"
#include "base/metrics.h"
#include "store/model.h"

#include <pj.h>

/* Parsed tokens, bodies and rows of one request. */
#define WORKER_ARENA_BYTES (4 * 1024 * 1024)

/* One per thread; nothing in it is shared. */
struct worker {
    const struct config *cfg;
    struct store store; /* with the deadline of the request */
    pj_arena_t arena;   /* reset before every request */
    /* The request in hand. */
    const struct http_request *req;
    struct http_response *res;
    pj_str_t path_id; /* what stands for the {id} of its route */
    struct keys *keys;
    const pj_key_t *signer;   /* of keys, this thread's alone */
    bool late, left;          /* as struct fcgi_call has it */
    char account[STORE_UUID]; /* for which it works; "": not known yet */
    bool inside;              /* that account is held, and this is counted */
    int64_t now_s;
};

/* Fills w->res; it never fails, a problem is an answer too. */
typedef void handler_fn(struct worker *w);

/* -- who asks: without an access token of a live session false, refused -- */

enum auth_caller { AUTH_CALLER_ACCOUNT, AUTH_CALLER_ANY };

/* From here on the request is one for this account, whose rows it may lock;
 * false if too many wait for such rows already.  auth_leave() ends it. */
bool auth_enter(struct worker *w, pj_str_t account_id);
void auth_leave(struct worker *w);

/* The access token in Authorization; ANY: that of a branch too. */
bool auth_caller(struct worker *w, enum auth_caller who, pj_claims_t *claims);

/* Its session, as it stands; view->selectable tells of the branch asked about,
 * or, where that is NULL, of the session's own. */
bool auth_caller_session(struct worker *w, const pj_claims_t *claims,
                         const pj_str_t *branch_id, struct session_view *view);

/* -- request bodies: a bad one is refused, with false -- */

/* Media type, then syntax.  *root is an object; NULL for an absent optional. */
bool auth_body(struct worker *w, bool optional, const pj_json_t **root);

/* The string member name, which has to be there. */
bool auth_member(struct worker *w, const pj_json_t *root, const char *name,
                 pj_str_t *out);

/* 1 to 1024 bytes. */
bool auth_credential_fits(struct worker *w, const char *name,
                          pj_str_t credential);

/* The string member refreshToken; missing, null, "" and no root are empty. */
bool auth_member_refresh_token(struct worker *w, const pj_json_t *root,
                               pj_str_t *out);

/* -- refusals: all return false, so that callers can return it -- */

/* A 401 gets a challenge without a browser's dialog, a 503 a Retry-After: the
 * seconds until as many of those who were refused before have come again, at
 * RETRIES_A_SECOND and one for each that is served; any number up to
 * retry_after_max_s where it would be more. */
#define RETRIES_A_SECOND 200
bool auth_refuse(struct worker *w, int status, const char *code,
                 const char *detail);
void auth_served(void); /* to be called for each */
bool auth_invalid(struct worker *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* After a statement that failed. */
bool auth_database_unavailable(struct worker *w);
/* True where the database answered: STORE_OK or STORE_NONE. */
bool auth_answered(struct worker *w, enum store_result result);
#define auth_busy(w)                                                           \
    auth_refuse(w, 503, "AUTH_BUSY", "The service is overloaded; try again.")
/* 500: our own failure (no randomness, no memory, no signature). */
bool auth_failed(struct worker *w, const char *what);

#define AUTH_NOT_ACTIVE                                                        \
    "AUTH_SESSION_NOT_ACTIVE",                                                 \
        "The session does not exist, has ended or was revoked."

/* -- attempts at a credential: whose they are, and how many are allowed -- */

/* Fills *out for a login as account (normalised) from remote_addr: of IPv6 the
 * /64.  The account becomes an HMAC under a key that only holders of the
 * signing key have; false without a signing key. */
PJ_MUST_CHECK bool auth_attempt_identify(const struct keys *keys,
                                         pj_str_t account, pj_str_t remote_addr,
                                         struct attempt *out);

/* A login, or the like, that is being tried. */
struct auth_attempt {
    struct attempt attempt;
    bool counted; /* as failed, until it is settled */
};

/* Counts it as failed; false, refused and audited, after too many. */
bool auth_attempt_begin(struct worker *w, pj_str_t account_name,
                        const char *limited_event, struct auth_attempt *a);

/* Takes the count back where the answer in w->res says anything but that the
 * credential was wrong.  Best effort: a count that stays expires. */
void auth_attempt_settle(struct worker *w, const struct auth_attempt *a);

/* -- answers -- */

struct auth_answer {
    const char *code;
    const char *message;
    const struct session_view *view; /* scope and branches as they apply */
    bool scoped;                     /* else a branch is to be chosen */
    /* A scoped answer has the list and an account token as well. */
    bool account_access;
    int64_t as_of_us; /* of access tokens, by the database's clock; 0: when the
                         session was read */
    /* Each is left out when empty. */
    pj_str_t refresh_token, access_token, account_token;
};

/* Begins a JSON answer; the caller continues its object. */
void auth_json(struct worker *w, struct jsonw *json);
/* The same, with the members code and message. */
void auth_success(struct worker *w, struct jsonw *json, const char *code,
                  const char *message);

/* A member whose value is an array of these. */
void auth_list(struct jsonw *json, const char *name,
               const struct store_list *list);

/* Sign the access tokens that the answer needs, a refresh token; may fail. */
bool auth_sign_access(struct worker *w, struct auth_answer *answer);
bool auth_sign_refresh(struct worker *w, const struct session *s,
                       const char *jti, int64_t iat, int64_t exp,
                       pj_str_t *out);

/* Makes w->res the 200, signing the access tokens where that was not done;
 * false, with a refusal, when that fails. */
bool auth_answer(struct worker *w, struct auth_answer *answer);

/* Sets the ids for log lines. */
void auth_names(struct worker *w, const char *account_id,
                const char *session_id);

/* An audit line; account_id and session_id may be NULL. */
void auth_audit(struct worker *w, const char *event, const char *account_id,
                const char *session_id);

/* Counts what was revoked, and writes an audit line for each. */
void auth_revoked(struct worker *w, const struct session_refs *done,
                  enum metrics_counter counter, const char *event);

/* An audit line: own ended so many of its account's sessions. */
void auth_audit_sessions(struct worker *w, const char *event,
                         const struct session *own, int64_t ended);
