/* Second factors. */

#include "auth/factor.h"

#include "auth/reset_code.h"
#include "auth/session.h"
#include "auth/totp.h"
#include "base/log.h"
#include "store/store_factor_failure.h"
#include "store/store_passkey.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

/* -- tokens between the calls -- */

static bool sha256(const void *data, size_t len, unsigned char *out)
{
    return EVP_Digest(data, len, out, NULL, EVP_sha256(), NULL) == 1;
}

bool factor_token_hash(pj_str_t text, struct factor_token *t)
{
    return sha256(text.data, text.len, t->sha256);
}

enum store_result factor_token_make(struct worker *w, struct factor_token *t,
                                    bool with_challenge,
                                    const struct account *account,
                                    char text[FACTOR_TOKEN_CHARS + 1])
{
    unsigned char random[32];
    size_t len = 0;
    bool ok = RAND_priv_bytes(random, sizeof(random)) == 1 &&
              pj_b64url_encode(text, FACTOR_TOKEN_CHARS, &len,
                               (pj_str_t){random, sizeof(random)}) == PJ_OK &&
              (!with_challenge ||
               RAND_bytes(t->challenge, sizeof(t->challenge)) == 1);

    text[len] = '\0';
    t->has_challenge = with_challenge;
    OPENSSL_cleanse(random, sizeof(random));
    return ok && factor_token_hash(pj_str(text), t)
               ? store_factor_token_add(&w->store, t, FACTOR_TOKEN_S, account)
               : STORE_UNAVAILABLE;
}

bool factor_token_refuse(struct worker *w)
{
    return auth_refuse(w, 401, "AUTH_FACTOR_TOKEN_INVALID",
                       "The token is not known, was used, has expired or has "
                       "no tries left; log in again.");
}

/* -- checking -- */

bool factor_check_begin(struct worker *w, const char *account_id,
                        struct factor_check *check)
{
    int64_t retry_after_s = 1;
    char seconds[24];

    check->account_id = account_id;
    switch (store_factor_failure_begin(&w->store, account_id,
                                       &check->failure_us, &retry_after_s)) {
    case STORE_OK:
        break;
    case STORE_NONE:
        snprintf(seconds, sizeof(seconds), "%" PRId64, retry_after_s);
        (void) auth_refuse(w, 429, "AUTH_TOO_MANY_ATTEMPTS",
                           "Too many wrong factors; try again later.");
        http_header(w->res, "Retry-After", seconds);
        auth_audit(w, "auth.factor.limited", account_id, NULL);
        return false;
    default:
        return auth_database_unavailable(w);
    }
    return auth_answered(w, store_factor_read(&w->store, &w->arena, account_id,
                                              false, &check->factors));
}

void factor_check_settle(struct worker *w, const struct factor_check *check)
{
    if (check->failure_us != 0 &&
        strcmp(w->res->code, "AUTH_FACTOR_INVALID") != 0) {
        auth_extend(w);
        (void) store_factor_failure_end(&w->store, check->account_id,
                                        check->failure_us);
    }
}

bool factor_refuse(struct worker *w, const char *account_id)
{
    auth_audit(w, "auth.factor.failed", account_id, NULL);
    return auth_refuse(w, 401, "AUTH_FACTOR_INVALID",
                       "The factor is not right, or was used before.");
}

bool factor_refuse_more(struct worker *w, const char *account_id)
{
    struct factor_list list;
    enum store_result result =
        store_factor_read(&w->store, &w->arena, account_id, false, &list);

    if (!auth_answered(w, result)) {
        return false;
    }
    return list.count >= STORE_MAX_FACTORS
               ? auth_refuse(w, 409, "RESOURCE_LIMIT_REACHED",
                             "An account has at most ten second factors.")
               : auth_busy(w);
}

/* Returns the step of the code, or 0.  A secret that cannot be decrypted is
 * logged, and any code of it is wrong. */
static int64_t step_of(struct worker *w, const char *account_id,
                       const struct factor *f, pj_str_t code)
{
    unsigned char secret[FACTOR_SECRET_BYTES];
    struct factor_key key;
    int64_t step = 0;

    if (factor_key_find(w->cfg->factor_keys, f->key_id, &key) &&
        factor_secret_open(&key, account_id, f->factor_id, f->secret, secret)) {
        step = totp_step(secret, code, w->now_s);
    } else {
        log_event(LOG_ERROR_, "auth.factor.unusable",
                  "The secret of a factor cannot be decrypted: its key is "
                  "missing from PLATFORM_AUTH_FACTOR_KEYS, or is another one.",
                  LOG_FIELDS(log_text("accountId", account_id),
                             log_text("factorId", f->factor_id),
                             log_text("key", f->key_id)));
    }
    OPENSSL_cleanse(&key, sizeof(key));
    OPENSSL_cleanse(secret, sizeof(secret));
    return step;
}

