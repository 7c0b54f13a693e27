/* The signing key, the additional public keys and the published key set. */

#include "auth/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JWK_MAX_BYTES 4096 /* 8192-bit modulus and a kid of 255 escaped */

static const char private_name[] = "PLATFORM_JWT_PRIVATE_KEY_BASE64";
static const char public_name[] = "PLATFORM_JWT_PUBLIC_KEY_BASE64";
static const char additional_name[] = "PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS";

typedef pj_err_t (*key_parser)(pj_key_t **out, pj_str_t pem_or_der,
                               pj_str_t kid);

static pj_str_t text_of(const char *s)
{
    return (pj_str_t){(const unsigned char *) s, strlen(s)};
}

/* Decodes base64 and parses what is in it; nothing of it stays in memory. */
static pj_err_t parse_key(pj_key_t **out, key_parser parse, pj_str_t base64,
                          pj_str_t kid)
{
    size_t cap = base64.len + 4, len;
    unsigned char *der = malloc(cap);
    pj_err_t err;

    *out = NULL;
    if (der == NULL) {
        return PJ_ERR_NO_SPACE;
    }
    err = pj_b64_decode(der, cap, &len, base64);
    if (!err) {
        err = parse(out, (pj_str_t){der, len}, kid);
    }
    OPENSSL_cleanse(der, cap);
    free(der);
    return err;
}

static bool fail(char *err, size_t err_cap, const char *name, pj_err_t code,
                 const char *accepted)
{
    snprintf(err, err_cap, "%s: %s; accepted: %s", name, pj_strerror(code),
             accepted);
    return false;
}

static bool load_signing(struct keys *keys, const struct config *cfg,
                         char *err, size_t err_cap)
{
    pj_str_t kid = text_of(cfg->jwt_key_id);
    pj_err_t code;

    code = parse_key(&keys->signing, pj_key_private,
                     text_of(cfg->jwt_private_key_base64), kid);
    if (code) {
        return fail(err, err_cap, private_name, code,
                    "base64 of PEM or DER, PKCS#8 or PKCS#1, RSA of 2048 bits "
                    "or more");
    }
    code = parse_key(&keys->verifying[0], pj_key_public,
                     text_of(cfg->jwt_public_key_base64), kid);
    if (code) {
        return fail(err, err_cap, public_name, code,
                    "base64 of PEM or DER, SubjectPublicKeyInfo, RSA of 2048 "
                    "bits or more");
    }
    keys->verifying_count = 1;
    code = pj_key_match(keys->signing, keys->verifying[0]);
    if (code) {
        return fail(err, err_cap, public_name, code,
                    "the public half of PLATFORM_JWT_PRIVATE_KEY_BASE64");
    }
    return true;
}

/* Room for copies; without memory for it workers share the key. */
static void make_room(struct keys *keys, const struct config *cfg)
{
    size_t n = cfg->worker_threads > 0 ? (size_t) cfg->worker_threads : 0;

    keys->copies = calloc(n + 1, sizeof(*keys->copies));
    keys->copy_count = keys->copies != NULL ? n : 0;
}

const pj_key_t *keys_signer(struct keys *keys, size_t worker)
{
    pj_key_t **copy;

    if (worker >= keys->copy_count || keys->signing == NULL) {
        return keys->signing;
    }
    copy = &keys->copies[worker]; /* nobody else looks at it */
    if (*copy == NULL && pj_key_copy(copy, keys->signing) != PJ_OK) {
        return keys->signing;
    }
    return *copy;
}

/* The rules of PLATFORM_JWT_KEY_ID, which a kid here was or will be. */
static bool kid_is_good(pj_str_t kid)
{
    char text[256];

    if (kid.len == 0 || kid.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, kid.data, kid.len);
    text[kid.len] = '\0';
    return parse_kid(text);
}

/* One kid=base64 item. */
static bool load_additional_item(struct keys *keys, const char *item,
                                 size_t len, char *err, size_t err_cap)
{
    const char *eq = memchr(item, '=', len);
    pj_str_t kid, base64;
    pj_err_t code;

    if (eq == NULL || eq == item) {
        snprintf(err, err_cap,
                 "%s: an item is not of the form kid=base64; accepted: "
                 "kid=base64,kid=base64",
                 additional_name);
        return false;
    }
    kid.data = (const unsigned char *) item;
    kid.len = (size_t) (eq - item);
    base64.data = (const unsigned char *) eq + 1;
    base64.len = len - kid.len - 1;
    if (!kid_is_good(kid)) {
        snprintf(err, err_cap,
                 "%s: a kid is not acceptable; accepted: " PARSE_KID_ACCEPTED,
                 additional_name);
        return false;
    }
    if (keys_find(keys, kid) != NULL) {
        snprintf(err, err_cap,
                 "%s: the kid %.*s stands twice, or is PLATFORM_JWT_KEY_ID's; "
                 "accepted: a kid of its own for each key",
                 additional_name, (int) kid.len, item);
        return false;
    }
    if (keys->verifying_count == 1 + KEYS_MAX_ADDITIONAL) {
        snprintf(err, err_cap, "%s: too many keys; accepted: at most %d",
                 additional_name, KEYS_MAX_ADDITIONAL);
        return false;
    }
    code = parse_key(&keys->verifying[keys->verifying_count], pj_key_public,
                     base64, kid);
    if (code) {
        snprintf(err, err_cap,
                 "%s: key %.*s: %s; accepted: base64 of PEM or DER, "
                 "SubjectPublicKeyInfo, RSA of 2048 bits or more",
                 additional_name, (int) kid.len, item, pj_strerror(code));
        return false;
    }
    keys->verifying_count++;
    return true;
}

