/* JWK and key sets: emitting, thumbprint, and which entries are usable. */

#include "helpers.h"

#include <stdarg.h>

#define E_F4 "AQAB"

/* base64url of the number 2^(bits-1) + 1: nobody asks whether it has factors;
 * zeros octets are put before it.  The caller frees it. */
static char *modulus(size_t bits, size_t zeros)
{
    size_t len = (bits + 7) / 8 + zeros;
    unsigned char *n = calloc(1, len);
    char *out;

    ck_assert_ptr_nonnull(n);
    n[zeros] = (unsigned char) (1u << (bits - 1) % 8);
    n[len - 1] |= 1;
    out = b64(bytes(n, len));
    free(n);
    return out;
}

/* The reason why an entry with these members (and n and e, if given) is
 * ignored. */
static pj_err_t entry_full(const char *members, const char *n, const char *e)
{
    static char json[16384];
    pj_keyset_t set = {.count = 0};
    pj_err_t err;

    snprintf(json, sizeof(json),
             "{\"keys\":[{\"kty\":\"oct\"},{%s%s%s%s%s%s%s}]}", members,
             n != NULL ? ",\"n\":\"" : "", n != NULL ? n : "",
             n != NULL ? "\"" : "", e != NULL ? ",\"e\":\"" : "",
             e != NULL ? e : "", e != NULL ? "\"" : "");
    err = set_parse(&set, str(json));
    if (err == PJ_OK) {
        ck_assert_uint_eq(set.count, 1);
        ck_assert_uint_eq(set.ignored, 1);
        pj_keyset_clear(&set);
        return PJ_OK;
    }
    if (err != PJ_ERR_KEYSET_EMPTY)
        return err;
    ck_assert_uint_eq(set.count, 0);

    /* Beside a good key it is only passed over: ask for the reason there. */
    {
        char *good = modulus(2048, 0);
        static char both[20000];

        snprintf(both, sizeof(both),
                 "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"good\",\"n\":\"%s\","
                 "\"e\":\"AQAB\"},%s",
                 good, strstr(json, "},{") + 2);
        free(good);
        assert_ok(set_parse(&set, str(both)));
    }
    ck_assert_uint_eq(set.count, 1);
    ck_assert_uint_eq(set.ignored, 1);
    err = set.last_ignored;
    pj_keyset_clear(&set);
    return err;
}

static pj_err_t entry(const char *members)
{
    char *n = modulus(2048, 0);
    pj_err_t err = entry_full(members, n, E_F4);

    free(n);
    return err;
}

static pj_err_t entry_bits(size_t bits, size_t zeros, const char *e)
{
    char *n = modulus(bits, zeros);
    pj_err_t err = entry_full("\"kty\":\"RSA\",\"kid\":\"x\"", n, e);

    free(n);
    return err;
}

