/* Names whose failed logins are counted together. */

#include "auth/attempt.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((struct attempt *) 0)->account_hmac) ==
                   SHA256_DIGEST_LENGTH,
               "the HMAC fits");

/* The HMAC key that goes with the signing key of this id. */
static struct {
    pthread_mutex_t lock;
    unsigned char kid[PJ_KID_MAX_BYTES];
    size_t kid_len;
    unsigned char key[SHA256_DIGEST_LENGTH];
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * An RS256 signature is a function of key and message, and this one is never
 * published, so its hash is a secret that all processes with the signing key
 * share and that nobody else, not even a reader of the database, can compute.
 */
static bool derive(const pj_key_t *signing,
                   unsigned char key[SHA256_DIGEST_LENGTH])
{
    char signature[4 * PJ_RSA_MAX_BYTES];
    size_t len;
    bool ok = pj_jws_sign(signing, PJ_TYP_JWT, PJ_STR("login attempts"),
                          signature, sizeof(signature), &len) == PJ_OK;

    if (ok) {
        SHA256((const unsigned char *) signature, len, key);
    }
    OPENSSL_cleanse(signature, sizeof(signature));
    return ok;
}

static bool find_key(const pj_key_t *signing,
                     unsigned char key[SHA256_DIGEST_LENGTH])
{
    pj_str_t kid = pj_key_id(signing);
    bool ok = true;

    pthread_mutex_lock(&cache.lock);
    if (cache.kid_len != kid.len || kid.len == 0 ||
        memcmp(cache.kid, kid.data, kid.len) != 0) {
        ok = derive(signing, cache.key);
        cache.kid_len = ok && kid.len <= sizeof(cache.kid) ? kid.len : 0;
        memcpy(cache.kid, kid.data, cache.kid_len);
    }
    memcpy(key, cache.key, sizeof(cache.key));
    pthread_mutex_unlock(&cache.lock);
    return ok;
}

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

/* Spread as evenly as the ids of accounts. */
static void name_stand_in(struct attempt *a)
{
    const unsigned char *h = a->account_hmac;

    snprintf(a->stand_in, sizeof(a->stand_in),
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10],
             h[11], h[12], h[13], h[14], h[15]);
}

bool attempt_identify(const struct keys *keys, pj_str_t account,
                      pj_str_t remote_addr, struct attempt *out)
{
    unsigned char key[SHA256_DIGEST_LENGTH];
    bool ok;

    if (keys->signing == NULL) { /* a local set-up without keys */
        return false;
    }
    fold_address(remote_addr, out->address, sizeof(out->address));
    ok = find_key(keys->signing, key) &&
         HMAC(EVP_sha256(), key, sizeof(key), account.data, account.len,
              out->account_hmac, NULL) != NULL;
    OPENSSL_cleanse(key, sizeof(key));
    if (ok) {
        name_stand_in(out);
    }
    return ok;
}
