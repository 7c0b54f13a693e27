/* POST /api/auth/refresh */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/uuid.h"
#include "store/store_session.h"

#include <string.h>
#include <time.h>

#define ATTEMPTS 4 /* one, and three more if the scope keeps changing */
/* A token replaced within this time may be from another tab or a retry. */
#define REUSE_GRACE_S 60

#define UNREADABLE_PAUSE_MS 100

/* The state of an attempt.  ROTATED and RETRIED are success. */
enum result {
    READ,      /* the session was read, nothing is written */
    ROTATED,   /* the session has the new token */
    FOUND,     /* as read after a lost answer, it has the new token */
    RETRIED,   /* the answer of an earlier request is repeated */
    REFUSED,   /* a refusal is written */
    AGAIN,     /* the row changed or an answer was lost: start over */
    UNREADABLE /* the database failed after a lost answer */
};

struct refresh {
    struct worker *w;
    pj_str_t token;
    bool from_cookie; /* the token is in the cookie */
    bool include_account_token;
    pj_str_t session_id; /* expected by the client; data is NULL for any */
    pj_claims_t claims;
    struct meanwhile meanwhile; /* signs during the first statement */
    struct session_view view;
    char jti[STORE_UUID]; /* of the new token */
    int64_t exp;          /* of the new token */
    pj_str_t new_token;   /* empty until signed */
    bool uncertain;       /* the answer to a write was lost */
    enum result result;   /* set by find() */
    struct retry retry;
    enum session_retry retry_kind; /* only if RETRIED */
};

/* -- the request -- */

static bool read_body(struct refresh *r)
{
    struct body root;

    if (!body_read(r->w, true, &root)) {
        return false;
    }
    body_string(&root, "refreshToken", BODY_NULLABLE, 0, 0, &r->token);
    body_flag(&root, "includeAccountToken", BODY_OPTIONAL,
              &r->include_account_token);
    body_string(&root, "sessionId", BODY_OPTIONAL, 0, 0, &r->session_id);
    return auth_faultless(r->w);
}

static bool refuse_conflict(struct worker *w, struct fault fault)
{
    (void) auth_fault(w, fault,
                      "The request carries different refresh tokens.");
    return auth_refuse(w, 400, "AUTH_REFRESH_TOKEN_CONFLICT", w->faults.detail);
}

/* Finds the token in the body or the cookie.  If both have one, they must
 * agree. */
static bool find_token(struct refresh *r)
{
    const struct http_request *req = r->w->req;
    pj_str_t value;
    enum http_cookie cookie =
        http_cookie_find(req->cookie, r->w->cfg->cookie_name, &value);

    if (cookie != HTTP_COOKIE_NONE && !http_origin_allowed(r->w->cfg, req)) {
        return auth_refuse(
            r->w, 403, "AUTH_ORIGIN_NOT_ALLOWED",
            "A page of this origin may not use the refresh cookie.");
    }
    if (cookie == HTTP_COOKIE_CONFLICT) {
        return refuse_conflict(
            r->w, (struct fault){.code = FAULT_CONFLICT, .header = "Cookie"});
    }
    if (cookie == HTTP_COOKIE_ONE && r->token.len > 0 &&
        !pj_str_eq(r->token, value)) {
        return refuse_conflict(
            r->w,
            (struct fault){.code = FAULT_CONFLICT, .pointer = "/refreshToken"});
    }
    if (cookie == HTTP_COOKIE_ONE) {
        r->token = value;
        r->from_cookie = true;
    }
    return r->token.len > 0 ||
           auth_refuse(r->w, 401, "AUTH_REFRESH_TOKEN_MISSING",
                       "The request carries no refresh token.");
}

/* -- refusals -- */

/* For a token that can never be valid again.  Clears its cookie. */
static bool refuse_for_good(const struct refresh *r, const char *code,
                            const char *detail)
{
    (void) auth_refuse(r->w, 401, code, detail);
    if (r->from_cookie) {
        http_cookie_clear(r->w->res, r->w->cfg);
    }
    return false;
}

