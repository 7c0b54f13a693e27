/* Decides whether a login needs a second factor, and demands it. */

#include "auth/demand.h"

#include "auth/passkey.h"

#include <openssl/crypto.h>
#include <string.h>

bool demand_holds(const struct config *cfg, const struct account *account)
{
    return account->factor_required || cfg->require_factor == FACTOR_OF_ALL ||
           (cfg->require_factor == FACTOR_OF_OPERATORS &&
            strcmp(account->account_type, "OPERATOR") == 0);
}

static bool has_kind(const struct factor_list *list, bool passkey)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].passkey == passkey) {
            return true;
        }
    }
    return false;
}

static void add_kinds(struct jsonw *json, const struct factor_list *list,
                      bool passkeys)
{
    jsonw_array(json, "factors");
    if (passkeys) {
        jsonw_cstr(json, NULL, "passkey");
    }
    if (has_kind(list, false)) {
        jsonw_cstr(json, NULL, "totp");
    }
    if (list->recovery_codes > 0) {
        jsonw_cstr(json, NULL, "recovery");
    }
    jsonw_array_end(json);
}

bool demand_ask(struct worker *w, const struct account *account)
{
    bool enroll = !account->second_factor;
    struct factor_token t = {.purpose = enroll ? FACTOR_ENROLL : FACTOR_VERIFY};
    char text[FACTOR_TOKEN_CHARS + 1];
    struct factor_list list;
    enum store_result result;
    bool passkeys = false;
    struct jsonw json;

    memcpy(t.account_id, account->account_id, STORE_UUID);
    result = store_factor_read(&w->store, &w->arena, account->account_id, false,
                               &list);
    if (result == STORE_OK) {
        passkeys = w->cfg->webauthn_rp_id != NULL && has_kind(&list, true);
        result = factor_token_make(w, &t, passkeys, account, text);
    }
    if (result != STORE_OK) {
        return result == STORE_NONE || auth_database_unavailable(w);
    }
    auth_success(w, &json, "AUTH_FACTOR_REQUIRED",
                 enroll ? "The credential is right; this account has to get a "
                          "second factor."
                        : "The credential is right; a second factor is "
                          "required.");
    jsonw_cstr(&json, "factorToken", text);
    jsonw_int(&json, "expiresIn", FACTOR_TOKEN_S);
    add_kinds(&json, &list, passkeys);
    if (passkeys) {
        passkey_request(w, &json, "passkey", &t, &list);
    }
    jsonw_object(&json, "nextAction");
    jsonw_cstr(&json, "type", enroll ? "enroll_factor" : "verify_factor");
    jsonw_object_end(&json);
    jsonw_object_end(&json);
    OPENSSL_cleanse(text, sizeof(text));
    auth_set_ids(w, account->account_id, "");
    auth_audit(w, "auth.login.factor_required", account->account_id, NULL);
    return false;
}