bool factor_check_code(struct worker *w, const struct factor_check *check,
                       bool recovery, pj_str_t code, struct factor_use *use)
{
    *use = (struct factor_use){.account_id = check->account_id,
                               .amr = AMR_OTP | AMR_MFA};
    if (recovery) {
        use->kind = FACTOR_BY_RECOVERY;
        return reset_code_hash(code, use->sha256) ||
               auth_failed(w, "cannot hash a recovery code");
    }
    use->kind = FACTOR_BY_STEP;
    for (size_t i = 0; i < check->factors.count; i++) {
        const struct factor *f = &check->factors.items[i];

        use->step = f->passkey ? 0 : step_of(w, check->account_id, f, code);
        if (use->step > f->last_step) {
            memcpy(use->factor_id, f->factor_id, STORE_UUID);
            return true;
        }
    }
    return factor_refuse(w, check->account_id);
}

enum store_result factor_use(struct worker *w, const struct factor_use *use)
{
    switch (use->kind) {
    case FACTOR_BY_STEP:
        return store_factor_use_step(&w->store, use->factor_id, use->step);
    case FACTOR_BY_PASSKEY:
        return store_passkey_use(&w->store, use->factor_id, use->step,
                                 use->synced);
    default:
        return store_factor_recovery_use(&w->store, use->account_id,
                                         use->sha256);
    }
}

bool factor_open_step(struct worker *w, const struct factor_list *list,
                      const char *account_id, pj_str_t factor_id, pj_str_t code,
                      const struct factor **factor, int64_t *step)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct factor *f = &list->items[i];

        if (!f->confirmed && pj_str_eq(factor_id, pj_str(f->factor_id))) {
            *factor = f;
            *step = step_of(w, account_id, f, code);
            return true;
        }
    }
    return auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                       "There is no factor of this id that waits for its "
                       "confirmation.");
}

/* -- recovery codes -- */

bool factor_recovery_make(struct worker *w, struct factor_recovery *out)
{
    struct store_list *codes = &out->codes;

    *codes = (struct store_list){
        .items = pj_arena_alloc(&w->arena,
                                STORE_RECOVERY_CODES * sizeof(*codes->items))};
    for (size_t i = 0; codes->items != NULL && i < STORE_RECOVERY_CODES; i++) {
        char code[RESET_CODE_CHARS + 1];
        char *json = pj_arena_alloc(&w->arena, sizeof(code) + 2);

        if (json == NULL || !reset_code_new(code, out->hashes[i])) {
            break;
        }
        snprintf(json, sizeof(code) + 2, "\"%s\"", code);
        OPENSSL_cleanse(code, sizeof(code));
        codes->items[codes->count++] = json;
    }
    return codes->count == STORE_RECOVERY_CODES ||
           auth_failed(w, "cannot make recovery codes");
}

enum store_result factor_recovery_keep(struct worker *w, const char *account_id,
                                       struct factor_recovery *made)
{
    return store_factor_recovery_replace(&w->store, account_id, made->hashes,
                                         STORE_RECOVERY_CODES);
}

/* -- freshness -- */

bool factor_fresh(struct worker *w, const struct session *s,
                  const struct account *account)
{
    int64_t age_s = session_now(w->now_s, &s->clock) - s->authenticated_at_s;

    return (age_s <= FACTOR_FRESH_S &&
            (!account->second_factor || (s->amr & AMR_MFA) != 0)) ||
           factor_refuse_stale(w, account);
}

/* The challenges of RFC 9470. */
#define STALE                                                                  \
    "Bearer realm=\"platform\", error=\"insufficient_user_authentication\", "

bool factor_refuse_stale(struct worker *w, const struct account *account)
{
    bool factor = account->second_factor;

    http_problem(w->res, w->req, 401, "AUTH_STEP_UP_REQUIRED",
                 factor ? "This needs an authentication with a second factor "
                          "within the last five minutes."
                        : "This needs an authentication within the last five "
                          "minutes.",
                 NULL);
    http_header(w->res, "WWW-Authenticate",
                factor ? STALE "acr_values=\"aal2\", max_age=300"
                       : STALE "max_age=300");
    return false;
}