/* The only answer that leaves the state of the token unknown. */
static bool refuse_in_doubt(const struct refresh *r)
{
    return auth_refuse(r->w, 503, "DATABASE_UNAVAILABLE",
                       "The database went away while it replaced the refresh "
                       "token; it may or may not have been replaced.");
}

/* False if the database did not answer. */
static bool revoke(const struct refresh *r, const char *event,
                   enum metrics_counter counter)
{
    struct session_refs done;
    enum store_result result;

    auth_actor(r->w, "", NULL, NULL, event);
    result =
        store_session_revoke(&r->w->store, &r->claims.session_id, 1, &done);
    auth_record_revoked(r->w, &done, counter, event);
    return result == STORE_OK || result == STORE_NONE;
}

/* Writes an audit line and, best effort, a row of the audit. */
static void observe(struct worker *w, const char *event,
                    const struct session *s)
{
    auth_actor(w, "", NULL, NULL, NULL);
    (void) store_audit_observe(&w->store, event, s->session_id);
    auth_audit(w, event, s->account_id, s->session_id);
}

/* Under the policy `revoke`, a token that was replaced some time ago counts as
 * stolen, and the session ends, whether the thief or the owner presents it.
 * With a retry window that is after the window, or at once if another client
 * presents the token. */
static bool refuse_stale(const struct refresh *r)
{
    struct worker *w = r->w;
    const struct session *s = &r->view.session;
    int64_t window_s = w->cfg->refresh_retry_window_s;
    int64_t grace_s = window_s > 0 ? window_s : REUSE_GRACE_S;
    enum store_result grace = STORE_OK;

    if (w->cfg->refresh_reuse == REUSE_REVOKE) {
        if (r->retry_kind == SESSION_RETRY_REUSE) {
            grace = STORE_NONE;
        } else if (w->now_s > r->claims.iat + grace_s) {
            grace = store_session_remembered(&w->store, s->session_id,
                                             r->claims.jti, grace_s);
        }
    }
    if (grace == STORE_UNAVAILABLE ||
        (grace == STORE_NONE && !revoke(r, "auth.refresh.reuse_revoked",
                                        METRICS_SESSIONS_REVOKED_REUSE))) {
        return auth_database_unavailable(w);
    }
    if (grace == STORE_OK) {
        observe(w, "auth.refresh.reuse", s);
    }
    metrics_count(METRICS_STALE_REFRESHES);
    return auth_refuse(w, 401, "AUTH_REFRESH_TOKEN_STALE",
                       "The refresh token was replaced by a newer one.");
}

/* Returns true if the session may be rotated, otherwise refuses. */
static bool may_rotate(const struct refresh *r, enum session_verdict verdict)
{
    const struct session *s = &r->view.session;

    if (verdict == SESSION_SCOPED || verdict == SESSION_UNSCOPED ||
        verdict == SESSION_NOT_SELECTABLE) {
        return true;
    }
    auth_set_ids(r->w, s->account_id, s->session_id);
    if (verdict == SESSION_STALE) {
        return refuse_stale(r);
    }
    if (verdict == SESSION_ACCOUNT_DISABLED &&
        !revoke(r, "auth.session.account_disabled",
                METRICS_SESSIONS_REVOKED_DISABLED)) {
        return auth_database_unavailable(r->w);
    }
    return refuse_for_good(r, AUTH_NOT_ACTIVE);
}

/* -- the rotation -- */

/* Predicts the expiry of the new token from the old one.  An old token issued
 * for less than the full lifetime ends with its session, as will the new token.
 */
static int64_t expected_expiry(const struct worker *w, const pj_claims_t *old)
{
    int64_t exp = w->now_s + w->cfg->refresh_ttl_s;

    return old->exp - old->iat < w->cfg->refresh_ttl_s && old->exp < exp
               ? old->exp
               : exp;
}

static void copy_id(char out[STORE_UUID], pj_str_t id)
{
    size_t len = id.len < STORE_UUID ? id.len : 0;

    memcpy(out, id.data, len);
    out[len] = '\0';
}

