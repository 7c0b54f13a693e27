/* Proofs: each refusal beside what passes. */

#include "proof.h"

/* -- each algorithm ------------------------------------------------------- */

static const char *const algs[] = {"ES256", "EdDSA", "Ed25519", "RS256",
                                   "RS384", "RS512", "PS256"};

/* The list is of all algorithms that there are, and each of them verifies; the
 * thumbprint from the text is that of the key. */
TESTS (test_algorithm, COUNT(algs)) {
    pj_key_t *key = key_new(algs[_i]);
    pj_proof_policy_t with = policy();
    char header[4096], jkt[PJ_THUMBPRINT_CHARS], got[PJ_THUMBPRINT_CHARS];
    pj_proof_t proof;
    char *text;
    size_t len;

    ck_assert_ptr_nonnull(strstr(" " PJ_PROOF_ALGS " ", algs[_i]));
    ck_assert_uint_eq(strlen(PJ_PROOF_ALGS), 43);
    key->alg = pj_alg_find(str(algs[_i]));
    if (key->alg->digest != NULL) {
        pj_key_t *made = key;

        assert_ok(pj_key_wrap(&key, key->alg, EVP_PKEY_dup(made->pkey),
                              PJ_STR("k"), true));
        pj_key_free(made);
    }
    header_write(key, algs[_i], header, sizeof(header));
    text = token_signed(key, header, PAYLOAD);
    assert_ok(verify(str(text), &with, &proof));
    assert_ok(pj_key_thumbprint(key, jkt));
    assert_ok(pj_b64url_encode(got, sizeof(got), &len,
                               bytes(proof.thumbprint, PJ_SHA256_BYTES)));
    ck_assert_mem_eq(got, jkt, sizeof(jkt));

    /* One bit of the signature. */
    text[strlen(text) - 4] = text[strlen(text) - 4] == 'A' ? 'B' : 'A';
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "signature");
    free(text);
    pj_key_free(key);
}

/* -- each refusal --------------------------------------------------------- */

#define JWK "\"jwk\":{"
#define JTI_255                                                                \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"         \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"         \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"         \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

/* A change of the header (or, from the payload's row on, of the payload), and
 * the fault, or NULL if it is accepted. */
