/*
 * Tests of known.c, most through token_verify(): a token that is known passes
 * and fails as it does on the long way, and says the same.
 */

#include "key_pair.h"
#include "token.h"

#include <stddef.h>

#define ACCOUNT "11111111-1111-4111-8111-111111111111"
#define SESSION "22222222-2222-4222-8222-22222222222b"
#define JTI "abcdef01-2345-4789-8abc-def012345678"
#define NOW 1800000000
#define ISSUER "http://issuer"

static struct pair mine, old;
static struct config cfg;
/* What verifies: both keys, or all but the additional one; and the signers. */
static struct keys *keys, *without_old, *old_keys;
static struct session session;
static char mem[32768];
static struct buf out;

/* One way to claims, and where it led. */
struct way {
    pj_err_t err;
    pj_claims_t claims;
    pj_arena_t arena;
    unsigned char mem[262144];
};

static struct way long_way, first_way, second_way;

static struct keys *load(const struct pair *pair, char *additional)
{
    struct config c = {.jwt_issuer = (char *) ISSUER,
                       .jwt_additional_public_keys = additional};
    struct keys *made;
    char err[256];

    pair_use(&c, pair);
    made = keys_load(&c, err, sizeof(err));
    ck_assert_msg(made != NULL, "%s", err);
    return made;
}

static void setup_once(void)
{
    pair_generate(&mine, "mine");
    pair_generate(&old, "old");
}

static void teardown_once(void)
{
    pair_free(&mine);
    pair_free(&old);
}

static void setup(void)
{
    char list[4096];

    snprintf(list, sizeof(list), "old=%s", old.public_text);
    keys = load(&mine, list);
    without_old = load(&mine, NULL);
    old_keys = load(&old, NULL);
    memset(&cfg, 0, sizeof(cfg));
    cfg.jwt_issuer = (char *) ISSUER;
    memset(&session, 0, sizeof(session));
    memcpy(session.account_id, ACCOUNT, sizeof(ACCOUNT));
    memcpy(session.session_id, SESSION, sizeof(SESSION));
    memcpy(session.account_type, "CUSTOMER", 9);
    buf_init(&out, mem, sizeof(mem));
}

static void teardown(void)
{
    keys_release(keys);
    keys_release(without_old);
    keys_release(old_keys);
}

/* -- tokens -- */

static pj_str_t token(void)
{
    return (pj_str_t){(const unsigned char *) out.data, out.len};
}

/* A refresh token that this process signs for later. */
static void sign_own(int64_t iat, int64_t exp)
{
    buf_init(&out, mem, sizeof(mem));
    ck_assert(token_issue_refresh(&cfg, keys->signing, &session, JTI, iat, exp,
                                  &out));
    token_known_refresh(&cfg, keys, &session, JTI, iat, exp, token());
}

static void sign_payload(const struct keys *signer, const char *payload)
{
    buf_init(&out, mem, sizeof(mem));
    ck_assert_int_eq(pj_jws_sign(signer->signing, PJ_TYP_JWT, str(payload),
                                 out.data, out.cap, &out.len),
                     PJ_OK);
}

/* What is known of the token in keys. */
static enum known_state state(void)
{
    static unsigned char arena_mem[256];
    struct known_name name;
    pj_claims_t claims;
    pj_arena_t arena;

    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    known_name(keys->known, token(), &name);
    return known_find(keys->known, &name, &arena, &claims);
}

/* Has keys take the token for one that was verified. */
static void pretend(void)
{
    struct known_name name;

    known_name(keys->known, token(), &name);
    known_add(keys->known, &name, NULL);
}

static void go(struct way *way, const struct keys *with, int64_t now_s,
               enum token_check check)
{
    pj_arena_init(&way->arena, way->mem, sizeof(way->mem));
    way->err = token_verify(&cfg, with, &way->arena, token(), now_s, check,
                            &way->claims);
}

static pj_err_t verify_at(int64_t now_s)
{
    go(&first_way, keys, now_s, TOKEN_CHECK_ALL);
    return first_way.err;
}

/* -- the two ways, field by field -- */

/* All of pj_claims_t but kind, iat, exp, nbf, branch_ids, roles and root. */
static const size_t texts[] = {offsetof(pj_claims_t, iss),
                               offsetof(pj_claims_t, sub),
                               offsetof(pj_claims_t, jti),
                               offsetof(pj_claims_t, account_id),
                               offsetof(pj_claims_t, session_id),
                               offsetof(pj_claims_t, account_type),
                               offsetof(pj_claims_t, token_type),
                               offsetof(pj_claims_t, token_scope),
                               offsetof(pj_claims_t, workspace_id),
                               offsetof(pj_claims_t, tenant_id),
                               offsetof(pj_claims_t, member_id),
                               offsetof(pj_claims_t, fault),
                               offsetof(pj_claims_t, active_branch_id)};

