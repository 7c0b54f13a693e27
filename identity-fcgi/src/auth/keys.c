/* The signing key, the additional public keys and the published key set. */

#include "auth/keys.h"

#include "base/parse.h"
#include "base/uuid.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JWK_MAX_BYTES 4096 /* 8192-bit modulus and 255 escaped bytes of kid */

#define KEY_ID "PLATFORM_JWT_KEY_ID"
#define PRIVATE "PLATFORM_JWT_PRIVATE_KEY_BASE64"
#define PUBLIC "PLATFORM_JWT_PUBLIC_KEY_BASE64"
#define ADDITIONAL "PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS"
#define DIRECTORY "PLATFORM_JWT_KEY_DIR"
#define MAX_ATTEMPTS 20 /* attempts while a directory is changing */
#define GOOD_PUBLIC "base64 of PEM or DER, SubjectPublicKeyInfo, " KEYS_GOOD

typedef pj_err_t (*key_parser)(pj_key_t **out, pj_str_t pem_or_der,
                               pj_str_t kid);

/* Decodes base64 and parses the key, leaving no copy in memory.  name is for
 * errors. */
static bool parse_key(pj_key_t **out, key_parser parse, const char *base64,
                      const char *kid, const char *name, const char *accepted,
                      struct error *e)
{
    size_t cap = strlen(base64) + 4, len;
    unsigned char *der = malloc(cap);
    pj_err_t code = PJ_ERR_NO_SPACE;

    if (der != NULL) {
        code = pj_b64_decode(der, cap, &len, pj_str(base64));
        if (!code) {
            code = parse(out, (pj_str_t){der, len}, pj_str(kid));
        }
        OPENSSL_cleanse(der, cap);
        free(der);
    }
    return !code || error_is(e, "%s: %s; accepted: %s", name, pj_strerror(code),
                             accepted);
}

static bool load_signing(struct keys *keys, const struct config *cfg,
                         struct error *e)
{
    pj_err_t code;

    if (!parse_key(&keys->signing, pj_key_private, cfg->jwt_private_key_base64,
                   cfg->jwt_key_id, PRIVATE,
                   "base64 of PEM or DER, PKCS#8 or PKCS#1, " KEYS_GOOD, e) ||
        !parse_key(&keys->verifying[0], pj_key_public,
                   cfg->jwt_public_key_base64, cfg->jwt_key_id, PUBLIC,
                   GOOD_PUBLIC, e)) {
        return false;
    }
    keys->verifying_count = 1;
    code = pj_key_match(keys->signing, keys->verifying[0]);
    return !code ||
           error_is(e, PUBLIC ": %s; accepted: the public half of " PRIVATE,
                    pj_strerror(code));
}

/* Derives a secret that only processes with the signing key can compute;
 * readers of the database cannot. */
static bool derive_hmac_key(struct keys *keys, struct error *e)
{
    pj_err_t code = pj_key_derive(keys->signing, PJ_STR("login attempts"),
                                  keys->hmac_key, sizeof(keys->hmac_key));

    return !code ||
           error_is(e, "no secret can be derived from the signing key: %s",
                    pj_strerror(code));
}

static bool load_additional_key(struct keys *keys, char *item, struct error *e)
{
    char *base64 = strchr(item, '=');
    char name[320];

    if (base64 == NULL || base64 == item) {
        return error_is(e,
                        ADDITIONAL ": an item is not of the form kid=base64; "
                                   "accepted: kid=base64,kid=base64");
    }
    *base64++ = '\0';
    if (!parse_kid(item)) {
        return error_is(e, ADDITIONAL ": a kid is not acceptable; "
                                      "accepted: " PARSE_KID_ACCEPTED);
    }
    if (keys_find(keys, pj_str(item)) != NULL) {
        return error_is(e,
                        ADDITIONAL
                        ": the kid %s appears twice, or is " KEY_ID
                        "'s; accepted: a kid of its own for each key",
                        item);
    }
    if (keys->verifying_count == 1 + KEYS_MAX_ADDITIONAL) {
        return error_is(e, ADDITIONAL ": too many keys; accepted: at most %d",
                        KEYS_MAX_ADDITIONAL);
    }
    snprintf(name, sizeof(name), ADDITIONAL ": key %s", item);
    if (!parse_key(&keys->verifying[keys->verifying_count], pj_key_public,
                   base64, item, name, GOOD_PUBLIC, e)) {
        return false;
    }
    keys->verifying_count++;
    return true;
}

