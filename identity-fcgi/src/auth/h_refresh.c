/* POST /api/auth/refresh */

#include "auth/app.h"
#include "auth/auth.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/metrics.h"

#include <string.h>
#include <time.h>

#define ATTEMPTS 4 /* the first, and three after the scope had moved */
/* A token rotated out less long ago may be another tab's, or a retry's. */
#define REUSE_GRACE_S 60

#define UNREADABLE_PAUSE_MS 100

/* What one attempt came to. */
enum step {
    ROTATED,
    REFUSED,   /* res is the answer */
    AGAIN,     /* something moved in between */
    UNREADABLE /* no database, and a write is in doubt */
};

struct refresh {
    pj_str_t token;
    bool from_cookie; /* the cookie holds this very token */
    bool include_account_token;
    pj_claims_t claims;
    struct worker *worker;
    struct meanwhile meanwhile; /* of the first statement */
    struct session_view view;
    char jti[UUID_LEN + 1]; /* of the new token */
    int64_t exp;            /* likewise */
    pj_str_t new_token;     /* once there is one */
    bool uncertain;         /* the answer to a write was lost */
};

static void refuse(const struct http_request *req, struct http_response *res,
                   const char *code, const char *detail)
{
    auth_unauthorized(req, res, code, detail, AUTH_CHALLENGE_LOGIN);
}

/* -- what was sent -- */

static bool read_body(struct worker *w, const struct http_request *req,
                      struct http_response *res, struct refresh *r)
{
    const pj_json_t *root, *flag;

    switch (auth_body(w, req, res, true, &root)) {
    case AUTH_BODY_EMPTY:
        return true;
    case AUTH_BODY_REFUSED:
        return false;
    default:
        break;
    }
    if (!auth_member_refresh_token(req, res, root, &r->token)) {
        return false;
    }
    flag = pj_json_member(root, "includeAccountToken");
    if (flag != NULL && flag->type != PJ_JSON_BOOL) {
        auth_invalid(req, res,
                     "The member includeAccountToken must be true or false.");
        return false;
    }
    r->include_account_token = flag != NULL && flag->boolean;
    return true;
}

