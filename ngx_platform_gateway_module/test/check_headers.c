/*
 * Tests of the headers of a request: which of the client's are removed, in
 * lists of any length, which stay and where; what is added for a location, and
 * taken back for the next one; and whose ids are kept.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/base.h"

/* No other token is looked for here. */
#define ngx_http_pgw_source_hide(...) (abort(), NGX_ERROR)

#include "../base/ngx_http_pgw_headers.c"
#include "../base/ngx_http_pgw_names.c"
#include "../base/ngx_http_pgw_trace.c"
#include "pool.h"
#include "unit.h"

/* -- what they need of nginx */

ngx_module_t ngx_http_platform_gateway_module;

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
                        const char *fmt, ...)
{
    abort();
}

void *ngx_list_push(ngx_list_t *list) { abort(); }

ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

u_char *ngx_hex_dump(u_char *dst, u_char *src, size_t len)
{
    static const u_char digits[] = "0123456789abcdef";

    for (; len; len--, src++) {
        *dst++ = digits[*src >> 4];
        *dst++ = digits[*src & 15];
    }
    return dst;
}

ngx_uint_t ngx_hash_key(u_char *data, size_t len) { return len; }
u_char *ngx_sprintf(u_char *buf, const char *fmt, ...) { abort(); }

/* -- a server, and a request */

#define NAME(text, low)                                               \
    {.name = ngx_string(text), .lowcase = ngx_string(low), .hash = 1}

static ngx_http_pgw_claim_header_t names[] = {
    NAME("X-Request-Id", "x-request-id"),
    NAME("X-Correlation-Id", "x-correlation-id"),
    NAME("X-Roles", "x-roles"),
    NAME("X-Account-Id", "x-account-id"),
};
static ngx_array_t strip = {.elts = names, .nelts = 4};
static ngx_array_t claims = {.elts = &names[2], .nelts = 2};
static ngx_http_pgw_srv_conf_t server = {.strip = &strip, .any_enabled = 1};
static ngx_http_pgw_loc_conf_t conf
    = {.claim_headers = &claims, .forward_authorization = 1};
static ngx_http_request_t r;
static ngx_http_pgw_request_t gr;
static ngx_connection_t connection;
static const char *sent[256];

/* A request with those lines, "Name: value", in parts of twenty as nginx has
 * them. */
static void request_of(const char *const *lines, size_t n)
{
    static void *confs[] = {&server}, *locs[] = {&conf};
    ngx_list_part_t *part = &r.headers_in.headers.part;

    memset(&r, 0, sizeof(r));
    memset(&gr, 0, sizeof(gr));
    r.srv_conf = confs;
    r.loc_conf = locs;
    r.connection = &connection;
    server.strip_lengths = 0;
    for (size_t i = 0; i < strip.nelts; i++)
        server.strip_lengths |= (uint64_t) 1 << names[i].name.len;
    part->elts = ngx_pcalloc(NULL, 20 * sizeof(ngx_table_elt_t));
    for (size_t i = 0; i < n; i++) {
        ngx_table_elt_t *h;
        const char *colon = strchr(lines[i], ':');
        u_char *low;

        if (part->nelts == 20) {
            part->next = ngx_pcalloc(NULL, sizeof(*part));
            part = part->next;
            part->elts = ngx_pcalloc(NULL, 20 * sizeof(ngx_table_elt_t));
        }
        h = (ngx_table_elt_t *) part->elts + part->nelts++;
        h->key.data = (u_char *) lines[i];
        h->key.len = (size_t) (colon - lines[i]);
        h->value.data = (u_char *) colon + 2;
        h->value.len = strlen(colon + 2);
        h->lowcase_key = low = ngx_pcalloc(NULL, h->key.len + 1);
        for (size_t c = 0; c < h->key.len; c++)
            low[c] = ngx_tolower(h->key.data[c]);
        if (strcmp((char *) low, "authorization") == 0)
            r.headers_in.authorization = h;
    }
    r.headers_in.headers.last = part;
}

/* All of its lines, each in brackets; no part but the first may be empty, and
 * the list knows its last one. */
static const char *lines_of(void)
{
    static char text[8192];
    ngx_http_pgw_walk_t walk = {&r.headers_in.headers.part, 0};
    const ngx_list_part_t *part, *last = &r.headers_in.headers.part;
    const ngx_table_elt_t *h;
    FILE *to = fmemopen(text, sizeof(text), "w");

    ck_assert_ptr_nonnull(to);
    while ((h = ngx_http_pgw_header_next(&walk)) != NULL)
        fprintf(to, "[%.*s: %.*s]", (int) h->key.len, h->key.data,
                (int) h->value.len, h->value.data);
    ck_assert_int_eq(fclose(to), 0);
    for (part = last->next; part; last = part, part = part->next)
        ck_assert_uint_ne(part->nelts, 0);
    ck_assert_ptr_eq(r.headers_in.headers.last, last);
    return text;
}

