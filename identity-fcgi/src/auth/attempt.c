/* Names whose failed logins are counted together. */

#include "auth/app.h"
#include "base/uuid.h"

#include <arpa/inet.h>
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
    out->stand_in[UUID_LEN] = '\0';
    return true;
}