/* Signs the new refresh token while the database works.  Its contents are known
 * from the old token, except that the end of the session may shorten its
 * expiry.  If signing fails, prepare_answer() signs. */
static void sign_ahead(void *arg)
{
    struct refresh *r = arg;
    struct session s = {0};

    copy_id(s.account_id, r->claims.account_id);
    copy_id(s.session_id, r->claims.session_id);
    (void) auth_sign_refresh(r->w, &s, r->jti, r->w->now_s, r->exp,
                             &r->new_token);
}

/* Signs the new refresh token, once for all attempts, or again the token that
 * an earlier refresh issued for the same old token. */
static bool sign_new_token(struct refresh *r)
{
    struct worker *w = r->w;
    const struct session *s = &r->view.session;
    int64_t exp =
        session_expiry(w->now_s, w->cfg->refresh_ttl_s, s->created_at_s,
                       w->cfg->session_max_lifetime_s);

    if (r->result == RETRIED) {
        r->exp = r->retry.expires_at_s;
        return auth_sign_refresh(w, s, r->retry.jti, r->retry.iat_s, r->exp,
                                 &r->new_token);
    }
    if (r->new_token.len > 0 && r->exp == exp &&
        session_id_is(s->session_id, r->claims.session_id)) {
        return true;
    }
    r->exp = exp;
    return auth_sign_refresh(w, s, r->jti, w->now_s, exp, &r->new_token);
}

/* Writes the 200, to be sent if the rotation succeeds. */
static bool prepare_answer(struct refresh *r, bool scoped)
{
    struct auth_answer answer = {.code = "AUTH_REFRESH_SUCCESS",
                                 .message = "The session was refreshed.",
                                 .view = &r->view,
                                 .scoped = scoped,
                                 .account_access = r->include_account_token};

    if (!sign_new_token(r)) {
        return auth_failed(r->w, "cannot sign a refresh token");
    }
    answer.refresh_token = r->new_token;
    answer.as_of_us = r->result == RETRIED ? r->retry.rotated_at_us : 0;
    return auth_answer(r->w, &answer);
}

/* Restores the session's old token if the answer cannot be written. */
static void rotate_back(const struct refresh *r)
{
    struct session rotated = r->view.session;
    char jti[STORE_UUID];
    const struct rotation to = {.new_jti = jti,
                                .expires_at_s = rotated.expires_at_s};

    memcpy(rotated.jti, r->jti, sizeof(rotated.jti));
    copy_id(jti, r->claims.jti);
    if (store_session_rotate(&r->w->store, &rotated, &to, false) != STORE_OK) {
        (void) refuse_in_doubt(r);
    }
}

/* Returns the rotation to write, as far as known without the session. */
static struct rotation rotation_of(const struct refresh *r)
{
    const struct config *cfg = r->w->cfg;

    return (struct rotation){.token = &r->claims,
                             .new_jti = r->jti,
                             .expires_at_s = r->exp,
                             .now_s = r->w->now_s,
                             .retry_window_s = cfg->refresh_retry_window_s,
                             .remember = cfg->refresh_reuse == REUSE_REVOKE};
}

/* Writes what the first statement did not write.  FOUND is written again,
 * because a read does not prove that a standby has the row: a primary that was
 * just replaced may show rows that are lost. */
static enum store_result write_rest(struct refresh *r, bool clear_scope)
{
    struct store *st = &r->w->store;
    const struct rotation to = rotation_of(r);
    bool retried = r->result == RETRIED;

    if (retried || r->result == FOUND) {
        return store_session_repeat(
            st, &r->view.session, retried ? r->retry.jti : r->jti,
            retried && r->retry_kind == SESSION_RETRY_MOVED, clear_scope);
    }
    return store_session_rotate(st, &r->view.session, &to, clear_scope);
}

/* Writes the answer, then updates the session accordingly. */
static enum result complete(struct refresh *r, enum session_verdict verdict)
{
    bool clear_scope = verdict == SESSION_NOT_SELECTABLE;