static const struct {
    const char *from, *to, *fault;
} changes[] = {
    {"dpop+jwt", "dpop+jwt", NULL},
    {"dpop+jwt", "DPoP+JWT", NULL}, /* RFC 7515 section 4.1.9 */
    {"dpop+jwt", "application/dpop+jwt", NULL},
    {"dpop+jwt", "JWT", "typ"},
    {"dpop+jwt", "at+jwt", "typ"},
    {"\"typ\":\"dpop+jwt\",", "", "typ"},
    {"\"typ\":\"dpop+jwt\",", "\"typ\":[\"dpop+jwt\"],", "typ"},
    {"\"alg\":\"ES256\",\"jwk\"", "\"alg\":\"none\",\"jwk\"", "alg"},
    {"\"alg\":\"ES256\",\"jwk\"", "\"alg\":\"HS256\",\"jwk\"", "alg"},
    {"\"alg\":\"ES256\",\"jwk\"", "\"jwk\"", "alg"},
    {"\"alg\":\"ES256\",\"jwk\"", "\"alg\":\"RS256\",\"jwk\"", "jwk"},
    {"\"alg\":\"ES256\",\"jwk\"", "\"alg\":\"EdDSA\",\"jwk\"", "jwk"},
    {"{\"typ\"", "{\"kid\":1,\"typ\"", NULL}, /* has no meaning */
    {"{\"typ\"", "{\"crit\":[\"exp\"],\"typ\"", "crit"},
    {"{\"typ\"", "{\"typ\":\"dpop+jwt\",\"typ\"", "header"},
    {"{\"typ\"", "[{\"typ\"", "header"},
    {JWK, "\"jwx\":{", "jwk"},
    {JWK, "\"jwk\":1,\"jwx\":{", "jwk"},
    {JWK, JWK "\"ext\":true,\"key_ops\":[\"verify\"],", NULL},
    {JWK, JWK "\"key_ops\":[\"encrypt\"],", "jwk"},
    {JWK, JWK "\"d\":\"AA\",", "jwk"},
    {JWK, JWK "\"p\":\"AA\",", "jwk"},
    {JWK, JWK "\"q\":\"AA\",", "jwk"},
    {JWK, JWK "\"dp\":\"AA\",", "jwk"},
    {JWK, JWK "\"dq\":\"AA\",", "jwk"},
    {JWK, JWK "\"qi\":\"AA\",", "jwk"},
    {JWK, JWK "\"oth\":[],", "jwk"},
    {JWK, JWK "\"k\":null,", "jwk"},
    {"\"kty\":\"EC\"", "\"kty\":\"oct\"", "jwk"},
    {"\"crv\":\"P-256\"", "\"crv\":\"P-384\"", "jwk"},
    {"\"use\":\"sig\"", "\"use\":\"enc\"", "jwk"},
    {"\"y\":\"", "\"y\":\"A", "jwk"},
    {"\"y\":\"", "\"y\":\"\",\"z\":\"", "jwk"},
    {NULL, NULL, NULL}, /* now of the payload */
    {"\"one\"", "\"\xc3\xa9 \\\"\"", NULL},
    {"\"one\"", "\"" JTI_255 "\"", NULL},
    {"\"one\"", "\"" JTI_255 "f\"", "jti"},
    {"\"one\"", "\"\"", "jti"},
    {"\"one\"", "1", "jti"},
    {"\"jti\":\"one\",", "", "jti"},
    {"POST", "GET", "htm"},
    {"POST", "post", "htm"},
    {"\"htm\":\"POST\",", "", "htm"},
    {"\"htu\"", "\"htv\"", "htu"},
    {"\"ath\"", "\"atg\"", "ath"},
    {"\"ath\":\"f", "\"ath\":\"g", "ath"},
    {"mQEo", "mQEp", "ath"}, /* the same hash, written otherwise */
    {"mQEo", "mQEo=", "ath"},
    {"{\"jti\"", "{\"nonce\":\"n\",\"jti\"", NULL},
    {"{\"jti\"", "{\"nonce\":\"\",\"jti\"", "nonce"},
    {"{\"jti\"", "{\"nonce\":1,\"jti\"", "nonce"},
    {"{\"jti\"", "{\"exp\":1,\"aud\":[],\"jti\"", NULL},
    {"{\"jti\"", "[{\"jti\"", "payload"},
    {"1000000", "\"1000000\"", "iat"},
    {"\"iat\":1000000,", "", "iat"},
    {"1000000", "1e99", "iat"},
    {"1000000", "1000060", NULL},
    {"1000000", "999940", NULL},
    {"1000000", "1000059.5", NULL},
    {"1000000", "1000060.5", ""}, /* PJ_ERR_PROOF_TIME */
    {"1000000", "1000061", ""},
    {"1000000", "999939", ""},
    {"1000000", "999939.5", ""},
    {"1000000", "-9223372036854775808", ""},
    {"1000000", "9223372036854775807", ""},
};

TEST (test_changes) {
    pj_key_t *key = key_new("ES256");
    pj_proof_policy_t with = policy();
    bool in_payload = false;

    for (size_t i = 0; i < COUNT(changes); i++) {
        const char *from = changes[i].from, *fault = changes[i].fault;
        char header[4096], payload[2048] = PAYLOAD;
        pj_proof_t proof;
        pj_err_t err;
        char *text;

        if (from == NULL) {
            in_payload = true;
            continue;
        }
        header_write(key, "ES256", header, sizeof(header));
        if (in_payload)
            replace(payload, sizeof(payload), from, changes[i].to);
        else
            replace(header, sizeof(header), from, changes[i].to);
        text = token_signed(key, header, payload);
        err = verify(str(text), &with, &proof);
        ck_assert_msg(
            err == (fault == NULL ? PJ_OK
                    : *fault == 0 ? PJ_ERR_PROOF_TIME
                                  : PJ_ERR_PROOF) &&
                pj_str_eq(proof.fault, str(fault == NULL ? "" : fault)),
            "%s -> %s: %s %.*s", from, changes[i].to, pj_errname(err),
            (int) proof.fault.len, (const char *) proof.fault.data);
        free(text);
    }
    pj_key_free(key);
}

/* -- htu ------------------------------------------------------------------ */