TEST (test_rfc7638_thumbprint) {
    pj_str_t json = file_read("rfc7638_3_1.jwks");
    pj_keyset_t set = {.count = 0};
    char out[PJ_THUMBPRINT_CHARS];

    assert_ok(set_parse(&set, json));
    ck_assert_uint_eq(set.count, 1);
    assert_str(pj_key_id(set.keys[0]), "2011-04-29");
    assert_ok(pj_key_thumbprint(set.keys[0], out));
    assert_str(bytes(out, sizeof(out)),
               "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    pj_keyset_clear(&set);
    str_free(json);
}

TEST (test_thumbprint_of_the_largest_key) {
    char *n = modulus(PJ_RSA_MAX_BITS, 0), json[2048];
    char out[PJ_THUMBPRINT_CHARS];
    pj_keyset_t set = {.count = 0};

    snprintf(json, sizeof(json),
             "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"x\",\"n\":\"%s\","
             "\"e\":\"_____w\"}]}",
             n);
    assert_ok(set_parse(&set, str(json)));
    assert_ok(pj_key_thumbprint(set.keys[0], out));
    pj_keyset_clear(&set);
    free(n);
}

TEST (test_emit_and_parse_back) {
    pj_key_t *a = key_private("rfc7515_a2.pem", "a \"quoted\" \\ \n\xc3\xa9");
    pj_key_t *b = key_private("other.pem", "b");
    const pj_key_t *keys[] = {a, b};
    pj_keyset_t set = {.count = 0};
    char json[4096], one[2048];
    size_t len, one_len;

    assert_ok(pj_jwks_emit(keys, 2, json, sizeof(json), &len));
    assert_ok(set_parse(&set, bytes(json, len)));
    ck_assert_uint_eq(set.count, 2);
    ck_assert_uint_eq(set.ignored, 0);
    assert_err(set.last_ignored, PJ_OK);
    assert_ok(pj_key_match(a, pj_keyset_find(&set, pj_key_id(a))));
    assert_ok(pj_key_match(b, pj_keyset_find(&set, PJ_STR("b"))));
    ck_assert_ptr_null(pj_keyset_find(&set, PJ_STR("B")));
    ck_assert_ptr_null(pj_keyset_find(&set, PJ_STR("")));

    assert_ok(jwk_emit(b, one, sizeof(one), &one_len));
    ck_assert_mem_eq(one, "{\"e\":\"AQAB\",\"kty\":\"RSA\",\"n\":\"", 29);
    ck_assert_mem_eq(one + one_len - 38,
                     "\",\"use\":\"sig\",\"alg\":\"RS256\",\"kid\":\"b\"}", 38);
    pj_keyset_clear(&set);
    pj_key_free(a);
    pj_key_free(b);
}

/* Private members must never appear in what is published. */
TEST (test_emit_of_a_private_key_is_public) {
    pj_key_t *key = key_private("rfc7515_a2.pem", "k");
    unsigned char mem[8192];
    pj_arena_t arena;
    const pj_json_t *root;
    char json[2048];
    size_t len;

    pj_arena_init(&arena, mem, sizeof(mem));
    assert_ok(jwk_emit(key, json, sizeof(json), &len));
    assert_ok(pj_json_parse(&arena, bytes(json, len), &root));
    ck_assert_uint_eq(root->count, 6);
    ck_assert_ptr_null(pj_json_member(root, "d"));
    ck_assert_ptr_null(pj_json_member(root, "p"));
    pj_key_free(key);
}

TEST (test_emit_respects_capacity) {
    pj_key_t *key = key_private("rfc7515_a2.pem", "k\n");
    const pj_key_t *keys[] = {key};
    char json[1024];
    size_t len, full;

    assert_ok(pj_jwks_emit(keys, 1, json, sizeof(json), &full));
    for (size_t cap = 0; cap <= full; cap++) {
        char *exact = xmalloc(cap);

        assert_err(pj_jwks_emit(keys, 1, exact, cap, &len),
                   cap < full ? PJ_ERR_NO_SPACE : PJ_OK);
        free(exact);
    }
    pj_key_free(key);
}

TEST (test_minimal_entry_is_usable) {
    assert_ok(entry("\"kty\":\"RSA\",\"kid\":\"x\""));
    assert_ok(entry("\"kty\":\"RSA\",\"kid\":\"x\",\"use\":\"jwt-svid\""));
    assert_ok(entry("\"kty\":\"RSA\",\"kid\":\"x\",\"use\":\"sig\","
                    "\"alg\":\"RS256\",\"key_ops\":[\"verify\"],"
                    "\"x5c\":[\"AAAA\"],\"x5t\":\"y\",\"ext\":true"));
}

TEST (test_entries_for_another_purpose_ignored) {
    static const char *const members[] = {
        "\"kid\":\"x\"",
        "\"kty\":\"EC\",\"kid\":\"x\"",
        "\"kty\":\"oct\",\"kid\":\"x\"",
        "\"kty\":\"rsa\",\"kid\":\"x\"",
        "\"kty\":1,\"kid\":\"x\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"use\":\"enc\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"use\":\"x509-svid\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"use\":null",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":\"PS512\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":\"ES256\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":\"RSA-OAEP\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":\"HS256\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":\"none\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"alg\":[\"RS256\"]",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"key_ops\":[]",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"key_ops\":[\"sign\"]",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"key_ops\":\"verify\"",
        "\"kty\":\"RSA\",\"kid\":\"x\",\"key_ops\":[\"verify\",1]",
    };

    for (size_t i = 0; i < COUNT(members); i++)
        ck_assert_msg(entry(members[i]) == PJ_ERR_KEY_UNUSABLE, "%s: %s",
                      members[i], pj_errname(entry(members[i])));
}

TEST (test_kid_missing_wrong_or_too_long_ignored) {
    char text[400], kid[PJ_KID_MAX_BYTES + 2];

    memset(kid, 'k', sizeof(kid));
    kid[PJ_KID_MAX_BYTES] = 0;
    snprintf(text, sizeof(text), "\"kty\":\"RSA\",\"kid\":\"%s\"", kid);
    assert_ok(entry(text));
    snprintf(text, sizeof(text), "\"kty\":\"RSA\",\"kid\":\"%sk\"", kid);
    assert_err(entry(text), PJ_ERR_TOKEN_KID);
    assert_err(entry("\"kty\":\"RSA\""), PJ_ERR_TOKEN_KID);
    assert_err(entry("\"kty\":\"RSA\",\"kid\":\"\""), PJ_ERR_TOKEN_KID);
    assert_err(entry("\"kty\":\"RSA\",\"kid\":7"), PJ_ERR_TOKEN_KID);
}

/* Keys of three types, one each, and one more of RSA: as PEM and, without a
 * kid, as an entry of a set. */
static char pem[4][1024], unnamed[4][1024], named[4][1024];

static void fill_keys(void)
{
    static const char *const algs[] = {"RS256", "ES256", "EdDSA", "RS256"};

    for (size_t i = 0; i < COUNT(algs); i++) {
        pj_key_t *key;
        size_t len;
        char *kid;

        assert_ok(
            pj_key_generate(&key, pj_alg_find(str(algs[i])), PJ_STR("id")));
        assert_ok(pj_key_pem(key, false, pem[i], sizeof(pem[i]) - 1, &len));
        pem[i][len] = 0;
        assert_ok(jwk_emit(key, named[i], sizeof(named[i]) - 1, &len));
        named[i][len] = 0;
        memcpy(unnamed[i], named[i], sizeof(named[i]));
        kid = strstr(unnamed[i], ",\"kid\":");
        ck_assert_ptr_nonnull(kid);
        memcpy(kid, "}", 2);
        pj_key_free(key);
    }
}

/* Parses the document as a file; returns the number of keys, or a negative
 * error. */
static int of_file(pj_keyset_t *set, const char *format, ...)
{
    static char text[8192];
    va_list args;
    pj_err_t err;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    err = set_parse_by(pj_keyset_parse_file, set, str(text));
    ck_assert((err == PJ_OK) == (set->count > 0));
    return err == PJ_OK ? (int) set->count : -(int) err;
}

/* Returns the index of the key for this alg and kid, or -1. */
static int chosen(const pj_keyset_t *set, const char *alg, const char *kid)
{
    const pj_key_t *key =
        pj_keyset_choose(set, pj_alg_find(str(alg)), str(kid));
    int i = -1;

    while (key != NULL && set->keys[++i] != key) {
    }
    return i;
}

TEST (test_a_file_may_have_keys_without_ids) {
    const char *a = unnamed[0], *e = unnamed[1], *again = unnamed[3];
    pj_keyset_t set = {.count = 0};

    fill_keys();
    ck_assert_int_eq(of_file(&set, "{\"keys\":[%s,%s]}", a, e), 2);
    ck_assert_int_eq(chosen(&set, "RS256", ""), 0);
    ck_assert_int_eq(chosen(&set, "ES256", ""), 1);
    ck_assert_int_eq(chosen(&set, "ES256", "any"), 1);
    ck_assert_int_eq(chosen(&set, "EdDSA", ""), -1);
    pj_keyset_clear(&set);

    ck_assert_int_eq(of_file(&set, "{\"keys\":[%s,%s]}", a, again), 2);
    ck_assert_int_eq(chosen(&set, "RS256", ""), -1);
    ck_assert_int_eq(chosen(&set, "RS256", "any"), -1);
    ck_assert_int_eq(of_file(&set, "{\"keys\":[%s,%s]}", a, named[3]), 2);
    ck_assert_int_eq(chosen(&set, "RS256", ""), -1);
    ck_assert_int_eq(chosen(&set, "RS256", "any"), -1);
    ck_assert_int_eq(chosen(&set, "RS256", "id"), 1);

    ck_assert_int_eq(of_file(&set, "{\"keys\":[%s]}", named[0]), 1);
    ck_assert_int_eq(chosen(&set, "RS256", "id"), 0);
    ck_assert_int_eq(chosen(&set, "RS256", ""), 0);
    ck_assert_int_eq(chosen(&set, "RS256", "any"), -1);

    /* An invalid kid does not count as missing. */
    ck_assert_int_eq(of_file(&set, "{\"keys\":[%.*s,\"kid\":\"\"}]}",
                             (int) strlen(a) - 1, a),
                     -PJ_ERR_KEYSET_EMPTY);
}

TEST (test_a_set_that_is_fetched_may_not) {
    pj_keyset_t set = {.count = 0};
    char json[4096];

    fill_keys();
    ck_assert_int_eq(of_file(&set, "%s", pem[0]), 1); /* leaves nothing */
    snprintf(json, sizeof(json), "{\"keys\":[%s]}", named[0]);
    assert_ok(set_parse(&set, str(json)));
    ck_assert_int_eq(chosen(&set, "RS256", "id"), 0);
    ck_assert_int_eq(chosen(&set, "RS256", ""), -1);
    snprintf(json, sizeof(json), "{\"keys\":[%s,%s]}", unnamed[0], named[1]);
    assert_ok(set_parse(&set, str(json)));
    ck_assert_uint_eq(set.count, 1);
    assert_err(set.last_ignored, PJ_ERR_TOKEN_KID);
    pj_keyset_clear(&set);
    assert_err(set_parse(&set, str(pem[0])), PJ_ERR_JSON_SYNTAX);
}

TEST (test_a_file_of_pem) {
    const char *a = pem[0], *e = pem[1], *ed = pem[2];
    pj_str_t private = file_read("rfc7515_a2.pem");
    pj_keyset_t set = {.count = 0};

    fill_keys();
    ck_assert_int_eq(of_file(&set, "%s", a), 1);
    ck_assert_int_eq(of_file(&set, " \n%s\r\n %s%s\n", a, e, ed), 3);
    ck_assert_int_eq(chosen(&set, "EdDSA", ""), 2);
    ck_assert_int_eq(chosen(&set, "RS256", "any"), 0);
    ck_assert_uint_eq(pj_key_id(set.keys[0]).len, 0);

    ck_assert_int_eq(of_file(&set, "%s%s", a, pem[3]), -PJ_ERR_TOKEN_KID);
    ck_assert_int_eq(of_file(&set, "%s%s%s", a, e, a), -PJ_ERR_TOKEN_KID);
    ck_assert_int_eq(of_file(&set, "%sx", a), -PJ_ERR_KEY_FORMAT);
    ck_assert_int_eq(of_file(&set, "%sx\n%s", a, e), -PJ_ERR_KEY_FORMAT);
    ck_assert_int_eq(of_file(&set, "x%s", a), -PJ_ERR_JSON_SYNTAX);
    ck_assert_int_eq(of_file(&set, "-"), -PJ_ERR_KEY_FORMAT);
    ck_assert_int_eq(of_file(&set, " \n"), -PJ_ERR_JSON_SYNTAX);
    ck_assert_int_eq(
        of_file(&set, "%.*s", (int) private.len, (const char *) private.data),
        -PJ_ERR_KEY_FORMAT);
    ck_assert_int_eq(of_file(&set, "%s%.*s", e, (int) private.len,
                             (const char *) private.data),
                     -PJ_ERR_KEY_FORMAT);
    str_free(private);
}

TEST (test_weak_and_oversize_moduli_ignored) {
    assert_ok(entry_bits(2048, 0, E_F4));
    assert_ok(entry_bits(8192, 0, E_F4));
    assert_err(entry_bits(512, 0, E_F4), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(1024, 0, E_F4), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(2047, 0, E_F4), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(8193, 0, E_F4), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(16384, 0, E_F4), PJ_ERR_KEY_WEAK);
}

TEST (test_weak_exponents_ignored) {
    assert_ok(entry_bits(2048, 0, "Aw"));                   /* 3 */
    assert_err(entry_bits(2048, 0, "AQ"), PJ_ERR_KEY_WEAK); /* 1 */
    assert_err(entry_bits(2048, 0, "Ag"), PJ_ERR_KEY_WEAK); /* 2 */
    assert_err(entry_bits(2048, 0, "AQAA"), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(2048, 0, "AQAAAAE"), PJ_ERR_KEY_WEAK);
    assert_err(entry_bits(2048, 0, "AA"), PJ_ERR_KEY_FORMAT); /* 0 */
}

/* One number, one spelling: nothing may look like another key. */
TEST (test_numbers_in_other_spellings_ignored) {
    char *n = modulus(2048, 0), padded[512];
    const char *rsa = "\"kty\":\"RSA\",\"kid\":\"x\"";

    assert_ok(entry_full(rsa, n, E_F4));
    assert_err(entry_bits(2048, 1, E_F4), PJ_ERR_KEY_FORMAT);
    assert_err(entry_bits(1024, 128, E_F4), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, n, "AAEAAQ"), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, n, "AQAB=="), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, n, "AQ AB"), PJ_ERR_KEY_FORMAT);
    snprintf(padded, sizeof(padded), "%s==", n);
    assert_err(entry_full(rsa, padded, E_F4), PJ_ERR_KEY_FORMAT);
    /* 256 bytes leave four unused bits in the last character. */
    snprintf(padded, sizeof(padded), "%s", n);
    padded[strlen(padded) - 1]++;
    assert_err(entry_full(rsa, padded, E_F4), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, "", E_F4), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, NULL, E_F4), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full(rsa, n, NULL), PJ_ERR_KEY_FORMAT);
    assert_err(entry_full("\"kty\":\"RSA\",\"kid\":\"x\",\"n\":5", NULL, E_F4),
               PJ_ERR_KEY_FORMAT);
    free(n);
}

