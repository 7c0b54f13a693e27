/* New signing keys for the command "keys generate". */

#include "auth/keys.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>

#define NEW_KEY_BITS 2048

/* The PEM in bio as base64 on one line, or NULL; the caller wipes it. */
static char *base64_of(BIO *bio)
{
    char *pem, *text;
    long len = BIO_get_mem_data(bio, &pem);

    if (len <= 0) {
        return NULL;
    }
    text = malloc((size_t) len * 4 / 3 + 5);
    if (text != NULL) {
        EVP_EncodeBlock((unsigned char *) text, (const unsigned char *) pem,
                        (int) len);
    }
    return text;
}

/* The thumbprint of the key in bio, as a string. */
static bool thumbprint(BIO *bio, char out[PJ_THUMBPRINT_CHARS + 1])
{
    pj_key_t *key = NULL;
    char *pem;
    long len = BIO_get_mem_data(bio, &pem);
    bool ok;

    ok = len > 0 &&
         !pj_key_public(&key, (pj_str_t){(unsigned char *) pem, (size_t) len},
                        PJ_STR("unnamed")) &&
         !pj_key_thumbprint(key, out);
    out[ok ? PJ_THUMBPRINT_CHARS : 0] = '\0';
    pj_key_free(key);
    return ok;
}

static bool print_key(FILE *out, const char *kid, BIO *private_pem,
                      BIO *public_pem)
{
    char own_kid[PJ_THUMBPRINT_CHARS + 1];
    char *private_text = base64_of(private_pem);
    char *public_text = base64_of(public_pem);
    bool ok = false;

    if (private_text != NULL && public_text != NULL &&
        thumbprint(public_pem, own_kid)) {
        fprintf(out,
                "PLATFORM_JWT_KEY_ID=%s\n"
                "PLATFORM_JWT_PRIVATE_KEY_BASE64=%s\n"
                "PLATFORM_JWT_PUBLIC_KEY_BASE64=%s\n",
                kid != NULL ? kid : own_kid, private_text, public_text);
        ok = fflush(out) == 0;
    }
    if (private_text != NULL) {
        OPENSSL_cleanse(private_text, strlen(private_text));
    }
    free(private_text);
    free(public_text);
    return ok;
}

bool keys_generate(FILE *out, const char *kid, char *err, size_t err_cap)
{
    EVP_PKEY *key = EVP_RSA_gen(NEW_KEY_BITS);
    BIO *private_pem = BIO_new(BIO_s_secmem());
    BIO *public_pem = BIO_new(BIO_s_mem());
    bool ok;

    ok = key != NULL && private_pem != NULL && public_pem != NULL &&
         PEM_write_bio_PKCS8PrivateKey(private_pem, key, NULL, NULL, 0, NULL,
                                       NULL) == 1 &&
         PEM_write_bio_PUBKEY(public_pem, key) == 1 &&
         print_key(out, kid, private_pem, public_pem);
    if (!ok) {
        snprintf(err, err_cap, "the key could not be made or written");
    }
    BIO_free(private_pem);
    BIO_free(public_pem);
    EVP_PKEY_free(key);
    return ok;
}
