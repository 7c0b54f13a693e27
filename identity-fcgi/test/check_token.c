/* Tests of token.c: what is issued verifies, and nothing else does. */

#include "auth/token.h"
#include "key_pair.h"

#define ACCOUNT "11111111-1111-4111-8111-111111111111"
#define SESSION "22222222-2222-4222-8222-222222222222"
#define JTI "33333333-3333-4333-8333-333333333333"
#define NOW 1800000000

static struct keys *keys, *other_keys, *old_keys;
static struct config cfg;
static struct session session;
static char mem[32768];
static struct buf out;
static unsigned char arena_mem[262144];
static pj_arena_t arena;
static pj_claims_t claims;

static const char *const branch_ids[] = {"b-1", "b-2"};
static const char *const roles[] = {"MANAGER"};
static const struct scope scope = {.workspace_id = "w",
                                   .tenant_id = "t",
                                   .member_id = "m",
                                   .active_branch_id = "b-1",
                                   .branch_ids = branch_ids,
                                   .branch_id_count = 2,
                                   .roles = roles,
                                   .role_count = 1};

static const struct scope *token_scope;
static const char *jkt; /* of the key that a token is bound to, or NULL */

/* Issues a token into out. */
static bool issue(const pj_key_t *key, int kind, int64_t ttl_s)
{
    const struct token token = {.kind = kind,
                                .session = &session,
                                .scope = token_scope,
                                .jti = kind == PJ_TOKEN_REFRESH ? JTI : NULL,
                                .jkt = jkt,
                                .iat = NOW,
                                .exp = NOW + ttl_s};

    return token_issue(&cfg, key, &token, &out);
}

/* pair is made and signs; old, if not NULL, verifies as well. */
static struct keys *make_keys(struct pair *pair, const char *kid,
                              const struct pair *old)
{
    struct config c = {0};
    struct keys *made;
    struct error err;
    char list[4096];

    pair_generate(pair, kid);
    pair_use(&c, pair);
    if (old != NULL) {
        snprintf(list, sizeof(list), "%s=%s", old->kid, old->public_text);
        c.jwt_additional_public_keys = list;
    }
    made = keys_load(&c, &err);
    ck_assert_msg(made != NULL, "%s", err.text);
    return made;
}

static void setup_once(void)
{
    struct pair old, now, other;

    old_keys = make_keys(&old, "old", NULL);
    keys = make_keys(&now, "k", &old);
    other_keys = make_keys(&other, "k", NULL); /* another key, the same kid */
    pair_free(&old);
    pair_free(&now);
    pair_free(&other);
}

static void teardown_once(void)
{
    keys_release(keys);
    keys_release(other_keys);
    keys_release(old_keys);
}

static void setup(void)
{
    memset(&cfg, 0, sizeof(cfg));
    cfg.jwt_issuer = (char *) "http://issuer";
    memset(&session, 0, sizeof(session));
    memcpy(session.account_id, ACCOUNT, sizeof(ACCOUNT));
    memcpy(session.session_id, SESSION, sizeof(SESSION));
    memcpy(session.account_type, "CUSTOMER", 9);
    token_scope = &scope;
    buf_init(&out, mem, sizeof(mem));
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
}

static pj_err_t verify_at(int64_t now_s, enum token_check check)
{
    pj_str_t token = {(const unsigned char *) out.data, out.len};

    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    return token_verify(&cfg, keys, keys->signing, &arena, token, now_s, check,
                        &claims);
}

TEST (test_account_token) {
    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 900));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(claims.kind, PJ_TOKEN_ACCOUNT);
    ck_assert(is(claims.account_id, ACCOUNT));
    ck_assert(is(claims.sub, ACCOUNT));
    ck_assert(is(claims.session_id, SESSION));
    ck_assert(is(claims.account_type, "CUSTOMER"));
    ck_assert(is(claims.token_type, "account"));
    ck_assert(is(claims.token_scope, "ACCOUNT"));
    ck_assert(is(claims.iss, "http://issuer"));
    ck_assert(is(pj_json_member(claims.root, "typ")->text, "access"));
    ck_assert_uint_eq(claims.jti.len, UUID_LEN);
    ck_assert_int_eq(claims.iat, NOW);
    ck_assert_int_eq(claims.exp, NOW + 900);
    ck_assert_ptr_null(pj_json_member(claims.root, "workspace_id"));
    ck_assert_ptr_null(pj_json_member(claims.root, "branch_ids"));
}