static bool same(pj_str_t a, pj_str_t b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Body and cookie, one token or none. */
static bool find_token(struct worker *w, const struct http_request *req,
                       struct http_response *res, struct refresh *r)
{
    pj_str_t value;
    enum http_cookie cookie =
        http_cookie_find(req->cookie, w->cfg->cookie_name, &value);

    if (cookie != HTTP_COOKIE_NONE && !http_origin_allowed(w->cfg, req)) {
        http_problem(res, req, 403, "AUTH_ORIGIN_NOT_ALLOWED",
                     "A page of this origin may not use the refresh cookie.");
        return false;
    }
    if (cookie == HTTP_COOKIE_CONFLICT ||
        (cookie == HTTP_COOKIE_ONE && r->token.len > 0 &&
         !same(r->token, value))) {
        http_problem(res, req, 400, "AUTH_REFRESH_TOKEN_CONFLICT",
                     "The request carries different refresh tokens.");
        return false;
    }
    if (cookie == HTTP_COOKIE_ONE) {
        r->token = value;
        r->from_cookie = true;
    }
    if (r->token.len == 0) {
        refuse(req, res, "AUTH_REFRESH_TOKEN_MISSING",
               "The request carries no refresh token.");
        return false;
    }
    return true;
}

/* -- refusals -- */

/* The cookie goes only where its own token is what can never work again. */
static void clear_own_cookie(struct worker *w, struct http_response *res,
                             const struct refresh *r)
{
    if (r->from_cookie) {
        http_cookie_clear(res, w->cfg);
    }
}

static void refuse_invalid(struct worker *w, const struct http_request *req,
                           struct http_response *res, const struct refresh *r)
{
    refuse(req, res, "AUTH_REFRESH_TOKEN_INVALID",
           "The refresh token is not valid or has expired.");
    clear_own_cookie(w, res, r);
}

/* Clocks disagree: the token may be good elsewhere, and here before long. */
static void refuse_not_yet(const struct http_request *req,
                           struct http_response *res)
{
    refuse(req, res, "AUTH_REFRESH_TOKEN_INVALID",
           "The refresh token was issued in this server's future.");
}

static void refuse_not_active(struct worker *w, const struct http_request *req,
                              struct http_response *res,
                              const struct refresh *r)
{
    refuse(req, res, "AUTH_SESSION_NOT_ACTIVE",
           "The session does not exist, has ended or was revoked.");
    clear_own_cookie(w, res, r);
}

/* The one answer that cannot tell whether the token is used up. */
static void refuse_in_doubt(const struct http_request *req,
                            struct http_response *res)
{
    auth_unavailable(req, res,
                     "The database went away while it replaced the refresh "
                     "token; it may or may not have been replaced.");
}

/* False when the database did not answer. */
static bool revoke(struct worker *w, const struct http_request *req,
                   const struct refresh *r, const char *event,
                   enum metrics_counter counter)
{
    struct session_ref done;
    size_t n;
    enum store_result result =
        store_session_revoke(&w->store, &r->claims.session_id, 1, &done, &n);

    if (result == STORE_OK) {
        metrics_add(counter, n);
        auth_audit(req, event, done.account_id, done.session_id);
    }
    return result == STORE_OK || result == STORE_NONE;
}

/*
 * Under the policy `revoke`, a token that was rotated out a while ago is taken
 * as stolen: whoever presents it, thief or owner, the session ends.
 */
static void refuse_stale(struct worker *w, const struct http_request *req,
                         struct http_response *res, const struct refresh *r)
{
    const struct session *s = &r->view.session;
    enum store_result young = STORE_OK;

    auth_names(res, s->account_id, s->session_id);
    if (w->cfg->refresh_reuse == REUSE_REVOKE &&
        w->now_s > r->claims.iat + REUSE_GRACE_S) {
        young = store_session_rotated(&w->store, s->session_id, r->claims.jti,
                                      REUSE_GRACE_S);
    }
    if ((young == STORE_NONE &&
         !revoke(w, req, r, "auth.refresh.reuse_revoked",
                 METRICS_SESSIONS_REVOKED_REUSE)) ||
        young == STORE_UNAVAILABLE) {
        auth_database_unavailable(req, res);
        return;
    }
    if (young == STORE_OK) {
        auth_audit(req, "auth.refresh.reuse", s->account_id, s->session_id);
    }
    metrics_count(METRICS_STALE_REFRESHES);
    refuse(req, res, "AUTH_REFRESH_TOKEN_STALE",
           "The refresh token was replaced by a newer one.");
}

/* -- the rotation -- */

/*
 * When the new token will expire, as the old one lets us expect.  One that was
 * issued for less than the whole time ends with its session, and so will its
 * successor.
 */
static int64_t expected_expiry(const struct worker *w, const pj_claims_t *old)
{
    int64_t exp = w->now_s + w->cfg->refresh_ttl_s;

    if (old->exp - old->iat < w->cfg->refresh_ttl_s && old->exp < exp) {
        exp = old->exp;
    }
    return exp;
}

static void copy_id(char out[STORE_UUID], pj_str_t id)
{
    size_t len = id.len < STORE_UUID ? id.len : 0;

    memcpy(out, id.data, len);
    out[len] = '\0';
}

/*
 * Signs the new refresh token while the database works: all that it says is
 * known from the old one, but for an expiry that the end of the session may
 * bring forward.  Where that comes to nothing, new_token() signs.
 */
static void sign_ahead(void *arg)
{
    struct refresh *r = arg;
    struct session s = {0};

    copy_id(s.account_id, r->claims.account_id);
    copy_id(s.session_id, r->claims.session_id);
    (void) auth_sign_refresh(r->worker, &s, r->jti, r->exp, &r->new_token);
}

/* Signs the new refresh token, once for all attempts. */
static bool new_token(struct worker *w, const struct http_request *req,
                      struct http_response *res, struct refresh *r)
{
    const struct session *s = &r->view.session;
    int64_t exp =
        session_expiry(w->now_s, w->cfg->refresh_ttl_s, s->created_at_s,
                       w->cfg->session_max_lifetime_s);

    if (r->new_token.len > 0 && r->exp == exp &&
        session_id_is(s->session_id, r->claims.session_id)) {
        return true;
    }
    r->exp = exp;
    if (!auth_sign_refresh(w, s, r->jti, exp, &r->new_token)) {
        auth_failed(req, res, "cannot sign a refresh token");
        return false;
    }
    return true;
}

/* Makes res the 200, which is the answer if the rotation happens or has. */
static bool prepare_answer(struct worker *w, const struct http_request *req,
                           struct http_response *res, struct refresh *r,
                           bool scoped)
{
    struct auth_answer answer = {.code = "AUTH_REFRESH_SUCCESS",
                                 .message = "The session was refreshed.",
                                 .session = &r->view.session};

    if (!new_token(w, req, res, r)) {
        return false;
    }
    answer.refresh_token = r->new_token;
    answer.scope = scoped ? &r->view.scope : NULL;
    answer.account_access = r->include_account_token;
    if (!scoped || r->include_account_token) {
        answer.branches = &r->view.branches;
    }
    return auth_answer(w, req, res, &answer);
}

/* Refuses what may not be rotated. */
static bool may_rotate(struct worker *w, const struct http_request *req,
                       struct http_response *res, const struct refresh *r,
                       enum session_verdict verdict)
{
    const struct session *s = &r->view.session;

    switch (verdict) {
    case SESSION_SCOPED:
    case SESSION_UNSCOPED:
    case SESSION_SCOPE_LOST:
        return true;
    case SESSION_STALE:
        refuse_stale(w, req, res, r);
        return false;
    case SESSION_ACCOUNT_DISABLED:
        if (!revoke(w, req, r, "auth.session.account_disabled",
                    METRICS_SESSIONS_REVOKED_DISABLED)) {
            auth_database_unavailable(req, res);
            return false;
        }
        break;
    default:
        break;
    }
    auth_names(res, s->account_id, s->session_id);
    refuse_not_active(w, req, res, r);
    return false;
}

/* There is no answer to be had: gives the session its old token back. */
static void rotate_back(struct worker *w, const struct http_request *req,
                        struct http_response *res, const struct refresh *r)
{
    struct session rotated = r->view.session;
    char jti[STORE_UUID];

    memcpy(rotated.jti, r->jti, sizeof(rotated.jti));
    copy_id(jti, r->claims.jti);
    if (store_session_rotate(&w->store, &rotated, jti, rotated.expires_at_s,
                             false, false) != STORE_OK) {
        refuse_in_doubt(req, res);
    }
}

static enum step rotate(struct worker *w, const struct http_request *req,
                        struct http_response *res, struct refresh *r,
                        enum session_verdict verdict)
{
    bool rotated = r->view.rotated;

    if (!prepare_answer(w, req, res, r, verdict == SESSION_SCOPED)) {
        if (rotated) {
            rotate_back(w, req, res, r);
        }
        return REFUSED;
    }
    if (rotated && verdict != SESSION_SCOPE_LOST) {
        return ROTATED;
    }
    switch (store_session_rotate(&w->store, &r->view.session, r->jti, r->exp,
                                 verdict == SESSION_SCOPE_LOST,
                                 w->cfg->refresh_reuse == REUSE_REVOKE &&
                                     !rotated)) {
    case STORE_OK:
        return ROTATED;
    case STORE_NONE:
        return AGAIN;
    case STORE_UNKNOWN:
        r->uncertain = true;
        return AGAIN;
    default:
        auth_database_unavailable(req, res);
        return REFUSED;
    }
}

/*
 * Reads the session, the first time rotating it at once.  That is not for a
 * session whose end is near: its new token's expiry is not known before.
 */
static enum store_result look(struct worker *w, struct refresh *r, bool first)
{
    const pj_claims_t *c = &r->claims;
    int64_t lifetime_s = w->cfg->session_max_lifetime_s;
    struct rotation to = {.session_id = c->session_id,
                          .account_id = c->account_id,
                          .jti = c->jti,
                          .new_jti = r->jti,
                          .expires_at_s = r->exp,
                          .now_s = w->now_s,
                          .opened_at_s =
                              lifetime_s > 0 ? r->exp - lifetime_s : 0,
                          .remember = w->cfg->refresh_reuse == REUSE_REVOKE};

    if (first && r->exp == w->now_s + w->cfg->refresh_ttl_s) {
        return store_session_refresh(&w->store, &w->arena, &to,
                                     r->include_account_token, &r->meanwhile,
                                     &r->view);
    }
    return store_session_read(&w->store, &w->arena, c->session_id, NULL,
                              r->include_account_token, &r->meanwhile,
                              &r->view);
}

/* One look, one decision and, where the look was not it already, one
 * compare-and-swap. */
static enum step attempt(struct worker *w, const struct http_request *req,
                         struct http_response *res, struct refresh *r,
                         bool first)
{
    const pj_claims_t *c = &r->claims;
    const struct session *s = &r->view.session;
    pj_str_t jti = c->jti;
    enum session_verdict verdict;

    switch (look(w, r, first)) {
    case STORE_OK:
        break;
    case STORE_UNKNOWN:
        r->uncertain = true;
        return AGAIN;
    case STORE_NONE:
        refuse_not_active(w, req, res, r);
        return REFUSED;
    default:
        if (r->uncertain) {
            return UNREADABLE; /* what became of it may still be seen */
        }
        auth_database_unavailable(req, res);
        return REFUSED;
    }
    if (r->uncertain && strcmp(s->jti, r->jti) == 0) {
        r->view.rotated = true; /* by ourselves: only the answer was lost */
        jti = (pj_str_t){(const unsigned char *) s->jti, strlen(s->jti)};
    }
    verdict = session_refresh(&r->view, c->account_id, jti, w->now_s,
                              w->cfg->session_max_lifetime_s);
    if (!may_rotate(w, req, res, r, verdict)) {
        return REFUSED;
    }
    return rotate(w, req, res, r, verdict);
}

/* Lets a while pass; false when the request's time is up instead. */
static bool pause_ms(const struct worker *w, long ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000}, now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms >=
        w->deadline_ms) {
        return false;
    }
    nanosleep(&t, NULL);
    return true;
}