/* RFC 3986 sections 6.2.2 and 6.2.3. */
static const struct {
    const char *htu, *path;
    bool good;
} urls[] = {
    {"https://api.example.com/a/b", "/a/b", true},
    {"HTTPS://API.Example.COM/a/b", "/a/b", true},
    {"https://api.example.com:443/a/b", "/a/b", true},
    {"https://api.example.com:/a/b", "/a/b", true},
    {"https://api.example.com/a/b?q=1", "/a/b", true},
    {"https://api.example.com/a/b#f", "/a/b", true},
    {"http://127.0.0.1:8080/a/b", "/a/b", true},
    {"http://[::1]/a/b", "/a/b", true},
    {"http://[::1]:80/a/b", "/a/b", true},
    {"https://api.example.com", "/", true},
    {"https://api.example.com?q", "/", true},
    {"https://api.example.com/%61/%62", "/a/b", true},
    {"https://api.example.com/a/b", "/%61/%62", true},
    {"https://api.example.com/%7Ea-._~", "/~a%2d%2E%5f%7e", true},
    {"https://api.example.com/a%2fb", "/a%2Fb", true},
    {"https://api.example.com/%c3%A9", "/%C3%a9", true},
    {"https://api.example.com/a/../b", "/a/../b", true},
    {"https://api.example.com/a%", "/a%", true},
    {"https://api.example.com/a/b", "/a/c", false},
    {"https://api.example.com/a/b", "/a/B", false},
    {"https://api.example.com/a/b", "/a", false},
    {"https://api.example.com/a", "/a/b", false},
    {"https://api.example.com/a/b", "/a/b/", false},
    {"https://api.example.com/a%2Fb", "/a/b", false},
    {"https://api.example.com/a/b", "/a%2Fb", false},
    {"https://api.example.com/a/../b", "/b", false},
    {"https://api.example.com//a/b", "/a/b", false},
    {"https://api.example.com/a%3Fb", "/a?b", false},
    {"https://api.example.com/%00", "/%01", false},
    {"https://api.example.com/%0", "/%00", false},
    {"http://api.example.com/a/b", "/a/b", false},
    {"https://api.example.com:80/a/b", "/a/b", false},
    {"https://api.example.com:8443/a/b", "/a/b", false},
    {"https://api.example.com:4430/a/b", "/a/b", false},
    {"https://api.example.com:443:443/a/b", "/a/b", false},
    {"http://127.0.0.1:8080:80/a/b", "/a/b", false},
    {"http://127.0.0.1:8080:/a/b", "/a/b", false},
    {"http://127.0.0.1/a/b", "/a/b", false},
    {"http://127.0.0.1:80801/a/b", "/a/b", false},
    {"https://api.example.com.evil.test/a/b", "/a/b", false},
    {"https://user@api.example.com/a/b", "/a/b", false},
    {"https://api.example.com@evil.test/a/b", "/a/b", false},
    {"//api.example.com/a/b", "/a/b", false},
    {"https:", "/a/b", false},
    {"", "/a/b", false},
    {"https://api.example.com", "", false},
    {"https://api.example.com*", "*", false},
};

TEST (test_htu) {
    pj_key_t *key = key_new("ES256");
    char header[4096];

    header_write(key, "ES256", header, sizeof(header));
    for (size_t i = 0; i < COUNT(urls); i++) {
        pj_proof_policy_t with = policy();
        char payload[1024] = PAYLOAD;
        pj_proof_t proof;
        pj_err_t err;
        char *text;

        with.path = str(urls[i].path);
        replace(payload, sizeof(payload), "https://api.example.com/a/b",
                urls[i].htu);
        text = token_signed(key, header, payload);
        err = verify(str(text), &with, &proof);
        ck_assert_msg((err == PJ_OK) == urls[i].good, "%s at %s: %s",
                      urls[i].htu, urls[i].path, pj_errname(err));
        if (err != PJ_OK)
            assert_str(proof.fault, "htu");
        free(text);
    }
    pj_key_free(key);
}

/* -- the policy ----------------------------------------------------------- */

/* The id is of the key and the jti alone; the key is compared before the
 * signature. */
