/*
 * OpenSSL's verification of one signature, for bench/instructions to count:
 *
 *   verify KEY.pem BYTES TIMES
 *
 * signs BYTES once with a key of any type and verifies the signature TIMES
 * times.  Contexts and digests are made once.
 */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES 65536
#define MAX_SIGNATURE 1024

static unsigned char text[MAX_BYTES], sig[MAX_SIGNATURE];
static size_t len, sig_len = sizeof(sig);

/* Ed25519 takes the text itself: no digest is prepared. */
static bool verify_whole(EVP_MD_CTX *md, EVP_PKEY *key)
{
    return EVP_DigestVerifyInit(md, NULL, NULL, NULL, key) == 1 &&
           EVP_DigestVerify(md, sig, sig_len, text, len) == 1;
}

static bool verify_digest(EVP_MD_CTX *md, EVP_MD *sha256, EVP_PKEY_CTX *ctx)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n;

    return EVP_DigestInit_ex2(md, sha256, NULL) == 1 &&
           EVP_DigestUpdate(md, text, len) == 1 &&
           EVP_DigestFinal_ex(md, digest, &n) == 1 &&
           EVP_PKEY_verify(ctx, sig, sig_len, digest, n) == 1;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 4 ? fopen(argv[1], "r") : NULL;
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    EVP_MD *sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    EVP_PKEY_CTX *ctx;
    bool whole, good;

    if (key == NULL) {
        fprintf(stderr, "usage: verify KEY.pem BYTES TIMES\n");
        return 2;
    }
    whole = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
    len = strtoul(argv[2], NULL, 10) % MAX_BYTES;
    memset(text, 'x', len);
    ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    good =
        EVP_DigestSignInit(md, NULL, whole ? NULL : sha256, NULL, key) == 1 &&
        EVP_DigestSign(md, sig, &sig_len, text, len) == 1 &&
        (whole || (EVP_PKEY_verify_init(ctx) == 1 &&
                   EVP_PKEY_CTX_set_signature_md(ctx, sha256) == 1));
    EVP_MD_CTX_free(md);
    md = EVP_MD_CTX_new();
    for (long n = strtol(argv[3], NULL, 10); good && n > 0; n--)
        good = whole ? verify_whole(md, key) : verify_digest(md, sha256, ctx);
    EVP_PKEY_CTX_free(ctx);
    EVP_MD_CTX_free(md);
    EVP_MD_free(sha256);
    EVP_PKEY_free(key);
    fclose(file);
    return good ? 0 : 1;
}
