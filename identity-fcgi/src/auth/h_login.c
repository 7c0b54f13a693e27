/* POST /api/auth/login */

#include "auth/handlers.h"

#include "auth/auth_attempt.h"
#include "auth/body.h"
#include "auth/demand.h"
#include "auth/opening.h"
#include "auth/password.h"
#include "base/log.h"
#include "base/parse.h"
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

/* Opens a session unless the account has to show a second factor.  Returns true
 * without an answer if the account has changed since its credential was
 * checked. */
static bool proceed(struct worker *w, struct login *login)
{
    const struct opening opening = {.account = &login->account,
                                    .amr = AMR_PWD,
                                    .code = "AUTH_LOGIN_SUCCESS",
                                    .message = "Login succeeded."};

    if (login->account.second_factor || demand_holds(w->cfg, &login->account)) {
        return demand_ask(w, &login->account);
    }
    return opening_run(w, &opening) == OPENING_CHANGED;
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
        if (!proceed(w, login)) {
            return;
        }
    }
    (void) auth_busy(w);
}

static void count_outcome(const char *code)
{
    static const char *const codes[METRICS_LOGIN_INVALID] = {
        [METRICS_LOGIN_SUCCEEDED] = "AUTH_LOGIN_SUCCESS",
        [METRICS_LOGIN_FACTOR] = "AUTH_FACTOR_REQUIRED",
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
    if (read_body(w, &login) && auth_proof_offer(w) &&
        (password_has_room() || auth_busy(w)) &&
        auth_attempt_begin(w, login.account_name, "auth.login.limited",
                           &login.attempt)) {
        log_in(w, &login);
    }
    OPENSSL_cleanse(login.new_hash, sizeof(login.new_hash));
    auth_attempt_settle(w, &login.attempt);
    count_outcome(w->res->code);
}