TEST (test_keys_and_ids) {
    static const struct {
        int key;
        const char *jti;
    } cases[] = {{0, "one"}, {0, "one"}, {0, "two"}, {1, "one"}};
    pj_key_t *keys[] = {key_new("ES256"), key_new("ES256")};
    pj_proof_t proofs[COUNT(cases)], refused;
    pj_proof_policy_t with = policy();
    char header[4096], payload[1024];
    char *text = NULL;

    for (size_t i = 0; i < COUNT(cases); i++) {
        header_write(keys[cases[i].key], "ES256", header, sizeof(header));
        snprintf(payload, sizeof(payload), "%s", PAYLOAD);
        replace(payload, sizeof(payload), "one", cases[i].jti);
        free(text);
        text = token_signed(keys[cases[i].key], header, payload);
        assert_ok(verify(str(text), &with, &proofs[i]));
        ck_assert_int_eq(
            memcmp(proofs[i].id, proofs[0].id, PJ_SHA256_BYTES) == 0, i < 2);
    }
    with.thumbprint = proofs[3].thumbprint;
    assert_ok(verify(str(text), &with, &refused));
    text[strlen(text) - 4] ^= 1;
    with.thumbprint = proofs[0].thumbprint;
    assert_err(verify(str(text), &with, &refused), PJ_ERR_PROOF);
    assert_str(refused.fault, "key");
    free(text);
    pj_key_free(keys[0]);
    pj_key_free(keys[1]);
}

/* A good proof leaves its key, which is used for the same algorithm alone. */
TEST (test_a_key_that_is_kept) {
    pj_key_t *key = key_new("RS256"), *kept = NULL, *first, *other;
    pj_proof_policy_t with = policy();
    char header[4096];
    pj_proof_t proof;
    char *text;

    header_write(key, "RS256", header, sizeof(header));
    text = token_signed(key, header, PAYLOAD);
    with.key = &kept;
    assert_err(verify(str(text), &with, &proof), PJ_ERR_ARGUMENT);
    with.key = NULL;
    assert_ok(verify(str(text), &with, &proof));
    unsigned char thumbprint[PJ_SHA256_BYTES];
    memcpy(thumbprint, proof.thumbprint, sizeof(thumbprint));
    with.thumbprint = thumbprint;
    with.key = &kept;
    text[strlen(text) - 4] ^= 1;
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    ck_assert_ptr_null(kept);
    text[strlen(text) - 4] ^= 1;
    assert_ok(verify(str(text), &with, &proof));
    ck_assert_ptr_nonnull(first = kept);
    assert_ok(verify(str(text), &with, &proof));
    ck_assert_ptr_eq(kept, first);
    text[strlen(text) - 4] ^= 1;
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "signature");
    free(text);

    /* the same key, another algorithm */
    assert_ok(pj_key_wrap(&other, pj_alg_find(PJ_STR("PS256")),
                          EVP_PKEY_dup(key->pkey), PJ_STR("k"), true));
    header_write(key, "PS256", header, sizeof(header));
    replace(header, sizeof(header), "\"alg\":\"RS256\",", "");
    text = token_signed(other, header, PAYLOAD);
    assert_ok(verify(str(text), &with, &proof));
    ck_assert_ptr_eq(pj_key_alg(kept), pj_key_alg(other));
    free(text);
    pj_key_free(other);
    pj_key_free(key);
    pj_key_free(kept);
}

TEST (test_policies) {
    pj_key_t *key = key_new("ES256");
    pj_proof_policy_t with = policy();
    char header[4096];
    pj_proof_t proof;
    char *text;

    header_write(key, "ES256", header, sizeof(header));
    text = token_signed(key, header, PAYLOAD);
    with.token = PJ_STR("");
    assert_ok(verify(str(text), &with, &proof)); /* ath is ignored */
    with.token = PJ_STR("other");
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "ath");

    with = policy();
    with.origin_count = 0;
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "htu");

    with = policy();
    with.method = PJ_STR("");
    assert_err(verify(str(text), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "htm");

    for (int i = 0; i < 3; i++) {
        with = policy();
        with.window_s = i == 0 ? -1 : i == 1 ? INT64_MAX : WINDOW;
        with.now_s = i == 2 ? -1 : NOW;
        assert_err(verify(str(text), &with, &proof), PJ_ERR_ARGUMENT);
    }
    free(text);
    pj_key_free(key);
}

/* -- shape and size ------------------------------------------------------- */