#define TEXTS (sizeof(texts) / sizeof(texts[0]))

/* Who adds a field to claims adds it here and to known.c too. */
_Static_assert(sizeof(pj_claims_t) == 4 * sizeof(int64_t) +
                                          TEXTS * sizeof(pj_str_t) +
                                          3 * sizeof(void *),
               "a field of pj_claims_t is not compared");

static void ck_same(const struct way *a, const struct way *b)
{
    ck_assert_int_eq(a->err, b->err);
    if (a->err != PJ_OK) {
        return;
    }
    ck_assert_int_eq(a->claims.kind, b->claims.kind);
    ck_assert_int_eq(a->claims.iat, b->claims.iat);
    ck_assert_int_eq(a->claims.exp, b->claims.exp);
    ck_assert_int_eq(a->claims.nbf, b->claims.nbf);
    for (size_t i = 0; i < TEXTS; i++) {
        const pj_str_t *x =
            (const void *) ((const char *) &a->claims + texts[i]);
        const pj_str_t *y =
            (const void *) ((const char *) &b->claims + texts[i]);

        ck_assert_uint_eq(x->len, y->len);
        ck_assert(x->len == 0 || memcmp(x->data, y->data, x->len) == 0);
    }
    ck_assert_int_eq(a->claims.branch_ids == NULL,
                     b->claims.branch_ids == NULL);
    ck_assert_int_eq(a->claims.roles == NULL, b->claims.roles == NULL);
}

/* Goes all ways at one time; root may be missing but must not be missed. */
static void ck_ways_at(int64_t now_s, enum token_check check)
{
    struct keys forgetful = *keys;

    forgetful.known = NULL;
    go(&long_way, &forgetful, now_s, check);
    go(&first_way, keys, now_s, check);
    go(&second_way, keys, now_s, check);
    ck_same(&long_way, &first_way);
    ck_same(&long_way, &second_way);
    if (second_way.err == PJ_OK && second_way.claims.root == NULL) {
        ck_assert_uint_eq(long_way.claims.root->count, 8);
        ck_assert_ptr_null(pj_json_member(long_way.claims.root, "nbf"));
        ck_assert_ptr_null(pj_json_member(long_way.claims.root, "aud"));
    }
}

static void ck_ways(void)
{
    static const int64_t times[] = {
        NOW,       NOW - 30,  NOW - 31, NOW + 599, NOW + 600,
        NOW + 629, NOW + 630, 1,        0,         INT64_MAX - 300};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        ck_ways_at(times[i], TOKEN_CHECK_ALL);
        ck_ways_at(times[i], TOKEN_CHECK_NOT_TIMES);
    }
    cfg.jwt_issuer = (char *) "http://other";
    ck_ways_at(NOW, TOKEN_CHECK_ALL);
    ck_ways_at(NOW, TOKEN_CHECK_NOT_TIMES);
    cfg.jwt_issuer = (char *) ISSUER;
}

#define IDS(account, sub, session, jti)                                       \
    "\"account_id\":\"" account "\",\"sub\":\"" sub                           \
    "\",\"session_id\":\"" session "\",\"jti\":\"" jti "\""
#define OURS IDS(ACCOUNT, ACCOUNT, SESSION, JTI)
#define REFRESH "\"token_type\":\"refresh\""
#define ISS "\"iss\":\"" ISSUER "\""
#define TIMES "\"iat\":1800000000,\"exp\":1800000600"