static bool load_additional(struct keys *keys, const struct config *cfg,
                            struct error *e)
{
    const char *all = cfg->jwt_additional_public_keys;
    char *list = strdup(all != NULL ? all : ""), *rest = list, *item;
    bool ok = list != NULL || error_is(e, "out of memory");

    while (ok && (item = strsep(&rest, ",")) != NULL) {
        ok = item[0] == '\0' || load_additional_key(keys, item, e);
    }
    free(list);
    return ok;
}

static bool render(struct keys *keys, struct error *e)
{
    size_t cap = 32 + keys->published_count * JWK_MAX_BYTES;
    pj_err_t code;

    keys->jwks = malloc(cap);
    if (keys->jwks == NULL) {
        return error_is(e, "out of memory");
    }
    code =
        pj_jwks_emit((const pj_key_t *const *) keys->verifying,
                     keys->published_count, keys->jwks, cap, &keys->jwks_len);
    if (code) {
        return error_is(e, "the key set cannot be written: %s",
                        pj_strerror(code));
    }
    http_etag(keys->etag, keys->jwks, keys->jwks_len);
    return true;
}

/* Returns the first missing part of the signing key, or NULL.  *any is set if
 * at least one part is present. */
static const char *missing_part(const struct config *cfg, bool *any)
{
    const char *const parts[][2] = {{KEY_ID, cfg->jwt_key_id},
                                    {PRIVATE, cfg->jwt_private_key_base64},
                                    {PUBLIC, cfg->jwt_public_key_base64}};
    const char *missing = NULL;

    *any = false;
    for (int i = 2; i >= 0; i--) {
        missing = parts[i][1] == NULL ? parts[i][0] : missing;
        *any |= parts[i][1] != NULL;
    }
    return missing;
}

static void keys_free(struct keys *keys)
{
    for (size_t i = 0; i < keys->copy_count; i++) {
        pj_key_free(keys->copies[i]);
    }
    for (size_t i = 0; i < 1 + KEYS_MAX_ADDITIONAL; i++) {
        pj_key_free(keys->verifying[i]);
    }
    pj_key_free(keys->signing);
    free(keys->jwks);
    free(keys->dir);
    OPENSSL_cleanse(keys->hmac_key, sizeof(keys->hmac_key));
    free(keys);
}

static bool load_variables(struct keys *keys, const struct config *cfg,
                           struct error *e)
{
    bool any;
    const char *missing = missing_part(cfg, &any);

    if (missing != NULL && (any || !cfg->is_local)) {
        return error_is(
            e,
            "%s: missing; accepted: what identity-fcgi keys generate "
            "prints",
            missing);
    }
    if (missing == NULL &&
        !(load_signing(keys, cfg, e) && load_additional(keys, cfg, e))) {
        return false;
    }
    keys->published_count = keys->verifying_count;
    return true;
}

/* Reads the keys of the directory; the signing key is the first. */
static bool read_directory(struct keys *keys, struct error *e)
{
    struct keys_dir d;
    bool ok = keys_dir_open(&d, keys->dir, false);

    if (ok && (d.count == 0 || d.files[0].state != KEY_SIGNING)) {
        ok = error_is(e,
                      DIRECTORY ": %s: no key signs; identity-fcgi keys rotate "
                                "makes one",
                      keys->dir);
        keys_dir_close(&d);
        return ok;
    }
    for (size_t i = 0; ok && i < d.count; i++) {
        ok = keys_dir_parse(&d, &d.files[i], &keys->verifying[i],
                            i == 0 ? &keys->signing : NULL);
        keys->verifying_count++;
        keys->published_count += d.files[i].state != KEY_REFRESH;
    }
    keys_dir_close(&d);
    return ok || error_is(e, "%s", d.error.text);
}

/* Refuses a second source, because it would be unclear which key signs. */
static bool load_directory(struct keys *keys, const struct config *cfg,
                           struct error *e)
{
    bool any;

