/* Passkeys: challenges, and what authenticators answer. */

#include "auth/passkey.h"

#include "base/log.h"
#include "store/store_passkey.h"

#include <string.h>

bool passkey_offered(struct worker *w)
{
    return w->cfg->webauthn_rp_id != NULL ||
           auth_refuse(w, 403, "AUTH_FACTOR_NOT_OFFERED",
                       "This service has no passkeys: PLATFORM_WEBAUTHN_RP_ID "
                       "is not set.");
}

/* A key that may be synced is not bound to a device (RFC 8176 section 2). */
unsigned passkey_amr(bool may_sync)
{
    return (may_sync ? AMR_SWK : AMR_HWK) | AMR_USER | AMR_MFA;
}

#define challenge_of(token)                                                    \
    ((pj_str_t){(token)->challenge, sizeof((token)->challenge)})

void passkey_request(struct worker *w, struct jsonw *json, const char *name,
                     const struct factor_token *token,
                     const struct factor_list *list)
{
    struct webauthn_credential known[STORE_MAX_FACTORS] = {0};
    struct webauthn_options options = {.challenge = challenge_of(token),
                                       .known = known};

    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct factor *f = &list->items[i];

        if (f->passkey && options.count < STORE_MAX_FACTORS) {
            known[options.count].id = f->credential_id;
            known[options.count++].transports = f->transports;
        }
    }
    webauthn_json_request(json, name, w->cfg, &options);
}

static bool refuse(struct worker *w, const char *account_id,
                   enum webauthn_error err)
{
    log_event(LOG_AUDIT_, "auth.passkey.refused", NULL,
              LOG_FIELDS(log_text("reason", webauthn_errname(err)),
                         log_text("clientIp", w->req->remote_addr.data),
                         log_text("accountId", account_id)));
    return factor_refuse(w, account_id);
}

static bool refuse_count(struct worker *w, const char *account_id,
                         const char *factor_id)
{
    auth_actor(w, account_id, NULL, NULL, NULL);
    (void) store_passkey_count_fell(&w->store, factor_id);
    return refuse(w, account_id, WEBAUTHN_COUNTER);
}

bool passkey_check(struct worker *w, const struct factor_token *token,
                   const struct webauthn_assertion *assertion,
                   const char *account_id, struct account *account,
                   struct factor_use *use)
{
    bool nameless = account_id == NULL;
    struct webauthn_credential c;
    struct account found;
    struct passkey k;
    enum webauthn_error err;
    enum store_result result =
        store_passkey_find(&w->store, &w->arena, assertion->id, &k, &found);

    if (!auth_answered(w, result)) {
        return false;
    }
    if (result == STORE_NONE ||
        (!nameless && strcmp(found.account_id, account_id) != 0)) {
        return refuse(w, account_id, WEBAUTHN_CREDENTIAL_ID);
    }
    c = (struct webauthn_credential){.id = k.credential_id,
                                     .user = {k.user, sizeof(k.user)},
                                     .key = k.key,
                                     .counter = (uint32_t) k.sign_count,
                                     .backup_eligible = k.may_sync,
                                     .backed_up = k.synced,
                                     .transports = k.transports};
    err = webauthn_assert(w->cfg, &w->arena, challenge_of(token), assertion,
                          nameless, &c);
    if (err == WEBAUTHN_COUNTER) {
        return refuse_count(w, found.account_id, k.factor_id);
    }
    if (err != WEBAUTHN_OK) {
        return refuse(w, found.account_id, err);
    }
    *use = (struct factor_use){.kind = FACTOR_BY_PASSKEY,
                               .step = c.counter,
                               .synced = c.backed_up,
                               .amr = passkey_amr(k.may_sync)};
    memcpy(use->factor_id, k.factor_id, STORE_UUID);
    if (nameless) {
        *account = found;
    }
    return true;
}

bool passkey_challenge(struct worker *w, pj_str_t text, struct factor_token *t)
{
    enum store_result result;

    if (!factor_token_hash(text, t)) {
        return auth_failed(w, "cannot hash a token");
    }
    result = store_factor_token_take(&w->store, t);
    return auth_answered(w, result) &&
           ((result == STORE_OK && t->has_challenge) || factor_token_refuse(w));
}
