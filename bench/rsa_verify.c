/*
 * What one RS256 verification costs here and now, with everything reused that
 * can be: rsa_verify KEY.pem MILLISECONDS <TOKEN
 *
 * Prints nanoseconds of this thread's processor time a verification.
 */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_TOKEN = 32768, MAX_SIGNATURE = 1024, BATCH = 50 };

static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* Standard base64 of a whole number of groups is what OpenSSL decodes. */
static int decode(unsigned char *out, const char *text, size_t *size)
{
    char groups[MAX_SIGNATURE * 2];
    size_t len = strlen(text);
    size_t padding = (4 - len % 4) % 4;

    if (len + padding >= sizeof(groups)) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        groups[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    }
    memset(groups + len, '=', padding);
    int n =
        EVP_DecodeBlock(out, (unsigned char *) groups, (int) (len + padding));
    if (n < 0 || (size_t) n < padding) {
        return -1;
    }
    *size = (size_t) n - padding;
    return 0;
}

static EVP_PKEY *read_key(const char *path)
{
    FILE *file = fopen(path, "r");
    EVP_PKEY *key = NULL;

    if (file != NULL) {
        key = PEM_read_PUBKEY(file, NULL, NULL, NULL);
        fclose(file);
    }
    return key;
}

/* Mean over the time given; negative when a verification fails. */
static double measure(EVP_PKEY *key, const char *token, size_t len,
                      const unsigned char *signature, size_t size, double ns)
{
    EVP_MD_CTX *ready = EVP_MD_CTX_new();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    double start = 0;
    double spent = -1;
    long done = 0;

    if (ready == NULL || ctx == NULL ||
        EVP_DigestVerifyInit(ready, NULL, EVP_sha256(), NULL, key) != 1) {
        goto end;
    }
    /* The first batch warms up and is not counted. */
    for (done = -BATCH; done <= 0 || spent < ns; done++) {
        if (done == 0) {
            start = cpu_ns();
        }
        if (EVP_MD_CTX_copy_ex(ctx, ready) != 1 ||
            EVP_DigestVerify(ctx, signature, size,
                             (const unsigned char *) token, len) != 1) {
            spent = -1;
            goto end;
        }
        if (done >= 0 && done % BATCH == 0) {
            spent = cpu_ns() - start;
        }
    }
    spent = (cpu_ns() - start) / (double) done;
end:
    EVP_MD_CTX_free(ctx);
    EVP_MD_CTX_free(ready);
    return spent;
}

int main(int argc, char **argv)
{
    static char token[MAX_TOKEN];
    static unsigned char signature[MAX_SIGNATURE * 2];
    EVP_PKEY *key = argc == 3 ? read_key(argv[1]) : NULL;
    char *dot;
    size_t size;

    if (key == NULL || fgets(token, sizeof(token), stdin) == NULL ||
        (dot = strrchr(token, '.')) == NULL) {
        fprintf(stderr, "usage: rsa_verify PUBLIC.pem MILLISECONDS <TOKEN\n");
        return 2;
    }
    token[strcspn(token, "\n")] = '\0';
    double ns = -1;
    if (decode(signature, dot + 1, &size) == 0) {
        ns = measure(key, token, (size_t) (dot - token), signature, size,
                     strtod(argv[2], NULL) * 1e6);
    }
    if (ns < 0) {
        fprintf(stderr, "rsa_verify: the token does not verify\n");
        return 1;
    }
    printf("%.1f\n", ns);
    EVP_PKEY_free(key);
    return 0;
}
