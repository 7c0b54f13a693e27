/* POST /api/auth/login */

#include "auth/app.h"
#include "auth/attempt.h"
#include "auth/auth.h"
#include "auth/hasher.h"
#include "auth/password.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/account_name.h"
#include "base/log.h"
#include "base/metrics.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define CREDENTIAL_MAX 1024 /* bytes */
#define TRIES 3             /* of an account that changes under our hands */

struct login {
    pj_str_t account_name; /* normalised */
    pj_str_t credential;
    struct attempt attempt;
    bool counted; /* attempt holds a count that is to be settled */
    bool known;   /* account is theirs, not only a hash that stands in */
    struct account account;
};

/* -- what was sent -- */

/* False when out of memory. */
static bool normalise(pj_arena_t *arena, pj_str_t in, pj_str_t *out)
{
    unsigned char *folded = pj_arena_alloc(arena, in.len + 1);

    if (folded == NULL) {
        return false;
    }
    *out = account_name_fold(in, folded);
    return true;
}

static bool read_body(struct worker *w, const struct http_request *req,
                      struct http_response *res, struct login *login)
{
    const pj_json_t *root;
    pj_str_t account;

    if (auth_body(w, req, res, false, &root) != AUTH_BODY_OBJECT ||
        !auth_member(req, res, root, "account", &account) ||
        !auth_member(req, res, root, "credential", &login->credential)) {
        return false;
    }
    if (!normalise(&w->arena, account, &login->account_name)) {
        auth_failed(req, res, "the request's memory is spent");
        return false;
    }
    if (login->account_name.len == 0 ||
        login->account_name.len > STORE_ACCOUNT_NAME_MAX) {
        auth_invalid(req, res, "The member account must be 1 to 320 bytes.");
        return false;
    }
    if (account_name_has_control(login->account_name)) {
        auth_invalid(req, res,
                     "The member account must not hold control characters.");
        return false;
    }
    if (login->credential.len == 0 || login->credential.len > CREDENTIAL_MAX) {
        auth_invalid(req, res,
                     "The member credential must be 1 to 1024 bytes.");
        return false;
    }
    return true;
}

/* -- attempts -- */

static void refuse_attempts(const struct http_request *req,
                            struct http_response *res, int64_t retry_after_s)
{
    char seconds[24];

    snprintf(seconds, sizeof(seconds), "%lld", (long long) retry_after_s);
    http_problem(res, req, 429, "AUTH_TOO_MANY_ATTEMPTS",
                 "Too many failed logins; try again later.");
    http_header(res, "Retry-After", seconds);
    auth_audit(req, "auth.login.limited", NULL, NULL);
}

/* Counts this login as failed until it has succeeded. */
static bool count_attempt(struct worker *w, const struct http_request *req,
                          struct http_response *res, struct login *login)
{
    int64_t retry_after_s = 1;

    if (!attempt_identify(w->keys, login->account_name, req->remote_addr,
                          &login->attempt)) {
        auth_failed(req, res, "cannot compute the attempt's name");
        return false;
    }
    if (w->cfg->max_failures == 0) {
        return true;
    }
    switch (store_attempt_begin(&w->store, &login->attempt,
                                w->cfg->max_failures, w->cfg->failure_window_s,
                                &retry_after_s)) {
    case STORE_OK:
        login->counted = true;
        return true;
    case STORE_NONE:
        refuse_attempts(req, res, retry_after_s);
        return false;
    default:
        auth_database_unavailable(req, res);
        return false;
    }
}

/* Best effort: a count that stays is one failure too many, and expires. */
static void settle_attempt(struct worker *w, struct login *login, bool success)
{
    if (login->counted) {
        (void) store_attempt_settle(&w->store, &login->attempt, success);
        login->counted = false;
    }
}

/* A database that went away is nobody's failed login. */
static void refuse_unavailable(struct worker *w,
                               const struct http_request *req,
                               struct http_response *res, struct login *login)
{
    settle_attempt(w, login, false);
    auth_database_unavailable(req, res);
}

/* -- the credential -- */

