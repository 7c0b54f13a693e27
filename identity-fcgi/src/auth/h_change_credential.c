/* POST /api/auth/change-credential */

#include "auth/handlers.h"

#include "auth/auth_attempt.h"
#include "auth/body.h"
#include "auth/credential.h"
#include "auth/factor.h"
#include "auth/password.h"
#include "base/parse.h"
#include "store/store.h"

#include <openssl/crypto.h>
#include <string.h>

#define TRIES 3 /* if the account changes concurrently */

struct change {
    const struct session *caller;
    pj_str_t current, new_credential;
    char name[ACCOUNT_NAME_MAX + 1];
    struct account account;
    char new_hash[PASSWORD_PHC_MAX];
    struct auth_attempt attempt;
    int64_t ended; /* ended sessions */
};

static bool read_body(struct worker *w, struct change *c)
{
    struct body root;

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_credential(&root, "credential", BODY_REQUIRED, &c->current);
    body_credential(&root, "newCredential", BODY_REQUIRED, &c->new_credential);
    return auth_faultless(w);
}

/* STORE_NONE if the credential has changed, the account is disabled or has got
 * a second factor, or the session has ended.  If the answer is lost, reads
 * whether the credential is the new one. */
static enum store_result write(struct worker *w, struct change *c)
{
    enum store_result result = store_credential_change(
        &w->store, &c->account, c->new_hash, c->caller->session_id, &c->ended);

    return result == STORE_UNKNOWN &&
                   store_account_read(&w->store, c->caller->account_id, c->name,
                                      &c->account) == STORE_OK &&
                   strcmp(c->account.credential_hash, c->new_hash) == 0
               ? STORE_OK
               : result;
}

/* Ends the remaining sessions.  A login with the old credential may have opened
 * a session during the change, and may even have ended the caller's. */
static void finish(struct worker *w, struct change *c)
{
    enum store_result result = store_sessions_end(
        &w->store, c->caller->account_id, c->caller->session_id, &c->ended);
    struct jsonw json;

    if (result == STORE_NONE) {
        result = store_sessions_end(&w->store, c->caller->account_id, NULL,
                                    &c->ended);
    }
    metrics_add(METRICS_SESSIONS_REVOKED_CREDENTIAL, (uint64_t) c->ended);
    auth_audit_sessions(w, "auth.credential.changed", c->caller, c->ended);
    if (result != STORE_OK) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "AUTH_CHANGE_CREDENTIAL_SUCCESS",
                 "The credential was changed.");
    jsonw_int(&json, "endedSessions", c->ended);
    jsonw_object_end(&json);
}

/* Without a second factor, the credential in the body is the recent
 * authentication. */
static bool fresh(struct worker *w, const struct change *c)
{
    return !c->account.second_factor || factor_fresh(w, c->caller, &c->account);
}

/* Retries because a login may rehash the credential concurrently. */
static void change(struct worker *w, const pj_claims_t *claims,
                   struct session_view *view, struct change *c)
{
    auth_actor(w, c->caller->account_id, &claims->jti,
               "auth.credential.changed", NULL);
    for (int i = 0; i < TRIES; i++) {
        if (i > 0 && (!auth_caller_session(w, claims, NULL, view) ||
                      !credential_owner(w, c->caller, c->name, &c->account) ||
                      !fresh(w, c))) {
            return;
        }
        if (!credential_matches(w, c->caller, &c->account, c->current) ||
            !auth_credential_allowed(w, "/newCredential", c->new_credential)) {
            return;
        }
        if (!password_hash(c->new_credential, w->store.deadline_ms,
                           c->new_hash)) {
            break;
        }
        switch (write(w, c)) {
        case STORE_OK:
            finish(w, c);
            return;
        case STORE_NONE:
            continue;
        default:
            (void) auth_database_unavailable(w);
            return;
        }
    }
    (void) auth_busy(w);
}

/* Checks the token before the body, like select-branch. */
void h_change_credential(struct worker *w)
{
    struct session_view view;
    struct change c = {.caller = &view.session};
    pj_claims_t claims;

    if (!auth_caller(w, AUTH_CALLER_ANY, &claims) || !read_body(w, &c) ||
        !auth_caller_session(w, &claims, NULL, &view) ||
        !credential_owner(w, c.caller, c.name, &c.account) || !fresh(w, &c)) {
        return;
    }
    if (auth_attempt_begin(w, pj_str(c.name), "auth.credential.limited",
                           &c.attempt)) {
        change(w, &claims, &view, &c);
    }
    auth_attempt_settle(w, &c.attempt);
    OPENSSL_cleanse(c.new_hash, sizeof(c.new_hash));
}
