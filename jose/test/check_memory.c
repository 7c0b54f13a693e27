/* The arena: exhaustion at every size is an error and nothing worse, and the
 * promised sizes suffice for the worst input. */

#include "helpers.h"

#include <stdalign.h>

#define PAYLOAD                                                                \
    "{\"iss\":\"i\\u00e9\",\"sub\":\"a\",\"account_id\":\"a\",\"jti\":\"j\","  \
    "\"session_id\":\"\\n\",\"iat\":1,\"exp\":2,\"token_type\":\"refresh\"}"

TEST (test_arena_alignment_and_bounds) {
    unsigned char mem[256];
    pj_arena_t arena;
    unsigned char *a, *b;

    pj_arena_init(&arena, mem + 1, 200);
    a = pj_arena_alloc(&arena, 1);
    b = pj_arena_alloc(&arena, 1);
    ck_assert_uint_eq((uintptr_t) a % alignof(max_align_t), 0);
    ck_assert_uint_eq((uintptr_t) b % alignof(max_align_t), 0);
    ck_assert(b > a);
    ck_assert_ptr_null(pj_arena_alloc(&arena, 200));
    ck_assert_ptr_null(pj_arena_alloc(&arena, SIZE_MAX));
    ck_assert_ptr_null(pj_arena_alloc(&arena, SIZE_MAX - 7));
    ck_assert_ptr_nonnull(pj_arena_alloc(&arena, 16));

    pj_arena_init(&arena, NULL, 0);
    ck_assert_ptr_null(pj_arena_alloc(&arena, 0));
    ck_assert_ptr_null(pj_arena_alloc(&arena, 1));
}

static pj_err_t token_in(size_t size, pj_str_t token, const pj_key_t *key)
{
    void *mem = malloc(size); /* exact, so that a sanitizer sees it all */
    pj_jws_header_t header;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_jws_t jws;
    pj_err_t err = pj_jws_split(token, token.len, &jws);

    pj_arena_init(&arena, mem, size);
    if (err == PJ_OK)
        err = pj_jws_header(&arena, &jws, false, &header);
    if (err == PJ_OK && key != NULL)
        err = pj_jws_verify(&jws, key);
    if (err == PJ_OK)
        err = pj_claims_parse(&arena, &jws, &claims);
    if (err == PJ_OK)
        assert_str(claims.iss, "i\xc3\xa9");
    free(mem);
    return err;
}

TEST (test_token_in_every_arena_size) {
    pj_key_t *key = key_private("rfc7515_a2.pem", "k");
    char buf[2048];
    size_t len, size, enough;
    pj_str_t token;

    assert_ok(
        pj_jws_sign(key, PJ_TYP_JWT, str(PAYLOAD), buf, sizeof(buf), &len));
    token = bytes(buf, len);
    for (size = 0; token_in(size, token, NULL) == PJ_ERR_NO_SPACE; size++)
        ck_assert_uint_lt(size, pj_token_arena_bytes(len));
    enough = pj_token_arena_bytes(len);
    for (; size <= enough; size++)
        assert_ok(token_in(size, token, NULL));
    assert_ok(token_in(enough, token, key));
    pj_key_free(key);
}

static pj_err_t set_in(size_t size, pj_str_t json)
{
    void *mem = malloc(size);
    pj_keyset_t set = {.count = 0};
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = pj_keyset_parse(&set, &arena, json);
    ck_assert_uint_eq(set.count, err == PJ_OK ? 1 : 0);
    pj_keyset_clear(&set);
    free(mem);
    return err;
}

TEST (test_key_set_in_every_arena_size) {
    pj_str_t json = file_read("rfc7638_3_1.jwks");
    size_t size, enough = pj_keyset_arena_bytes(json.len);

    for (size = 0; set_in(size, json) == PJ_ERR_NO_SPACE; size++)
        ck_assert_uint_lt(size, enough);
    for (; size < enough; size += 251)
        assert_ok(set_in(size, json));
    assert_ok(set_in(enough, json));
    str_free(json);
}

/* OpenSSL gets no memory for its allocation of that number. */
static int refused;

static void *refusing_malloc(size_t len, const char *file, int line)
{
    (void) file, (void) line;
    return refused > 0 && --refused == 0 ? NULL : malloc(len);
}

static void *refusing_realloc(void *mem, size_t len, const char *file, int line)
{
    (void) file, (void) line;
    return refused > 0 && --refused == 0 ? NULL : realloc(mem, len);
}

static void plain_free(void *mem, const char *file, int line)
{
    (void) file, (void) line;
    free(mem);
}

/* A key that fails for lack of memory must not be ignored. */
TEST (test_key_set_without_memory_is_an_error) {
    char json[16384], *mem = xmalloc(65536);
    pj_str_t one = file_read("rfc7638_3_1.jwks");
    pj_keyset_t set = {0};
    int failures = 0;
    bool reached = true;
    const char *key = (const char *) one.data + strlen("{\"keys\":[");
    int len = (int) strcspn(key, "]");

    /* Lets OpenSSL allocate its global state first. */
    assert_ok(set_in(65536, one));
    snprintf(json, sizeof(json), "{\"keys\":[%.*s,%.*s]}", len, key, len, key);
    for (int n = 1; reached; n++) {
        pj_arena_t arena;
        pj_err_t err;

        pj_arena_init(&arena, mem, 65536);
        ERR_set_mark();
        refused = n;
        err = pj_keyset_parse(&set, &arena, str(json));
        reached = refused == 0;
        refused = 0;
        ERR_pop_to_mark();
        failures += err == PJ_ERR_CRYPTO;
        ck_assert(err != PJ_OK || set.last_ignored != PJ_ERR_CRYPTO);
        pj_keyset_clear(&set);
    }
    ck_assert_int_gt(failures, 0);
    str_free(one);
    free(mem);
}

