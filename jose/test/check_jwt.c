/* JWT claims: required claims and their types by kind, issuer, audience,
 * time. */

#include "helpers.h"

#define NOW 1700000000

#define COMMON                                                                 \
    "\"iss\":\"http://issuer\",\"sub\":\"a-1\",\"jti\":\"j-1\","               \
    "\"iat\":1699999900,\"exp\":1700000800,\"account_id\":\"a-1\","            \
    "\"session_id\":\"s-1\""
#define ACCESS_CLAIMS "\"account_type\":\"CUSTOMER\",\"typ\":\"access\""
#define SCOPE_CLAIMS                                                           \
    "\"workspace_id\":\"w-1\",\"tenant_id\":\"t-1\",\"member_id\":\"m-1\","    \
    "\"active_branch_id\":\"b-1\",\"branch_ids\":[\"b-1\",\"b-2\"],"           \
    "\"roles\":[\"owner\"]"
#define ACCOUNT                                                                \
    "{" COMMON "," ACCESS_CLAIMS                                               \
    ",\"token_type\":\"account\",\"token_scope\":\"ACCOUNT\"}"
#define BRANCH                                                                 \
    "{" COMMON "," ACCESS_CLAIMS "," SCOPE_CLAIMS                              \
    ",\"token_type\":\"workspace\",\"token_scope\":\"BRANCH\"}"
#define SYSTEM                                                                 \
    "{" COMMON "," ACCESS_CLAIMS                                               \
    ",\"token_type\":\"system\",\"token_scope\":\"SYSTEM\"}"
#define REFRESH "{" COMMON ",\"token_type\":\"refresh\"}"

static unsigned char arena_mem[1 << 20];

/* The claims stay until the next call. */
static pj_err_t claims_of(const char *payload, pj_claims_t *claims)
{
    static char *encoded;
    pj_arena_t arena;
    pj_jws_t jws = {.payload = {NULL, 0}};

    free(encoded);
    encoded = b64(str(payload));
    jws.payload = str(encoded);
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    return pj_claims_parse(&arena, &jws, claims);
}

static pj_err_t parse(const char *payload)
{
    pj_claims_t claims;

    return claims_of(payload, &claims);
}

/* text with the first occurrence of from made into to. */
static const char *replaced(const char *text, const char *from, const char *to)
{
    static char out[4096];
    const char *at = strstr(text, from);

    ck_assert_msg(at != NULL, "%s is not in %s", from, text);
    snprintf(out, sizeof(out), "%.*s%s%s", (int) (at - text), text, to,
             at + strlen(from));
    return out;
}

TEST (test_branch_token) {
    pj_claims_t c;

    assert_ok(claims_of(BRANCH, &c));
    ck_assert_int_eq(c.kind, PJ_TOKEN_BRANCH);
    ck_assert_int_eq(c.iat, 1699999900);
    ck_assert_int_eq(c.exp, 1700000800);
    assert_str(c.iss, "http://issuer");
    assert_str(c.sub, "a-1");
    assert_str(c.jti, "j-1");
    assert_str(c.account_id, "a-1");
    assert_str(c.session_id, "s-1");
    assert_str(c.account_type, "CUSTOMER");
    assert_str(c.token_type, "workspace");
    assert_str(c.token_scope, "BRANCH");
    assert_str(c.workspace_id, "w-1");
    assert_str(c.tenant_id, "t-1");
    assert_str(c.member_id, "m-1");
    assert_str(c.active_branch_id, "b-1");
    ck_assert_uint_eq(c.branch_ids->count, 2);
    assert_str(c.branch_ids->child->next->text, "b-2");
    assert_str(c.roles->child->text, "owner");
    ck_assert_int_eq(c.root->type, PJ_JSON_OBJECT);
}

TEST (test_account_system_and_refresh_tokens) {
    pj_claims_t c;

    assert_ok(claims_of(ACCOUNT, &c));
    ck_assert_int_eq(c.kind, PJ_TOKEN_ACCOUNT);
    ck_assert_uint_eq(c.workspace_id.len, 0);
    ck_assert_ptr_null(c.branch_ids);
    ck_assert_ptr_null(c.roles);
    assert_ok(claims_of(SYSTEM, &c));
    ck_assert_int_eq(c.kind, PJ_TOKEN_SYSTEM);
    assert_ok(claims_of(REFRESH, &c));
    ck_assert_int_eq(c.kind, PJ_TOKEN_REFRESH);
    ck_assert_uint_eq(c.token_scope.len, 0);
    ck_assert_uint_eq(c.account_type.len, 0);
}