static void refuse_credentials(const struct http_request *req,
                               struct http_response *res,
                               const struct login *login)
{
    auth_unauthorized(req, res, "AUTH_INVALID_CREDENTIALS",
                      "The account or the credential is not right.",
                      AUTH_CHALLENGE_LOGIN);
    auth_audit(req, "auth.login.failed",
               login->known ? login->account.account_id : NULL, NULL);
}

/*
 * The same statements and one hash, whether the account is unknown, disabled
 * or the credential wrong: what differs is decided after all work is done.  An
 * unknown account's hash is another account's, so that its parameters are as
 * likely old ones as anybody's, and matching it is of no avail.
 */
static bool check_credential(struct worker *w, const struct http_request *req,
                             struct http_response *res, struct login *login)
{
    const char *phc = login->account.credential_hash;
    enum password_result verdict;

    login->known = false;
    switch (store_account_find(&w->store, login->account_name,
                               login->attempt.stand_in, &login->account)) {
    case STORE_OK:
        login->known = true;
        break;
    case STORE_NONE:
        break;
    default:
        refuse_unavailable(w, req, res, login);
        return false;
    }
    verdict = password_verify(phc, login->credential, w->deadline_ms);
    if (verdict == PASSWORD_BUSY) {
        settle_attempt(w, login, false);
        auth_busy(req, res);
        return false;
    }
    if (login->known && verdict == PASSWORD_UNUSABLE) {
        log_event(LOG_ERROR_, "auth.credential.unusable",
                  "The stored credential is no Argon2id string within bounds.",
                  LOG_FIELDS({"accountId", login->account.account_id,
                              strlen(login->account.account_id)}));
    }
    if (!login->known || verdict != PASSWORD_OK || !login->account.enabled) {
        refuse_credentials(req, res, login);
        return false;
    }
    return true;
}

/*
 * Best effort too, and without waiting for a slot a second time: the next
 * login tries again.
 */
static void rehash(struct worker *w, struct login *login)
{
    struct account *a = &login->account;
    char fresh[PASSWORD_PHC_MAX];

    if (!password_needs_rehash(a->credential_hash) ||
        !password_hash(login->credential, PASSWORD_NO_WAIT, fresh)) {
        return;
    }
    if (store_credential_rehash(&w->store, a->account_id, a->credential_hash,
                                fresh) == STORE_OK) {
        snprintf(a->credential_hash, sizeof(a->credential_hash), "%s", fresh);
        metrics_count(METRICS_REHASHES);
    }
    OPENSSL_cleanse(fresh, sizeof(fresh));
}

/* -- the session -- */

/* Makes view's session a new one, in the branch that is selectable if there is
 * exactly one. */
static bool new_session(struct worker *w, const struct account *account,
                        struct session_view *view)
{
    struct session *s = &view->session;
    const struct scope *scope = &view->scope;

    snprintf(s->account_id, sizeof(s->account_id), "%s", account->account_id);
    snprintf(s->account_type, sizeof(s->account_type), "%s",
             account->account_type);
    s->created_at_s = w->now_s;
    s->expires_at_s =
        session_expiry(w->now_s, w->cfg->refresh_ttl_s, s->created_at_s,
                       w->cfg->session_max_lifetime_s);
    if (view->selectable) {
        snprintf(s->workspace_id, sizeof(s->workspace_id), "%s",
                 scope->workspace_id);
        snprintf(s->member_id, sizeof(s->member_id), "%s", scope->member_id);
        snprintf(s->active_branch_id, sizeof(s->active_branch_id), "%s",
                 scope->active_branch_id);
    }
    return uuid_generate(s->session_id) && uuid_generate(s->jti);
}

/* Ends the oldest sessions past the limit.  Best effort: what is not ended
 * now the next login ends. */
static void end_oldest(struct worker *w, const struct http_request *req,
                       const struct session *s)
{
    struct session_ref done[STORE_MAX_REVOKE];
    size_t n = 0;

    if (w->cfg->max_sessions == 0 ||
        store_session_limit(&w->store, s, w->cfg->max_sessions, done, &n) !=
            STORE_OK) {
        return;
    }
    metrics_add(METRICS_SESSIONS_REVOKED_LIMIT, n);
    for (size_t i = 0; i < n; i++) {
        auth_audit(req, "auth.session.over_limit", done[i].account_id,
                   done[i].session_id);
    }
}

