/*
 * Tests of what needs no token to be verified: finding it in a header, which
 * locations share a policy, which algorithms an issuer accepts, how a claim is
 * written in a header, and the reasons that the results of a check give.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/ngx_http_pgw_reason.c"
#include "../token/ngx_http_pgw_token.c"
#include "pool.h"
#include "unit.h"

/* -- what they need of nginx */

ngx_module_t ngx_http_platform_gateway_module;
static ngx_time_t clock_now;
volatile ngx_time_t *ngx_cached_time = &clock_now;


ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

/* Of one format, "%%%02Xd". */
u_char *ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf += snprintf((char *) buf, 4, "%%%02X", va_arg(args, unsigned));
    va_end(args);
    return buf;
}

ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_find(ngx_http_pgw_issuer_t *first,
                                                const pj_str_t *iss)
{
    return first;
}

const ngx_array_t *
ngx_http_pgw_issuer_accepted(const ngx_http_pgw_issuer_t *issuer,
                             const ngx_http_pgw_loc_conf_t *conf)
{
    return conf->issuers;
}

ngx_uint_t ngx_http_pgw_issuer_opens(const ngx_http_pgw_issuer_t *issuer,
                                     const ngx_http_pgw_loc_conf_t *conf)
{
    return conf->issuers ? NGX_HTTP_PGW_GUARDED : 0;
}

const pj_json_t *ngx_http_pgw_claim_find(const pj_json_t *root,
                                         const ngx_http_pgw_claim_t *claim)
{
    return pj_json_member(root, claim->names[0]);
}

const pj_json_t *ngx_http_pgw_claim_named(const pj_json_t *root,
                                          const ngx_array_t *names,
                                          ngx_uint_t n)
{
    abort();
}

ngx_int_t ngx_http_pgw_assertion_sign(ngx_pool_t *pool,
                                      const ngx_http_pgw_loc_conf_t *conf,
                                      const pj_claims_t *claims,
                                      ngx_http_pgw_grant_t *grant,
                                      ngx_str_t *value)
{
    abort();
}

ngx_uint_t ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule,
                                    const pj_json_t *root)
{
    return 0;
}

uint64_t ngx_http_pgw_claim_missing(const ngx_array_t *rules,
                                    const pj_json_t *root)
{
    return 0;
}

ngx_http_pgw_binding_e ngx_http_pgw_proof_binding(
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    u_char thumbprint[PJ_SHA256_BYTES])
{
    return NGX_HTTP_PGW_BINDING_NONE;
}

ngx_uint_t ngx_http_pgw_require_texts(const ngx_array_t *rules)
{
    return 0;
}

ngx_int_t ngx_http_pgw_require_text(ngx_pool_t *pool, const ngx_array_t *rules,
                                    ngx_uint_t n, const pj_json_t *root,
                                    ngx_str_t *text)
{
    abort();
}

int64_t ngx_http_pgw_authentication_time(
    const ngx_http_pgw_authentication_t *required,
    const ngx_http_pgw_issuer_t *issuer, const pj_json_t *root)
{
    abort();
}

void ngx_http_pgw_keys_select(ngx_http_pgw_issuer_t *issuer,
                             ngx_http_pgw_keys_t *keys)
{
}

/* -- the token of a header */

#define NONE NGX_HTTP_PGW_REASON_NONE
#define SHAPE NGX_HTTP_PGW_REASON_TOKEN_SHAPE
#define MISSING NGX_HTTP_PGW_REASON_TOKEN_MISSING