static void make(const ngx_http_pgw_loc_conf_t *of,
                 const ngx_http_pgw_grant_t *grant)
{
    ck_assert_int_eq(ngx_http_pgw_headers_make(&r, &gr, of, grant), NGX_OK);
}

#define IDS "[X-Request-Id: r][X-Correlation-Id: c]"

/* -- removing */

/* A number of headers to keep, with some to remove in each place. */
START_TEST (test_every_place) {
    static char keep[64][16];

    for (unsigned n = 0; n <= 45; n++) {
        for (unsigned place = 0; place < 7; place++) {
            char want[2048];
            FILE *to = fmemopen(want, sizeof(want), "w");
            size_t count = 0;

            ck_assert_ptr_nonnull(to);

            for (unsigned i = 0; i <= n; i++) {
                unsigned bad = place == 0   ? 0
                               : place == 1 ? i == 0
                               : place == 2 ? i == n
                               : place == 3 ? i == n / 2
                               : place == 4 ? 2 * (i == 0 || i == n)
                               : place == 5 ? 1
                                            : 21 * (i == n / 2);
                for (; bad; bad--)
                    sent[count++] = "X-Roles: spoofed";
                if (i == n)
                    break;
                snprintf(keep[i], sizeof(keep[i]), "X-H%u: %u", i, i);
                sent[count++] = keep[i];
                fprintf(to, "[%s]", keep[i]);
            }
            sent[count++] = "X-Request-Id: r";
            sent[count++] = "X-Correlation-Id: c";
            fprintf(to, IDS);
            ck_assert_int_eq(fclose(to), 0);
            request_of(sent, count);
            make(NULL, NULL);
            ck_assert_str_eq(lines_of(), want);
        }
    }
}
END_TEST

/* An element stays where it is: nginx's own pointers lead to it. */
START_TEST (test_elements_do_not_move) {
    static const char *const lines[]
        = {"X-Roles: 1", "Host: a", "X-Roles: 2", "Cookie: b"};
    ngx_http_pgw_walk_t walk = {&r.headers_in.headers.part, 0};
    ngx_table_elt_t *h;

    request_of(lines, 4);
    h = r.headers_in.headers.part.elts;
    make(NULL, NULL);
    ck_assert_ptr_eq(ngx_http_pgw_header_next(&walk), &h[1]);
    ck_assert_ptr_eq(ngx_http_pgw_header_next(&walk), &h[3]);
}
END_TEST