TEST (test_branch_token) {
    ck_assert(issue(keys->signing, PJ_TOKEN_BRANCH, 900));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(claims.kind, PJ_TOKEN_BRANCH);
    ck_assert(is(claims.token_type, "workspace"));
    ck_assert(is(claims.token_scope, "BRANCH"));
    ck_assert(is(claims.workspace_id, "w"));
    ck_assert(is(claims.tenant_id, "t"));
    ck_assert(is(claims.member_id, "m"));
    ck_assert(is(claims.active_branch_id, "b-1"));
    ck_assert_uint_eq(claims.branch_ids->count, 2);
    ck_assert(is(claims.branch_ids->child->next->text, "b-2"));
    ck_assert_uint_eq(claims.roles->count, 1);
}

TEST (test_refresh_token_has_no_access_claims) {
    ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 9));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(claims.kind, PJ_TOKEN_REFRESH);
    ck_assert(is(claims.jti, JTI));
    ck_assert(is(claims.session_id, SESSION));
    ck_assert_ptr_null(pj_json_member(claims.root, "account_type"));
    ck_assert_ptr_null(pj_json_member(claims.root, "typ"));
    ck_assert_ptr_null(pj_json_member(claims.root, "token_scope"));
}

/* Signs what issue() made again, under the other typ and with these members in
 * place of the audience, if that is not NULL. */
static void sign_with(pj_typ_t typ, const char *members)
{
    static unsigned char json[16384];
    pj_str_t token = {(const unsigned char *) out.data, out.len}, payload;
    pj_jws_t jws;

    ck_assert_int_eq(pj_jws_split(token, TOKEN_MAX_BYTES, &jws), PJ_OK);
    payload.data = json;
    ck_assert_int_eq(
        pj_b64url_decode(json, sizeof(json), &payload.len, jws.payload), PJ_OK);
    if (members != NULL) {
        static const char aud[] = ",\"aud\":\"http://issuer\"";
        static char changed[sizeof(json)];
        char *at;

        json[payload.len] = '\0';
        at = strstr((char *) json, aud);
        ck_assert_ptr_nonnull(at);
        payload.len = (size_t) snprintf(
            changed, sizeof(changed), "%.*s%s%s", (int) (at - (char *) json),
            (char *) json, members, at + strlen(aud));
        payload.data = (unsigned char *) changed;
    }
    ck_assert_int_eq(
        pj_jws_sign(keys->signing, typ, payload, out.data, out.cap, &out.len),
        PJ_OK);
}

static void sign_again(pj_typ_t typ)
{
    sign_with(typ, NULL);
}

TEST (test_refresh_typ_is_of_refresh_tokens) {
    char same[1024];
    size_t len;

    ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 9));
    ck_assert_int_eq(pj_jws_sign(keys->signing, PJ_TYP_REFRESH, PJ_STR("x"),
                                 same, sizeof(same), &len),
                     PJ_OK);
    ck_assert_mem_eq(out.data, same, strcspn(same, ".") + 1);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);

    /* As they were issued before. */
    sign_again(PJ_TYP_JWT);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(claims.kind, PJ_TOKEN_REFRESH);

    /* Another token never has it. */
    buf_init(&out, mem, sizeof(mem));
    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 900));
    sign_again(PJ_TYP_REFRESH);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_TOKEN_TYP);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_LOGOUT), PJ_ERR_TOKEN_TYP);
    sign_again(PJ_TYP_JWT);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
}

static bool audience_is(const char *want)
{
    const pj_json_t *aud = pj_json_member(claims.root, "aud");

    return want == NULL ? aud == NULL : aud != NULL && is(aud->text, want);
}

/* A token of before the setting stays good.  No setting changes the audience of
 * a refresh token. */
TEST (test_audience) {
    const char *const settings[] = {NULL, "https://api.test", "other"};

    for (size_t i = 0; i < 3; i++) {
        for (int kind = PJ_TOKEN_ACCOUNT; kind <= PJ_TOKEN_REFRESH; kind++) {
            cfg.jwt_audience = (char *) settings[i];
            buf_init(&out, mem, sizeof(mem));
            ck_assert(issue(keys->signing, kind, 9));
            ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
            ck_assert(audience_is(kind == PJ_TOKEN_REFRESH ? cfg.jwt_issuer
                                                           : settings[i]));
            cfg.jwt_audience = (char *) settings[(i + 1) % 3];
            ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
        }
    }
}