/* Another issuer's token: its subject under the name that was given. */
TEST (test_foreign_claims_by_their_names) {
    static const struct {
        pj_names_t names;
        const char *payload;
        const char *fault;
    } rows[] = {
        {{"sub", NULL}, "{\"iss\":\"i\",\"sub\":\"s\",\"exp\":1}", NULL},
        {{"oid", "sid"},
         "{\"iss\":\"i\",\"oid\":\"s\",\"sid\":\"x\",\"exp\":1}",
         NULL},
        {{"oid", "sid"}, "{\"iss\":\"i\",\"oid\":\"s\",\"exp\":1}", NULL},
        {{NULL, NULL}, "{\"iss\":\"i\",\"sub\":\"s\",\"exp\":1}", ""},
        {{"oid", NULL}, "{\"iss\":\"i\",\"sub\":\"s\",\"exp\":1}", "oid"},
        {{"sub", NULL}, "{\"iss\":\"i\",\"sub\":\"\",\"exp\":1}", "sub"},
        {{"sub", NULL}, "{\"sub\":\"s\",\"exp\":1}", "iss"},
        {{"sub", NULL}, "{\"iss\":\"i\",\"sub\":\"s\"}", "exp"},
        {{"oid", "sid"},
         "{\"iss\":\"i\",\"oid\":\"s\",\"sid\":7,\"exp\":1}",
         "sid"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *encoded = b64(str(rows[i].payload));
        pj_jws_t jws = {.payload = str(encoded)};
        pj_arena_t arena;
        pj_claims_t c;
        pj_err_t err;

        pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
        assert_ok(pj_claims_decode(&arena, &jws, &c));
        err = pj_claims_read_foreign(&c, &rows[i].names);
        if (rows[i].fault == NULL) {
            assert_ok(err);
            assert_str(c.account_id, "s");
        } else {
            assert_err(err, PJ_ERR_TOKEN_CLAIMS);
            assert_str(c.fault, rows[i].fault);
        }
        free(encoded);
    }
}

/* A claim that the kind does not have is not returned, even if the token has
 * it. */
TEST (test_claims_of_another_kind_not_handed_on) {
    pj_claims_t c;

    assert_ok(claims_of("{" COMMON "," ACCESS_CLAIMS "," SCOPE_CLAIMS
                        ",\"token_type\":\"account\","
                        "\"token_scope\":\"ACCOUNT\"}",
                        &c));
    ck_assert_int_eq(c.kind, PJ_TOKEN_ACCOUNT);
    ck_assert_uint_eq(c.workspace_id.len, 0);
    ck_assert_uint_eq(c.tenant_id.len, 0);
    ck_assert_uint_eq(c.member_id.len, 0);
    ck_assert_uint_eq(c.active_branch_id.len, 0);
    ck_assert_ptr_null(c.branch_ids);
    ck_assert_ptr_null(c.roles);
}

TEST (test_only_the_four_pairs_are_kinds) {
    static const char *const bad[] = {
        "\"token_type\":\"account\",\"token_scope\":\"BRANCH\"",
        "\"token_type\":\"workspace\",\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":\"account\",\"token_scope\":\"SYSTEM\"",
        "\"token_type\":\"Account\",\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":\"account\",\"token_scope\":\"account\"",
        "\"token_type\":\"account\"",
        "\"token_type\":\"account\",\"token_scope\":\"\"",
        "\"token_type\":\"refresh\",\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":\"refresh\",\"token_scope\":\"REFRESH\"",
        "\"token_type\":\"refresh\",\"token_scope\":\"\"",
        "\"token_type\":\"refresh\",\"token_scope\":null",
        "\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":[\"account\"],\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":\"\",\"token_scope\":\"ACCOUNT\"",
        "\"token_type\":\"access\",\"token_scope\":\"ACCOUNT\"",
    };
    char payload[1024];

    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(payload, sizeof(payload), "{" COMMON "," ACCESS_CLAIMS ",%s}",
                 bad[i]);
        assert_err(parse(payload), PJ_ERR_TOKEN_KIND);
    }
    assert_ok(parse(ACCOUNT));
}

/* Each claim by its text: taken away, and with values of wrong types. */
static void claim_is_required(const char *payload, const char *name,
                              const char *value)
{
    static const char *const wrong[] = {"null",  "true", "{}",    "\"\"",
                                        "1e400", "[1]",  "[\"\"]"};
    char member[128], other[128], away[128];
    pj_claims_t c;

    snprintf(member, sizeof(member), "\"%s\":%s", name, value);
    snprintf(away, sizeof(away), "\"x_%s\":%s", name, value);
    assert_err(claims_of(replaced(payload, member, away), &c),
               PJ_ERR_TOKEN_CLAIMS);
    ck_assert(c.root != NULL);
    assert_str(c.fault, name);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        snprintf(other, sizeof(other), "\"%s\":%s", name, wrong[i]);
        assert_err(claims_of(replaced(payload, member, other), &c),
                   PJ_ERR_TOKEN_CLAIMS);
        assert_str(c.fault, name);
    }
}