/* d and the primes are not even looked at: nonsense in them does no harm,
 * and the key that comes of it cannot sign. */
TEST (test_private_members_in_a_set_not_read) {
    char *n = modulus(2048, 0), json[2048], out[4096];
    pj_keyset_t set = {.count = 0};
    size_t len;

    snprintf(json, sizeof(json),
             "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"x\",\"n\":\"%s\","
             "\"e\":\"AQAB\",\"d\":\"!!\",\"p\":7,\"q\":null}]}",
             n);
    assert_ok(set_parse(&set, str(json)));
    ck_assert_uint_eq(set.count, 1);
    assert_err(pj_jws_sign(set.keys[0], PJ_TYP_JWT, PJ_STR("{}"), out,
                           sizeof(out), &len),
               PJ_ERR_ARGUMENT);
    pj_keyset_clear(&set);
    free(n);
}

TEST (test_repeated_kid_keeps_the_first) {
    pj_key_t *a = key_private("rfc7515_a2.pem", "same");
    pj_key_t *b = key_private("other.pem", "same");
    const pj_key_t *keys[] = {a, b, a};
    pj_keyset_t set = {.count = 0};
    char json[4096];
    size_t len;

    assert_ok(pj_jwks_emit(keys, 3, json, sizeof(json), &len));
    assert_ok(set_parse(&set, bytes(json, len)));
    ck_assert_uint_eq(set.count, 1);
    ck_assert_uint_eq(set.ignored, 2);
    assert_err(set.last_ignored, PJ_ERR_JSON_DUPLICATE);
    assert_ok(pj_key_match(set.keys[0], a));
    pj_keyset_clear(&set);
    pj_key_free(a);
    pj_key_free(b);
}