/* What a payload makes known once it was verified. */
static const struct {
    const char *payload;
    enum known_state state;
} payloads[] = {
    {"{" ISS "," TIMES "," OURS "," REFRESH "}", KNOWN_CLAIMS},
    /* odd, but the same claims */
    {" {" REFRESH ",\n" OURS ",\t" TIMES ", " ISS " } ", KNOWN_CLAIMS},
    {"{\"\\u0069ss\":\"http:\\/\\/issue\\u0072\"," TIMES "," OURS
     ",\"token_type\":\"\\u0072efresh\"}",
     KNOWN_CLAIMS},
    {"{" ISS "," TIMES ","
     "\"account_id\":\"\\u0031"
     "1111111-1111-4111-8111-111111111111\","
     "\"sub\":\"1111111\\u0031-1111-4111-8111-111111111111\","
     "\"session_id\":\"" SESSION "\",\"jti\":\"" JTI "\"," REFRESH "}",
     KNOWN_CLAIMS},
    {"{" ISS ",\"iat\":-9223372036854775808,\"exp\":9223372036854775807," OURS
     "," REFRESH "}",
     KNOWN_CLAIMS},
    {"{" ISS ",\"iat\":1.5,\"exp\":1800000600.5," OURS "," REFRESH "}",
     KNOWN_CLAIMS},
    {"{" ISS ",\"iat\":0,\"exp\":1," OURS "," REFRESH "}", KNOWN_CLAIMS},
    {"{" ISS ",\"iat\":1800000600,\"exp\":1800000000," OURS "," REFRESH "}",
     KNOWN_CLAIMS},
    {"{" ISS "," TIMES
     "," IDS("00000000-0000-0000-0000-000000000000",
             "00000000-0000-0000-0000-000000000000",
             "ffffffff-ffff-ffff-ffff-ffffffffffff",
             "00000000-0000-0000-0000-000000000000") "," REFRESH "}",
     KNOWN_CLAIMS},
    /* more or other than there is room for */
    {"{" ISS ",\"iat\":-1,\"exp\":0," OURS "," REFRESH "}", KNOWN_SIGNATURE},
    {"{" ISS ",\"iat\":-9,\"exp\":-1," OURS "," REFRESH "}", KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"nbf\":1800000300}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"nbf\":0}", KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"aud\":\"a\"}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"account_type\":\"STAFF\"}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"\":null}", KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," IDS("a", "a", SESSION, JTI) "," REFRESH "}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," IDS(ACCOUNT, ACCOUNT, "s", JTI) "," REFRESH "}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES
     "," IDS(ACCOUNT, ACCOUNT, SESSION,
             "ABCDEF01-2345-4789-8ABC-DEF012345678") "," REFRESH "}",
     KNOWN_SIGNATURE},
    {"{" ISS "," TIMES "," IDS(ACCOUNT, ACCOUNT, SESSION, JTI "0") "," REFRESH
                                                                   "}",
     KNOWN_SIGNATURE},
    {"{\"iss\":\"http://other\"," TIMES "," OURS "," REFRESH "}",
     KNOWN_SIGNATURE},
    {"{\"iss\":\"" ISSUER "/\"," TIMES "," OURS "," REFRESH "}",
     KNOWN_SIGNATURE},
    /* another kind, with all that a refresh token says */
    {"{" ISS "," TIMES "," OURS ",\"token_type\":\"account\","
     "\"token_scope\":\"ACCOUNT\",\"typ\":\"access\","
     "\"account_type\":\"CUSTOMER\"}",
     KNOWN_SIGNATURE},
    /* not acceptable at all */
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"token_scope\":\"ACCOUNT\"}",
     KNOWN_NOT},
    {"{" ISS "," TIMES "," OURS "," REFRESH ",\"nbf\":\"x\"}", KNOWN_NOT},
    {"{" ISS "," TIMES "," OURS "," REFRESH "," REFRESH "}", KNOWN_NOT},
    {"{" ISS "," TIMES "," IDS(ACCOUNT, SESSION, SESSION, JTI) "," REFRESH "}",
     KNOWN_NOT},
    {"{" ISS "," TIMES "," OURS ",\"x\":\"y\"}", KNOWN_NOT},
    {"{" ISS ",\"exp\":1800000600," OURS "," REFRESH ",\"x\":1}", KNOWN_NOT},
    {"{" ISS ",\"iat\":1e400,\"exp\":1800000600," OURS "," REFRESH "}",
     KNOWN_NOT},
    {"{}", KNOWN_NOT},
    {"[]", KNOWN_NOT},
};

#define PAYLOADS (sizeof(payloads) / sizeof(payloads[0]))

START_TEST (test_both_ways_lead_to_the_same) {
    const struct keys *signer = _i % 2 == 0 ? keys : old_keys;

    sign_payload(signer, payloads[_i / 2].payload);
    ck_assert_int_eq(state(), KNOWN_NOT);
    ck_ways();
    ck_assert_int_eq(state(), payloads[_i / 2].state);
}
END_TEST

