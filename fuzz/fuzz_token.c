/*
 * Any bytes as a token: what verifies, OpenSSL verifies over the same bytes
 * with another reader of tokens, and what OpenSSL verifies under a header that
 * was accepted, does.  An input that begins with '{' is not the token but its
 * header, its payload and changes (pairs of a place and a byte), by line ends:
 * it is signed here, so that the fuzzer need not know keys.
 */

#include "fuzz.h"

#include <openssl/ecdsa.h>
#include <openssl/rsa.h>

static struct {
    const char *alg, *quoted, *digest;
    pj_key_t *key;
} keys[] = {
    {"RS256", "\"RS256\"", "SHA256", NULL},
    {"RS384", "\"RS384\"", "SHA384", NULL},
    {"RS512", "\"RS512\"", "SHA512", NULL},
    {"PS256", "\"PS256\"", "SHA256", NULL},
    {"ES256", "\"ES256\"", "SHA256", NULL},
    {"EdDSA", "\"EdDSA\"", NULL, NULL},
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))
static EVP_PKEY *pkeys[KEYS]; /* the private halves */

/* Public keys are read from a key set, as a gateway has them. */
static void key_read(size_t i, const pj_key_t *private)
{
    static unsigned char mem[1 << 18];
    const pj_key_t *emit = private;
    pj_keyset_t set = {.count = 0};
    pj_arena_t arena;
    char text[4096];
    size_t len;
    char *alg;

    FUZZ_ASSERT(pj_jwks_emit(&emit, 1, text, sizeof(text) - 1, &len) == PJ_OK);
    text[len] = '\0';
    alg = strstr(text, keys[i < 4 ? 0 : i].quoted);
    FUZZ_ASSERT(alg != NULL);
    memcpy(alg, keys[i].quoted, strlen(keys[i].quoted));
    pj_arena_init(&arena, mem, sizeof(mem));
    FUZZ_ASSERT(pj_keyset_parse(&set, &arena, pj_str(text)) == PJ_OK);
    keys[i].key = set.keys[0];
    pkeys[i] = private->pkey;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static pj_key_t *private[KEYS];
    static char pem[8192];
    FILE *f = fopen(JOSE_TEST_DATA "/data/rfc7515_a2.pem", "rb");

    (void) argc;
    (void) argv;
    FUZZ_ASSERT(f != NULL && fread(pem, 1, sizeof(pem) - 1, f) > 0);
    fclose(f);
    for (size_t i = 0; i < KEYS; i++) {
        if (i < 4)
            FUZZ_ASSERT(pj_key_private(&private[i], pj_str(pem), PJ_STR("k")) ==
                        PJ_OK);
        else
            FUZZ_ASSERT(pj_key_generate(&private[i],
                                        pj_alg_find(pj_str(keys[i].alg)),
                                        PJ_STR("k")) == PJ_OK);
        key_read(i, private[i]);
    }
    return 0;
}

static EVP_MD_CTX *context(size_t i, bool sign)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *pctx;

    FUZZ_ASSERT((sign ? EVP_DigestSignInit_ex : EVP_DigestVerifyInit_ex)(
                    ctx, &pctx, keys[i].digest, NULL, NULL, pkeys[i], NULL) ==
                1);
    if (keys[i].alg[0] == 'P')
        FUZZ_ASSERT(EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING) ==
                        1 &&
                    EVP_PKEY_CTX_set_rsa_pss_saltlen(pctx, 32) == 1);
    return ctx;
}

/* Of ES256, two numbers of 32 bytes from DER, or to it. */
static size_t signature_turn(unsigned char *sig, size_t len, bool to_der)
{
    const unsigned char *p = sig;
    unsigned char *der = sig;
    ECDSA_SIG *pair =
        to_der ? ECDSA_SIG_new() : d2i_ECDSA_SIG(NULL, &p, (long) len);

    if (to_der) {
        if (len == 64)
            ECDSA_SIG_set0(pair, BN_bin2bn(sig, 32, NULL),
                           BN_bin2bn(sig + 32, 32, NULL));
        len = len == 64 ? (size_t) i2d_ECDSA_SIG(pair, &der) : 0;
    } else {
        BN_bn2binpad(ECDSA_SIG_get0_r(pair), sig, 32);
        BN_bn2binpad(ECDSA_SIG_get0_s(pair), sig + 32, 32);
        len = 64;
    }
    ECDSA_SIG_free(pair);
    return len;
}