static bool load_additional(struct keys *keys, const struct config *cfg,
                            char *err, size_t err_cap)
{
    const char *p = cfg->jwt_additional_public_keys;

    while (p != NULL && *p != '\0') {
        size_t len = strcspn(p, ",");

        if (len != 0 && !load_additional_item(keys, p, len, err, err_cap)) {
            return false;
        }
        p += len + (p[len] == ',');
    }
    return true;
}

static bool render(struct keys *keys, char *err, size_t err_cap)
{
    static const char hex[] = "0123456789abcdef";
    size_t cap = 32 + keys->verifying_count * JWK_MAX_BYTES;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    pj_err_t code;
    char *p = keys->etag;

    keys->jwks = malloc(cap);
    if (keys->jwks == NULL) {
        snprintf(err, err_cap, "out of memory");
        return false;
    }
    code =
        pj_jwks_emit((const pj_key_t *const *) keys->verifying,
                     keys->verifying_count, keys->jwks, cap, &keys->jwks_len);
    if (code) {
        snprintf(err, err_cap, "the key set cannot be written: %s",
                 pj_strerror(code));
        return false;
    }
    SHA256((const unsigned char *) keys->jwks, keys->jwks_len, digest);
    *p++ = '"';
    for (size_t i = 0; i < 16; i++) {
        *p++ = hex[digest[i] >> 4];
        *p++ = hex[digest[i] & 15];
    }
    *p++ = '"';
    *p = '\0';
    return true;
}

/* The first missing part of the signing key, or NULL; *any says whether any
 * part is there. */
static const char *missing_part(const struct config *cfg, bool *any)
{
    *any = cfg->jwt_key_id != NULL || cfg->jwt_private_key_base64 != NULL ||
           cfg->jwt_public_key_base64 != NULL;
    if (cfg->jwt_key_id == NULL) {
        return "PLATFORM_JWT_KEY_ID";
    }
    if (cfg->jwt_private_key_base64 == NULL) {
        return private_name;
    }
    return cfg->jwt_public_key_base64 == NULL ? public_name : NULL;
}

static void keys_free(struct keys *keys)
{
    pj_key_free(keys->signing);
    for (size_t i = 0; i < keys->copy_count; i++) {
        pj_key_free(keys->copies[i]);
    }
    free(keys->copies);
    for (size_t i = 0; i < sizeof(keys->verifying) / sizeof(pj_key_t *); i++) {
        pj_key_free(keys->verifying[i]);
    }
    free(keys->jwks);
    free(keys);
}

struct keys *keys_load(const struct config *cfg, char *err, size_t err_cap)
{
    struct keys *keys = calloc(1, sizeof(*keys));
    const char *missing;
    bool any, ok = true;

    if (keys == NULL) {
        snprintf(err, err_cap, "out of memory");
        return NULL;
    }
    keys->refs = 1;
    missing = missing_part(cfg, &any);
    if (missing == NULL) {
        ok = load_signing(keys, cfg, err, err_cap) &&
             load_additional(keys, cfg, err, err_cap);
    } else if (any || !cfg->is_local) {
        snprintf(err, err_cap,
                 "%s: missing; accepted: what identity-fcgi keys generate "
                 "prints",
                 missing);
        ok = false;
    }
    if (!ok || !render(keys, err, err_cap)) {
        keys_free(keys);
        return NULL;
    }
    make_room(keys, cfg);
    return keys;
}

/* -- the current set ------------------------------------------------------
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct keys *current;

struct keys *keys_acquire(void)
{
    struct keys *keys;

    pthread_mutex_lock(&lock);
    keys = current;
    if (keys != NULL) {
        keys->refs++;
    }
    pthread_mutex_unlock(&lock);
    return keys;
}

void keys_release(struct keys *keys)
{
    bool last = false;

    if (keys != NULL) {
        pthread_mutex_lock(&lock);
        last = --keys->refs == 0;
        pthread_mutex_unlock(&lock);
    }
    if (last) {
        keys_free(keys);
    }
}

void keys_publish(struct keys *keys)
{
    struct keys *old;

    pthread_mutex_lock(&lock);
    old = current;
    current = keys;
    pthread_mutex_unlock(&lock);
    keys_release(old);
}

const pj_key_t *keys_find(const struct keys *keys, pj_str_t kid)
{
    for (size_t i = 0; i < keys->verifying_count; i++) {
        pj_str_t id = pj_key_id(keys->verifying[i]);

        if (id.len == kid.len && memcmp(id.data, kid.data, id.len) == 0) {
            return keys->verifying[i];
        }
    }
    return NULL;
}
