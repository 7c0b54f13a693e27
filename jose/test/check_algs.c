/* Algorithms: which key is for which, and what OpenSSL takes that we refuse.
 */

#include "helpers.h"

#include <dlfcn.h>
#include <openssl/ec.h>

#define PAYLOAD "{\"sub\":\"x\"}"

static const char *const names[] = {"RS256", "RS384", "RS512",  "PS256",
                                    "ES256", "EdDSA", "Ed25519"};

/* A private key for each algorithm; algorithms of a type share a key. */
static pj_key_t *keys[COUNT(names)];

/* While it is set, OpenSSL finds every ECDSA and RSA signature good. */
static bool all_verify;

int EVP_PKEY_verify(EVP_PKEY_CTX *ctx, const unsigned char *sig, size_t sig_len,
                    const unsigned char *md, size_t md_len)
{
    int (*real)(EVP_PKEY_CTX *, const unsigned char *, size_t,
                const unsigned char *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "EVP_PKEY_verify");

    memcpy(&real, &symbol, sizeof(real));
    return all_verify ? 1 : real(ctx, sig, sig_len, md, md_len);
}

static void setup(void)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        const pj_alg_t *alg = pj_alg_find(str(names[i]));

        ck_assert_ptr_nonnull(alg);
        if (i > 0 && alg->type == keys[i - 1]->alg->type)
            assert_ok(pj_key_wrap(&keys[i], alg,
                                  EVP_PKEY_dup(keys[i - 1]->pkey), PJ_STR("k"),
                                  true));
        else
            assert_ok(pj_key_generate(&keys[i], alg, PJ_STR("k")));
        ck_assert_ptr_eq(keys[i]->alg, alg);
    }
}

static void teardown(void)
{
    for (size_t i = 0; i < COUNT(names); i++)
        pj_key_free(keys[i]);
    check_error_queue();
}

static const pj_key_t *key_for(const char *name)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        if (strcmp(names[i], name) == 0)
            return keys[i];
    }
    ck_abort_msg("no key for %s", name);
}

static pj_err_t verify(const char *token, const pj_key_t *with)
{
    pj_jws_t jws;
    pj_err_t err = header_read(token, &jws);

    return err == PJ_OK ? pj_jws_verify(&jws, with) : err;
}

/* -- the key chooses, the header agrees -- */

/* The public half of key as a set has it, with or without its alg. */
static void published(pj_keyset_t *set, const pj_key_t *key, bool with_alg)
{
    char json[2048], *alg;
    size_t len;

    assert_ok(pj_jwks_emit(&key, 1, json, sizeof(json) - 1, &len));
    json[len] = 0;
    alg = strstr(json, "\"alg\"");
    ck_assert_ptr_nonnull(alg);
    if (!with_alg)
        memcpy(alg, "\"gla\"", 5);
    assert_ok(set_parse(set, bytes(json, len)));
    assert_ok(pj_key_match(key, set->keys[0]));
}

/* Each header by each signature for each key. */
TEST (test_every_confusion_is_refused) {
    static const char *const headers[] = {"RS256",  "RS384", "RS512",   "PS256",
                                          "ES256",  "EdDSA", "Ed25519", "ES384",
                                          "ES256K", "PS512", "HS256",   "none"};
    size_t accepted = 0;

    for (size_t h = 0; h < COUNT(headers); h++) {
        for (size_t s = 0; s < COUNT(keys); s++) {
            char header[64], *token;

            snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"k\"}",
                     headers[h]);
            token = token_signed(keys[s], header, PAYLOAD);
            for (size_t v = 0; v < COUNT(keys); v++) {
                bool agree = h == v && (s == v || (s >= 5 && v >= 5));
                pj_err_t err = verify(token, keys[v]);

                ck_assert_msg(err == (agree    ? PJ_OK
                                      : h == v ? PJ_ERR_TOKEN_SIGNATURE
                                               : PJ_ERR_TOKEN_ALG),
                              "%s, signed for %s, key for %s: %s", headers[h],
                              names[s], names[v], pj_errname(err));
                accepted += err == PJ_OK;
            }
            free(token);
        }
    }
    ck_assert_uint_eq(accepted, COUNT(names) + 2);
}