START_TEST (test_names) {
    static const struct {
        const char *line;
        int stays;
    } rows[] = {
        {"X-Roles: a", 0},       {"x-roles: a", 0},
        {"X-ROLES: a", 0},       {"X_Roles: a", 0},
        {"x.roles: a", 0},       {"x~ROLES: a", 0},
        {"X!Roles: a", 0},       {"X'Roles: a", 0},
        {"X*Roles: a", 0},       {"X+Roles: a", 0},
        {"X^Roles: a", 0},       {"X-Account_Id: a", 0},
        {"X_Account.Id: a", 0},  {"X_Request_Id: a", 0},
        {"X-Role: a", 1},        {"X-Rolesx: a", 1},
        {"XRoles: a", 1},        {"X--Roles: a", 1},
        {"-X-Roles: a", 1},      {"X-Roles-: a", 1},
        {"X-Account-Ids: a", 1}, {"X-Account--Id: a", 1},
        {"XxRoles: a", 1},       {"X0Roles: a", 1},
        {"Value: X-Roles", 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int there;

        request_of(&rows[i].line, 1);
        make(NULL, NULL);
        there = strstr(lines_of(), rows[i].line) != NULL;
        ck_assert_msg(there == rows[i].stays, "%s", rows[i].line);
    }

    /* where no location has the gateway on */
    request_of(&rows[0].line, 1);
    server.any_enabled = 0;
    make(NULL, NULL);
    server.any_enabled = 1;
    ck_assert_str_eq(lines_of(), "[X-Roles: a]");
}
END_TEST

/* -- ids */

#define A32 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A128 A32 A32 A32 A32

START_TEST (test_ids) {
    static const struct {
        const char *first, *second;
        const char *id; /* NULL: a new one */
    } rows[] = {
        {"X-Request-Id: mine-1", NULL, "mine-1"},
        {"X-Request-Id: a.b:c_d-9", NULL, "a.b:c_d-9"},
        {"X-Request-Id: " A128, NULL, A128},
        {"X-Request-Id: " A128 "a", NULL, NULL},
        {"X-Request-Id: ", NULL, NULL},
        {"X-Request-Id: a b", NULL, NULL},
        {"X-Request-Id: a\"b", NULL, NULL},
        {"X-Request-Id: \xc3\xa9", NULL, NULL},
        {"X-Request-Id: a", "X-Request-Id: a", NULL},
        {"X-Request-Id: a", "X_Request_Id: b", "a"},
        {"X_Request_Id: b", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const ngx_str_t *id = &gr.request_id;

        sent[0] = rows[i].first;
        sent[1] = rows[i].second;
        request_of(sent, rows[i].second ? 2 : 1);
        make(NULL, NULL);
        if (rows[i].id != NULL) {
            ck_assert_uint_eq(id->len, strlen(rows[i].id));
            ck_assert_mem_eq(id->data, rows[i].id, id->len);
        } else {
            ck_assert_uint_eq(id->len, 32);
            ck_assert_ptr_null(memchr(id->data, 'x', id->len));
        }
        ck_assert_ptr_eq(gr.correlation_id.data, id->data);
        ck_assert_ptr_null(strstr(lines_of(), "_Id"));
    }
}
END_TEST

/* -- traces */

#define ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define ZERO15 "000000000000000"
#define ZERO31 ZERO15 "0" ZERO15

START_TEST (test_traces) {
    static const struct {
        const char *value;
        ngx_uint_t valid;
    } rows[] = {
        {"00-" ID "-" PARENT "-01", 1},
        {"00-" ID "-" PARENT "-ff", 1},
        {"00-" ZERO31 "1-" ZERO15 "1-00", 1},
        {"01-" ID "-" PARENT "-01", 1},
        {"cc-" ID "-" PARENT "-01-what will be", 1},
        {"fe-" ID "-" PARENT "-01", 1},
        {"ff-" ID "-" PARENT "-01", 0},
        {"00-" ID "-" PARENT "-01-x", 0},
        {"cc-" ID "-" PARENT "-01x", 0},
        {"cc-" ID "-" PARENT "-0", 0},
        {ID "-" PARENT "-01", 0},
        {"0g-" ID "-" PARENT "-01", 0},
        {"00-" ID "-" PARENT "-0", 0},
        {"00-" ZERO31 "0-" PARENT "-01", 0},
        {"00-" ID "-" ZERO15 "0-01", 0},
        {"0A-" ID "-" PARENT "-01", 0},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", 0},
        {"00-" ID "-00F067AA0BA902B7-01", 0},
        {"00-" ID "-" PARENT "-0A", 0},
        {"00-" ID "-" PARENT "-0g", 0},
        {"00-bf92f3577b34da6a3ce929d0e0e4736g-" PARENT "-01", 0},
        {"00_" ID "-" PARENT "-01", 0},
        {"00-" ID "_" PARENT "-01", 0},
        {"00-" ID "-" PARENT "_01", 0},
        {"00-" ID "-" PARENT "-01, 00-" ID "-" PARENT "-01", 0},
        {"", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ngx_str_t value = {strlen(rows[i].value), (u_char *) rows[i].value};

        ck_assert_msg(ngx_http_pgw_trace_valid(&value) == rows[i].valid, "%s",
                      rows[i].value);
    }
}
END_TEST

/* -- adding, and taking back */

START_TEST (test_a_grant_and_the_next_location) {
    static const char *const lines[]
        = {"X-Request-Id: r", "Authorization: Bearer t", "X-Roles: spoofed",
           "X-Correlation-Id: c", "Host: a"};
    static ngx_str_t strings[] = {ngx_null_string, ngx_null_string,
                                  ngx_null_string, ngx_string("x,y"),
                                  ngx_null_string};
    ngx_http_pgw_grant_t grant = {.strings = strings, .nstrings = 5};

    request_of(lines, 5);
    make(NULL, NULL);
    ck_assert_str_eq(lines_of(), "[Authorization: Bearer t][Host: a]" IDS);
    for (int round = 0; round < 3; round++) {
        make(&conf, &grant);
        ck_assert_str_eq(lines_of(), "[Host: a]" IDS
                         "[Authorization: Bearer t][X-Roles: x,y]");
        make(NULL, NULL);
        ck_assert_str_eq(lines_of(), "[Host: a]" IDS
                         "[Authorization: Bearer t]");
        conf.forward_authorization = 0;
        make(&conf, &grant);
        conf.forward_authorization = 1;
        ck_assert_str_eq(lines_of(), "[Host: a]" IDS "[X-Roles: x,y]");
        ck_assert_ptr_nonnull(r.headers_in.authorization);
    }
}
END_TEST

UNIT_MAIN("headers", NULL,
          test_every_place,
          test_elements_do_not_move,
          test_names,
          test_ids,
          test_traces,
          test_a_grant_and_the_next_location)
