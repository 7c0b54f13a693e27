/*
 * Tests of platform_gateway_authentication: which claims meet a requirement, to
 * the second, and why others do not.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/ngx_http_pgw_names.c"
#include "../token/ngx_http_pgw_authentication.c"
#include "pool.h"
#include "unit.h"

/* -- what it needs of nginx and of its neighbours */

ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

void *ngx_array_push(ngx_array_t *a)
{
    ck_assert_uint_lt(a->nelts, a->nalloc);
    return (u_char *) a->elts + a->size * a->nelts++;
}

ngx_int_t ngx_parse_time(ngx_str_t *line, ngx_uint_t is_sec) { return 300; }

u_char *ngx_http_pgw_text_grow(ngx_http_pgw_text_t *text, size_t len)
{
    text->failed = 1;
    return NULL;
}

void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...)
{
}

/* As for strings. */
ngx_uint_t ngx_http_pgw_claim_accepted(const ngx_http_pgw_rule_t *rule,
                                       const pj_json_t *value)
{
    const ngx_str_t *s = rule->values.elts;
    size_t i = 0;

    while (i < rule->values.nelts
           && (value == NULL || value->type != PJ_JSON_STRING
               || !pj_str_eq(value->text, (pj_str_t) {s[i].data, s[i].len})))
        i++;
    return i < rule->values.nelts;
}

/* -- claims */

#define ACR "acr"
#define NONE "no auth_time"
#define FUTURE "future"
#define OLD "longer ago"

/* At 1000, with 30 seconds of leeway. */
static const struct {
    const char *json;
    time_t max_age; /* 0: none */
    int acr;        /* aal2 or aal3 is required */
    const char *fault; /* a word of it, or NULL */
} rows[] = {
    {"{\"auth_time\":1000}", 60, 0, NULL},
    {"{\"auth_time\":940}", 60, 0, NULL},
    {"{\"auth_time\":939}", 60, 0, OLD},
    {"{\"auth_time\":0}", 1000, 0, NULL},
    {"{\"auth_time\":0}", 999, 0, OLD},
    {"{\"auth_time\":0}", 9223372036854775807, 0, NULL},
    {"{\"auth_time\":1030}", 60, 0, NULL},
    {"{\"auth_time\":1031}", 60, 0, FUTURE},
    {"{\"auth_time\":9223372036854775807}", 60, 0, FUTURE},
    {"{\"auth_time\":9223372036854775808}", 60, 0, NONE},
    {"{\"auth_time\":-1}", 9223372036854775807, 0, NONE},
    {"{\"auth_time\":-2}", 60, 0, NONE},
    {"{\"auth_time\":-9223372036854775808}", 60, 0, NONE},
    {"{\"auth_time\":-0.5}", 60, 0, NONE},
    {"{\"auth_time\":1000.5}", 60, 0, NONE},
    {"{\"auth_time\":1000.0}", 60, 0, NULL},
    {"{\"auth_time\":1e3}", 60, 0, NULL},
    {"{\"auth_time\":1e99}", 60, 0, NONE},
    {"{\"auth_time\":\"1000\"}", 60, 0, NONE},
    {"{\"auth_time\":[1000]}", 60, 0, NONE},
    {"{\"auth_time\":true}", 60, 0, NONE},
    {"{\"auth_time\":null}", 60, 0, NONE},
    {"{\"iat\":1000}", 60, 0, NONE},
    {"{\"acr\":\"aal2\"}", 0, 1, NULL},
    {"{\"acr\":\"aal3\",\"auth_time\":9999}", 0, 1, NULL},
    {"{\"acr\":\"aal1\"}", 0, 1, ACR},
    {"{\"acr\":\"AAL2\"}", 0, 1, ACR},
    {"{\"acr\":\"aal2 aal3\"}", 0, 1, ACR},
    {"{}", 0, 1, ACR},
    {"{\"acr\":\"aal2\",\"auth_time\":1000}", 60, 1, NULL},
    {"{\"acr\":\"aal2\",\"auth_time\":900}", 60, 1, OLD},
    {"{\"acr\":\"aal2\"}", 60, 1, NONE},
    {"{\"acr\":\"aal1\",\"auth_time\":1000}", 60, 1, ACR},
};

START_TEST (test_faults) {
    static ngx_str_t values[] = {ngx_string("aal2"), ngx_string("aal3")};
    static const ngx_http_pgw_issuer_t issuer = {.acr = "acr",
                                                 .auth_time = "auth_time"};
    static _Alignas(16) char mem[65536];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const ngx_http_pgw_authentication_t required = {
            .acr = {.values = {.elts = values, .nelts = rows[i].acr ? 2 : 0}},
            .max_age = rows[i].max_age,
        };
        const pj_str_t json = {(const u_char *) rows[i].json,
                               strlen(rows[i].json)};
        const char *fault;
        const pj_json_t *root;
        pj_arena_t arena;

        pj_arena_init(&arena, mem, sizeof(mem));
        ck_assert_int_eq(pj_json_parse(&arena, json, &root), PJ_OK);
        fault = ngx_http_pgw_authentication_fault(
            &required, ngx_http_pgw_authentication_time(&required, &issuer,
                                                        root), 1000, 30);
        ck_assert_msg(rows[i].fault ? fault && strstr(fault, rows[i].fault)
                                    : fault == NULL,
                      "%s: %s", rows[i].json, fault ? fault : "none");
    }
}
END_TEST

UNIT_MAIN("authentication", NULL,
          test_faults)