static void common_claims_required(const char *payload)
{
    assert_ok(parse(payload));
    claim_is_required(payload, "iss", "\"http://issuer\"");
    claim_is_required(payload, "sub", "\"a-1\"");
    claim_is_required(payload, "jti", "\"j-1\"");
    claim_is_required(payload, "iat", "1699999900");
    claim_is_required(payload, "exp", "1700000800");
    claim_is_required(payload, "account_id", "\"a-1\"");
    claim_is_required(payload, "session_id", "\"s-1\"");
}

TEST (test_required_claims) {
    static const char *const access[] = {ACCOUNT, SYSTEM, BRANCH};

    common_claims_required(REFRESH);
    for (size_t i = 0; i < COUNT(access); i++) {
        common_claims_required(access[i]);
        claim_is_required(access[i], "account_type", "\"CUSTOMER\"");
        claim_is_required(access[i], "typ", "\"access\"");
    }
    claim_is_required(BRANCH, "workspace_id", "\"w-1\"");
    claim_is_required(BRANCH, "tenant_id", "\"t-1\"");
    claim_is_required(BRANCH, "member_id", "\"m-1\"");
    claim_is_required(BRANCH, "active_branch_id", "\"b-1\"");
    claim_is_required(BRANCH, "branch_ids", "[\"b-1\",\"b-2\"]");
    claim_is_required(BRANCH, "roles", "[\"owner\"]");
}