/* Tokens of release 0.2 and earlier have no audience. */
TEST (test_refresh_audience) {
    const struct {
        const char *members;
        pj_err_t want;
    } cases[] = {
        {"", PJ_OK},
        {",\"aud\":\"http://issuer\"", PJ_OK},
        {",\"aud\":[\"x\",\"http://issuer\"]", PJ_OK},
        {",\"aud\":\"http://issuer/\"", PJ_ERR_TOKEN_AUDIENCE},
        {",\"aud\":[]", PJ_ERR_TOKEN_AUDIENCE},
        {",\"aud\":null", PJ_ERR_TOKEN_CLAIMS},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        buf_init(&out, mem, sizeof(mem));
        ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 9));
        sign_with(PJ_TYP_REFRESH, cases[i].members);
        ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), cases[i].want);
        ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_LOGOUT), cases[i].want);
    }
}

/* RFC 9068: the typ of access tokens alone, and who asked for them. */
TEST (test_at_jwt) {
    for (int kind = PJ_TOKEN_ACCOUNT; kind <= PJ_TOKEN_REFRESH; kind++) {
        for (int typ = PJ_TYP_JWT; typ <= PJ_TYP_AT; typ++) {
            bool at_jwt = typ == PJ_TYP_AT && kind != PJ_TOKEN_REFRESH;
            pj_jws_header_t header;
            const pj_json_t *client;
            pj_jws_t jws;

            cfg.jwt_typ = typ;
            cfg.app_name = (char *) "identity-service";
            buf_init(&out, mem, sizeof(mem));
            ck_assert(issue(keys->signing, kind, 9));
            ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
            client = pj_json_member(claims.root, "client_id");
            ck_assert(at_jwt ? client != NULL && is(client->text, cfg.app_name)
                             : client == NULL);
            ck_assert_int_eq(
                pj_jws_split((pj_str_t){(unsigned char *) out.data, out.len},
                             TOKEN_MAX_BYTES, &jws),
                PJ_OK);
            ck_assert_int_eq(pj_jws_header(&arena, &jws, true, &header), PJ_OK);
            ck_assert(header.at_jwt == at_jwt);
            ck_assert(header.refresh == (kind == PJ_TOKEN_REFRESH));
        }
    }
}

TEST (test_system_token) {
    ck_assert(issue(keys->signing, PJ_TOKEN_SYSTEM, 60));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(claims.kind, PJ_TOKEN_SYSTEM);
    ck_assert(is(claims.session_id, SESSION));
    ck_assert(is(claims.token_scope, "SYSTEM"));
}

TEST (test_access_expiry_has_leeway) {
    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 60));
    ck_assert_int_eq(verify_at(NOW + 89, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(verify_at(NOW + 90, TOKEN_CHECK_ALL),
                     PJ_ERR_TOKEN_EXPIRED);
}

TEST (test_refresh_expiry_has_none) {
    ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 60));
    ck_assert_int_eq(verify_at(NOW + 59, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(verify_at(NOW + 60, TOKEN_CHECK_ALL),
                     PJ_ERR_TOKEN_EXPIRED);
}

TEST (test_issuing_clock_may_be_ahead) {
    ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 60));
    ck_assert_int_eq(verify_at(NOW - 30, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_int_eq(verify_at(NOW - 31, TOKEN_CHECK_ALL),
                     PJ_ERR_TOKEN_NOT_YET);
}

TEST (test_logout_overlooks_times_alone) {
    static const int64_t moments[] = {NOW - 86400 * 365, NOW - 31, NOW,
                                      NOW + 86400 * 365};

    ck_assert(issue(keys->signing, PJ_TOKEN_REFRESH, 60));
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        cfg.jwt_issuer = (char *) "http://issuer";
        ck_assert_int_eq(verify_at(moments[i], TOKEN_CHECK_LOGOUT), PJ_OK);
        ck_assert(is(claims.session_id, SESSION));
        cfg.jwt_issuer = (char *) "http://other";
        ck_assert_int_eq(verify_at(moments[i], TOKEN_CHECK_LOGOUT),
                         PJ_ERR_TOKEN_ISSUER);
    }
    cfg.jwt_issuer = (char *) "http://issuer";
    out.data[out.len - 20] = out.data[out.len - 20] == 'A' ? 'B' : 'A';
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_LOGOUT),
                     PJ_ERR_TOKEN_SIGNATURE);
}

TEST (test_other_issuer_is_refused) {
    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 60));
    cfg.jwt_issuer = (char *) "http://issuer/";
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_TOKEN_ISSUER);
}