START_TEST (test_finding) {
    static const struct {
        const char *value; /* NULL: no header */
        ngx_http_pgw_reason_e reason;
        const char *token;
        ngx_http_pgw_reason_e proved; /* reason if DPoP is accepted as well */
    } rows[] = {
        {"Bearer abc", NONE, "abc", NONE},
        {"bearer abc", NONE, "abc", NONE},
        {"BeArEr   abc", NONE, "abc", NONE},
        {"Bearer a b", NONE, "a b", NONE}, /* whose shape is wrong */
        {"Bearer abc ", NONE, "abc ", NONE},
        {"Bearer", SHAPE, NULL, SHAPE},
        {"Bearer ", SHAPE, NULL, SHAPE},
        {"Bearer\tabc", MISSING, NULL, MISSING},
        {"Bearerabc", MISSING, NULL, MISSING},
        {"Bearer, abc", MISSING, NULL, MISSING},
        {"Basic abc", MISSING, NULL, MISSING},
        {" Bearer abc", MISSING, NULL, MISSING},
        {"Beare", MISSING, NULL, MISSING},
        {"", MISSING, NULL, MISSING},
        {NULL, MISSING, NULL, MISSING},
        {"DPoP abc", MISSING, "abc", NONE},
        {"dpop  abc", MISSING, "abc", NONE},
        {"DPoP", MISSING, NULL, SHAPE},
        {"DPoPabc", MISSING, NULL, MISSING},
        {"DPo", MISSING, NULL, MISSING},
    };

    for (size_t n = 0; n < 2 * sizeof(rows) / sizeof(rows[0]); n++) {
        size_t i = n / 2;
        ngx_str_t value;
        ngx_uint_t dpop = n % 2;
        pj_str_t token = {NULL, 0};
        ngx_http_pgw_reason_e reason = dpop ? rows[i].proved : rows[i].reason;

        value.data = (u_char *) rows[i].value;
        value.len = rows[i].value ? strlen(rows[i].value) : 0;
        ck_assert_msg(ngx_http_pgw_token_find(rows[i].value ? &value : NULL,
                                              &dpop, &token)
                          == reason,
                      "%s", rows[i].value);
        ck_assert_uint_eq(dpop, rows[i].reason != rows[i].proved && n % 2);
        if (reason == NONE) {
            ck_assert_uint_eq(token.len, strlen(rows[i].token));
            ck_assert_mem_eq(token.data, rows[i].token, token.len);
        }
    }
}
END_TEST

/* -- policies */

static pj_str_t a[] = {PJ_STR("a")}, b[] = {PJ_STR("b")}, aa[] = {PJ_STR("aa")};
static pj_str_t both[] = {PJ_STR("a"), PJ_STR("b")};

#define LIST(of) {.elts = of, .nelts = sizeof(of) / sizeof((of)[0])}

static ngx_array_t lists[] = {LIST(a), LIST(b), LIST(aa), LIST(both)};
static ngx_array_t maps[2];

/* One that differs in a single setting from the first is another policy. */
START_TEST (test_policies) {
#define BRANCH NGX_HTTP_PGW_BRANCH
#define ROW(level, iss, aud, seconds, bytes, cnf, map)                \
    {.access = level, .issuers = iss, .audiences = aud,               \
     .leeway = seconds, .token_max_size = bytes,                      \
     .allow_confirmation = cnf, .claim_headers = &maps[map]}
    static ngx_http_pgw_loc_conf_t rows[] = {
        ROW(BRANCH, &lists[0], NULL, 30, 100, 0, 0),
        ROW(BRANCH, &lists[0], NULL, 31, 100, 0, 0),
        ROW(BRANCH, &lists[0], NULL, 30, 101, 0, 0),
        ROW(BRANCH, &lists[0], NULL, 30, 100, 1, 0),
        ROW(BRANCH, &lists[0], NULL, 30, 100, 0, 1),
        ROW(BRANCH, &lists[1], NULL, 30, 100, 0, 0),
        ROW(BRANCH, &lists[2], NULL, 30, 100, 0, 0),
        ROW(BRANCH, &lists[3], NULL, 30, 100, 0, 0),
        ROW(BRANCH, &lists[0], &lists[0], 30, 100, 0, 0),
        ROW(BRANCH, &lists[0], &lists[1], 30, 100, 0, 0),
        ROW(BRANCH, &lists[0], &lists[3], 30, 100, 0, 0),
    };
    static ngx_http_pgw_authentication_t recent;
    static ngx_http_pgw_loc_conf_t same
        = ROW(NGX_HTTP_PGW_ACCOUNT, &lists[0], NULL, 30, 100, 0, 0);
    static ngx_http_pgw_loc_conf_t none[] = {
        ROW(0, &lists[0], NULL, 30, 100, 0, 0),
        ROW(NGX_HTTP_PGW_PUBLIC, &lists[0], NULL, 30, 100, 0, 0),
        ROW(BRANCH, NULL, NULL, 30, 100, 0, 0),
    };
    static ngx_http_pgw_loc_conf_t steps_up
        = ROW(BRANCH, &lists[0], NULL, 30, 100, 0, 0);
    static ngx_http_pgw_loc_conf_t shows
        = ROW(BRANCH, &lists[0], NULL, 30, 100, 0, 0);
    const size_t n = sizeof(rows) / sizeof(rows[0]);
    ngx_http_pgw_main_conf_t mcf = {.policies = NULL};
    void *confs[] = {&mcf};
    ngx_http_conf_ctx_t ctx = {.main_conf = confs};
    ngx_conf_t cf = {.ctx = &ctx};

    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(ngx_http_pgw_token_intern(&cf, &rows[i]), NULL);
        ck_assert_uint_ne(rows[i].policy, 0);
        for (size_t j = 0; j < i; j++)
            ck_assert_msg(rows[i].policy != rows[j].policy, "%d and %d",
                          (int) i, (int) j);
    }
    ngx_http_pgw_token_intern(&cf, &same);
    ck_assert_uint_eq(same.policy, rows[0].policy);
    steps_up.authentication = &recent;
    ngx_http_pgw_token_intern(&cf, &steps_up);
    ck_assert_uint_eq(steps_up.policy, n + 1);
    shows.certificate = 1;
    ngx_http_pgw_token_intern(&cf, &shows);
    ck_assert_uint_eq(shows.policy, n + 2);
    for (size_t i = 0; i < 3; i++) {
        ngx_http_pgw_token_intern(&cf, &none[i]);
        ck_assert_uint_eq(none[i].policy, 0);
    }
}
END_TEST