TEST (test_arrays_may_be_empty) {
    pj_claims_t c;

    assert_ok(claims_of(replaced(BRANCH, "[\"owner\"]", "[]"), &c));
    ck_assert_uint_eq(c.roles->count, 0);
    assert_ok(parse(replaced(BRANCH, "[\"b-1\",\"b-2\"]", "[]")));
    assert_err(parse(replaced(BRANCH, "[\"owner\"]", "\"owner\"")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse(replaced(BRANCH, "[\"owner\"]", "[\"owner\",null]")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse(replaced(BRANCH, "[\"owner\"]", "[[\"owner\"]]")),
               PJ_ERR_TOKEN_CLAIMS);
}

TEST (test_subject_must_be_the_account) {
    assert_err(parse(replaced(ACCOUNT, "\"sub\":\"a-1\"", "\"sub\":\"a-2\"")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse(replaced(ACCOUNT, "\"sub\":\"a-1\"", "\"sub\":\"a-\"")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_ok(
        parse(replaced(ACCOUNT, "\"sub\":\"a-1\"", "\"sub\":\"\\u0061-1\"")));
}

TEST (test_a_refresh_typ_does_not_open_an_access_kind) {
    assert_err(parse(replaced(ACCOUNT, "\"access\"", "\"refresh\"")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_ok(parse(ACCOUNT));
}

TEST (test_payload_that_is_no_object) {
    pj_jws_t jws = {.payload = PJ_STR("e3!")};
    pj_claims_t c;
    pj_arena_t arena;

    assert_err(parse("[]"), PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse("\"x\""), PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse("{}"), PJ_ERR_TOKEN_KIND);
    assert_err(parse("{"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse(replaced(ACCOUNT, "\"jti\"", "\"iss\"")),
               PJ_ERR_JSON_DUPLICATE);
    assert_err(parse(replaced(ACCOUNT, "j-1", "j\\u0000")), PJ_ERR_JSON_NUL);
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    assert_err(pj_claims_parse(&arena, &jws, &c), PJ_ERR_BASE64);
}

TEST (test_token_with_200_branches) {
    static char ids[16384], payload[20000];
    size_t len = 0;
    pj_claims_t c;

    for (unsigned i = 0; i < 200; i++)
        len += (size_t) snprintf(ids + len, sizeof(ids) - len,
                                 "%s\"00000000-0000-4000-8000-%012u\"",
                                 i == 0 ? "[" : ",", i);
    snprintf(ids + len, sizeof(ids) - len, "]");
    snprintf(payload, sizeof(payload), "%s",
             "{" COMMON "," ACCESS_CLAIMS
             ",\"workspace_id\":\"w\",\"tenant_id\":\"t\",\"member_id\":\"m\","
             "\"active_branch_id\":\"b\",\"roles\":[],\"branch_ids\":");
    len = strlen(payload);
    snprintf(payload + len, sizeof(payload) - len,
             "%s,\"token_type\":\"workspace\",\"token_scope\":\"BRANCH\"}",
             ids);
    assert_ok(claims_of(payload, &c));
    ck_assert_uint_eq(c.branch_ids->count, 200);
}

/* -- checking ---------------------------------------------------------------
 */

static const pj_str_t issuers[] = {PJ_STR("http://issuer"),
                                   PJ_STR("http://second")};
static const pj_str_t audiences[] = {PJ_STR("api"), PJ_STR("web")};

static pj_policy_t policy_at(int64_t now_s, int64_t leeway_s)
{
    return (pj_policy_t){.issuers = issuers,
                         .issuer_count = 2,
                         .now_s = now_s,
                         .leeway_s = leeway_s};
}

static pj_err_t checked(const char *payload, pj_policy_t policy)
{
    pj_claims_t claims;

    assert_ok(claims_of(payload, &claims));
    return pj_claims_check(&claims, &policy);
}

static pj_err_t at(int64_t now_s, int64_t leeway_s)
{
    return checked(ACCOUNT, policy_at(now_s, leeway_s));
}

TEST (test_expiry_to_the_second) {
    assert_ok(at(1700000799, 0));
    assert_err(at(1700000800, 0), PJ_ERR_TOKEN_EXPIRED);
    assert_ok(at(1700000829, 30));
    assert_err(at(1700000830, 30), PJ_ERR_TOKEN_EXPIRED);
    assert_err(at(INT64_MAX - 300, 300), PJ_ERR_TOKEN_EXPIRED);
}

TEST (test_issued_in_the_future) {
    assert_ok(at(1699999900, 0));
    assert_err(at(1699999899, 0), PJ_ERR_TOKEN_NOT_YET);
    assert_ok(at(1699999870, 30));
    assert_err(at(1699999869, 30), PJ_ERR_TOKEN_NOT_YET);
    assert_err(at(0, 0), PJ_ERR_TOKEN_NOT_YET);
}

TEST (test_not_before) {
    char payload[1024];

    snprintf(payload, sizeof(payload), "{\"nbf\":%d,%s", NOW, ACCOUNT + 1);
    assert_ok(checked(payload, policy_at(NOW, 0)));
    assert_ok(checked(payload, policy_at(NOW - 30, 30)));
    assert_err(checked(payload, policy_at(NOW - 1, 0)), PJ_ERR_TOKEN_NOT_YET);
    snprintf(payload, sizeof(payload), "{\"nbf\":\"0\",%s", ACCOUNT + 1);
    assert_err(parse(payload), PJ_ERR_TOKEN_CLAIMS);
}

TEST (test_all_faults_at_once) {
    pj_policy_t policy = policy_at(NOW, 0);
    pj_claims_t claims;

    assert_ok(claims_of(ACCOUNT, &claims));
    ck_assert_uint_eq(pj_claims_faults(&claims, &policy), 0);
    policy.issuers = audiences;
    policy.audiences = audiences;
    policy.audience_count = 2;
    policy.now_s = 1800000000;
    assert_err(pj_claims_check(&claims, &policy), PJ_ERR_TOKEN_ISSUER);
    ck_assert_uint_eq(pj_claims_faults(&claims, &policy),
                      PJ_FAULT(PJ_ERR_TOKEN_ISSUER) |
                          PJ_FAULT(PJ_ERR_TOKEN_AUDIENCE) |
                          PJ_FAULT(PJ_ERR_TOKEN_EXPIRED));
}

TEST (test_extreme_times_do_not_wrap) {
    const char *far = replaced(ACCOUNT, "1700000800", "9223372036854775807");

    assert_ok(checked(far, policy_at(NOW, 300)));
    assert_ok(checked(far, policy_at(INT64_MAX - 300, 300)));
    assert_err(checked(replaced(ACCOUNT, "1700000800", "-9223372036854775808"),
                       policy_at(NOW, 300)),
               PJ_ERR_TOKEN_EXPIRED);
    assert_err(parse(replaced(ACCOUNT, "1700000800", "9223372036854775808")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse(replaced(ACCOUNT, "1700000800", "1e400")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(parse(replaced(ACCOUNT, "1699999900", "-1e400")),
               PJ_ERR_TOKEN_CLAIMS);
    assert_err(
        checked(replaced(ACCOUNT, "1700000800", "-0.5"), policy_at(NOW, 300)),
        PJ_ERR_TOKEN_EXPIRED);
    assert_err(parse(replaced(ACCOUNT, "1700000800", "\"1700000800\"")),
               PJ_ERR_TOKEN_CLAIMS);
}

/* A fraction of a second is rounded towards refusal. */
TEST (test_fractions_are_rounded_towards_refusal) {
    const char *exp = "\"exp\":1700000800", *iat = "\"iat\":1699999900";
    char payload[1024];

    assert_ok(checked(replaced(ACCOUNT, exp, "\"exp\":1700000800.9"),
                      policy_at(1700000799, 0)));
    assert_err(checked(replaced(ACCOUNT, exp, "\"exp\":1700000800.9"),
                       policy_at(1700000800, 0)),
               PJ_ERR_TOKEN_EXPIRED);
    assert_ok(checked(replaced(ACCOUNT, exp, "\"exp\":1.7000008e9"),
                      policy_at(1700000799, 0)));
    assert_ok(checked(replaced(ACCOUNT, iat, "\"iat\":1699999900.1"),
                      policy_at(1699999901, 0)));
    assert_err(checked(replaced(ACCOUNT, iat, "\"iat\":1699999900.1"),
                       policy_at(1699999900, 0)),
               PJ_ERR_TOKEN_NOT_YET);
    snprintf(payload, sizeof(payload), "{\"nbf\":%d.5,%s", NOW, ACCOUNT + 1);
    assert_ok(checked(payload, policy_at(NOW + 1, 0)));
    assert_err(checked(payload, policy_at(NOW, 0)), PJ_ERR_TOKEN_NOT_YET);
    snprintf(payload, sizeof(payload), "{\"nbf\":-1.5,%s", ACCOUNT + 1);
    assert_ok(checked(payload, policy_at(NOW, 0)));
    snprintf(payload, sizeof(payload), "{\"nbf\":1e400,%s", ACCOUNT + 1);
    assert_err(parse(payload), PJ_ERR_TOKEN_CLAIMS);
}

TEST (test_issuer_is_compared_exactly) {
    static const char *const bad[] = {
        "http://issuer/", "http://issue", "HTTP://issuer",
        " http://issuer", "http://other",
    };
    char quoted[64];

    assert_ok(at(NOW, 0));
    assert_ok(checked(replaced(ACCOUNT, "http://issuer", "http://second"),
                      policy_at(NOW, 0)));
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(quoted, sizeof(quoted), "\"iss\":\"%s\"", bad[i]);
        assert_err(
            checked(replaced(ACCOUNT, "\"iss\":\"http://issuer\"", quoted),
                    policy_at(NOW, 0)),
            PJ_ERR_TOKEN_ISSUER);
    }
}

static pj_err_t with_audience(const char *aud)
{
    pj_policy_t policy = policy_at(NOW, 0);
    char payload[1024];

    policy.audiences = audiences;
    policy.audience_count = 2;
    snprintf(payload, sizeof(payload), "{%s%s", aud, ACCOUNT + 1);
    return checked(payload, policy);
}

TEST (test_audience) {
    assert_ok(with_audience("\"aud\":\"api\","));
    assert_ok(with_audience("\"aud\":\"web\","));
    assert_ok(with_audience("\"aud\":[\"x\",\"web\"],"));
    assert_err(with_audience(""), PJ_ERR_TOKEN_AUDIENCE);
    assert_err(with_audience("\"aud\":\"API\","), PJ_ERR_TOKEN_AUDIENCE);
    assert_err(with_audience("\"aud\":[],"), PJ_ERR_TOKEN_AUDIENCE);
    assert_err(with_audience("\"aud\":[\"x\"],"), PJ_ERR_TOKEN_AUDIENCE);
    assert_ok(checked(replaced(ACCOUNT, "{", "{\"aud\":\"elsewhere\","),
                      policy_at(NOW, 0))); /* no audience asked for */
}

TEST (test_audience_of_a_wrong_type) {
    static const char *const bad[] = {"1",           "null",   "true",
                                      "{}",          "\"\"",   "[1]",
                                      "[\"api\",1]", "[\"\"]", "[[\"api\"]]"};
    static const char *const good[] = {"\"api\"", "[\"api\"]", "[]"};
    char payload[1024];
    pj_claims_t c;

    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(payload, sizeof(payload), "{\"aud\":%s,%s", bad[i],
                 ACCOUNT + 1);
        assert_err(claims_of(payload, &c), PJ_ERR_TOKEN_CLAIMS);
        assert_str(c.fault, "aud");
    }
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(payload, sizeof(payload), "{\"aud\":%s,%s", good[i],
                 ACCOUNT + 1);
        assert_ok(checked(payload, policy_at(NOW, 0)));
    }
}

/* Whatever cnf contains, a bearer must not use the token. */
TEST (test_confirmation) {
    static const char *const cnf[] = {"{\"jkt\":\"x\"}", "{\"x5t#S256\":\"x\"}",
                                      "{}", "null", "\"x\""};
    pj_policy_t policy = policy_at(NOW, 0);
    char payload[1024];

    for (size_t i = 0; i < COUNT(cnf); i++) {
        snprintf(payload, sizeof(payload), "{\"cnf\":%s,%s", cnf[i],
                 ACCOUNT + 1);
        policy.allow_confirmation = false;
        assert_err(checked(payload, policy), PJ_ERR_TOKEN_BOUND);
        policy.allow_confirmation = true;
        assert_ok(checked(payload, policy));
    }
}

/* A foreign token is foreign first, and expired only among our own. */
TEST (test_order_of_the_checks) {
    const char *foreign = replaced(ACCOUNT, "http://issuer", "http://x");
    pj_policy_t policy = policy_at(1800000000, 0);

    assert_err(checked(foreign, policy), PJ_ERR_TOKEN_ISSUER);
    policy.audiences = audiences;
    policy.audience_count = 2;
    assert_err(checked(ACCOUNT, policy), PJ_ERR_TOKEN_AUDIENCE);
    assert_err(at(1800000000, 0), PJ_ERR_TOKEN_EXPIRED);
    assert_err(checked(replaced(ACCOUNT, "1699999900", "1900000000"),
                       policy_at(1800000000, 0)),
               PJ_ERR_TOKEN_NOT_YET);
}

TEST (test_policy_out_of_bounds) {
    pj_policy_t policy = policy_at(NOW, 0);

    assert_err(at(NOW, -1), PJ_ERR_ARGUMENT);
    assert_err(at(NOW, 301), PJ_ERR_ARGUMENT);
    assert_err(at(-1, 0), PJ_ERR_ARGUMENT);
    assert_err(at(INT64_MAX, 0), PJ_ERR_ARGUMENT);
    policy.issuer_count = 0;
    assert_err(checked(ACCOUNT, policy), PJ_ERR_ARGUMENT);
}

int main(void)
{
    return run_case("jwt", fill_plain);
}