TEST (test_same_kid_of_another_key_is_refused) {
    ck_assert(issue(other_keys->signing, PJ_TOKEN_ACCOUNT, 60));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_TOKEN_SIGNATURE);
}

TEST (test_key_that_no_longer_signs_verifies) {
    ck_assert(issue(old_keys->signing, PJ_TOKEN_ACCOUNT, 60));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
}

TEST (test_flipped_character_is_refused) {
    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 60));
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    out.data[out.len - 20] = out.data[out.len - 20] == 'A' ? 'B' : 'A';
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_TOKEN_SIGNATURE);
}

TEST (test_oversize_is_refused_unread) {
    memset(mem, 'a', sizeof(mem));
    out.len = TOKEN_MAX_BYTES + 1;
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_TOKEN_SIZE);
}

TEST (test_largest_branch_token_fits) {
    static char ids[200][UUID_LEN + 1], codes[32][33];
    const char *id_list[200], *code_list[32];
    struct scope big = scope;

    for (int i = 0; i < 200; i++) {
        ck_assert(uuid_generate(ids[i]));
        id_list[i] = ids[i];
    }
    for (int i = 0; i < 32; i++) {
        memset(codes[i], 'R', 32);
        code_list[i] = codes[i];
    }
    big.workspace_id = big.tenant_id = big.member_id = ACCOUNT;
    big.active_branch_id = ids[0];
    big.branch_ids = id_list;
    big.branch_id_count = 200;
    big.roles = code_list;
    big.role_count = 32;
    token_scope = &big;
    ck_assert(issue(keys->signing, PJ_TOKEN_BRANCH, 9));
    ck_assert_uint_le(out.len, TOKEN_MAX_BYTES);
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_OK);
    ck_assert_uint_eq(claims.branch_ids->count, 200);
}

TEST (test_too_small_buffer_is_a_failure) {
    out.cap = 100;
    ck_assert(!issue(keys->signing, PJ_TOKEN_ACCOUNT, 60));
}

TEST (test_unknown_kid_is_refused) {
    struct keys *all = keys, none = {.verifying_count = 0};

    ck_assert(issue(keys->signing, PJ_TOKEN_ACCOUNT, 60));
    keys = &none;
    ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), PJ_ERR_KID_UNKNOWN);
    keys = all;
}

TEST (test_no_signing_key_is_a_failure) {
    ck_assert(!issue(NULL, PJ_TOKEN_ACCOUNT, 60));
}

static void fill(TCase *t)
{
    tcase_add_unchecked_fixture(t, setup_once, teardown_once);
    tcase_add_checked_fixture(t, setup, NULL);
}

static const struct {
    int kind;
    const char *jkt;
    pj_err_t want[3]; /* with DPOP_OFF, DPOP_ACCEPT, DPOP_REQUIRE */
} bindings[] = {
    {PJ_TOKEN_ACCOUNT, NULL, {PJ_OK, PJ_OK, PJ_ERR_PROOF}},
    {PJ_TOKEN_REFRESH, NULL, {PJ_OK, PJ_OK, PJ_ERR_PROOF}},
    {PJ_TOKEN_REFRESH, "", {PJ_OK, PJ_OK, PJ_ERR_PROOF}},
    {PJ_TOKEN_SYSTEM, NULL, {PJ_OK, PJ_OK, PJ_OK}},
    {PJ_TOKEN_REFRESH,
     "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
     {PJ_ERR_TOKEN_BOUND, PJ_OK, PJ_OK}},
    {PJ_TOKEN_SYSTEM,
     "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
     {PJ_ERR_TOKEN_BOUND, PJ_OK, PJ_OK}},
    /* not a thumbprint: no proof could hold */
    {PJ_TOKEN_REFRESH,
     "x",
     {PJ_ERR_TOKEN_BOUND, PJ_ERR_TOKEN_BOUND, PJ_ERR_TOKEN_BOUND}},
};

TESTS (test_binding, LENGTH(bindings)) {
    jkt = bindings[_i].jkt;
    ck_assert(issue(keys->signing, bindings[_i].kind, 900));
    jkt = NULL;
    for (int i = 0; i < 3; i++) {
        cfg.dpop = i;
        ck_assert_int_eq(verify_at(NOW, TOKEN_CHECK_ALL), bindings[_i].want[i]);
        ck_assert(bindings[_i].want[i] != PJ_OK ||
                  (pj_json_member(claims.root, "cnf") != NULL) == (_i > 3));
    }
    cfg.dpop = DPOP_OFF;
}

int main(void)
{
    return run_case("token", fill);
}