/* -- claims in headers */

START_TEST (test_claims_in_headers) {
    static const struct {
        const char *json;
        const char *value; /* NULL: no header */
    } rows[] = {
        {"\"plain-text\"", "plain-text"},
        {"\"\"", ""},
        {"\"a b\"", "a%20b"},
        {"\"a,b\"", "a,b"},
        {"\"100%\"", "100%25"},
        {"\"\\r\\nX-Roles: a\"", "%0D%0AX-Roles:%20a"},
        {"\"\\u00e9\\u007f\"", "%C3%A9%7F"},
        {"[\"a\",\"b,c\",\"\"]", "a,b%2Cc,"},
        {"[]", ""},
        {"17", "17"},
        {"1.5e3", "1.5e3"},
        {"true", "true"},
        {"false", "false"},
        {"null", NULL},
        {"{\"a\":1}", NULL},
        {"[\"a\",1]", NULL},
        {"[[\"a\"]]", NULL},
    };
    char text[256];
    static _Alignas(16) char mem[65536];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pj_json_t *root;
        pj_arena_t arena;
        ngx_str_t value = ngx_null_string;
        ngx_int_t rc;

        pj_str_t json = {(u_char *) text, 0};

        json.len = (size_t) snprintf(text, sizeof(text), "{\"claim\":%s}",
                                     rows[i].json);
        pj_arena_init(&arena, mem, sizeof(mem));
        ck_assert_int_eq(pj_json_parse(&arena, json, &root), PJ_OK);
        rc = ngx_http_pgw_token_value(NULL, pj_json_member(root, "claim"),
                                      &value);
        ck_assert_msg(rc == (rows[i].value ? NGX_OK : NGX_DECLINED), "%s",
                      rows[i].json);
        if (rows[i].value != NULL)
            ck_assert_str_eq((char *) value.data, rows[i].value);
    }
}
END_TEST

/* -- algorithms */

/* The issuer says which a token's header may name: here the only one there is,
 * or none.  There are no keys, so a token that passes lacks one. */
START_TEST (test_algorithms) {
    /* of the account "a", from 1 to 9999 */
    static const u_char text[] =
        "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJpIiwic3ViIjoiYSIsImp"
        "0aSI6ImoiLCJpYXQiOjEsImV4cCI6OTk5OSwiYWNjb3VudF9pZCI6ImEiLCJzZXNza"
        "W9uX2lkIjoicyIsImFjY291bnRfdHlwZSI6IkMiLCJ0eXAiOiJhY2Nlc3MiLCJ0b2t"
        "lbl90eXBlIjoiYWNjb3VudCIsInRva2VuX3Njb3BlIjoiQUNDT1VOVCJ9.c2lnbmF0"
        "dXJl";
    const pj_str_t token = {text, sizeof(text) - 1};
    static pj_str_t iss = PJ_STR("i");
    ngx_array_t issuers = {.elts = &iss, .nelts = 1};
    ngx_http_pgw_loc_conf_t conf = {.issuers = &issuers,
                                    .token_max_size = 1024};
    ngx_http_pgw_name_t name = {.iss = iss};
    ngx_http_pgw_issuer_t issuer = {.names = {.elts = &name, .nelts = 1}};
    ngx_http_pgw_keys_t keys = {.issuer = &issuer};
    pj_claims_t claims;

    clock_now.sec = 5000;
    for (int none = 0; none < 2; none++) {
        ngx_http_pgw_steps_t steps = {.at = 5000};
        pj_err_t said = none ? PJ_ERR_TOKEN_ALG : PJ_ERR_KID_UNKNOWN;

        const pj_alg_t *rs256 = pj_alg_find((pj_str_t) PJ_STR("RS256"));
        ngx_array_t algorithms = {.elts = &rs256, .nelts = none ? 0 : 1};

        issuer.algorithms = &algorithms;
        ck_assert_int_eq(ngx_http_pgw_token_verify(NULL, &conf, token, &keys,
                                                   &claims, NULL),
                         said);
        ck_assert_int_eq(ngx_http_pgw_token_verify(NULL, &conf, token, &keys,
                                                   &claims, &steps),
                         said);
        ck_assert_int_eq(!(steps.found[NGX_HTTP_PGW_STAGE_HEADER]
                           & PJ_FAULT(PJ_ERR_TOKEN_ALG)),
                         !none);
    }
}
END_TEST