START_TEST (test_own_token_is_known_with_its_claims) {
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(state(), KNOWN_CLAIMS);
    ck_ways();
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert_ptr_null(first_way.claims.root);
    ck_assert(is(first_way.claims.account_id, ACCOUNT));
    ck_assert(is(first_way.claims.session_id, SESSION));
    ck_assert(is(first_way.claims.jti, JTI));
}
END_TEST

START_TEST (test_own_token_with_other_ids_is_known_all_the_same) {
    memcpy(session.session_id, "s", 2);
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(state(), KNOWN_SIGNATURE);
    ck_ways();
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert(is(first_way.claims.session_id, "s"));
}
END_TEST

/* The issuer of a process stays when its keys, and theirs, are loaded anew. */
START_TEST (test_own_token_of_another_issuer) {
    cfg.jwt_issuer = (char *) "http://other";
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(state(), KNOWN_SIGNATURE);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert(is(first_way.claims.iss, "http://other"));
    cfg.jwt_issuer = (char *) ISSUER;
    ck_ways();
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_ISSUER);
}
END_TEST

START_TEST (test_times_and_issuer_are_looked_at_each_time) {
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(verify_at(NOW + 599), PJ_OK);
    ck_assert_int_eq(verify_at(NOW + 600), PJ_ERR_TOKEN_EXPIRED);
    ck_assert_int_eq(verify_at(NOW - 30), PJ_OK);
    ck_assert_int_eq(verify_at(NOW - 31), PJ_ERR_TOKEN_NOT_YET);
    go(&first_way, keys, NOW + 99999, TOKEN_CHECK_NOT_TIMES);
    ck_assert_int_eq(first_way.err, PJ_OK);
    ck_assert(is(first_way.claims.session_id, SESSION));
    cfg.jwt_issuer = (char *) "http://other";
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_ISSUER);
    ck_assert_int_eq(state(), KNOWN_CLAIMS);
}
END_TEST

START_TEST (test_last_character_counts) {
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    for (const char *c = "AQgw-_Z"; *c != '\0'; c++) {
        char was = out.data[out.len - 1];

        if (*c != was) {
            out.data[out.len - 1] = *c;
            ck_assert_int_eq(state(), KNOWN_NOT);
            ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_SIGNATURE);
            out.data[out.len - 1] = was;
        }
    }
    out.len--;
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_SIGNATURE);
    out.len++;
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
}
END_TEST

/* What another set of keys knows is nothing to the one that lost the key. */
START_TEST (test_known_goes_with_its_key) {
    sign_payload(old_keys, payloads[0].payload);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert_int_eq(state(), KNOWN_CLAIMS);
    go(&first_way, without_old, NOW, TOKEN_CHECK_ALL);
    ck_assert_int_eq(first_way.err, PJ_ERR_KID_UNKNOWN);
    go(&first_way, old_keys, NOW, TOKEN_CHECK_ALL);
    ck_assert_int_eq(first_way.err, PJ_OK);
}
END_TEST

START_TEST (test_access_token_is_no_refresh_token) {
    ck_assert(token_issue_account(&cfg, keys->signing, &session, NOW,
                                  NOW + 600, &out));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(verify_at(NOW), PJ_OK);
        ck_assert_int_eq(first_way.claims.kind, PJ_TOKEN_ACCOUNT);
        ck_assert_int_eq(state(), KNOWN_SIGNATURE);
    }
    ck_ways();
}
END_TEST

/* Whatever else may be true of them. */
START_TEST (test_claims_of_other_kinds_are_not_kept) {
    sign_payload(keys, payloads[0].payload);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    for (int kind = PJ_TOKEN_ACCOUNT; kind <= PJ_TOKEN_REFRESH; kind++) {
        struct known_name name;

        first_way.claims.kind = (pj_token_kind_t) kind;
        known_name(keys->known, token(), &name);
        known_add(keys->known, &name, &first_way.claims);
        ck_assert_int_eq(state(), kind == PJ_TOKEN_REFRESH ? KNOWN_CLAIMS
                                                           : KNOWN_SIGNATURE);
    }
}
END_TEST

START_TEST (test_verified_token_is_known_where_it_was_verified) {
    sign_payload(keys, payloads[0].payload);
    ck_assert_int_eq(state(), KNOWN_NOT);
    go(&first_way, without_old, NOW, TOKEN_CHECK_ALL);
    ck_assert_int_eq(first_way.err, PJ_OK);
    ck_assert_int_eq(state(), KNOWN_NOT);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert_int_eq(state(), KNOWN_CLAIMS);
}
END_TEST

