/* Signatures with everything prepared beforehand: a digest, an operation. */

#include "key.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_BYTES 32
#define MAX_PEM 8192

struct key {
    EVP_PKEY *pkey;
    EVP_MD *sha256;
    EVP_MD_CTX *digest;
    EVP_PKEY_CTX *sign, *verify;
};

static EVP_PKEY *pkey_read(const char *path)
{
    FILE *file = fopen(path, "r");
    EVP_PKEY *pkey;

    if (file == NULL) {
        perror(path);
        return NULL;
    }
    pkey = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    if (pkey == NULL || EVP_PKEY_get_size(pkey) > SIGNATURE_MAX_BYTES) {
        fprintf(stderr, "%s: no key of a size that is measured\n", path);
        EVP_PKEY_free(pkey);
        return NULL;
    }
    return pkey;
}

static EVP_PKEY_CTX *context(struct key *key, int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);

    if (ctx != NULL && init(ctx) == 1 &&
        (EVP_PKEY_is_a(key->pkey, "RSA") != 1 ||
         EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1) &&
        EVP_PKEY_CTX_set_signature_md(ctx, key->sha256) == 1) {
        return ctx;
    }
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

struct key *key_new(const char *pem_path)
{
    struct key *key = calloc(1, sizeof(*key));

    if (key == NULL) {
        return NULL;
    }
    key->pkey = pkey_read(pem_path);
    key->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    key->digest = EVP_MD_CTX_new();
    if (key->pkey != NULL && key->sha256 != NULL) {
        key->sign = context(key, EVP_PKEY_sign_init);
        key->verify = context(key, EVP_PKEY_verify_init);
    }
    if (key->digest == NULL || key->sign == NULL || key->verify == NULL) {
        key_free(key);
        return NULL;
    }
    return key;
}

void key_free(struct key *key)
{
    if (key == NULL) {
        return;
    }
    EVP_PKEY_CTX_free(key->sign);
    EVP_PKEY_CTX_free(key->verify);
    EVP_MD_CTX_free(key->digest);
    EVP_MD_free(key->sha256);
    EVP_PKEY_free(key->pkey);
    free(key);
}

pj_key_t *key_jose(const char *pem_path, const char *kid)
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

static bool hash(struct key *key, const void *text, size_t len,
                 unsigned char *md)
{
    return EVP_DigestInit_ex2(key->digest, key->sha256, NULL) == 1 &&
           EVP_DigestUpdate(key->digest, text, len) == 1 &&
           EVP_DigestFinal_ex(key->digest, md, NULL) == 1;
}

bool key_sign(struct key *key, const void *text, size_t len,
              struct signature *out)
{
    unsigned char md[SHA256_BYTES];

    out->len = sizeof(out->bytes);
    return hash(key, text, len, md) &&
           EVP_PKEY_sign(key->sign, out->bytes, &out->len, md, sizeof(md)) == 1;
}

bool key_verify(struct key *key, const void *text, size_t len,
                const struct signature *sig)
{
    unsigned char md[SHA256_BYTES];

    return hash(key, text, len, md) &&
           EVP_PKEY_verify(key->verify, sig->bytes, sig->len, md, sizeof(md)) ==
               1;
}
