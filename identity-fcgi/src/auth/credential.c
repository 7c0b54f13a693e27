/* The credential of the caller's account, shown again. */

#include "auth/credential.h"

#include "auth/password.h"
#include "store/store.h"

#include <openssl/crypto.h>

/* Sessions end when their account is disabled or deleted. */
bool credential_owner(struct worker *w, const struct session *caller,
                      char name[ACCOUNT_NAME_MAX + 1], struct account *account)
{
    enum store_result result =
        store_account_read(&w->store, caller->account_id, name, account);

    return auth_answered(w, result) &&
           ((result == STORE_OK && account->enabled) ||
            auth_refuse(w, 401, AUTH_NOT_ACTIVE));
}

bool credential_matches(struct worker *w, const struct session *caller,
                        const struct account *account, pj_str_t credential)
{
    char fresh[PASSWORD_PHC_MAX]; /* not used: a login renews hashes */
    enum password_result verdict = password_verify(
        account->credential_hash, credential, w->store.deadline_ms, fresh);

    OPENSSL_cleanse(fresh, sizeof(fresh));
    if (verdict == PASSWORD_BUSY) {
        return auth_busy(w);
    }
    if (verdict == PASSWORD_OK) {
        return true;
    }
    auth_audit(w, "auth.credential.failed", caller->account_id,
               caller->session_id);
    return auth_refuse(w, 401, "AUTH_INVALID_CREDENTIALS",
                       "The credential is not right.");
}