TEST (test_shapes) {
    static const char *const shapes[] = {
        "", "a", "a.b", "a.b.", ".b.c", "a.b.c.d", "a.b.c, a.b.c"};
    pj_proof_policy_t with = policy();
    char long_text[PJ_PROOF_MAX_BYTES + 2];
    pj_proof_t proof;

    for (size_t i = 0; i < COUNT(shapes); i++) {
        assert_err(verify(str(shapes[i]), &with, &proof), PJ_ERR_PROOF);
        assert_str(proof.fault, "shape");
    }
    assert_err(verify(PJ_STR("a.b.c"), &with, &proof), PJ_ERR_PROOF);
    assert_str(proof.fault, "header");
    memset(long_text, 'a', sizeof(long_text));
    assert_err(verify(bytes(long_text, PJ_PROOF_MAX_BYTES), &with, &proof),
               PJ_ERR_PROOF);
    assert_str(proof.fault, "shape");
    assert_err(verify(bytes(long_text, PJ_PROOF_MAX_BYTES + 1), &with, &proof),
               PJ_ERR_PROOF);
    assert_str(proof.fault, "size");
}

/* A proof that is valid but for its size. */
TEST (test_size) {
    pj_key_t *key = key_new("ES256");
    pj_proof_policy_t with = policy();
    char header[4096], payload[8192], filler[4096];
    pj_proof_t proof;

    header_write(key, "ES256", header, sizeof(header));
    memset(filler, 'x', sizeof(filler));
    for (int len = 1000; len <= 4000; len += 3000) {
        char *text;

        snprintf(payload, sizeof(payload), "{\"x\":\"%.*s\",%s", len, filler,
                 PAYLOAD + 1);
        text = token_signed(key, header, payload);
        assert_err(verify(str(text), &with, &proof),
                   len == 1000 ? PJ_OK : PJ_ERR_PROOF);
        assert_str(proof.fault, len == 1000 ? "" : "size");
        free(text);
    }
    pj_key_free(key);
}

/* An RSA key of 4096 bits fits, and one that is weak does not. */
TEST (test_rsa_sizes) {
    static const struct {
        unsigned bits;
        pj_err_t want;
    } cases[] = {{1024, PJ_ERR_PROOF}, {2048, PJ_OK}, {4096, PJ_OK}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        EVP_PKEY *pkey = EVP_RSA_gen(cases[i].bits);
        pj_key_t key = {.alg = pj_alg_find(PJ_STR("RS256")), .pkey = pkey};
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        pj_proof_policy_t with = policy();
        unsigned char sig[512];
        size_t len = sizeof(sig);
        char header[4096];
        pj_proof_t proof;
        char *text;

        header_write(&key, "RS256", header, sizeof(header));
        text = token_unsigned(header, PAYLOAD);
        ck_assert_int_eq(
            EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, pkey), 1);
        ck_assert_int_eq(EVP_DigestSign(ctx, sig, &len, (unsigned char *) text,
                                        strlen(text)),
                         1);
        text = token_join(text, bytes(sig, len));
        assert_err(verify(str(text), &with, &proof), cases[i].want);
        if (cases[i].want != PJ_OK)
            assert_str(proof.fault, "jwk");
        free(text);
        EVP_MD_CTX_free(ctx);
        EVP_PKEY_free(pkey);
    }
}

/* Memory that is short is a failure of the caller, not of the proof. */
TEST (test_every_arena_size) {
    pj_key_t *key = key_new("EdDSA");
    size_t enough = pj_token_arena_bytes(PJ_PROOF_MAX_BYTES), good = 0;
    pj_proof_policy_t with = policy();
    char header[4096];
    char *text;

    header_write(key, "EdDSA", header, sizeof(header));
    text = token_signed(key, header, PAYLOAD);
    for (size_t size = 0; size < enough; size += 97) {
        void *mem = malloc(size);
        pj_proof_t proof;
        pj_arena_t arena;
        pj_err_t err;

        pj_arena_init(&arena, mem, size);
        err = pj_proof_verify(&arena, str(text), &with, &proof);
        ck_assert(err == (good == 0 && err != PJ_OK ? PJ_ERR_NO_SPACE : PJ_OK));
        good += err == PJ_OK;
        free(mem);
    }
    ck_assert_uint_gt(good, 0);
    free(text);
    pj_key_free(key);
}

int main(void)
{
    return run_case("proof", fill_plain);
}