TEST (test_documents_that_are_no_set) {
    pj_keyset_t set = {.count = 0};

    assert_err(set_parse(&set, PJ_STR("{\"keys\":[]}")), PJ_ERR_KEYSET_EMPTY);
    assert_err(set_parse(&set, PJ_STR("{\"keys\":[{},1,\"x\",[]]}")),
               PJ_ERR_KEYSET_EMPTY);
    assert_err(set_parse(&set, PJ_STR("{\"keys\":{}}")), PJ_ERR_JSON_TYPE);
    assert_err(set_parse(&set, PJ_STR("{}")), PJ_ERR_JSON_TYPE);
    assert_err(set_parse(&set, PJ_STR("[]")), PJ_ERR_JSON_TYPE);
    assert_err(set_parse(&set, PJ_STR("")), PJ_ERR_JSON_SYNTAX);
    assert_err(set_parse(&set, PJ_STR("<html>")), PJ_ERR_JSON_SYNTAX);
    assert_err(set_parse(&set, PJ_STR("{\"keys\":[],\"keys\":[]}")),
               PJ_ERR_JSON_DUPLICATE);
    assert_err(set_parse(&set, PJ_STR("{\"keys\":[{\"kid\":\"a\\u0000\"}]}")),
               PJ_ERR_JSON_NUL);
    assert_err(
        set_parse(&set, PJ_STR("{\"keys\":[{\"kid\":\"a\",\"kid\":\"b\"}]}")),
        PJ_ERR_JSON_DUPLICATE);
}