/*
 * Goes round again when the scope moved between reading and writing.  When the
 * answer to a write was lost, asks for as long as the request may take what
 * became of it: the same new jti is tried again, so at most one rotation can
 * happen.
 */
static bool rotate_session(struct worker *w, const struct http_request *req,
                           struct http_response *res, struct refresh *r)
{
    int left = ATTEMPTS;

    r->exp = expected_expiry(w, &r->claims);
    if (!uuid_generate(r->jti)) {
        auth_failed(req, res, "no randomness");
        return false;
    }
    while (left > 0) {
        switch (attempt(w, req, res, r, left == ATTEMPTS)) {
        case ROTATED:
            return true;
        case REFUSED:
            return false;
        case AGAIN:
            left--;
            break;
        case UNREADABLE:
            if (!pause_ms(w, UNREADABLE_PAUSE_MS)) {
                refuse_in_doubt(req, res);
                return false;
            }
            break;
        }
    }
    if (r->uncertain) {
        refuse_in_doubt(req, res);
    } else {
        auth_busy(req, res);
    }
    return false;
}

/* Signature, issuer, time and type of the presented token. */
static bool verify(struct worker *w, const struct http_request *req,
                   struct http_response *res, struct refresh *r)
{
    pj_err_t err = token_verify(w->cfg, w->keys, &w->arena, r->token, w->now_s,
                                TOKEN_CHECK_ALL, &r->claims);

    if (!err && r->claims.kind == PJ_TOKEN_REFRESH) {
        return true;
    }
    if (err == PJ_ERR_TOKEN_NOT_YET) {
        refuse_not_yet(req, res);
    } else {
        refuse_invalid(w, req, res, r);
    }
    return false;
}

void h_refresh(struct worker *w, const struct http_request *req,
               struct http_response *res)
{
    struct refresh r = {.worker = w, .meanwhile = {sign_ahead, &r}};

    if (!read_body(w, req, res, &r) || !find_token(w, req, res, &r) ||
        !verify(w, req, res, &r)) {
        return;
    }
    if (rotate_session(w, req, res, &r)) {
        metrics_count(METRICS_ROTATIONS);
        http_cookie_set(res, w->cfg, r.new_token, r.exp - w->now_s);
        auth_audit(req, "auth.refresh.succeeded", r.view.session.account_id,
                   r.view.session.session_id);
    }
}
