/* New signing keys for the command "keys generate". */

#include "auth/keys.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>

#define NEW_KEY_BITS 2048

/* Writes what bio holds as base64 on one line. */
static bool base64_of(BIO *bio, char *out, size_t cap)
{
    char *pem;
    long len = BIO_get_mem_data(bio, &pem);

    return len > 0 && (size_t) len * 4 / 3 + 5 <= cap &&
           EVP_EncodeBlock((unsigned char *) out, (const unsigned char *) pem,
                           (int) len) > 0;
}

/* kid, or else the thumbprint. */
static bool name(const char *kid, BIO *public_pem, char out[])
{
    pj_key_t *key = NULL;
    char *pem;
    long len = BIO_get_mem_data(public_pem, &pem);
    bool ok =
        !pj_key_public(&key, (pj_str_t){(unsigned char *) pem, (size_t) len},
                       PJ_STR("unnamed")) &&
        !pj_key_thumbprint(key, out);

    out[PJ_THUMBPRINT_CHARS] = '\0';
    if (kid != NULL) {
        snprintf(out, PJ_KID_MAX_BYTES + 1, "%s", kid);
    }
    pj_key_free(key);
    return ok;
}

bool keys_generate(const char *kid, struct new_keys *out)
{
    EVP_PKEY *key = EVP_RSA_gen(NEW_KEY_BITS);
    BIO *private_pem = BIO_new(BIO_s_secmem());
    BIO *public_pem = BIO_new(BIO_s_mem());
    bool ok =
        key != NULL && private_pem != NULL && public_pem != NULL &&
        PEM_write_bio_PKCS8PrivateKey(private_pem, key, NULL, NULL, 0, NULL,
                                      NULL) == 1 &&
        PEM_write_bio_PUBKEY(public_pem, key) == 1 &&
        base64_of(private_pem, out->private_text, sizeof(out->private_text)) &&
        base64_of(public_pem, out->public_text, sizeof(out->public_text)) &&
        name(kid, public_pem, out->kid);

    BIO_free(private_pem);
    BIO_free(public_pem);
    EVP_PKEY_free(key);
    return ok;
}