    if (!prepare_answer(r, verdict == SESSION_SCOPED)) {
        if (r->result == ROTATED || r->result == FOUND) {
            rotate_back(r);
        }
        return REFUSED;
    }
    if (r->result == ROTATED) { /* only if its scope is selectable */
        return ROTATED;
    }
    switch (write_rest(r, clear_scope)) {
    case STORE_OK:
        return r->result == RETRIED ? RETRIED : ROTATED;
    case STORE_NONE:
        return AGAIN;
    case STORE_UNKNOWN:
        r->uncertain = true;
        return AGAIN;
    default:
        if (r->result == FOUND) {
            return UNREADABLE;
        }
        (void) auth_database_unavailable(r->w);
        return REFUSED;
    }
}

/* On the first attempt, reads and rotates the session in one statement.  If the
 * end of the session is near, the new expiry is not known before the read.
 * Then, and on later attempts, only reads. */
static enum store_result rotate_or_read(struct refresh *r, bool first)
{
    struct worker *w = r->w;
    int64_t lifetime_s = w->cfg->session_max_lifetime_s;
    bool list = r->include_account_token, rotated = false;
    struct rotation to = rotation_of(r);
    enum store_result result;

    r->result = READ;
    if (first && r->exp == w->now_s + w->cfg->refresh_ttl_s) {
        to.opened_at_s = lifetime_s > 0 ? r->exp - lifetime_s : 0;
        result = store_session_refresh(&w->store, &w->arena, &to, list,
                                       &r->meanwhile, &r->view, &rotated);
        r->result = rotated ? ROTATED : READ;
    } else {
        result = store_session_read(&w->store, &w->arena, r->claims.session_id,
                                    NULL, list, &r->meanwhile, &r->view);
    }
    if (result == STORE_OK && r->uncertain &&
        strcmp(r->view.session.jti, r->jti) == 0) {
        r->result = FOUND;
    }
    return result;
}

static enum session_verdict decide(const struct refresh *r)
{
    const char *current_jti = r->view.session.jti;
    pj_str_t jti = r->claims.jti;

    if (r->result != READ) {
        jti = pj_str(current_jti);
    }
    return session_decide(&r->view, r->claims.account_id, &jti, r->w->now_s,
                          r->w->cfg->session_max_lifetime_s);
}

/* Finds out whether the last rotation replaced this stale token, and this
 * client may retry.  The answer to a retry is as of the time of that
 * rotation, by the database's clock, so that a later lockout covers its access
 * tokens. */
static enum store_result find_retry(struct refresh *r)
{
    struct worker *w = r->w;
    int64_t window_s = w->cfg->refresh_retry_window_s;
    enum store_result result =
        window_s > 0
            ? store_session_retry(&w->store, &r->claims, window_s, &r->retry)
            : STORE_NONE;

    if (result != STORE_OK) {
        return result;
    }
    r->retry_kind = session_classify_retry(&r->retry, w->store.client_address,
                                           w->store.client_agent);
    if (r->retry_kind == SESSION_RETRY_REUSE) {
        return STORE_NONE;
    }
    r->result = RETRIED;
    r->new_token.len = 0; /* sign the retried token instead */
    return STORE_OK;
}

/* Sets r->result to READ, ROTATED, FOUND or RETRIED. */
static enum store_result find(struct refresh *r, bool first,
                              enum session_verdict *verdict)
{
    enum store_result result = rotate_or_read(r, first);

    if (result != STORE_OK) {
        return result;
    }
    *verdict = decide(r);
    if (*verdict == SESSION_STALE) {
        result = find_retry(r);
        *verdict = decide(r);
    }
    return result == STORE_NONE ? STORE_OK : result;
}

/* A statement, a decision and, unless the statement rotated, a
 * compare-and-swap. */
static enum result attempt(struct refresh *r, bool first)
{
    enum session_verdict verdict = SESSION_NOT_ACTIVE;