/* Whether OpenSSL takes it, and where the second dot is. */
static bool second_opinion(size_t i, pj_str_t token)
{
    pj_str_t rest = token, head = fuzz_split(&rest, '.');
    pj_str_t body = fuzz_split(&rest, '.');
    unsigned char *sig = fuzz_alloc(rest.len + 256);
    size_t len = rest.data != NULL ? fuzz_b64url(sig, rest) : SIZE_MAX;
    EVP_MD_CTX *ctx = context(i, false);
    bool good;

    if (len != SIZE_MAX && keys[i].alg[0] == 'E' && keys[i].digest != NULL)
        len = signature_turn(sig, len, true);
    good = len != SIZE_MAX && head.len > 0 && body.len > 0 &&
           EVP_DigestVerify(ctx, sig, len, token.data,
                            head.len + 1 + body.len) == 1;
    EVP_MD_CTX_free(ctx);
    free(sig);
    ERR_clear_error();
    return good;
}

/* header "\n" payload, signed by the first key that header has the name of. */
static size_t token_build(char *dst, size_t cap, pj_str_t in)
{
    pj_out_t out = {dst, 0, cap, PJ_OK};
    pj_str_t head = fuzz_split(&in, '\n'), body = fuzz_split(&in, '\n');
    unsigned char sig[512];
    size_t len = sizeof(sig), i = 0;
    EVP_MD_CTX *ctx;

    while (i < KEYS - 1 &&
           memmem(head.data, head.len, keys[i].quoted, 7) == NULL)
        i++;
    pj_out_b64url(&out, head);
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, body);
    ctx = context(i, true);
    FUZZ_ASSERT(
        EVP_DigestSign(ctx, sig, &len, (unsigned char *) dst, out.len) == 1);
    EVP_MD_CTX_free(ctx);
    if (keys[i].alg[0] == 'E' && keys[i].digest != NULL)
        len = signature_turn(sig, len, false);
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, (pj_str_t){sig, len});
    FUZZ_ASSERT(out.err == PJ_OK);
    for (; in.len >= 2; in = (pj_str_t){in.data + 2, in.len - 2})
        dst[out.len - 1 - in.data[0] % out.len] = (char) in.data[1];
    return out.len;
}

static void claims_use(const pj_claims_t *claims)
{
    pj_str_t issuer = claims->iss;
    pj_policy_t policy = {.issuers = &issuer,
                          .issuer_count = 1,
                          .audiences = &issuer,
                          .audience_count = 1,
                          .now_s = 1700000000,
                          .leeway_s = 30};

    FUZZ_ASSERT(claims->iss.len > 0 && claims->jti.len > 0);
    FUZZ_ASSERT(pj_str_eq(claims->sub, claims->account_id));
    FUZZ_ASSERT((claims->kind == PJ_TOKEN_BRANCH) ==
                (claims->branch_ids != NULL));
    FUZZ_ASSERT((claims->kind == PJ_TOKEN_REFRESH) ==
                (claims->token_scope.len == 0));
    FUZZ_ASSERT(pj_claims_check(claims, &policy) != PJ_ERR_TOKEN_ISSUER);
    FUZZ_ASSERT((pj_claims_faults(claims, &policy) == 0) ==
                (pj_claims_check(claims, &policy) == PJ_OK));
}

/* Under a header that was accepted. */
static void signature_check(const pj_jws_t *jws, pj_str_t token)
{
    for (size_t i = 0; i < KEYS; i++) {
        bool named = strcmp(pj_alg_name(jws->alg), keys[i].alg) == 0;
        pj_err_t err = pj_jws_verify(jws, keys[i].key);

        FUZZ_ASSERT(err != PJ_ERR_CRYPTO);
        FUZZ_ASSERT((err == PJ_ERR_TOKEN_ALG) == !named);
        if (named)
            FUZZ_ASSERT((err == PJ_OK) == second_opinion(i, token));
    }
}

static void token_use(pj_str_t token)
{
    size_t size = pj_token_arena_bytes(token.len);
    unsigned char *mem = fuzz_alloc(size);
    pj_jws_header_t header;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_jws_t jws;
    pj_err_t err = pj_jws_split(token, token.len, &jws);

    pj_arena_init(&arena, mem, size);
    if (err == PJ_OK) {
        err = pj_jws_header(&arena, &jws, false, &header);
        FUZZ_ASSERT(err != PJ_ERR_NO_SPACE);
        if (err == PJ_OK) {
            FUZZ_ASSERT(pj_utf8_valid(header.kid));
            signature_check(&jws, token);
        }
        err = pj_claims_parse(&arena, &jws, &claims);
        FUZZ_ASSERT(err != PJ_ERR_NO_SPACE);
        if (err == PJ_OK)
            claims_use(&claims);
    }
    FUZZ_ASSERT(ERR_peek_error() == 0);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_built((pj_str_t){data, len}, token_build, token_use);
    return 0;
}