/* -- reasons */

/* Whatever a check says but PJ_OK refuses; a failure of ours does, too. */
START_TEST (test_results_of_checks) {
    for (int err = PJ_OK; err < PJ_ERR_COUNT; err++) {
        const ngx_http_pgw_reason_t *reason
            = &ngx_http_pgw_reasons[ngx_http_pgw_reason_of_token(err)];
        int refuses = (reason->flags & NGX_HTTP_PGW_REASON_REFUSES) != 0;

        ck_assert_msg(refuses == (err != PJ_OK), "%s", pj_errname(err));
        ck_assert_msg(reason->flags & NGX_HTTP_PGW_REASON_VERIFIES, "%s",
                      pj_errname(err));
    }
    ck_assert_int_eq(ngx_http_pgw_reason_of_token(PJ_ERR_NO_SPACE),
                     NGX_HTTP_PGW_REASON_TOKEN_INVALID);
    ck_assert_int_eq(ngx_http_pgw_reason_of_token(PJ_ERR_CRYPTO),
                     NGX_HTTP_PGW_REASON_TOKEN_INVALID);
}
END_TEST

static int is_text(const char *s, const char *not)
{
    return s != NULL && *s != '\0' && strpbrk(s, not) == NULL;
}

/* A refusal says all that its answer needs, which needs no escaping. */
START_TEST (test_rows) {
    for (int i = 1; i < NGX_HTTP_PGW_REASONS; i++) {
        const ngx_http_pgw_reason_t *row = &ngx_http_pgw_reasons[i];

        ck_assert(is_text(row->name, " \"\\ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
        for (int j = 1; j < i; j++)
            ck_assert_str_ne(row->name, ngx_http_pgw_reasons[j].name);
        if (!(row->flags & NGX_HTTP_PGW_REASON_REFUSES)) {
            ck_assert_uint_lt(row->status, 300);
            ck_assert_ptr_null(row->code);
            continue;
        }
        ck_assert_uint_ge(row->status, 400);
        ck_assert(is_text(row->code, " \"\\abcdefghijklmnopqrstuvwxyz"));
        ck_assert(is_text(row->detail, "\"\\\r\n"));
        ck_assert_int_eq(
            row->error != NULL,
            row->flags & NGX_HTTP_PGW_REASON_VERIFIES
                || i == NGX_HTTP_PGW_REASON_TOKEN_CONFLICT
                || i == NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN
                || i == NGX_HTTP_PGW_REASON_CLAIM_REQUIRED
                || i == NGX_HTTP_PGW_REASON_AUTHENTICATION_REQUIRED ||
                             (i >= NGX_HTTP_PGW_REASON_TOKEN_UNBOUND &&
                              i <= NGX_HTTP_PGW_REASON_PROOF_NONCE));
        if (row->flags & NGX_HTTP_PGW_REASON_NGINX)
            ck_assert_int_eq(ngx_http_pgw_reason_of_status(row->status), i);
    }
    ck_assert_int_eq(ngx_http_pgw_reason_of_status(0),
                     NGX_HTTP_PGW_REASON_NONE);
    ck_assert_int_eq(ngx_http_pgw_reason_of_status(401),
                     NGX_HTTP_PGW_REASON_NONE);
}
END_TEST

UNIT_MAIN("policy", NULL,
          test_finding,
          test_policies,
          test_claims_in_headers,
          test_algorithms,
          test_results_of_checks,
          test_rows)
