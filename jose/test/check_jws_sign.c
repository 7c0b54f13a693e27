/* JWS: tokens that we sign, and the keys that sign them. */

#include "helpers.h"

#include <pthread.h>

#define PAYLOAD "{\"sub\":\"x\"}"

static pj_key_t *key;   /* RFC 7515 A.2, private, kid k */
static pj_key_t *other; /* another private key of the same kid */

static void setup(void)
{
    key = key_private("rfc7515_a2.pem", "k");
    other = key_private("other.pem", "k");
}

static void teardown(void)
{
    pj_key_free(key);
    pj_key_free(other);
    check_error_queue();
}

/* Decodes a part of a token; valid until the next call. */
static pj_str_t decoded(pj_str_t part)
{
    static unsigned char text[2048];
    pj_str_t out = {text, 0};

    assert_ok(pj_b64url_decode(text, sizeof(text), &out.len, part));
    return out;
}

TEST (test_sign_then_verify) {
    unsigned char mem[8192];
    char token[2048];
    pj_arena_t arena;
    pj_jws_header_t header;
    pj_jws_t jws;
    size_t len;

    assert_ok(
        pj_jws_sign(key, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(signature_error(&jws, key));

    pj_arena_init(&arena, mem, sizeof(mem));
    assert_str(decoded(jws.header),
               "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k\"}");
    assert_str(decoded(jws.payload), PAYLOAD);
    assert_ok(pj_jws_header(&arena, &jws, false, &header));
    assert_str(header.kid, "k");
}

TEST (test_sign_respects_capacity) {
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX / 4 * 3 + 3};
    pj_str_t payload = str(PAYLOAD);
    char token[2048], *exact;
    size_t need, len;

    assert_ok(
        pj_jws_sign(key, PJ_TYP_REFRESH, payload, token, sizeof(token), &need));
    for (size_t cap = 0; cap < need; cap++) {
        exact = xmalloc(cap);
        assert_err(pj_jws_sign(key, PJ_TYP_REFRESH, payload, exact, cap, &len),
                   PJ_ERR_NO_SPACE);
        free(exact);
    }
    exact = xmalloc(need);
    assert_ok(pj_jws_sign(key, PJ_TYP_REFRESH, payload, exact, need, &len));
    ck_assert_uint_eq(len, need);
    ck_assert_mem_eq(exact, token, need);
    free(exact);
    /* The length of the second wraps to 0. */
    for (size_t i = 0; i < 2; i++)
        assert_err(pj_jws_sign(key, PJ_TYP_JWT,
                               (pj_str_t){payload.data, huge[i]}, token,
                               sizeof(token), &len),
                   PJ_ERR_NO_SPACE);
}

/* Only the issuer itself takes it. */
TEST (test_what_the_issuer_itself_takes) {
    char token[2048];
    pj_jws_header_t header;
    pj_arena_t arena;
    unsigned char mem[16384];
    pj_jws_t jws;
    size_t len;

    assert_ok(pj_jws_sign(key, PJ_TYP_REFRESH, str(PAYLOAD), token,
                          sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(signature_error(&jws, key));
    pj_arena_init(&arena, mem, sizeof(mem));
    assert_str(decoded(jws.header),
               "{\"alg\":\"RS256\",\"typ\":\"refresh+jwt\",\"kid\":\"k\"}");
    assert_err(pj_jws_header(&arena, &jws, false, &header), PJ_ERR_TOKEN_TYP);
    assert_ok(pj_jws_header(&arena, &jws, true, &header));
    ck_assert(header.refresh);
    assert_str(header.kid, "k");

    /* An assertion is taken by nobody. */
    assert_ok(pj_jws_sign(key, PJ_TYP_ASSERTION, str(PAYLOAD), token,
                          sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(signature_error(&jws, key));
    for (int own = 0; own < 2; own++)
        assert_err(pj_jws_header(&arena, &jws, own, &header), PJ_ERR_TOKEN_TYP);

    assert_ok(
        pj_jws_sign(key, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(pj_jws_header(&arena, &jws, true, &header));
    ck_assert(!header.refresh);
    assert_ok(pj_jws_header(&arena, &jws, false, &header));
    ck_assert(!header.refresh);

    /* {"alg":"RS256"}: its own tokens all have a kid. */
    assert_ok(pj_jws_split(PJ_STR("eyJhbGciOiJSUzI1NiJ9.e30.AA"), 99, &jws));
    assert_ok(pj_jws_header(&arena, &jws, false, &header));
    ck_assert_uint_eq(header.kid.len, 0);
    assert_err(pj_jws_header(&arena, &jws, true, &header), PJ_ERR_TOKEN_KID);
}

TEST (test_kid_with_quotes_survives_signing) {
    pj_key_t *odd = key_private("other.pem", "a\"b\\c\n\xc3\xa9");
    unsigned char mem[8192];
    char token[2048];
    pj_arena_t arena;
    pj_jws_header_t header;
    pj_jws_t jws;
    size_t len;

    pj_arena_init(&arena, mem, sizeof(mem));
    assert_ok(
        pj_jws_sign(odd, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(pj_jws_header(&arena, &jws, false, &header));
    ck_assert(pj_str_eq(header.kid, pj_key_id(odd)));
    pj_key_free(odd);
}

TEST (test_signing_needs_a_private_key) {
    pj_str_t pem = file_read("rfc7515_a2.pub.pem");
    char token[2048];
    pj_key_t *public_key;
    pj_jws_t jws;
    size_t len;

    assert_ok(pj_key_public(&public_key, pem, PJ_STR("k")));
    assert_err(pj_jws_sign(public_key, PJ_TYP_JWT, str(PAYLOAD), token,
                           sizeof(token), &len),
               PJ_ERR_ARGUMENT);
    assert_ok(
        pj_jws_sign(key, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token), &len));
    assert_ok(pj_jws_split(bytes(token, len), len, &jws));
    assert_ok(signature_error(&jws, public_key));
    pj_key_free(public_key);
    str_free(pem);
}

TEST (test_a_copy_of_a_key_stands_alone) {
    pj_key_t *first = key_private("rfc7515_a2.pem", "first"), *copy, *again;
    char one[2048], two[2048];
    size_t len_one, len_two;
    pj_jws_t jws;

    assert_ok(pj_jws_sign(first, PJ_TYP_JWT, str(PAYLOAD), one, sizeof(one),
                          &len_one));
    assert_ok(pj_key_copy(&copy, first));
    pj_key_free(first);
    assert_str(pj_key_id(copy), "first");
    assert_ok(pj_jws_sign(copy, PJ_TYP_JWT, str(PAYLOAD), two, sizeof(two),
                          &len_two));
    ck_assert_uint_eq(len_one, len_two);
    ck_assert_mem_eq(one, two, len_one);
    assert_ok(pj_jws_split(bytes(one, len_one), len_one, &jws));
    assert_ok(signature_error(&jws, copy));
    assert_ok(pj_key_copy(&again, copy));
    pj_key_free(copy);
    assert_ok(signature_error(&jws, again));
    pj_key_free(again);
}

/* A copy works with the same memory each time: nothing of one use, be it a
 * failed one, may show in the next. */
TEST (test_a_copy_is_used_again_and_again) {
    static const char *const payloads[] = {"{}", PAYLOAD, "{\"a\":1}", "x"};
    char one[2048], two[2048], small[8];
    size_t len_one, len_two;
    pj_key_t *copy;
    pj_jws_t jws;

    assert_ok(pj_key_copy(&copy, key));
    for (size_t i = 0; i < 40; i++) {
        pj_str_t payload = str(payloads[i % 4]);

        assert_err(pj_jws_sign(copy, PJ_TYP_JWT, payload, small, sizeof(small),
                               &len_two),
                   PJ_ERR_NO_SPACE);
        assert_ok(
            pj_jws_sign(key, PJ_TYP_JWT, payload, one, sizeof(one), &len_one));
        assert_ok(
            pj_jws_sign(copy, PJ_TYP_JWT, payload, two, sizeof(two), &len_two));
        ck_assert_uint_eq(len_one, len_two);
        ck_assert_mem_eq(one, two, len_one);
        assert_ok(pj_jws_split(bytes(two, len_two), len_two, &jws));
        assert_ok(signature_error(&jws, copy));
        assert_ok(signature_error(&jws, key));
        two[len_two - 20] = two[len_two - 20] == 'A' ? 'B' : 'A';
        assert_err(signature_error(&jws, copy), PJ_ERR_TOKEN_SIGNATURE);
    }
    pj_key_free(copy);
}

TEST (test_a_copy_of_a_public_key_does_not_sign) {
    pj_str_t pem = file_read("rfc7515_a2.pub.pem");
    pj_key_t *public_key, *copy;
    char token[2048];
    size_t len;

    assert_ok(pj_key_public(&public_key, pem, PJ_STR("k")));
    assert_ok(pj_key_copy(&copy, public_key));
    assert_err(
        pj_jws_sign(copy, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token), &len),
        PJ_ERR_ARGUMENT);
    assert_ok(pj_key_match(copy, key));
    pj_key_free(copy);
    pj_key_free(public_key);
    str_free(pem);
}

#define ROUNDS 60

static void *sign_and_verify(void *unused)
{
    char token[2048];
    size_t failures = 0, len;
    pj_jws_t jws;

    for (int i = 0; i < ROUNDS; i++) {
        if (pj_jws_sign(key, PJ_TYP_JWT, str(PAYLOAD), token, sizeof(token),
                        &len) != PJ_OK ||
            pj_jws_split(bytes(token, len), len, &jws) != PJ_OK ||
            signature_error(&jws, key) != PJ_OK ||
            signature_error(&jws, other) != PJ_ERR_TOKEN_SIGNATURE)
            failures++;
    }
    (void) unused;
    return (void *) (uintptr_t) (failures + ERR_peek_error());
}

TEST (test_threads_share_a_key) {
    static const char *const algs[] = {"RS256", "ES256", "EdDSA"};
    pthread_t threads[8];

    for (size_t a = 0; a < COUNT(algs); a++) {
        pj_key_free(key);
        assert_ok(
            pj_key_generate(&key, pj_alg_find(str(algs[a])), PJ_STR("k")));
        for (size_t i = 0; i < COUNT(threads); i++)
            ck_assert_int_eq(
                pthread_create(&threads[i], NULL, sign_and_verify, NULL), 0);
        for (size_t i = 0; i < COUNT(threads); i++) {
            void *failures;

            pthread_join(threads[i], &failures);
            ck_assert_ptr_null(failures);
        }
    }
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("jws_sign", fill);
}
