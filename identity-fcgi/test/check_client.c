/* Tests of clients' assertions: whether the client exists, is disabled or has
 * another key, one key is parsed and one signature verified, both of the size
 * that the assertion says; and a key that stands in lets nobody in. */

#include "auth/client_key.h"
#include "auth/handlers.h"
#include "handlers.h"
#include "store/store_client.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/params.h>

/* -- OpenSSL, counted -- */

static int parsed, verified;
static size_t verified_bytes;
static unsigned char modulus[32]; /* the low bytes of the last */
static bool all_verify;           /* every signature is right */

#define REAL(function)                                                         \
    ((__typeof__(&(function))) (uintptr_t) dlsym(RTLD_NEXT, #function))

int EVP_PKEY_fromdata(EVP_PKEY_CTX *ctx, EVP_PKEY **ppkey, int selection,
                      OSSL_PARAM *param)
{
    const OSSL_PARAM *n = OSSL_PARAM_locate_const(param, "n");

    parsed++;
    if (n != NULL) {
        memcpy(modulus, n->data, sizeof(modulus));
    }
    return REAL(EVP_PKEY_fromdata)(ctx, ppkey, selection, param);
}

static int judge(int result, size_t sig_bytes)
{
    verified++;
    verified_bytes = sig_bytes;
    return all_verify ? 1 : result;
}

int EVP_PKEY_verify(EVP_PKEY_CTX *ctx, const unsigned char *sig, size_t siglen,
                    const unsigned char *tbs, size_t tbslen)
{
    return judge(REAL(EVP_PKEY_verify)(ctx, sig, siglen, tbs, tbslen), siglen);
}

int EVP_DigestVerify(EVP_MD_CTX *ctx, const unsigned char *sig, size_t siglen,
                     const unsigned char *tbs, size_t tbslen)
{
    return judge(REAL(EVP_DigestVerify)(ctx, sig, siglen, tbs, tbslen), siglen);
}

/* -- the store -- */

static struct client stored;
static enum store_result found;
static char looked_up[64]; /* how the key begins, and its kid */

enum store_result store_client_find(struct store *st, pj_arena_t *mem,
                                    const struct client_lookup *lookup,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out)
{
    called("client");
    snprintf(looked_up, sizeof(looked_up), "%s %.*s",
             lookup->jwk_begin != NULL ? lookup->jwk_begin : "-",
             (int) lookup->kid.len, (const char *) lookup->kid.data);
    *out =
        found == STORE_OK ? stored : (struct client){.key = "", .scopes = ""};
    return found;
}

enum store_result store_client_use_assertion(struct store *st, pj_arena_t *mem,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s,
                                             struct client *client)
{
    called("use");
    client->scopes = "audit:read";
    return STORE_OK;
}

/* -- assertions -- */

static const struct {
    const char *alg, *begins;
    size_t bytes;    /* of a signature */
    size_t verified; /* by OpenSSL, in its encoding */
} algs[] = {
    {"RS256", "{\"e\":\" k", 256, 256},
    {"RS512", "{\"e\":\" k", 256, 256},
    {"PS256", "{\"e\":\" k", 256, 256},
    {"RS256", "{\"e\":\" k", 384, 384}, /* of keys of 3072 bits */
    {"ES256", "{\"crv\":\"P-256\" k", 64, 70},
    {"EdDSA", "{\"crv\":\"Ed25519\" k", 64, 64},
    {"Ed25519", "{\"crv\":\"Ed25519\" k", 64, 64},
};

static const char claims[] =
    "{\"iss\":\"" ACCOUNT "\",\"sub\":\"" ACCOUNT "\",\"aud\":"
    "\"http://issuer.test\",\"exp\":1700000060,\"jti\":\"once\"}";

static const char *encoded(const void *data, size_t len)
{
    char *out = pj_arena_alloc(&scratch, 2 * len + 4);

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(
        pj_b64url_encode(out, 2 * len + 3, &len, (pj_str_t){data, len}), PJ_OK);
    out[len] = '\0';
    return out;
}

/* An assertion with a signature that anybody can make up. */
static const char *forged(const char *alg, size_t bytes)
{
    unsigned char signature[512];
    pj_str_t header = join("{\"kid\":\"k\",\"alg\":\"", alg, "\"}"),
             signed_part;

    memset(signature, 1, sizeof(signature));
    signed_part = join(encoded(header.data, header.len), ".",
                       encoded(claims, sizeof(claims) - 1));
    return (const char *) join((const char *) signed_part.data, ".",
                               encoded(signature, bytes))
        .data;
}

static void ask(const char *assertion)
{
    db.calls[0] = '\0';
    parsed = verified = 0;
    verified_bytes = 0;
    cfg.system_api = SYSTEM_API_FACE;
    cfg.system_ttl_s = 300;
    http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                       sizeof(body_mem));
    pj_arena_init(&w.arena, arena, sizeof(arena));
    req.content_type = PJ_STR("application/x-www-form-urlencoded");
    req.body = join("grant_type=client_credentials&client_assertion_type="
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
                    "&client_assertion=",
                    assertion, "");
    h_token(&w);
}

/* A client's key for alg, as it is stored; key gets the private half. */
static const char *stored_key(const char *alg, pj_key_t **key)
{
    const pj_key_t *emitted;
    char jwks[1024], *end;
    size_t len;

    ck_assert_int_eq(pj_key_generate(key, pj_alg_find(str(alg)), PJ_STR("k")),
                     PJ_OK);
    emitted = *key;
    ck_assert_int_eq(pj_jwks_emit(&emitted, 1, jwks, sizeof(jwks) - 1, &len),
                     PJ_OK);
    jwks[len] = '\0';
    end = strstr(jwks, ",\"alg\"");
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    return (const char *) join(
               strchr(jwks, '[') + 1, ",\"alg\":\"",
               (const char *) join(alg, "\",\"kid\":\"k\"}", "").data)
        .data;
}

/* The first assertion makes the keys that stand in. */
static void make_stand_ins(void)
{
    found = STORE_NONE;
    ask(forged("ES256", 64));
}

static void be(enum store_result result, bool enabled, const char *key)
{
    found = result;
    stored = (struct client){.account = db.account, .key = key, .scopes = ""};
    stored.account.enabled = enabled;
    stored.account.clock.now_us = NOW * INT64_C(1000000);
}

static void ck_same_work(const char *assertion, size_t bytes)
{
    ask(assertion);
    ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
    ck_assert_int_eq(parsed, 1);
    ck_assert_int_eq(verified, 1);
    ck_assert_uint_eq(verified_bytes, bytes);
}

static const char *other_key(const char *alg, pj_key_t **key)
{
    return stored_key(strcmp(alg, "ES256") == 0 ? "EdDSA" : "ES256", key);
}

TEST (test_the_work_is_the_same) {
    make_stand_ins();
    for (size_t i = 0; i < sizeof(algs) / sizeof(algs[0]); i++) {
        const char *assertion = forged(algs[i].alg, algs[i].bytes);
        pj_key_t *key, *other;
        const char *own = stored_key(algs[i].alg, &key);

        be(STORE_NONE, false, "");
        ck_same_work(assertion, algs[i].verified);
        ck_assert_str_eq(looked_up, algs[i].begins);
        be(STORE_OK, true, "");
        ck_same_work(assertion, algs[i].verified);
        be(STORE_OK, true, own);
        ck_same_work(assertion, algs[i].verified);
        be(STORE_OK, false, own);
        ck_same_work(assertion, algs[i].verified);
        be(STORE_OK, true, other_key(algs[i].alg, &other));
        ck_same_work(assertion, algs[i].verified);
        pj_key_free(key);
        pj_key_free(other);
    }
}

/* As if it had been signed by whatever key is used. */
TEST (test_a_stand_in_lets_nobody_in) {
    all_verify = true;
    for (size_t i = 0; i < sizeof(algs) / sizeof(algs[0]); i++) {
        const char *assertion = forged(algs[i].alg, algs[i].bytes);
        pj_key_t *key, *other;
        const char *own = stored_key(algs[i].alg, &key);

        be(STORE_NONE, true, "");
        ask(assertion);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        be(STORE_OK, true, "");
        ask(assertion);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        be(STORE_OK, true, other_key(algs[i].alg, &other));
        ask(assertion);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        be(STORE_OK, true, own);
        ask(assertion);
        ck_assert_int_eq(res.status, algs[i].bytes == 384 ? 401 : 200);
        pj_key_free(key);
        pj_key_free(other);
    }
    all_verify = false;
}

TEST (test_the_clients_own_key_lets_it_in) {
    static const char *const own[] = {"RS256", "ES256", "EdDSA"};

    make_stand_ins();
    for (size_t i = 0; i < 3; i++) {
        char token[2048];
        pj_key_t *key;
        size_t len;

        be(STORE_OK, true, stored_key(own[i], &key));
        ck_assert_int_eq(pj_jws_sign(key, PJ_TYP_JWT, str(claims), token,
                                     sizeof(token) - 1, &len),
                         PJ_OK);
        token[len] = '\0';
        ask(token);
        ck_assert_int_eq(res.status, 200);
        ck_assert_str_eq(db.calls, "client use ");
        ck_assert(body_has("\"scope\":\"audit:read\""));
        ck_assert_int_eq(parsed, 1);
        ck_assert_int_eq(verified, 1);
        be(STORE_OK, false, stored.key);
        ask(token);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        pj_key_free(key);
    }
}

TEST (test_secrets_cost_the_same) {
    be(STORE_NONE, false, "");
    for (int i = 0; i < 3; i++) {
        db.calls[0] = '\0';
        cfg.system_api = SYSTEM_API_FACE;
        req.content_type = PJ_STR("application/x-www-form-urlencoded");
        req.body = PJ_STR("grant_type=client_credentials&client_id=" ACCOUNT
                          "&client_secret=x");
        h_token(&w);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        be(STORE_OK, i == 0, ""); /* then enabled, then not */
        stored.secret_matches = i == 1;
    }
}

/* A signature that is not less than the modulus is refused at once: of
 * stand-ins as of clients' keys, each has a modulus of its own. */
TEST (test_each_stand_in_has_its_modulus) {
    static const char *const seeds[] = {"a", "b", "a"};
    unsigned char seen[3][sizeof(modulus)];
    pj_jws_header_t header;
    pj_jws_t jws;

    ck_assert_int_eq(pj_jws_split(str(forged("RS256", 256)), 4096, &jws),
                     PJ_OK);
    ck_assert_int_eq(pj_jws_header(&scratch, &jws, false, &header), PJ_OK);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!client_key_verify(&scratch, str(seeds[i]), "", &jws));
        memcpy(seen[i], modulus, sizeof(modulus));
    }
    ck_assert_mem_ne(seen[0], seen[1], sizeof(modulus));
    ck_assert_mem_eq(seen[0], seen[2], sizeof(modulus));
}

/* An assertion without a header, an algorithm or a length that a key has. */
TEST (test_a_malformed_assertion_costs_the_same) {
    static const char *const none[] = {"a.b.c", "x", "..", "e30.e30.AA"};

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        be(i % 2 == 0 ? STORE_OK : STORE_NONE, true, "");
        ask(none[i]);
        ck_answer(401, "AUTH_CLIENT_INVALID", "client attempt ");
        ck_assert_int_eq(verified, 0);
        ck_assert_str_eq(looked_up, "- ");
    }
}

int main(void)
{
    return run_tests("client");
}
