/* Public keys of passkeys: as libfido2 has them, and as they are kept. */

#include "auth/webauthn_key.h"

#include <fido.h>
#include <fido/eddsa.h>
#include <fido/es256.h>
#include <fido/rs256.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string.h>

static bool allocate(struct webauthn_key *key, int alg)
{
    key->alg = alg;
    key->pk = alg == COSE_ES256   ? (void *) es256_pk_new()
              : alg == COSE_EDDSA ? (void *) eddsa_pk_new()
              : alg == COSE_RS256 ? (void *) rs256_pk_new()
                                  : NULL;
    return key->pk != NULL;
}

void webauthn_key_free(struct webauthn_key *key)
{
    es256_pk_t *es256 = key->alg == COSE_ES256 ? key->pk : NULL;
    eddsa_pk_t *eddsa = key->alg == COSE_EDDSA ? key->pk : NULL;
    rs256_pk_t *rs256 = key->alg == COSE_RS256 ? key->pk : NULL;

    es256_pk_free(&es256);
    eddsa_pk_free(&eddsa);
    rs256_pk_free(&rs256);
    *key = (struct webauthn_key){.alg = 0};
}

bool webauthn_key_read(pj_str_t der, struct webauthn_key *key)
{
    const unsigned char *at = der.data;
    EVP_PKEY *pkey = d2i_PUBKEY(NULL, &at, (long) der.len);
    int type = pkey != NULL ? EVP_PKEY_base_id(pkey) : EVP_PKEY_NONE;
    int r = FIDO_ERR_INVALID_ARGUMENT;

    if (type == EVP_PKEY_EC && allocate(key, COSE_ES256)) {
        r = es256_pk_from_EVP_PKEY(key->pk, pkey);
    } else if (type == EVP_PKEY_ED25519 && allocate(key, COSE_EDDSA)) {
        r = eddsa_pk_from_EVP_PKEY(key->pk, pkey);
    } else if (type == EVP_PKEY_RSA && allocate(key, COSE_RS256)) {
        r = rs256_pk_from_EVP_PKEY(key->pk, pkey);
    }
    EVP_PKEY_free(pkey);
    return r == FIDO_OK;
}

/* Returns NULL if raw is not a key of this algorithm. */
static EVP_PKEY *to_pkey(int alg, pj_str_t raw)
{
    struct webauthn_key key = {.alg = 0};
    EVP_PKEY *pkey = NULL;

    if (!allocate(&key, alg)) {
        return NULL;
    }
    if (alg == COSE_ES256 &&
        es256_pk_from_ptr(key.pk, raw.data, raw.len) == FIDO_OK) {
        pkey = es256_pk_to_EVP_PKEY(key.pk);
    } else if (alg == COSE_EDDSA &&
               eddsa_pk_from_ptr(key.pk, raw.data, raw.len) == FIDO_OK) {
        pkey = eddsa_pk_to_EVP_PKEY(key.pk);
    } else if (alg == COSE_RS256 &&
               rs256_pk_from_ptr(key.pk, raw.data, raw.len) == FIDO_OK) {
        pkey = rs256_pk_to_EVP_PKEY(key.pk);
    }
    webauthn_key_free(&key);
    return pkey;
}

/* Returns true if the key is not weak, and is read back as the same:  libfido2
 * reads an RSA exponent of less than three bytes as another one, whose
 * assertions it would all refuse. */
static bool is_good(pj_str_t der, pj_str_t raw)
{
    struct webauthn_key again = {.alg = 0};
    pj_key_t *key = NULL;
    bool ok = !pj_key_public(&key, der, PJ_STR("passkey")) &&
              webauthn_key_read(der, &again) &&
              memcmp(again.pk, raw.data, raw.len) == 0;

    webauthn_key_free(&again);
    pj_key_free(key);
    return ok;
}

bool webauthn_key_write(int alg, pj_str_t raw, pj_arena_t *arena, pj_str_t *der)
{
    EVP_PKEY *pkey = to_pkey(alg, raw);
    int len = pkey != NULL ? i2d_PUBKEY(pkey, NULL) : 0;
    unsigned char *mem = len > 0 ? pj_arena_alloc(arena, (size_t) len) : NULL;
    unsigned char *end = mem;
    bool ok = mem != NULL && i2d_PUBKEY(pkey, &end) == len;

    EVP_PKEY_free(pkey);
    *der = (pj_str_t){mem, ok ? (size_t) len : 0};
    return ok && is_good(*der, raw);
}
