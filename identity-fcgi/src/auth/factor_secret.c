/* Encryption of TOTP secrets at rest. */

#include "auth/factor_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#define NONCE 12
#define TAG 16

/* Encrypts or decrypts with the ids as additional data. */
static bool crypt(EVP_CIPHER_CTX *c, bool seal, const struct factor_key *key,
                  const char *account_id, const char *factor_id,
                  const unsigned char *nonce, const unsigned char *in,
                  unsigned char *out, unsigned char *tag)
{
    char ids[128];
    int len = snprintf(ids, sizeof(ids), "%s %s", account_id, factor_id);
    int n;

    if (len < 0 || (size_t) len >= sizeof(ids) ||
        EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key->bytes, nonce,
                          seal) != 1 ||
        EVP_CipherUpdate(c, NULL, &n, (const unsigned char *) ids, len) != 1 ||
        EVP_CipherUpdate(c, out, &n, in, FACTOR_SECRET_BYTES) != 1) {
        return false;
    }
    if (!seal) {
        return EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
               EVP_CipherFinal_ex(c, out, &n) == 1;
    }
    return EVP_CipherFinal_ex(c, out, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, tag) == 1;
}

bool factor_secret_seal(const struct factor_key *key, const char *account_id,
                        const char *factor_id,
                        const unsigned char secret[FACTOR_SECRET_BYTES],
                        unsigned char sealed[FACTOR_SEALED_BYTES])
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool ok = c != NULL && RAND_bytes(sealed, NONCE) == 1 &&
              crypt(c, true, key, account_id, factor_id, sealed, secret,
                    sealed + NONCE, sealed + NONCE + FACTOR_SECRET_BYTES);

    EVP_CIPHER_CTX_free(c);
    return ok;
}

bool factor_secret_open(const struct factor_key *key, const char *account_id,
                        const char *factor_id, pj_str_t sealed,
                        unsigned char secret[FACTOR_SECRET_BYTES])
{
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    unsigned char tag[TAG];
    bool ok = c != NULL && sealed.len == FACTOR_SEALED_BYTES;

    if (ok) {
        memcpy(tag, sealed.data + NONCE + FACTOR_SECRET_BYTES, TAG);
        ok = crypt(c, false, key, account_id, factor_id, sealed.data,
                   sealed.data + NONCE, secret, tag);
    }
    if (!ok) {
        OPENSSL_cleanse(secret, FACTOR_SECRET_BYTES);
    }
    EVP_CIPHER_CTX_free(c);
    return ok;
}