TEST (test_null_arena_is_no_space) {
    pj_str_t json = file_read("rfc7638_3_1.jwks");
    pj_keyset_t set = {.count = 0};
    pj_arena_t arena;

    pj_arena_init(&arena, NULL, 0);
    assert_err(pj_keyset_parse(&set, &arena, json), PJ_ERR_NO_SPACE);
    str_free(json);
}

/* before, then as many units as fit, then after: len bytes or a few less. */
static pj_str_t filled(size_t len, const char *before, const char *unit,
                       const char *after)
{
    char *out = xmalloc(len + 1);
    size_t at = strlen(before), step = strlen(unit);

    if (at + strlen(after) > len) {
        memset(out, '1', len);
        return bytes(out, len);
    }
    memcpy(out, before, at);
    for (; at + step + strlen(after) <= len; at += step)
        memcpy(out + at, unit, step);
    memcpy(out + at, after, strlen(after));
    return bytes(out, at + strlen(after));
}

static pj_err_t parse_in_promised(pj_str_t text)
{
    size_t size = pj_json_arena_bytes(text.len, 1);
    unsigned char *mem = xmalloc(size + 1);
    const pj_json_t *root;
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem + 1, size); /* and badly aligned */
    err = pj_json_parse(&arena, text, &root);
    free(mem);
    return err;
}

/* Documents that make the most of their bytes, at many lengths. */
TEST (test_promised_arena_suffices) {
    static const struct {
        const char *before, *unit, *after;
    } shapes[] = {
        {"[0", ",0", "]"},
        {"[[]", ",[]", "]"},
        {"[\"\"", ",\"\"", "]"},
        {"[\"\\n\"", ",\"\\n\"", "]"},
        {"[{}", ",{}", "]"},
        {"{\"\":[0", ",0", "]}"},
        {"{\"\\n\":[{\"\\n\":\"\\n\"}", ",{\"\\n\":\"\\n\"}", "]}"},
        {"\"", "\\n", "\""},
        {"\"\\n", "x", "\""},
        {"\"", "x", "\""},
        {"\"\\n", "x", ""},
        {"", "1", ""},
        {"[", "1", ""},
        {"[", "[", ""},
        {"{\"a", "a", ""},
    };

    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t len = 1; len <= 70000; len += 1 + len / 7) {
            pj_str_t text =
                filled(len, shapes[i].before, shapes[i].unit, shapes[i].after);
            pj_err_t err = parse_in_promised(text);

            ck_assert_msg(err != PJ_ERR_NO_SPACE, "shape %zu, %zu bytes", i,
                          len);
            str_free(text);
        }
    }
}

/* Both parts of a token may be at their worst at once. */
TEST (test_promised_token_arena_suffices) {
    for (size_t half = 40; half <= 12000; half += half / 3) {
        pj_str_t h = filled(half, "{\"alg\":\"RS256\",\"kid\":\"k\",\"x\":[0",
                            ",0", "]}");
        pj_str_t p = filled(half, "{\"x\":[\"\\n\"", ",\"\\n\"", "]}");
        char *he = b64(h), *pe = b64(p);
        size_t size = pj_token_arena_bytes(strlen(he) + strlen(pe) + 3);
        void *mem = xmalloc(size);
        pj_jws_t jws = {.header = str(he), .payload = str(pe)};
        pj_jws_header_t header;
        pj_claims_t claims;
        pj_arena_t arena;

        pj_arena_init(&arena, mem, size);
        ck_assert_int_ne(pj_jws_header(&arena, &jws, false, &header),
                         PJ_ERR_NO_SPACE);
        ck_assert_int_ne(pj_claims_parse(&arena, &jws, &claims),
                         PJ_ERR_NO_SPACE);
        free(mem);
        free(he);
        free(pe);
        str_free(h);
        str_free(p);
    }
}

TEST (test_absurd_lengths_saturate) {
    ck_assert_uint_eq(pj_token_arena_bytes(SIZE_MAX), SIZE_MAX);
    ck_assert_uint_eq(pj_keyset_arena_bytes(SIZE_MAX), SIZE_MAX);
    ck_assert_uint_lt(pj_token_arena_bytes(16384), 420000);
    ck_assert_uint_lt(pj_keyset_arena_bytes(PJ_KEYSET_MAX_BYTES), 600000);
}

TEST (test_every_error_has_its_texts) {
    for (int i = 0; i < PJ_ERR_COUNT; i++) {
        const char *name = pj_errname((pj_err_t) i);
        const char *phrase = pj_strerror((pj_err_t) i);

        ck_assert_msg(name != NULL && phrase != NULL, "error %d", i);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                          strlen(name));
        ck_assert_uint_gt(strlen(phrase), 0);
        ck_assert_ptr_null(strpbrk(phrase, "\"\\."));
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(name, pj_errname((pj_err_t) j));
    }
    ck_assert_str_eq(pj_errname(PJ_ERR_COUNT), "unknown");
    ck_assert_str_eq(pj_errname((pj_err_t) -1), "unknown");
    ck_assert_str_eq(pj_errname(PJ_ERR_TOKEN_EXPIRED), "token_expired");
}

int main(void)
{
    if (!CRYPTO_set_mem_functions(refusing_malloc, refusing_realloc,
                                  plain_free))
        return 1;
    return run_case("memory", fill_plain);
}