TEST (test_a_key_without_alg_is_for_the_default) {
    static const char *const defaults[] = {"RS256", "RS256", "RS256", "RS256",
                                           "ES256", "EdDSA", "EdDSA"};

    for (size_t i = 0; i < COUNT(names); i++) {
        pj_keyset_t set = {.count = 0};
        char pem[4096];
        pj_key_t *key;
        size_t len;

        published(&set, keys[i], true);
        ck_assert_ptr_eq(set.keys[0]->alg, keys[i]->alg);
        published(&set, keys[i], false);
        ck_assert_str_eq(set.keys[0]->alg->name, defaults[i]);
        assert_ok(pj_key_pem(keys[i], false, pem, sizeof(pem), &len));
        assert_ok(pj_key_public(&key, bytes(pem, len), PJ_STR("k")));
        ck_assert_str_eq(key->alg->name, defaults[i]);
        pj_key_free(key);
        assert_ok(pj_key_generate(&key, keys[i]->alg, PJ_STR("k")));
        ck_assert_str_eq(key->alg->name, defaults[i]);
        pj_key_free(key);
        pj_keyset_clear(&set);
    }
    ck_assert_ptr_null(pj_alg_find(PJ_STR("HS256")));
    ck_assert_ptr_null(pj_alg_find(PJ_STR("none")));
}

/* -- keys that sign -- */

TEST (test_every_algorithm_signs_and_is_read_back) {
    for (size_t i = 0; i < COUNT(names); i++) {
        char token[2048], pem[4096], header[64], *expected;
        pj_key_t *copy, *again;
        pj_keyset_t set = {.count = 0};
        size_t len;

        assert_ok(pj_jws_sign(keys[i], PJ_TYP_JWT, str(PAYLOAD), token,
                              sizeof(token) - 1, &len));
        token[len] = 0;
        snprintf(header, sizeof(header),
                 "{\"alg\":\"%s\",\"typ\":\"JWT\",\"kid\":\"k\"}", names[i]);
        expected = token_unsigned(header, PAYLOAD);
        ck_assert_mem_eq(token, expected, strlen(expected));
        free(expected);
        published(&set, keys[i], true);
        assert_ok(verify(token, set.keys[0]));
        assert_err(pj_jws_sign(set.keys[0], PJ_TYP_JWT, str(PAYLOAD), token,
                               sizeof(token), &len),
                   PJ_ERR_ARGUMENT);

        assert_ok(pj_key_copy(&copy, keys[i]));
        for (int n = 0; n < 3; n++) {
            assert_ok(pj_jws_sign(copy, PJ_TYP_JWT, str(PAYLOAD), token,
                                  sizeof(token) - 1, &len));
            token[len] = 0;
            assert_ok(verify(token, set.keys[0]));
            assert_ok(verify(token, copy));
            token[len - 20] = token[len - 20] == 'A' ? 'B' : 'A';
            assert_err(verify(token, copy), PJ_ERR_TOKEN_SIGNATURE);
        }
        assert_ok(pj_key_pem(keys[i], true, pem, sizeof(pem), &len));
        assert_ok(pj_key_private(&again, bytes(pem, len), PJ_STR("k")));
        assert_ok(pj_key_match(again, copy));
        pj_key_free(again);
        pj_key_free(copy);
        pj_keyset_clear(&set);
    }
}