    if (r->result == RETRIED) { /* set by an earlier attempt */
        r->new_token.len = 0;
    }
    switch (find(r, first, &verdict)) {
    case STORE_OK:
        return may_rotate(r, verdict) ? complete(r, verdict) : REFUSED;
    case STORE_UNKNOWN:
        r->uncertain = true;
        return AGAIN;
    case STORE_NONE:
        (void) refuse_for_good(r, AUTH_NOT_ACTIVE);
        return REFUSED;
    default:
        if (r->uncertain) {
            return UNREADABLE; /* a later read may find the result */
        }
        (void) auth_database_unavailable(r->w);
        return REFUSED;
    }
}

/* Waits.  False if that would exceed the deadline of the request. */
static bool pause_ms(const struct refresh *r, long ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000};

    if (metrics_now_us() / 1000 + ms >= r->w->store.deadline_ms) {
        return false;
    }
    nanosleep(&t, NULL);
    return true;
}

/* Starts over if the scope changed between read and write.  After a lost
 * answer, repeats until the deadline with the same new jti, so at most one
 * rotation takes place. */
static bool rotate_session(struct refresh *r)
{
    enum result result = AGAIN;

    r->exp = expected_expiry(r->w, &r->claims);
    if (!uuid_generate(r->jti)) {
        return auth_failed(r->w, "no randomness");
    }
    for (int left = ATTEMPTS; left > 0; left -= result == AGAIN) {
        result = attempt(r, left == ATTEMPTS);
        if (result == ROTATED || result == RETRIED || result == REFUSED) {
            return result != REFUSED;
        }
        if (result == UNREADABLE && !pause_ms(r, UNREADABLE_PAUSE_MS)) {
            break;
        }
    }
    return r->uncertain ? refuse_in_doubt(r) : auth_busy(r->w);
}

/* Verifies signature, issuer, times and kind of the presented token. */
static bool verify(struct refresh *r)
{
    struct worker *w = r->w;
    pj_err_t err = token_verify(w->cfg, w->keys, w->signer, &w->arena, r->token,
                                w->now_s, TOKEN_CHECK_ALL, &r->claims);

    if (!err && r->claims.kind == PJ_TOKEN_REFRESH) {
        return true;
    }
    if (err == PJ_ERR_TOKEN_NOT_YET) {
        /* The clocks differ.  Another process may accept the token now, and
         * this one soon. */
        return auth_refuse(
            w, 401, "AUTH_REFRESH_TOKEN_INVALID",
            "The refresh token is not valid yet by this server's clock.");
    }
    return refuse_for_good(r, "AUTH_REFRESH_TOKEN_INVALID",
                           "The refresh token is not valid or has expired.");
}

/* Without this check, a page could continue as another user after a login in
 * another tab. */
static bool is_expected(const struct refresh *r)
{
    return r->session_id.data == NULL ||
           pj_str_eq(r->session_id, r->claims.session_id) ||
           auth_refuse(r->w, 409, "AUTH_SESSION_CHANGED",
                       "The refresh token is of another session.");
}

/* Stops a stolen token of a bound session: the next steps may end the session.
 */
static bool is_holder(const struct refresh *r)
{
    return auth_proof_demand(r->w, &r->claims, (pj_str_t){NULL, 0}) &&
           auth_enter(r->w, r->claims.account_id);
}

void h_refresh(struct worker *w)
{
    struct refresh r = {.w = w, .meanwhile = {sign_ahead, &r}};

    if (read_body(&r) && find_token(&r) && verify(&r) && is_expected(&r) &&
        is_holder(&r) && rotate_session(&r)) {
        bool retried = r.result == RETRIED;

        auth_served();
        metrics_count(retried ? METRICS_RETRIES : METRICS_ROTATIONS);
        http_cookie_set(w->res, w->cfg, r.new_token, r.exp - w->now_s);
        if (retried && r.retry_kind == SESSION_RETRY_MOVED) {
            observe(w, "auth.refresh.retried_elsewhere", &r.view.session);
        } else {
            auth_audit(
                w, retried ? "auth.refresh.retried" : "auth.refresh.succeeded",
                r.view.session.account_id, r.view.session.session_id);
        }
    }
}
