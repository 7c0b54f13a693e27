/*
 * What jose/ adds to OpenSSL: verifying and parsing a token of 1.3 KB, beside
 * EVP_DigestVerify() over the same bytes with a key and a digest that are
 * reused.  Every round times all of it in turn; what is printed are medians
 * over the rounds of processor time.
 */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <pj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 100, ROUNDS = 51, MAX_TOKEN = 4096, ARENA = 262144 };

static const double max_ratio = 1.05;
static const double max_parse_us = 3.0;

static const char payload[] =
    "{\"iss\":\"https://identity.example.com\",\"iat\":1700000000,"
    "\"exp\":1700000900,\"jti\":\"5f0c1d3e-7a52-4a0b-9c1d-0123456789ab\","
    "\"sub\":\"00000000-0000-4000-8000-000000000001\","
    "\"account_id\":\"00000000-0000-4000-8000-000000000001\","
    "\"session_id\":\"00000000-0000-4000-8000-000000000002\","
    "\"account_type\":\"CUSTOMER\",\"typ\":\"access\","
    "\"token_type\":\"workspace\",\"token_scope\":\"BRANCH\","
    "\"workspace_id\":\"00000000-0000-4000-8000-000000000003\","
    "\"tenant_id\":\"00000000-0000-4000-8000-000000000004\","
    "\"member_id\":\"00000000-0000-4000-8000-000000000005\","
    "\"active_branch_id\":\"00000000-0000-4000-8000-000000000006\","
    "\"branch_ids\":[\"00000000-0000-4000-8000-000000000006\","
    "\"00000000-0000-4000-8000-000000000007\","
    "\"00000000-0000-4000-8000-000000000008\"],\"roles\":[\"MANAGER\"]}";

/* All that one of the timed functions needs. */
struct bench {
    EVP_PKEY *openssl;
    EVP_MD_CTX *ready;
    EVP_MD_CTX *ctx;
    pj_key_t *key;
    pj_str_t token;
    pj_jws_t jws;
    unsigned char signature[512];
    size_t signature_len;
    unsigned char arena[ARENA];
};

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

/* OpenSSL, prepared once and copied. */
static int floor_verify(struct bench *b)
{
    return EVP_MD_CTX_copy_ex(b->ctx, b->ready) == 1 &&
           EVP_DigestVerify(b->ctx, b->signature, b->signature_len,
                            b->jws.signing_input.data,
                            b->jws.signing_input.len) == 1;
}

static int ours_verify(struct bench *b)
{
    return pj_jws_verify(&b->jws, b->key) == PJ_OK;
}

/* Everything that the gateway does with a token but verifying it. */
static int ours_parse(struct bench *b)
{
    static const pj_str_t issuer = {
        (const unsigned char *) "https://identity.example.com", 28};
    const pj_policy_t policy = {.issuers = &issuer,
                                .issuer_count = 1,
                                .now_s = 1700000100,
                                .leeway_s = 30};
    pj_jws_header_t header;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_jws_t jws;

    pj_arena_init(&arena, b->arena, sizeof(b->arena));
    return pj_jws_split(b->token, MAX_TOKEN, &jws) == PJ_OK &&
           pj_jws_header(&arena, &jws, &header) == PJ_OK &&
           pj_claims_parse(&arena, &jws, &claims) == PJ_OK &&
           pj_claims_check(&claims, &policy) == PJ_OK;
}

static int ours_all(struct bench *b)
{
    return ours_parse(b) && ours_verify(b);
}

static const struct {
    const char *name;
    int (*run)(struct bench *b);
} timed[] = {{"EVP_DigestVerify", floor_verify},
             {"pj_jws_verify", ours_verify},
             {"splitting, parsing and checking", ours_parse},
             {"all of ours", ours_all}};
enum { FLOOR, ALL = 3, TIMED };

/* A key pair for both, a token, and OpenSSL's contexts. */
static int prepare(struct bench *b)
{
    static char token[MAX_TOKEN];
    EVP_PKEY *pair = EVP_RSA_gen(2048);
    unsigned char *der = NULL;
    pj_key_t *private = NULL;
    int len = pair != NULL ? i2d_PrivateKey(pair, &der) : -1;
    int ok = 0;

    b->openssl = pair;
    b->ready = EVP_MD_CTX_new();
    b->ctx = EVP_MD_CTX_new();
    if (len < 0 || b->ready == NULL || b->ctx == NULL ||
        EVP_DigestVerifyInit(b->ready, NULL, EVP_sha256(), NULL, pair) != 1) {
        goto done;
    }
    pj_str_t kid = {(const unsigned char *) "k1", 2};
    if (pj_key_private(&private, (pj_str_t){der, (size_t) len}, kid) !=
        PJ_OK) {
        goto done;
    }
    OPENSSL_free(der);
    der = NULL;
    len = i2d_PUBKEY(pair, &der);
    b->token.data = (const unsigned char *) token;
    ok = len > 0 &&
         pj_key_public(&b->key, (pj_str_t){der, (size_t) len}, kid) == PJ_OK &&
         pj_jws_sign(
             private, PJ_TYP_JWT,
             (pj_str_t){(const unsigned char *) payload, sizeof(payload) - 1},
             token, sizeof(token), &b->token.len) == PJ_OK &&
         pj_jws_split(b->token, MAX_TOKEN, &b->jws) == PJ_OK &&
         pj_b64url_decode(b->signature, sizeof(b->signature),
                          &b->signature_len, b->jws.signature) == PJ_OK;
done:
    OPENSSL_free(der);
    pj_key_free(private);
    return ok;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(*values), ascending);
    return values[ROUNDS / 2];
}

/* Microseconds of one call. */
static double one(struct bench *b, int which)
{
    double start = cpu_us();

    for (int i = 0; i < BATCH; i++) {
        if (!timed[which].run(b)) {
            fprintf(stderr, "jose: a verification failed\n");
            exit(1);
        }
    }
    return (cpu_us() - start) / BATCH;
}

int main(void)
{
    static struct bench b;
    static double us[TIMED][ROUNDS], over[ROUNDS];
    double more;

    if (!prepare(&b)) {
        fprintf(stderr, "jose: no key or no token\n");
        return 1;
    }
    for (int i = -1; i < ROUNDS; i++) { /* the first warms up */
        int at = i < 0 ? 0 : i;

        for (int which = 0; which < TIMED; which++) {
            us[which][at] = one(&b, which);
        }
        over[at] = us[ALL][at] - max_ratio * us[FLOOR][at];
    }
    more = median(over);
    printf("token of %zu bytes, RSA-2048, %d rounds of %d\n\n", b.token.len,
           ROUNDS, BATCH);
    for (int which = 0; which < TIMED; which++) {
        printf("%-32s%8.2f us\n", timed[which].name, median(us[which]));
    }
    printf("\nall - %.2f x EVP_DigestVerify = %.2f us, at most %.1f: ",
           max_ratio, more, max_parse_us);
    if (more <= max_parse_us) {
        printf("pass\n");
    } else {
        printf("over by %.2f us\n", more - max_parse_us);
    }
    return 0;
}
