/* POST /api/auth/login */

#include "auth/app.h"
#include "auth/password.h"
#include "auth/session.h"
#include "base/account_name.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/uuid.h"

#include <inttypes.h>
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
    bool known;   /* this account's row, not a stand-in */
    struct account account;
};

static bool read_body(struct worker *w, struct login *login)
{
    const pj_json_t *root;
    pj_str_t account;
    unsigned char *folded;

    if (!auth_body(w, false, &root) ||
        !auth_member(w, root, "account", &account) ||
        !auth_member(w, root, "credential", &login->credential)) {
        return false;
    }
    folded = pj_arena_alloc(&w->arena, account.len + 1);
    if (folded == NULL) {
        return auth_failed(w, "the request's memory is spent");
    }
    login->account_name = account_name_fold(account, folded);
    if (login->account_name.len == 0 ||
        login->account_name.len > STORE_ACCOUNT_NAME_MAX) {
        return auth_invalid(w, "The member account must be 1 to 320 bytes.");
    }
    if (account_name_has_control(login->account_name)) {
        return auth_invalid(
            w, "The member account must not hold control characters.");
    }
    if (login->credential.len == 0 || login->credential.len > CREDENTIAL_MAX) {
        return auth_invalid(w,
                            "The member credential must be 1 to 1024 bytes.");
    }
    return true;
}

/* -- attempts -- */

/* Counts this login as failed until it has succeeded. */
static bool count_attempt(struct worker *w, struct login *login)
{
    int64_t retry_after_s = 1;
    char seconds[24];

    if (!attempt_identify(w->keys, login->account_name, w->req->remote_addr,
                          &login->attempt)) {
        return auth_failed(w, "cannot compute the attempt's name");
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
        snprintf(seconds, sizeof(seconds), "%" PRId64, retry_after_s);
        (void) auth_refuse(w, 429, "AUTH_TOO_MANY_ATTEMPTS",
                           "Too many failed logins; try again later.");
        http_header(w->res, "Retry-After", seconds);
        auth_audit(w, "auth.login.limited", NULL, NULL);
        return false;
    default:
        return auth_database_unavailable(w);
    }
}

/* -- the credential -- */

/*
 * The same statements and one hash, whether the account is unknown, disabled
 * or the credential wrong: the outcome is decided after all work is done.  For
 * an unknown account the hash of some other account is computed, so that its
 * parameters are as likely to be old ones; a match does not count.
 */
static bool check_credential(struct worker *w, struct login *login)
{
    const struct account *a = &login->account;
    enum password_result verdict;
    enum store_result result =
        store_account_find(&w->store, login->account_name,
                           login->attempt.stand_in, &login->account);

    if (result != STORE_OK && result != STORE_NONE) {
        return auth_database_unavailable(w);
    }
    login->known = result == STORE_OK;
    verdict = password_verify(a->credential_hash, login->credential,
                              w->store.deadline_ms);
    if (verdict == PASSWORD_BUSY) {
        return auth_busy(w);
    }
    if (login->known && verdict == PASSWORD_UNUSABLE) {
        log_event(
            LOG_ERROR_, "auth.credential.unusable",
            "The stored credential is not an Argon2id string within bounds.",
            LOG_FIELDS({"accountId", a->account_id, strlen(a->account_id)}));
    }
    if (login->known && verdict == PASSWORD_OK && a->enabled) {
        return true;
    }
    auth_audit(w, "auth.login.failed", login->known ? a->account_id : NULL,
               NULL);
    return auth_refuse(w, 401, "AUTH_INVALID_CREDENTIALS",
                       "The account or the credential is not right.");
}

/*
 * Replaces a hash of outdated parameters.  Best effort, and without waiting
 * for a slot a second time: the next login tries again.
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

    memcpy(s->account_id, account->account_id, sizeof(s->account_id));
    memcpy(s->account_type, account->account_type, sizeof(s->account_type));
    s->created_at_s = w->now_s;
    s->expires_at_s =
        session_expiry(w->now_s, w->cfg->refresh_ttl_s, s->created_at_s,
                       w->cfg->session_max_lifetime_s);
    if (view->selectable) {
        memcpy(s->workspace_id, view->scope.workspace_id, STORE_UUID);
        memcpy(s->member_id, view->scope.member_id, STORE_UUID);
        memcpy(s->active_branch_id, view->scope.active_branch_id, STORE_UUID);
    }
    return uuid_generate(s->session_id) && uuid_generate(s->jti);
}

/* Ends the oldest sessions past the limit.  Best effort: the next login ends
 * those that are left. */
