/*
 * Tests of CORS: which origins, methods and headers the directives take, which
 * of a page's they allow and what a refusal repeats of them; of lists of names
 * as well.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../request/request.h"
#include "../base/base.h"

/* What handles a request is not called here. */
#define ngx_http_pgw_guard_refuse(...) (abort(), NGX_ERROR)
#define ngx_http_pgw_guard_allow(...) abort()

#include "../request/ngx_http_pgw_cors.c"
#include "../base/ngx_http_pgw_names.c"
#include "../base/ngx_http_pgw_origin.c"
#include "../base/ngx_http_pgw_reason.c"
#include "unit.h"

/* -- what they need of nginx and of the other files */

ngx_module_t ngx_http_core_module, ngx_http_platform_gateway_module;

static char complaint[512];

/* Of the formats there are %V, %s and %Z. */
static u_char *print(u_char *p, const char *fmt, va_list args)
{
    const ngx_str_t *v;
    const char *text;

    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            *p++ = (u_char) *fmt;
        } else if (*++fmt == 'V') {
            v = va_arg(args, const ngx_str_t *);
            p = ngx_cpymem(p, v->data ? v->data : (u_char *) "", v->len);
        } else {
            text = *fmt == 's' ? va_arg(args, const char *) : "";
            p = ngx_cpymem(p, text, strlen(text) + 1) - (*fmt == 's');
        }
    }
    return p;
}

u_char *ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf = print(buf, fmt, args);
    va_end(args);
    return buf;
}

void ngx_conf_log_error(ngx_uint_t level, ngx_conf_t *cf, ngx_err_t err,
                        const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    *print((u_char *) complaint, fmt, args) = '\0';
    va_end(args);
}

/* The memory of one case: all of it goes with the next. */
static _Alignas(16) u_char memory[16 * 1024];
static size_t taken;

void *ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    u_char *p = memory + taken;

    taken += (size + 15) & ~(size_t) 15;
    ck_assert_uint_le(taken, sizeof(memory));
    return memset(p, 0, size);
}

ngx_array_t *ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    ngx_array_t *a = ngx_pnalloc(pool, sizeof(*a));

    a->size = size;
    a->elts = ngx_pnalloc(pool, 16 * size);
    return a;
}

void *ngx_array_push(ngx_array_t *a)
{
    return (char *) a->elts + a->size * a->nelts++;
}

static ngx_table_elt_t lines[8];

void *ngx_list_push(ngx_list_t *list)
{
    return &lines[list->part.nelts++];
}

ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

ngx_int_t ngx_atoi(u_char *line, size_t n)
{
    return n ? strtol((char *) line, NULL, 10) : NGX_ERROR;
}

void ngx_strlow(u_char *dst, u_char *src, size_t n)
{
    for (; n; n--, dst++, src++)
        *dst = ngx_tolower(*src);
}

/* -- a directive, and a question */

static ngx_http_pgw_loc_conf_t conf;

static ngx_str_t str(const char *text)
{
    return (ngx_str_t){text ? strlen(text) : 0, (u_char *) text};
}

static void setup(void)
{
    taken = 0;
    memset(&conf, 0, sizeof(conf));
    conf.cors_origins = NGX_CONF_UNSET_PTR;
    conf.cors_methods = str("GET, PUT");
    conf.cors_headers = str("Authorization, X-One");
}

/* Gives the directive those words; what is said of them, or NULL. */
static const char *given(ngx_http_pgw_set_t *set, ngx_command_t *cmd,
                         const char *words)
{
    char *word, *rest = ngx_pnalloc(NULL, strlen(words) + 1);
    ngx_str_t args[16] = {cmd->name};
    ngx_array_t array = {.elts = args, .nelts = 1};
    ngx_conf_t cf = {.args = &array};
    char *rv;

    memcpy(rest, words, strlen(words));
    while ((word = strsep(&rest, " ")) != NULL)
        args[array.nelts++] = str(word);
    complaint[0] = '\0';
    rv = set(&cf, cmd, &conf);
    return rv == NGX_CONF_OK ? NULL : rv == NGX_CONF_ERROR ? complaint : rv;
}

