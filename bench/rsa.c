/* RS256 with everything prepared beforehand: digest, then one operation. */

#include "rsa.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_BYTES 32
#define MAX_PEM 8192

struct rsa {
    EVP_PKEY *key;
    EVP_MD *sha256;
    EVP_MD_CTX *digest;
    EVP_PKEY_CTX *sign, *verify;
};

static EVP_PKEY *key_read(const char *path)
{
    FILE *file = fopen(path, "r");
    EVP_PKEY *key;

    if (file == NULL) {
        perror(path);
        return NULL;
    }
    key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    if (key == NULL || EVP_PKEY_get_size(key) != RSA_SIGNATURE_BYTES) {
        fprintf(stderr, "%s: no RSA key of 2048 bits\n", path);
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

static EVP_PKEY_CTX *context(struct rsa *rsa, int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, rsa->key, NULL);

    if (ctx != NULL && init(ctx) == 1 &&
        EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
        EVP_PKEY_CTX_set_signature_md(ctx, rsa->sha256) == 1) {
        return ctx;
    }
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

struct rsa *rsa_new(const char *pem_path)
{
    struct rsa *rsa = calloc(1, sizeof(*rsa));

    if (rsa == NULL) {
        return NULL;
    }
    rsa->key = key_read(pem_path);
    rsa->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    rsa->digest = EVP_MD_CTX_new();
    if (rsa->key != NULL && rsa->sha256 != NULL) {
        rsa->sign = context(rsa, EVP_PKEY_sign_init);
        rsa->verify = context(rsa, EVP_PKEY_verify_init);
    }
    if (rsa->digest == NULL || rsa->sign == NULL || rsa->verify == NULL) {
        rsa_free(rsa);
        return NULL;
    }
    return rsa;
}

void rsa_free(struct rsa *rsa)
{
    if (rsa == NULL) {
        return;
    }
    EVP_PKEY_CTX_free(rsa->sign);
    EVP_PKEY_CTX_free(rsa->verify);
    EVP_MD_CTX_free(rsa->digest);
    EVP_MD_free(rsa->sha256);
    EVP_PKEY_free(rsa->key);
    free(rsa);
}

pj_key_t *rsa_jose_key(const char *pem_path, const char *kid)
{
    const pj_str_t id = {(const unsigned char *) kid, strlen(kid)};
    unsigned char text[MAX_PEM];
    FILE *file = fopen(pem_path, "r");
    size_t len = file != NULL ? fread(text, 1, sizeof(text), file) : 0;
    pj_key_t *key = NULL;

    if (pj_key_private(&key, (pj_str_t){text, len}, id) != PJ_OK) {
        fprintf(stderr, "%s: no key\n", pem_path);
    }
    if (file != NULL) {
        fclose(file);
    }
    return key;
}

static bool hash(struct rsa *rsa, const void *text, size_t len,
                 unsigned char *md)
{
    return EVP_DigestInit_ex2(rsa->digest, rsa->sha256, NULL) == 1 &&
           EVP_DigestUpdate(rsa->digest, text, len) == 1 &&
           EVP_DigestFinal_ex(rsa->digest, md, NULL) == 1;
}

bool rsa_sign(struct rsa *rsa, const void *text, size_t len,
              unsigned char sig[RSA_SIGNATURE_BYTES])
{
    unsigned char md[SHA256_BYTES];
    size_t sig_len = RSA_SIGNATURE_BYTES;

    return hash(rsa, text, len, md) &&
           EVP_PKEY_sign(rsa->sign, sig, &sig_len, md, sizeof(md)) == 1;
}

bool rsa_verify(struct rsa *rsa, const void *text, size_t len,
                const unsigned char sig[RSA_SIGNATURE_BYTES])
{
    unsigned char md[SHA256_BYTES];

    return hash(rsa, text, len, md) &&
           EVP_PKEY_verify(rsa->verify, sig, RSA_SIGNATURE_BYTES, md,
                           sizeof(md)) == 1;
}
