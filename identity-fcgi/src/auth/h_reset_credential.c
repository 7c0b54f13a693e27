/* POST /api/auth/reset-credential: a new credential by a reset code */

#include "auth/handlers.h"

#include "auth/auth_attempt.h"
#include "auth/body.h"
#include "auth/password.h"
#include "auth/reset_code.h"
#include "base/parse.h"
#include "store/store.h"

#include <openssl/crypto.h>

struct reset {
    pj_str_t account_name; /* normalised */
    pj_str_t new_credential;
    unsigned char code_hash[RESET_CODE_BYTES];
    char new_hash[PASSWORD_PHC_MAX];
    char account_id[STORE_UUID];
    struct auth_attempt attempt;
};

static bool read_body(struct worker *w, struct reset *r)
{
    struct body root;
    pj_str_t code;

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_account(&root, "account", BODY_REQUIRED, &r->account_name);
    body_string(&root, "resetCode", BODY_REQUIRED, 0, 0, &code);
    body_credential(&root, "newCredential", BODY_REQUIRED, &r->new_credential);
    return auth_faultless(w) && (reset_code_hash(code, r->code_hash) ||
                                 auth_failed(w, "cannot hash a reset code"));
}

/* Ends the rows of the sessions that the reset has ended. */
static void finish(struct worker *w, const struct reset *r)
{
    int64_t ended = 0;
    enum store_result result =
        store_sessions_end(&w->store, r->account_id, NULL, &ended);
    struct jsonw json;

    metrics_add(METRICS_SESSIONS_REVOKED_CREDENTIAL, (uint64_t) ended);
    auth_audit(w, "auth.credential.reset", r->account_id, NULL);
    if (result != STORE_OK && result != STORE_NONE) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "AUTH_RESET_CREDENTIAL_SUCCESS",
                 "The credential was set.");
    jsonw_object_end(&json);
}

/* Hashes the new credential before the code is known to be right, so that the
 * work is the same for unknown accounts and wrong codes.  A lost answer is
 * reported as 503: a repetition is refused if the code was used, and the person
 * can log in. */
static void reset(struct worker *w, struct reset *r)
{
    if (!auth_credential_allowed(w, "/newCredential", r->new_credential)) {
        return;
    }
    if (!password_hash(r->new_credential, w->store.deadline_ms, r->new_hash)) {
        (void) auth_busy(w);
        return;
    }
    auth_actor(w, "", NULL, "account.credential_reset", NULL);
    switch (store_credential_reset(&w->store, r->account_name, r->code_hash,
                                   r->new_hash, r->account_id)) {
    case STORE_OK:
        auth_set_ids(w, r->account_id, "");
        finish(w, r);
        break;
    case STORE_NONE:
        auth_audit(w, "auth.reset_code.failed", NULL, NULL);
        (void) auth_refuse(w, 401, "AUTH_RESET_CODE_INVALID",
                           "The account or the reset code is not right, or the "
                           "code was used or has expired.");
        break;
    default:
        (void) auth_database_unavailable(w);
    }
}

void h_reset_credential(struct worker *w)
{
    struct reset r = {0};

    if (read_body(w, &r) && (password_has_room() || auth_busy(w)) &&
        auth_attempt_begin(w, r.account_name, "auth.reset_code.limited",
                           &r.attempt)) {
        reset(w, &r);
    }
    OPENSSL_cleanse(r.new_hash, sizeof(r.new_hash));
    auth_attempt_settle(w, &r.attempt);
}