/* The good set is filled up with blanks to the limit, then past it. */
TEST (test_oversize_document_refused) {
    pj_str_t json = file_read("rfc7638_3_1.jwks");
    unsigned char *big = xmalloc(PJ_KEYSET_MAX_BYTES + 1);
    pj_keyset_t set = {.count = 0};

    memset(big, ' ', PJ_KEYSET_MAX_BYTES + 1);
    memcpy(big, json.data, json.len);
    assert_ok(set_parse(&set, bytes(big, PJ_KEYSET_MAX_BYTES)));
    assert_err(set_parse(&set, bytes(big, PJ_KEYSET_MAX_BYTES + 1)),
               PJ_ERR_TOKEN_SIZE);
    ck_assert_uint_eq(set.count, 0); /* the old keys are freed */
    free(big);
    str_free(json);
}

TEST (test_full_document_keeps_128_keys) {
    char *n = modulus(2048, 0), *json = xmalloc(PJ_KEYSET_MAX_BYTES);
    size_t len = 0, entries = 140;
    pj_keyset_t set = {.count = 0};

    for (size_t i = 0; i < entries; i++)
        len += (size_t) snprintf(
            json + len, PJ_KEYSET_MAX_BYTES - len,
            "%s{\"kty\":\"RSA\",\"use\":\"sig\",\"alg\":\"RS256\","
            "\"kid\":\"%zu\",\"n\":\"%s\",\"e\":\"AQAB\"}",
            i == 0 ? "{\"keys\":[" : ",", i, n);
    len += (size_t) snprintf(json + len, PJ_KEYSET_MAX_BYTES - len, "]}");
    ck_assert_uint_gt(len, 57000);
    ck_assert_uint_lt(len, PJ_KEYSET_MAX_BYTES);
    assert_ok(set_parse(&set, bytes(json, len)));
    ck_assert_uint_eq(set.count, PJ_KEYSET_MAX_KEYS);
    ck_assert_uint_eq(set.ignored, entries - PJ_KEYSET_MAX_KEYS);
    assert_err(set.last_ignored, PJ_ERR_JSON_LIMIT);
    ck_assert_ptr_nonnull(pj_keyset_find(&set, PJ_STR("127")));
    ck_assert_ptr_null(pj_keyset_find(&set, PJ_STR("128")));
    pj_keyset_clear(&set);
    ck_assert_uint_eq(set.count, 0);
    pj_keyset_clear(&set);
    free(n);
    free(json);
}

int main(void)
{
    return run_case("jwk", fill_plain);
}