START_TEST (test_refused_token_is_not_known) {
    sign_payload(old_keys, payloads[0].payload);
    go(&first_way, without_old, NOW, TOKEN_CHECK_ALL);
    ck_assert_int_eq(first_way.err, PJ_ERR_KID_UNKNOWN);
    sign_payload(keys, payloads[0].payload);
    out.data[out.len - 20] = out.data[out.len - 20] == 'A' ? 'B' : 'A';
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_SIGNATURE);
    ck_assert_int_eq(state(), KNOWN_NOT);
}
END_TEST

/* No key of the set signed the token: only being known can make it pass. */
START_TEST (test_known_token_has_its_claims_checked) {
    struct keys *both = keys;

    keys = without_old;
    sign_payload(old_keys, payloads[0].payload);
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_KID_UNKNOWN);
    pretend();
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert(is(first_way.claims.session_id, SESSION));
    ck_assert_int_eq(verify_at(NOW + 600), PJ_ERR_TOKEN_EXPIRED);
    cfg.jwt_issuer = (char *) "http://other";
    ck_assert_int_eq(verify_at(NOW), PJ_ERR_TOKEN_ISSUER);
    keys = both;
}
END_TEST

START_TEST (test_all_of_a_known_token_counts) {
    sign_own(NOW, NOW + 600);
    for (size_t i = 0; i < out.len; i += 7) {
        char c = out.data[i];

        out.data[i] = c == 'A' ? 'B' : 'A';
        ck_assert_int_ne(verify_at(NOW), PJ_OK);
        out.data[i] = c;
    }
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
}
END_TEST

/* Without room for the claims the token is parsed, for which there is less. */
START_TEST (test_claims_need_room) {
    static unsigned char small[64];
    pj_claims_t claims;
    pj_arena_t arena;

    sign_own(NOW, NOW + 600);
    pj_arena_init(&arena, small, sizeof(small));
    ck_assert_int_eq(token_verify(&cfg, keys, &arena, token(), NOW,
                                  TOKEN_CHECK_ALL, &claims),
                     PJ_ERR_NO_SPACE);
}
END_TEST

START_TEST (test_without_a_table_nothing_is_known) {
    struct keys forgetful = *keys, *saved = keys;

    forgetful.known = NULL;
    keys = &forgetful;
    sign_own(NOW, NOW + 600);
    ck_assert_int_eq(state(), KNOWN_NOT);
    ck_assert_int_eq(verify_at(NOW), PJ_OK);
    ck_assert_int_eq(state(), KNOWN_NOT);
    keys = saved;
}
END_TEST

/* More than there is room for: older ones are verified again, none wrongly. */
START_TEST (test_known_tokens_are_bounded) {
    unsigned char text[8];
    int found = 0;

    out.data = (char *) text;
    out.len = sizeof(text);
    for (uint64_t i = 0; i < 200000; i++) {
        memcpy(text, &i, sizeof(text));
        ck_assert_int_eq(state(), KNOWN_NOT);
        pretend();
        ck_assert_int_eq(state(), KNOWN_SIGNATURE);
    }
    for (uint64_t i = 0; i < 200000; i++) {
        memcpy(text, &i, sizeof(text));
        found += state() != KNOWN_NOT;
    }
    ck_assert_int_gt(found, 50000);
    ck_assert_int_le(found, 65536);
}
END_TEST

static void fill(TCase *t)
{
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, setup_once, teardown_once);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, test_both_ways_lead_to_the_same, 0, 2 * PAYLOADS);
    tcase_add_test(t, test_own_token_is_known_with_its_claims);
    tcase_add_test(t, test_own_token_with_other_ids_is_known_all_the_same);
    tcase_add_test(t, test_own_token_of_another_issuer);
    tcase_add_test(t, test_times_and_issuer_are_looked_at_each_time);
    tcase_add_test(t, test_last_character_counts);
    tcase_add_test(t, test_known_goes_with_its_key);
    tcase_add_test(t, test_access_token_is_no_refresh_token);
    tcase_add_test(t, test_claims_of_other_kinds_are_not_kept);
    tcase_add_test(t, test_verified_token_is_known_where_it_was_verified);
    tcase_add_test(t, test_refused_token_is_not_known);
    tcase_add_test(t, test_known_token_has_its_claims_checked);
    tcase_add_test(t, test_all_of_a_known_token_counts);
    tcase_add_test(t, test_claims_need_room);
    tcase_add_test(t, test_without_a_table_nothing_is_known);
    tcase_add_test(t, test_known_tokens_are_bounded);
}

int main(void)
{
    return run_case("known", fill);
}
