/*
 * What jose/ adds to OpenSSL: verifying and parsing a token of 1.3 KB, beside
 * EVP_DigestVerify() over the same bytes with a key and a digest that are
 * reused.
 *
 *   jose [ROUNDS]        (default 51)
 *
 * Every round times all of it in turn; what is printed are medians over the
 * rounds of processor time, ratios taken within each.  The last line is JSON.
 */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <pj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 100, MAX_ROUNDS = 1001, MAX_TOKEN = 4096, ARENA = 262144 };

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
    const EVP_MD *digest;
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

static int digest_verify(struct bench *b, EVP_MD_CTX *ctx)
{
    return EVP_DigestVerify(ctx, b->signature, b->signature_len,
                            b->jws.signing_input.data,
                            b->jws.signing_input.len) == 1;
}

/* OpenSSL, prepared each time. */
static int floor_init(struct bench *b)
{
    return EVP_MD_CTX_reset(b->ctx) == 1 &&
           EVP_DigestVerifyInit(b->ctx, NULL, b->digest, NULL, b->openssl) ==
               1 &&
           digest_verify(b, b->ctx);
}

/* OpenSSL, prepared once and copied. */
static int floor_copy(struct bench *b)
{
    return EVP_MD_CTX_copy_ex(b->ctx, b->ready) == 1 &&
           digest_verify(b, b->ctx);
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

static int (*const timed[])(struct bench *) = {
    floor_init, floor_copy, ours_verify, ours_parse, ours_all};
enum { INIT, COPY, VERIFY, PARSE, ALL, TIMED };

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
    b->digest = EVP_MD_fetch(NULL, "SHA256", NULL);
    b->ready = EVP_MD_CTX_new();
    b->ctx = EVP_MD_CTX_new();
    if (len < 0 || b->digest == NULL || b->ready == NULL || b->ctx == NULL ||
        EVP_DigestVerifyInit(b->ready, NULL, b->digest, NULL, pair) != 1) {
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

static void release(struct bench *b)
{
    EVP_PKEY_free(b->openssl);
    EVP_MD_free((EVP_MD *) b->digest);
    EVP_MD_CTX_free(b->ready);
    EVP_MD_CTX_free(b->ctx);
    pj_key_free(b->key);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a;
    double y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Microseconds of one call; negative when one failed. */
static double one(struct bench *b, int which)
{
    double start = cpu_us();

    for (int i = 0; i < BATCH; i++) {
        if (!timed[which](b)) {
            return -1;
        }
    }
    return (cpu_us() - start) / BATCH;
}

static int report(size_t bytes, size_t rounds, double us[TIMED][MAX_ROUNDS])
{
    static double ratio[MAX_ROUNDS];
    static double over[MAX_ROUNDS];
    double all_over;

    for (size_t i = 0; i < rounds; i++) {
        double floor = us[INIT][i] < us[COPY][i] ? us[INIT][i] : us[COPY][i];

        ratio[i] = us[VERIFY][i] / floor;
        over[i] = us[ALL][i] - max_ratio * floor;
    }
    all_over = median(over, rounds);
    double r = median(ratio, rounds);
    double init = median(us[INIT], rounds);
    double copy = median(us[COPY], rounds);
    double verify = median(us[VERIFY], rounds);
    double parse = median(us[PARSE], rounds);
    double all = median(us[ALL], rounds);
    int pass = all_over <= max_parse_us;

    printf("token of %zu bytes, RSA-2048, %zu rounds of %d\n\n", bytes, rounds,
           BATCH);
    printf("EVP_DigestVerify, context prepared each time %8.2f us\n", init);
    printf("EVP_DigestVerify, prepared context copied    %8.2f us\n", copy);
    printf("pj_jws_verify                                %8.2f us  %.3f x\n",
           verify, r);
    printf("splitting, parsing and checking              %8.2f us\n", parse);
    printf("all of ours                                  %8.2f us\n\n", all);
    printf("all - %.2f x EVP_DigestVerify = %.2f us: ", max_ratio, all_over);
    printf(pass ? "pass (at most %.1f us)\n" : "over %.1f us\n", max_parse_us);
    printf("{\"token_bytes\":%zu,\"rounds\":%zu,\"init_us\":%.3f,"
           "\"copy_us\":%.3f,\"verify_us\":%.3f,\"verify_ratio\":%.4f,"
           "\"parse_us\":%.3f,\"all_us\":%.3f,\"over_us\":%.3f,"
           "\"goal_us\":%.1f,\"pass\":%s}\n",
           bytes, rounds, init, copy, verify, r, parse, all, all_over,
           max_parse_us, pass ? "true" : "false");
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench b;
    static double us[TIMED][MAX_ROUNDS];
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 51;
    int status = 1;

    if (argc > 2 || rounds < 5 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: %s [ROUNDS]   (5 to %d)\n", argv[0],
                MAX_ROUNDS);
        return 2;
    }
    if (!prepare(&b)) {
        fprintf(stderr, "no key or no token\n");
        goto done;
    }
    for (long i = -1; i < rounds; i++) { /* the first warms up */
        for (int which = 0; which < TIMED; which++) {
            us[which][i < 0 ? 0 : i] = one(&b, which);
            if (us[which][i < 0 ? 0 : i] < 0) {
                fprintf(stderr, "a verification failed\n");
                goto done;
            }
        }
    }
    status = report(b.token.len, (size_t) rounds, us);
done:
    release(&b);
    return status;
}