static const char *origins(const char *words)
{
    ngx_command_t cmd = {.name = ngx_string("origins")};

    return given(ngx_http_pgw_cors_origins, &cmd, words);
}

static const char *methods(const char *words)
{
    static char usual[] = "GET, POST";
    ngx_command_t cmd = {
        .name = ngx_string("methods"),
        .offset = offsetof(ngx_http_pgw_loc_conf_t, cors_methods),
        .post = usual};

    ngx_str_null(&conf.cors_methods);
    return given(ngx_http_pgw_cors_list, &cmd, words);
}

static const char *detail;

static ngx_http_pgw_reason_e ask(const char *origin, const char *method,
                                 const char *headers)
{
    ngx_http_pgw_question_t q = {.origin = str(origin), .method = str(method),
                                 .headers = str(headers)};

    return ngx_http_pgw_cors_explain(NULL, &conf, &q, &detail);
}

START_TEST (test_origins_that_are_none) {
    static const struct {
        const char *words, *said;
    } cases[] = {
        {"*", "each origin must be named"},
        {"null", "it must be scheme://host"},
        {"app.example.com", "it must be scheme://host"},
        {"://a.example", "it must be scheme://host"},
        {"1http://a.example", "it must be scheme://host"},
        {"ht_tp://a.example", "it must be scheme://host"},
        {"https://a.example/", "a path follows it"},
        {"https://a.example/x", "a path follows it"},
        {"https://", "the host is malformed"},
        {"https://*", "leftmost labels"},
        {"https://*.", "leftmost labels"},
        {"https://a.*.example.com", "leftmost labels"},
        {"https://*a.example.com", "leftmost labels"},
        {"https://*.com", "below a top-level domain"},
        {"https://a..example", "the host is malformed"},
        {"https://a.example.com.", "the host is malformed"},
        {"https://user@a.example", "the host is malformed"},
        {"https://a\tb.example", "the host is malformed"},
        {"https://[::1", "the host is malformed"},
        {"https://[::1]x", "the host is malformed"},
        {"https://a.example:x", "the port must be 1 to 65535"},
        {"https://a.example:", "the port must be 1 to 65535"},
        {"https://a.example:0", "the port must be 1 to 65535"},
        {"https://a.example:0443", "the port must be 1 to 65535"},
        {"https://a.example:65536", "the port must be 1 to 65535"},
        {"off https://a.example", "has origins beside \"off\""},
        {"https://a.example off", "it must be scheme://host"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *said;

        setup();
        said = origins(cases[i].words);
        ck_assert_msg(said && strstr(said, cases[i].said), "%s: %s",
                      cases[i].words, said ? said : "taken");
    }
}
END_TEST

START_TEST (test_origins_that_match) {
    static const char *const yes[] = {
        "https://app.example.com", "http://127.0.0.1:3000",
        "https://upper.example.com", "http://[::1]:5000",
        "https://a.wild.example:8443", "https://a.b.wild.example:8443",
        "app+x.y-z://a", "https://a_b.example",
    };
    static const char *const no[] = {
        "", "null", "http://app.example.com", "https://app.example.com:443",
        "https://app.example.com:8443", "https://app.example.com.evil.com",
        "https://app.example.co", "https://APP.example.com",
        "https://app.example.com/", "https://xapp.example.com",
        "app.example.com", "http://127.0.0.1", "https://wild.example:8443",
        "https://.wild.example:8443", "https://a..wild.example:8443",
        "https://.a.wild.example:8443", "https://a.wild.example",
        "https://a.wild.example:84433", "https://evil.com#.wild.example:8443",
        "https://evil.com/.wild.example:8443",
        "https://evil.com:1.wild.example:8443",
        "https://evil@a.wild.example:8443", "https://awild.example:8443",
    };
    size_t i;

    ck_assert(origins("https://app.example.com http://127.0.0.1:3000 "
                      "HTTPS://Upper.Example.COM:443") == NULL);
    ck_assert(origins("https://*.wild.example:8443 http://[::1]:5000 "
                      "app+x.y-z://a https://a_b.example") == NULL);
    for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        ck_assert_msg(ask(yes[i], "GET", "") == NGX_HTTP_PGW_REASON_NONE,
                      "%s", yes[i]);
    for (i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        ck_assert_msg(ask(no[i], "BREW", "x")
                          == NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN,
                      "%s", no[i]);
}
END_TEST

START_TEST (test_no_origin_and_off) {
    ck_assert(origins("off") == NULL);
    ck_assert_int_eq(ask("https://a.example", "GET", ""),
                     NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN);
    ck_assert_str_eq(origins("https://a.example"),
                     "has origins beside \"off\"");
}
END_TEST

/* What is refused, and what of it the answer repeats. */
START_TEST (test_methods_and_headers) {
    char long64[65] = "", long65[66] = "";
    const struct {
        const char *method, *headers, *repeats;  /* NULL: nothing */
        ngx_http_pgw_reason_e reason;
    } cases[] = {
#define OK NGX_HTTP_PGW_REASON_NONE
#define METHOD NGX_HTTP_PGW_REASON_PREFLIGHT_METHOD_FORBIDDEN
#define HEADER NGX_HTTP_PGW_REASON_PREFLIGHT_HEADER_FORBIDDEN
        {"GET", "", NULL, OK},
        {"PUT", " authorization ,\t,X-ONE,", NULL, OK},
        {"TRACE", "", "method TRACE", METHOD},
        {"get", "", "method get", METHOD},
        {"M-SEARCH", "x-two", "method M-SEARCH", METHOD},
        {long64, "", long64, METHOD},
        {long65, "", NULL, METHOD},
        {"", "", NULL, METHOD},
        {"GET\"}", "", NULL, METHOD},
        {"A\\u0041", "", NULL, METHOD},
        {"GET, PUT", "", NULL, METHOD},
        {"\xc3\xa9", "", NULL, METHOD},
        {"*", "", NULL, METHOD},
        {"GET", "x-one, x-two, x-three", "header x-two", HEADER},
        {"GET", "X-Two", "header X-Two", HEADER},
        {"GET", "*", NULL, HEADER},
        {"GET", long65, NULL, HEADER},
        {"GET", "a\"b", NULL, HEADER},
        {"GET", "x-one, a b", NULL, HEADER},
        {"GET", "\xff", NULL, HEADER},
    };

    memset(long64, 'X', 64);
    memset(long65, 'X', 65);
    ck_assert(origins("https://a.example") == NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(ask("https://a.example", cases[i].method,
                          cases[i].headers) == cases[i].reason,
                      "%s %s", cases[i].method, cases[i].headers);
        ck_assert_msg(cases[i].repeats
                          ? detail && strstr(detail, cases[i].repeats)
                          : detail == NULL,
                      "%s %s: %s", cases[i].method, cases[i].headers,
                      detail ? detail : "nothing repeated");
    }
}
END_TEST

START_TEST (test_lists_of_names) {
    ck_assert(methods("GET default PURGE") == NULL);
    ck_assert_uint_eq(conf.cors_methods.len, strlen("GET, GET, POST, PURGE"));
    ck_assert(memcmp(conf.cors_methods.data, "GET, GET, POST, PURGE",
                     conf.cors_methods.len) == 0);
    ck_assert(strstr(methods("GET *"), "there are no patterns"));
    ck_assert(strstr(methods("X-\xc3\xa9"), "there are no patterns"));
    ck_assert(strstr(methods(""), "invalid name"));
}
END_TEST

UNIT_MAIN("cors", setup,
          test_origins_that_are_none,
          test_origins_that_match,
          test_no_origin_and_off,
          test_methods_and_headers,
          test_lists_of_names)