/* The examples of RFC 7515 A.3 and RFC 8037 A: key, token, thumbprint. */
TEST (test_known_tokens) {
    static const struct {
        const char *jwk, *thumbprint, *token;
    } known[] = {
        {"{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\","
         "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
         "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}",
         "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U",
         "eyJhbGciOiJFUzI1NiJ9."
         "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
         "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
         "pmWQxfKTUJqPP3-Kg6NU1Q"},
        {"{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\","
         "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
         "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
         "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc."
         "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5B"
         "hVsPt9g7sVvpAr_MuM0KAg"},
    };

    for (size_t i = 0; i < COUNT(known); i++) {
        char json[512], thumbprint[PJ_THUMBPRINT_CHARS];
        pj_keyset_t set = {.count = 0};
        pj_jws_t jws;

        snprintf(json, sizeof(json), "{\"keys\":[%s]}", known[i].jwk);
        assert_ok(set_parse(&set, str(json)));
        assert_ok(pj_jws_split(str(known[i].token), 1024, &jws));
        assert_ok(signature_error(&jws, set.keys[0]));
        assert_ok(pj_key_thumbprint(set.keys[0], thumbprint));
        assert_str(bytes(thumbprint, sizeof(thumbprint)), known[i].thumbprint);
        pj_keyset_clear(&set);
    }
}

/* -- signatures -- */

/* What a token of ES256 with this signature is refused for. */
static pj_err_t es256_error(pj_str_t sig)
{
    char *token = token_join(
        token_unsigned("{\"alg\":\"ES256\",\"kid\":\"k\"}", PAYLOAD), sig);
    pj_err_t err = verify(token, key_for("ES256"));

    free(token);
    return err;
}

static void es256_sign(unsigned char sig[64])
{
    char *input = token_unsigned("{\"alg\":\"ES256\",\"kid\":\"k\"}", PAYLOAD);

    assert_ok(
        key_for("ES256")->alg->type->sign(key_for("ES256"), str(input), sig));
    free(input);
}

/* r and s each replaced; good where OpenSSL is made to say so. */
TEST (test_es256_range_of_r_and_s) {
    static const struct {
        const char *number;
        bool in_range;
    } cases[] = {
        {"1", true},
        {"FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632550",
         true},
        {"FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551",
         false}, /* n */
        {"FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632552",
         false},
        {"FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF",
         false}, /* -1 */
        {"0", false},
    };
    unsigned char sig[64];

    es256_sign(sig);
    assert_ok(es256_error(bytes(sig, 64)));
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        unsigned char other[64];
        BIGNUM *bn = NULL;

        memcpy(other, sig, 64);
        ck_assert_int_ne(BN_hex2bn(&bn, cases[i / 2].number), 0);
        ck_assert_int_eq(BN_bn2binpad(bn, other + i % 2 * 32, 32), 32);
        BN_free(bn);
        assert_err(es256_error(bytes(other, 64)), PJ_ERR_TOKEN_SIGNATURE);
        all_verify = true;
        assert_err(es256_error(bytes(other, 64)),
                   cases[i / 2].in_range ? PJ_OK : PJ_ERR_TOKEN_SIGNATURE);
        all_verify = false;
    }
}

/* Other lengths and spellings of a good signature, OpenSSL willing. */
TEST (test_es256_signature_of_another_form) {
    unsigned char sig[64], other[80] = {0}, *p = other;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    int len;

    es256_sign(sig);
    all_verify = true;
    assert_ok(es256_error(bytes(sig, 64)));
    ck_assert_int_eq(ECDSA_SIG_set0(pair, BN_bin2bn(sig, 32, NULL),
                                    BN_bin2bn(sig + 32, 32, NULL)),
                     1);
    len = i2d_ECDSA_SIG(pair, &p);
    ECDSA_SIG_free(pair);
    ck_assert_int_gt(len, 64);
    assert_err(es256_error(bytes(other, (size_t) len)), PJ_ERR_TOKEN_SIGNATURE);
    assert_err(es256_error(bytes(sig, 63)), PJ_ERR_TOKEN_SIGNATURE);
    memset(other, 0, sizeof(other));
    memcpy(other, sig, 64);
    assert_err(es256_error(bytes(other, 65)), PJ_ERR_TOKEN_SIGNATURE);
    memset(other, 0, sizeof(other));
    memcpy(other + 1, sig, 32); /* each with a zero in front, as in DER */
    memcpy(other + 34, sig + 32, 32);
    assert_err(es256_error(bytes(other, 66)), PJ_ERR_TOKEN_SIGNATURE);
    all_verify = false;
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("algs", fill);
}
