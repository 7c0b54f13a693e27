/* POST /api/auth/login */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/hasher.h"
#include "auth/password.h"
#include "auth/session.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/uuid.h"
#include "store/store.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define TRIES 3 /* if the account changes concurrently */

struct login {
    pj_str_t account_name; /* normalised */
    pj_str_t credential;
    struct auth_attempt attempt;
    bool known; /* the account exists */
    struct account account;
    char new_hash[PASSWORD_PHC_MAX]; /* new hash to store, or "" */
};

static bool read_body(struct worker *w, struct login *login)
{
    struct body root;

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_account(&root, "account", BODY_REQUIRED, &login->account_name);
    body_credential(&root, "credential", BODY_REQUIRED, &login->credential);
    return auth_faultless(w);
}

/* -- the credential -- */

/* Executes the same statements and hashes if the account is unknown or disabled
 * or the credential wrong; decides only afterwards.  For an unknown account it
 * computes another account's hash, so that its form and parameters are equally
 * likely to be old.  A match does not count. */
static bool check_credential(struct worker *w, struct login *login)
{
    const struct account *a = &login->account;
    enum password_result verdict;
    enum store_result result =
        store_account_find(&w->store, login->account_name, &login->account);

    if (!auth_answered(w, result)) {
        return false;
    }
    login->known = result == STORE_OK;
    verdict = password_verify(a->credential_hash, login->credential,
                              w->store.deadline_ms, login->new_hash);
    if (verdict == PASSWORD_BUSY) {
        return auth_busy(w);
    }
    if (login->known && verdict == PASSWORD_UNUSABLE) {
        log_event(LOG_ERROR_, "auth.credential.unusable",
                  "The stored credential is not a hash of a known form within "
                  "bounds.",
                  LOG_FIELDS(log_text("accountId", a->account_id)));
    }
    if (login->known && verdict == PASSWORD_OK && a->enabled) {
        return true;
    }
    auth_audit(w, "auth.login.failed", login->known ? a->account_id : NULL,
               NULL);
    return auth_refuse(w, 401, "AUTH_INVALID_CREDENTIALS",
                       "The account or the credential is not right.");
}

/* Best effort; the next login tries again. */
static void rehash(struct worker *w, struct login *login)
{
    struct account *a = &login->account;

    if (login->new_hash[0] != '\0' &&
        store_account_rehash(&w->store, a->account_id, a->credential_hash,
                             login->new_hash) == STORE_OK) {
        snprintf(a->credential_hash, sizeof(a->credential_hash), "%s",
                 login->new_hash);
        metrics_count(METRICS_REHASHES);
    }
}

/* -- the session -- */

/* Fills view's session as new, in the only selectable branch, if any. */
static bool new_session(struct worker *w, const struct account *account,
                        struct session_view *view)
{
    struct session *s = &view->session;

    memcpy(s->account_id, account->account_id, sizeof(s->account_id));
    memcpy(s->account_type, account->account_type, sizeof(s->account_type));
    s->clock = account->clock;
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

/* Best effort; the next login ends the remaining ones. */
static void end_oldest(struct worker *w, const struct session *s)
{
    struct session_refs done;

    if (w->cfg->max_sessions > 0) {
        (void) store_session_limit(&w->store, s, w->cfg->max_sessions, &done);
        auth_record_revoked(w, &done, METRICS_SESSIONS_REVOKED_LIMIT,
                            "auth.session.over_limit");
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

/* Opens the session.  Signs the tokens first, in the hasher's threads, because
 * a login signs more than a refresh should wait for.  Returns true without an
 * answer if the account's credential or status has changed since it was
 * checked. */
static bool open_session(struct worker *w, struct login *login)
{
    struct session_view view;
    struct session *s = &view.session;
    struct auth_answer answer = {.code = "AUTH_LOGIN_SUCCESS",
                                 .message = "Login succeeded.",
                                 .view = &view};
    struct signing signing = {w, &answer, false};
    enum store_result result = store_session_choices(
        &w->store, &w->arena, login->account.account_id, &view);

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
    result = store_session_create(&w->store, s, login->account.credential_hash);
    if (result != STORE_OK) {
        return result == STORE_NONE || auth_database_unavailable(w);
    }
    end_oldest(w, s);
    http_cookie_set(w->res, w->cfg, answer.refresh_token,
                    s->expires_at_s - w->now_s);
    auth_audit(w, "auth.login.succeeded", s->account_id, s->session_id);
    return false;
}

/* Only a client with the credential can learn that the account is held. */
static bool check(struct worker *w, struct login *login)
{
    return check_credential(w, login) &&
           auth_enter(w, pj_str(login->account.account_id));
}

/* Starts over if the account changed concurrently: an operator may have set a
 * credential and ended all sessions, or another login may have rehashed the
 * credential. */
static void log_in(struct worker *w, struct login *login)
{
    for (int i = 0; i < TRIES; i++) {
        if (!check(w, login)) {
            return;
        }
        rehash(w, login);
        if (!open_session(w, login)) {
            return;
        }
    }
    (void) auth_busy(w);
}

static void count_outcome(const char *code)
{
    static const char *const codes[METRICS_LOGIN_INVALID] = {
        [METRICS_LOGIN_SUCCEEDED] = "AUTH_LOGIN_SUCCESS",
        [METRICS_LOGIN_FAILED] = "AUTH_INVALID_CREDENTIALS",
        [METRICS_LOGIN_LIMITED] = "AUTH_TOO_MANY_ATTEMPTS",
        [METRICS_LOGIN_BUSY] = "AUTH_BUSY",
        [METRICS_LOGIN_UNAVAILABLE] = "DATABASE_UNAVAILABLE",
        [METRICS_LOGIN_ERROR] = "INTERNAL_ERROR"};
    enum metrics_counter i = METRICS_LOGIN_SUCCEEDED;

    while (i < METRICS_LOGIN_INVALID && strcmp(code, codes[i]) != 0) {
        i++;
    }
    metrics_count(i);
}

void h_login(struct worker *w)
{
    struct login login = {0};

    /* The attempt counts as failed until it succeeds. */
    if (read_body(w, &login) && (password_has_room() || auth_busy(w)) &&
        auth_attempt_begin(w, login.account_name, "auth.login.limited",
                           &login.attempt)) {
        log_in(w, &login);
    }
    OPENSSL_cleanse(login.new_hash, sizeof(login.new_hash));
    auth_attempt_settle(w, &login.attempt);
    count_outcome(w->res->code);
}