    (void) missing_part(cfg, &any);
    if (any || cfg->jwt_additional_public_keys != NULL) {
        return error_is(e, DIRECTORY ": is set as well as " KEY_ID ", " PRIVATE
                                     ", " PUBLIC " or " ADDITIONAL
                                     "; accepted: the directory, or those");
    }
    keys->dir = strdup(cfg->jwt_key_dir);
    return keys->dir != NULL ? read_directory(keys, e)
                             : error_is(e, "out of memory");
}

static struct keys *load(const struct config *cfg, struct error *e)
{
    size_t copies = cfg->worker_threads > 0 ? (size_t) cfg->worker_threads : 0;
    struct keys *keys =
        calloc(1, sizeof(*keys) + copies * sizeof(keys->copies[0]));
    bool ok;

    if (keys == NULL) {
        error_write(e, "out of memory");
        return NULL;
    }
    keys->refs = 1;
    keys->copy_count = copies;
    ok = cfg->jwt_key_dir != NULL ? load_directory(keys, cfg, e)
                                  : load_variables(keys, cfg, e);
    if (!ok || (keys->signing != NULL && !derive_hmac_key(keys, e)) ||
        !render(keys, e)) {
        keys_free(keys);
        return NULL;
    }
    return keys;
}

struct keys *keys_load(const struct config *cfg, struct error *e)
{
    uint64_t before, after = 0;
    struct keys *keys;
    int attempts = 0;

    if (cfg->jwt_key_dir == NULL) {
        return load(cfg, e);
    }
    do {
        before = keys_dir_stamp(cfg->jwt_key_dir);
        keys = load(cfg, e);
        after = keys_dir_stamp(cfg->jwt_key_dir);
        if (keys != NULL) {
            keys->stamp = before;
        }
        /* A file that was renamed concurrently may have been missed. */
        if (before != after) {
            keys_release(keys);
            keys = NULL;
            error_write(e, DIRECTORY ": it keeps changing");
        }
    } while (before != after && ++attempts < MAX_ATTEMPTS);
    return keys;
}

const pj_key_t *keys_signer(struct keys *keys, size_t worker)
{
    pj_key_t **copy;

    if (worker >= keys->copy_count || keys->signing == NULL) {
        return keys->signing;
    }
    copy = &keys->copies[worker]; /* used by this worker only */
    if (*copy == NULL && pj_key_copy(copy, keys->signing) != PJ_OK) {
        return keys->signing;
    }
    return *copy;
}

/* -- the current set -- */

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
        if (pj_str_eq(pj_key_id(keys->verifying[i]), kid)) {
            return keys->verifying[i];
        }
    }
    return NULL;
}

bool keys_is_published(const struct keys *keys, const pj_key_t *key)
{
    for (size_t i = 0; i < keys->published_count; i++) {
        if (keys->verifying[i] == key) {
            return true;
        }
    }
    return false;
}

/* -- generating, for the command "keys generate" -- */

/* Writes a half of key as base64 of PEM on one line. */
static bool write_half(const pj_key_t *key, bool private_half, char *out,
                       size_t cap)
{
    char pem[PJ_DER_MAX_BYTES];
    size_t len;
    bool ok = !pj_key_pem(key, private_half, pem, sizeof(pem), &len) &&
              len * 4 / 3 + 5 <= cap &&
              EVP_EncodeBlock((unsigned char *) out,
                              (const unsigned char *) pem, (int) len) > 0;

    OPENSSL_cleanse(pem, sizeof(pem));
    return ok;
}

bool keys_generate(const char *kid, const pj_alg_t *alg, struct new_keys *out)
{
    pj_key_t *key = NULL;
    bool ok =
        !pj_key_generate(&key, alg, PJ_STR("unnamed")) &&
        !pj_key_thumbprint(key, out->kid) &&
        write_half(key, true, out->private_text, sizeof(out->private_text)) &&
        write_half(key, false, out->public_text, sizeof(out->public_text));

    out->kid[PJ_THUMBPRINT_CHARS] = '\0';
    if (kid != NULL) {
        snprintf(out->kid, sizeof(out->kid), "%s", kid);
    }
    pj_key_free(key);
    return ok;
}