struct signing {
    struct worker *worker;
    struct auth_answer *answer;
    bool ok;
};

static void sign(void *arg)
{
    struct signing *s = arg;
    const struct session *session = s->answer->session;

    s->ok =
        auth_sign_refresh(s->worker, session, session->jti,
                          session->expires_at_s, &s->answer->refresh_token) &&
        auth_sign_access(s->worker, s->answer);
}

/*
 * Everything is signed before the session is written, where credentials are
 * hashed: a login's signatures take longer than a refresh may have to wait.
 * False, without an answer, when the account's credential or status is no
 * longer what was checked.
 */
static bool open_session(struct worker *w, const struct http_request *req,
                         struct http_response *res, struct login *login)
{
    struct session_view view;
    struct session *s = &view.session;
    struct auth_answer answer = {.code = "AUTH_LOGIN_SUCCESS",
                                 .message = "Login succeeded.",
                                 .session = s};
    struct signing signing = {.worker = w, .answer = &answer};

    if (store_choices(&w->store, &w->arena, login->account.account_id,
                      &view) != STORE_OK) {
        refuse_unavailable(w, req, res, login);
        return true;
    }
    if (!new_session(w, &login->account, &view)) {
        auth_failed(req, res, "no randomness");
        return true;
    }
    answer.scope = view.selectable ? &view.scope : NULL;
    answer.branches = view.selectable ? NULL : &view.branches;
    hasher_run(sign, &signing);
    if (!signing.ok) {
        auth_failed(req, res, "cannot sign the tokens");
        return true;
    }
    if (!auth_answer(w, req, res, &answer)) {
        return true;
    }
    switch (
        store_session_create(&w->store, s, login->account.credential_hash)) {
    case STORE_OK:
        break;
    case STORE_NONE:
        return false;
    default:
        refuse_unavailable(w, req, res, login);
        return true;
    }
    settle_attempt(w, login, true);
    end_oldest(w, req, s);
    http_cookie_set(res, w->cfg, answer.refresh_token,
                    s->expires_at_s - w->now_s);
    auth_audit(req, "auth.login.succeeded", s->account_id, s->session_id);
    return true;
}

/*
 * An operator may set a credential and end the account's sessions while a
 * login with the old one is under way: such a login starts over, and so does
 * one that another login's rehash has overtaken.
 */
static void log_in(struct worker *w, const struct http_request *req,
                   struct http_response *res, struct login *login)
{
    for (int i = 0; i < TRIES; i++) {
        if (!check_credential(w, req, res, login)) {
            return;
        }
        rehash(w, login);
        if (open_session(w, req, res, login)) {
            return;
        }
    }
    settle_attempt(w, login, false);
    auth_busy(req, res);
}

/* Counts what became of the login, as the answer tells it. */
static void count_outcome(const struct http_response *res)
{
    static const struct {
        int status;
        enum metrics_counter counter;
    } outcomes[] = {
        {200, METRICS_LOGIN_SUCCEEDED},
        {401, METRICS_LOGIN_FAILED},
        {429, METRICS_LOGIN_LIMITED},
        {500, METRICS_LOGIN_ERROR},
    };

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        if (res->status == outcomes[i].status) {
            metrics_count(outcomes[i].counter);
            return;
        }
    }
    if (res->status == 503) {
        metrics_count(strcmp(res->code, "AUTH_BUSY") == 0
                          ? METRICS_LOGIN_BUSY
                          : METRICS_LOGIN_UNAVAILABLE);
    } else {
        metrics_count(METRICS_LOGIN_INVALID);
    }
}

void h_login(struct worker *w, const struct http_request *req,
             struct http_response *res)
{
    struct login login = {0};

    if (read_body(w, req, res, &login) && count_attempt(w, req, res, &login)) {
        log_in(w, req, res, &login);
    }
    count_outcome(res);
}
