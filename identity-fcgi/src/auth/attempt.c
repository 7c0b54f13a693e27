/* Attempts at a credential: whose they are, and how many are allowed. */

#include "auth/attempt.h"

#include "base/uuid.h"
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
    /* A client on a Unix socket has no address: all of them are one. */
    snprintf(out, cap, "%s",
             inet_pton(AF_INET, text, &a4) == 1 ? text : "0.0.0.0");
}

bool attempt_identify(const struct keys *keys, pj_str_t account,
                      pj_str_t remote_addr, struct attempt *out)
{
    fold_address(remote_addr, out->address, sizeof(out->address));
    if (keys->signing == NULL || /* a local set-up without keys */
        HMAC(EVP_sha256(), keys->hmac_key, sizeof(keys->hmac_key),
             account.data, account.len, out->account_hmac, NULL) == NULL) {
        return false;
    }
    /* Spread as evenly as the ids of accounts. */
    uuid_write(out->stand_in, out->account_hmac);
    return true;
}

bool attempt_begin(struct worker *w, pj_str_t account_name,
                   const char *limited_event, struct attempt_count *a)
{
    /* Whose it is where that is known: not yet at a login. */
    const char *of = w->res->account_id, *by = w->res->session_id;
    int64_t retry_after_s = 1;
    char seconds[24];

    if (!attempt_identify(w->keys, account_name, w->req->remote_addr,
                          &a->attempt)) {
        return auth_failed(w, "cannot compute the attempt's name");
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
        auth_audit(w, limited_event, *of != '\0' ? of : NULL,
                   *by != '\0' ? by : NULL);
        return false;
    default:
        return auth_database_unavailable(w);
    }
}

void attempt_settle(struct worker *w, const struct attempt_count *a)
{
    int status = w->res->status;

    if (a->counted && (status == 200 || status == 400 || status >= 500)) {
        (void) store_attempt_settle(&w->store, &a->attempt, status == 200);
    }
}
