/* Limits attempts at a credential. */

#include "auth/auth_attempt.h"

#include "store/store.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

static void fold_address(pj_str_t remote_addr, char *out, size_t cap)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr a6;
    struct in_addr a4;

    snprintf(text, sizeof(text), "%.*s",
             remote_addr.len < sizeof(text) ? (int) remote_addr.len : 0,
             remote_addr.len > 0 ? (const char *) remote_addr.data : "");
    if (inet_pton(AF_INET6, text, &a6) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&a6)) {
            inet_ntop(AF_INET, &a6.s6_addr[12], out, (socklen_t) cap);
            return;
        }
        memset(&a6.s6_addr[8], 0, 8);
        inet_ntop(AF_INET6, &a6, text, sizeof(text));
        snprintf(out, cap, "%s/64", text);
        return;
    }
    /* Clients on a Unix socket share one address. */
    snprintf(out, cap, "%s",
             inet_pton(AF_INET, text, &a4) == 1 ? text : "0.0.0.0");
}

bool auth_attempt_identify(const struct keys *keys, pj_str_t account,
                           pj_str_t remote_addr, struct attempt *out)
{
    fold_address(remote_addr, out->address, sizeof(out->address));
    if (keys->signing == NULL || /* local and not configured */
        HMAC(EVP_sha256(), keys->hmac_key, sizeof(keys->hmac_key), account.data,
             account.len, out->account_hmac, NULL) == NULL) {
        return false;
    }
    return true;
}

bool auth_attempt_hmac(const void *keys, const char *name,
                       unsigned char hmac[32])
{
    struct attempt attempt;

    if (!auth_attempt_identify(keys, pj_str(name), PJ_STR(""), &attempt)) {
        return false;
    }
    memcpy(hmac, attempt.account_hmac, sizeof(attempt.account_hmac));
    return true;
}

bool auth_attempt_begin(struct worker *w, pj_str_t account_name,
                        const char *limited_event, struct auth_attempt *a)
{
    const char *account_id = w->res->account_id,
               *session_id = w->res->session_id;
    int64_t retry_after_s = 1;
    char seconds[24];

    if (!auth_attempt_identify(w->keys, account_name, w->req->remote_addr,
                               &a->attempt)) {
        return auth_failed(w, "cannot compute the HMAC of the account name");
    }
    if (w->cfg->max_failures == 0) {
        return true;
    }
    switch (store_attempt_begin(&w->store, &a->attempt, w->cfg->max_failures,
                                w->cfg->failure_window_s, &retry_after_s)) {
    case STORE_OK:
        a->counted = true;
        return true;
    case STORE_NONE:
        snprintf(seconds, sizeof(seconds), "%" PRId64, retry_after_s);
        (void) auth_refuse(w, 429, "AUTH_TOO_MANY_ATTEMPTS",
                           "Too many failed logins; try again later.");
        http_header(w->res, "Retry-After", seconds);
        auth_audit(w, limited_event, *account_id != '\0' ? account_id : NULL,
                   *session_id != '\0' ? session_id : NULL);
        return false;
    default:
        return auth_database_unavailable(w);
    }
}

void auth_attempt_settle(struct worker *w, const struct auth_attempt *a)
{
    int status = w->res->status;
    const char *code = w->res->code;

    if (a->counted && (status == 200 || status == 400 || status >= 500 ||
                       strcmp(code, "AUTH_SESSION_NOT_ACTIVE") == 0 ||
                       strcmp(code, "AUTH_STEP_UP_REQUIRED") == 0)) {
        auth_extend(w);
        (void) store_attempt_settle(&w->store, &a->attempt, status == 200);
    }
}