static void end_oldest(struct worker *w, const struct session *s)
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
        auth_audit(w, "auth.session.over_limit", done[i].account_id,
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
    const struct session *session = &s->answer->view->session;

    s->ok =
        auth_sign_refresh(s->worker, session, session->jti, s->worker->now_s,
                          session->expires_at_s, &s->answer->refresh_token) &&
        auth_sign_access(s->worker, s->answer);
}

/*
 * Everything is signed before the session is written, by the threads that
 * hash: a login's signatures take longer than a refresh should have to wait.
 * True, without an answer, when the account's credential or status is no
 * longer what was checked.
 */
static bool is_overtaken(struct worker *w, struct login *login)
{
    struct session_view view;
    struct session *s = &view.session;
    struct auth_answer answer = {.code = "AUTH_LOGIN_SUCCESS",
                                 .message = "Login succeeded.",
                                 .view = &view};
    struct signing signing = {w, &answer, false};
    enum store_result result =
        store_choices(&w->store, &w->arena, login->account.account_id, &view);

    if (result != STORE_OK) {
        return auth_database_unavailable(w);
    }
    answer.scoped = view.selectable;
    if (!new_session(w, &login->account, &view)) {
        return auth_failed(w, "no randomness");
    }
    if (!hasher_run(HASHER_SIGN, w->store.deadline_ms, sign, &signing)) {
        return auth_busy(w);
    }
    if (!signing.ok) {
        return auth_failed(w, "cannot sign the tokens");
    }
    if (!auth_answer(w, &answer)) {
        return false;
    }
    result =
        store_session_create(&w->store, s, login->account.credential_hash);
    if (result != STORE_OK) {
        return result == STORE_NONE || auth_database_unavailable(w);
    }
    end_oldest(w, s);
    http_cookie_set(w->res, w->cfg, answer.refresh_token,
                    s->expires_at_s - w->now_s);
    auth_audit(w, "auth.login.succeeded", s->account_id, s->session_id);
    return false;
}

/*
 * An operator may set a credential and end the account's sessions while a
 * login with the old one is under way: such a login starts over, and so does
 * one that another login's rehash has overtaken.
 */
static void log_in(struct worker *w, struct login *login)
{
    for (int i = 0; i < TRIES; i++) {
        if (!check_credential(w, login)) {
            return;
        }
        rehash(w, login);
        if (!is_overtaken(w, login)) {
            return;
        }
    }
    (void) auth_busy(w);
}

/* When the service or the database gives up, no login has failed.  Best
 * effort: a count that stays is one failure too many, and expires. */
static void settle_attempt(struct worker *w, const struct login *login)
{
    int status = w->res->status;

    if (login->counted && (status == 200 || status == 503)) {
        (void) store_attempt_settle(&w->store, &login->attempt, status == 200);
    }
}

/* Counts the login by the outcome that its answer tells. */
static void count_outcome(const char *code)
{
    static const struct {
        const char *code;
        enum metrics_counter counter;
    } outcomes[] = {
        {"AUTH_LOGIN_SUCCESS", METRICS_LOGIN_SUCCEEDED},
        {"AUTH_INVALID_CREDENTIALS", METRICS_LOGIN_FAILED},
        {"AUTH_TOO_MANY_ATTEMPTS", METRICS_LOGIN_LIMITED},
        {"AUTH_BUSY", METRICS_LOGIN_BUSY},
        {"DATABASE_UNAVAILABLE", METRICS_LOGIN_UNAVAILABLE},
        {"INTERNAL_ERROR", METRICS_LOGIN_ERROR},
    };
    const size_t count = sizeof(outcomes) / sizeof(outcomes[0]);
    size_t i = 0;

    while (i < count && strcmp(code, outcomes[i].code) != 0) {
        i++;
    }
    metrics_count(i < count ? outcomes[i].counter : METRICS_LOGIN_INVALID);
}

void h_login(struct worker *w)
{
    struct login login = {0};

    if (read_body(w, &login) && count_attempt(w, &login)) {
        log_in(w, &login);
    }
    settle_attempt(w, &login);
    count_outcome(w->res->code);
}
