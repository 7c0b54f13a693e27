/*
 * Tests of text that is written piece by piece: what the pieces look like, that
 * they are whole and within their room however little that is at first, and
 * that nothing is sent of a text for which memory was short.  And which paths
 * all servers read alike.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/ngx_http_pgw_path.c"
#include "../base/ngx_http_pgw_text.c"
#include "unit.h"

/* -- what it needs of nginx */

static unsigned allocations, fails_at; /* 0: none does */
static ngx_str_t sent;
static ngx_table_elt_t line;
static u_char memory[64 * 1024];
static size_t taken;

void *ngx_palloc(ngx_pool_t *pool, size_t size)
{
    if (++allocations == fails_at)
        return NULL;
    taken += size;
    ck_assert_uint_le(taken, sizeof(memory));
    return memory + taken - size;
}

/* As of a pool: it frees what is its own and large, and no other memory. */
ngx_int_t ngx_pfree(ngx_pool_t *pool, void *p) { return NGX_DECLINED; }

u_char *ngx_vslprintf(u_char *buf, u_char *last, const char *fmt, va_list args)
{
    int n = vsnprintf((char *) buf, (size_t) (last - buf), fmt, args);

    return buf + n < last ? buf + n : last;
}

void *ngx_list_push(ngx_list_t *list) { return &line; }

ngx_int_t ngx_hextoi(u_char *hex, size_t n)
{
    char text[3] = {(char) hex[0], (char) hex[1], '\0'}, *end;
    long value = strtol(text, &end, 16);

    return n == 2 && end == text + 2 ? (ngx_int_t) value : NGX_ERROR;
}

ngx_int_t ngx_http_send_response(ngx_http_request_t *r, ngx_uint_t status,
                                 ngx_str_t *ct, ngx_http_complex_value_t *cv)
{
    sent = cv->value;
    return NGX_OK;
}

/* -- a text of every kind of piece */

static const char whole[] =
    "{\"json\":\"a\\\"\\\\\\u0001\xe2\x82\xac\",\"none\":null,\"plain\":\"b\","
    "\"n\":0,\"most\":9223372036854775807,\"less\":null,\"word\":\"c\","
    "\"no\":null,\"long\":\"";

static char longest[4096];

static void write_all(ngx_http_pgw_text_t *text)
{
    ngx_str_t s = ngx_string("a\"\\\x01\xe2\x82\xac");
    ngx_str_t plain = ngx_string("b"), none = ngx_null_string;
    ngx_str_t much = {sizeof(longest), (u_char *) longest};

    ngx_http_pgw_text_json(text, "{\"json\":", &s);
    ngx_http_pgw_text_json(text, ",\"none\":", &none);
    ngx_http_pgw_text_plain(text, ",\"plain\":", &plain);
    ngx_http_pgw_text_number(text, ",\"n\":", 0);
    ngx_http_pgw_text_number(text, ",\"most\":", INT64_MAX);
    ngx_http_pgw_text_number(text, ",\"less\":", -1);
    ngx_http_pgw_text_literal(text, ",\"word\":", "c");
    ngx_http_pgw_text_literal(text, ",\"no\":", NULL);
    ngx_http_pgw_text_json(text, ",\"long\":", &much);
    ngx_http_pgw_text_format(text, "%s%.*s}", "", (int) sizeof(longest),
                             longest);
}

static void assert_whole(const u_char *p, size_t len)
{
    size_t n = sizeof(whole) - 1;

    ck_assert_uint_eq(len, n + 2 * sizeof(longest) + 2);
    ck_assert_mem_eq(p, whole, n);
    ck_assert_mem_eq(p + n, longest, sizeof(longest));
    ck_assert_int_eq(p[n + sizeof(longest)], '"');
    ck_assert_int_eq(p[len - 1], '}');
}

static void setup(void)
{
    memset(longest, 'x', sizeof(longest));
    allocations = fails_at = 0;
    taken = sent.len = 0;
}

/* From no room at all to more than the small pieces take, what lies behind the
 * room is not touched. */
START_TEST (test_pieces_in_any_room) {
    ngx_http_request_t r = {.pool = NULL};

    for (size_t size = 0; size < 512; size++) {
        u_char *room = malloc(size + 8);
        ngx_http_pgw_text_t text = {&r, room, room, room + size, 0, NULL};

        taken = 0;
        memset(room + size, 0x5a, 8);
        write_all(&text);
        ck_assert_uint_eq(text.failed, 0);
        ck_assert(text.last <= text.end);
        assert_whole(text.start, (size_t) (text.last - text.start));
        ck_assert_mem_eq(room + size, "ZZZZZZZZ", 8);
        free(room);
    }
}
END_TEST

START_TEST (test_sent_whole_or_not_at_all) {
    ngx_http_request_t r = {.pool = NULL};
    ngx_http_pgw_text_t text = {.request = &r};
    unsigned all;

    write_all(&text);
    all = allocations;
    ck_assert_int_eq(ngx_http_pgw_text_send(&text, "text/plain"), NGX_OK);
    assert_whole(sent.data, sent.len);
    ck_assert_uint_gt(all, 1);

    for (unsigned n = 1; n <= all; n++) {
        ngx_http_pgw_text_t less = {.request = &r};

        setup();
        fails_at = n;
        write_all(&less);
        ck_assert_uint_eq(less.failed, 1);
        ck_assert_int_eq(ngx_http_pgw_text_send(&less, "text/plain"),
                         NGX_HTTP_INTERNAL_SERVER_ERROR);
        ck_assert_uint_eq(sent.len, 0);
    }
}
END_TEST

/* -- paths */

START_TEST (test_paths) {
    static const struct {
        const char *path;
        ngx_uint_t plain;
    } rows[] = {
        {"..;/branch/x", 0}, {";x", 0}, {"x;", 0}, {"x;v=1/y", 0},
        {"%2e%2e%3b/x", 0}, {"%3B", 0}, {"%2e", 0}, {"%2E%2e/strict/x", 0},
        {"a%2fb", 0}, {"a%2Fb", 0}, {"a%5Cb", 0}, {"a\\b", 0},
        {"%252e%252e", 0}, {"%25zz%2541", 0}, {"/x", 0}, {"x//y", 0},
        {"./x", 0}, {"x/.", 0}, {"x/./y", 0}, {"../strict/x", 0},
        {"x/y/..", 0}, {"%01", 0}, {"%7f", 0}, {"x%0d%0ay", 0}, {"x#y", 0},
        {"x;?y", 0}, {"", 1}, {"x", 1}, {"x.y", 1}, {".x", 1}, {"..x", 1},
        {"x..", 1}, {"x/.well-known/y", 1}, {"...", 1}, {"%20", 1},
        {"a%2Db", 1}, {"%C3%A9", 1}, {"100%25", 1}, {"%25", 1},
        {"\xc3\xa9", 1}, {"x?a;b//../%2f#c", 1}, {"?;", 1},
        {":@&=+$,~!*()", 1}, {"%3f%23", 1}, {"%2544", 0},
    };
    char text[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ngx_str_t path = {0, (u_char *) text};

        path.len = (size_t) snprintf(text, sizeof(text), "/strict/%s",
                                     rows[i].path);
        ck_assert_msg(ngx_http_pgw_path_plain(&path) == rows[i].plain, "%s",
                      text);
    }
}
END_TEST

UNIT_MAIN("text", setup,
          test_pieces_in_any_room,
          test_sent_whole_or_not_at_all,
          test_paths)
