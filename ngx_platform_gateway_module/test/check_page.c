/*
 * Tests of reading a page of revocations: its entries, its errors and its
 * limits.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../base/ngx_http_pgw_names.c"
#define ngx_http_pgw_counters_add(h, ms) ((void) (ms))
#include "../revoked/ngx_http_pgw_feed.c"
#include "../revoked/ngx_http_pgw_table.c"

static ngx_time_t clock_now = {.sec = 1000000};
volatile ngx_time_t *ngx_cached_time = &clock_now;

ngx_int_t ngx_strncasecmp(u_char *s1, u_char *s2, size_t n)
{
    return strncasecmp((char *) s1, (char *) s2, n);
}

#define SLOTS 32768

static ngx_http_pgw_table_slot_t slots[SLOTS];
static ngx_http_pgw_revoked_t zone;
static ngx_http_pgw_name_t name = {.iss = {(const u_char *) "a", 1}};
static ngx_http_pgw_page_t *page;
static char text[2 * 1024 * 1024];

/* Reads a page of len bytes and returns its error, or NULL. */
static const char *page_read(const char *body, size_t len)
{
    ngx_str_t document = {len, (u_char *) body};

    memset(slots, 0, sizeof(slots));
    ngx_http_pgw_table_init(&zone.table, slots, sizeof(slots));
    zone.table.live = zone.table.used = zone.table.swept = 0;
    free(page);
    page = calloc(1, sizeof(*page) + ngx_http_pgw_feed_mem());
    ck_assert_ptr_nonnull(page);
    page->zone = &zone;
    page->reading = &zone.news;
    page->name = &name;
    page->names = 1;
    ngx_http_pgw_feed_read(page, &document);
    return page->err;
}

static int known_as(u_char kind, const char *id, int64_t issued)
{
    pj_json_t node = {.type = PJ_JSON_STRING};
    ngx_http_pgw_table_key_t key;

    node.text.data = (const u_char *) id;
    node.text.len = strlen(id);
    ck_assert_int_eq(ngx_http_pgw_feed_key(&name, kind, &node, &key), NGX_OK);
    return ngx_http_pgw_table_has(&zone.table, &key, issued) != 0;
}

#define DIES "\"dies_at\":1000900"
#define ENTRY "{\"id\":\"a\"," DIES "}"
#define OPEN "{\"cursor\":\"c\",\"more\":false,\"revocations\":["
#define OF(entries) OPEN entries "]}"
#define WITH(cursor, more)                                                     \
    "{\"cursor\":" cursor ",\"more\":" more ",\"revocations\":[]}"
#define DYING(time) OF("{\"id\":\"a\",\"dies_at\":" time "}")
#define TEN "aaaaaaaaaa"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define ID_MAX HUNDRED TEN TEN "aaaaaaaa"

/* Pages with the error and the number of entries that count. */
static const struct {
    const char *name, *text;
    const char *err;
    ngx_uint_t live;
} rows[] = {
    {"no entry", OF(""), NULL, 0},
    {"an entry", OF(ENTRY), NULL, 1},
    {"two, and one again", OF(ENTRY ",{\"id\":\"b\"," DIES "}," ENTRY), NULL,
     2},
    {"a dead entry", DYING("999000"), NULL, 0},
    {"an entry whose token lives by the leeway", DYING("999700"), NULL, 1},
    {"an entry that outlives the leeway", DYING("999699"), NULL, 0},
    {"an account", OF("{\"subject\":\"s\",\"issued_before\":5," DIES "}"), NULL,
     1},
    {"the longest id", OF("{\"id\":\"" ID_MAX "\"," DIES "}"), NULL, 1},
    {"white space",
     "\r\n{ \"cursor\" :\t\"c\" , \"more\" : false , \"revocations\" : [ { "
     "\"id\" :\n\"a\" , " DIES " } ] } ",
     NULL, 1},
    {"unknown members",
     "{\"a\":[[1],{\"id\":\"x\"}],\"b\":{\"revocations\":[{}]},\"cursor\":"
     "\"c\",\"more\":false,\"revocations\":[{\"c\":{\"d\":[]},\"e\":null,"
     "\"id\":\"a\"," DIES "}]}",
     NULL, 1},
    {"another order",
     "{\"revocations\":[{" DIES ",\"id\":\"a\"}],\"more\":false,\"cursor\":"
     "\"c\"}",
     NULL, 1},
    {"escapes", OF("{\"id\":\"\\u0061\"," DIES "}"), NULL, 1},

    {"garbage", "\x01\xff{{{", "JSON", 0},
    {"nothing", "", "JSON", 0},
    {"HTML", "<html>", "JSON", 0},
    {"JSON of another kind", "{\"keys\":[]}", "no list", 0},
    {"no object", "[]", "no list", 0},
    {"two documents", OF("") OF(""), "JSON", 0},
    {"no comma between entries", OF(ENTRY ENTRY), "JSON", 0},
    {"two commas", OF(ENTRY ",," ENTRY), "JSON", 0},
    {"a comma behind the last", OF(ENTRY ","), "JSON", 0},
    {"a comma before the first", OF("," ENTRY), "JSON", 0},
    {"a value that is not an entry", OF(ENTRY ",0"), "not complete", 1},
    {"a space inside of a word", WITH("\"c\"", "fal se"), "JSON", 0},
    {"no end", OPEN ENTRY, "JSON", 0},
    {"an open string", "{\"cursor\":\"", "JSON", 0},
    {"an entry that does not end", OPEN "{\"id\":\"", "JSON", 0},
    {"no cursor", "{\"more\":false,\"revocations\":[]}", "no cursor", 0},
    {"an empty cursor", WITH("\"\"", "false"), "no cursor", 0},
    {"a cursor that is a number", WITH("1", "false"), "no cursor", 0},
    {"a cursor that would change the request", WITH("\"a&b\"", "false"),
     "no cursor", 0},
    {"a cursor of a header", WITH("\"a\\r\\nb\"", "false"), "no cursor", 0},
    {"a cursor with a NUL", WITH("\"a\\u0000b\"", "false"), "JSON", 0},
    {"a cursor with a space", WITH("\"a b\"", "false"), "no cursor", 0},
    {"a cursor with an escape", WITH("\"a%20b\"", "false"), "no cursor", 0},
    {"two cursors", "{\"cursor\":\"a\"," WITH("\"b\"", "false") + 1, "JSON", 0},
    {"the last cursor again, and more", WITH("\"last\"", "true"),
     "does not advance", 0},
    {"the last cursor again (control)", WITH("\"last\"", "false"), NULL, 0},
    {"no more", "{\"cursor\":\"c\",\"revocations\":[]}", "no boolean \"more\"",
     0},
    {"a more that is a number", WITH("\"c\"", "0"), "no boolean \"more\"", 0},
    {"no list", "{\"cursor\":\"c\",\"more\":false,\"revocations\":{}}",
     "no list", 0},
    {"two lists", "{\"revocations\":[]," WITH("\"c\"", "false") + 1, "JSON", 0},
    {"a list whose name has an escape",
     "{\"cursor\":\"c\",\"more\":false,\"revocation\\u0073\":[" ENTRY "]}",
     NULL, 1},
    {"a number in the list", OF("1"), "not complete", 0},
    {"an id and a subject",
     OF("{\"id\":\"a\",\"subject\":\"s\",\"issued_before\":5," DIES "}"),
     "both", 0},
    {"a list in the list", OF("[]"), "not complete", 0},
    {"an entry without members", OF("{}"), "not complete", 0},
    {"an entry that is not JSON", OF(ENTRY ",{\"id\"}"), "JSON", 0},
    {"an entry with two ids", OF("{\"id\":\"x\",\"id\":\"a\"," DIES "}"),
     "JSON", 0},
    {"no dies_at", OF("{\"id\":\"a\"}"), "not complete", 0},
    {"a time that is a string", DYING("\"1000900\""), "not complete", 0},
    {"a time out of range", DYING("1e99"), "not complete", 0},
    {"a time after the year 9999", DYING("253402300801"), "not complete", 0},
    {"a time before 1970", DYING("-1"), "not complete", 0},
    {"a time with an exponent", DYING("9e9"), "not complete", 0},
    {"a time with an exponent, E", DYING("9E9"), "not complete", 0},
    {"a time of more digits than are read",
     DYING("1000900.0000000000000000000000000000000000000000000000000000000"),
     "not complete", 0},
    {"an empty id", OF("{\"id\":\"\"," DIES "}"), "not complete", 0},
    {"an id that is too long", OF("{\"id\":\"" ID_MAX "a\"," DIES "}"),
     "not complete", 0},
    {"an id that is a number", OF("{\"id\":1," DIES "}"), "not complete", 0},
    {"an account without issued_before", OF("{\"subject\":\"a\"," DIES "}"),
     "not complete", 0},
    {"an account whose issued_before is a string",
     OF("{\"subject\":\"a\",\"issued_before\":\"now\"," DIES "}"),
     "not complete", 0},
    {"a wrong entry among others",
     OF(ENTRY ",{\"id\":\"\"},{\"id\":\"b\"," DIES "}"), "not complete", 2},
};

START_TEST (test_pages) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *err = page_read(rows[i].text, strlen(rows[i].text));

        ck_assert_msg(rows[i].err == NULL ? err == NULL
                                          : err && strstr(err, rows[i].err),
                      "%s: %s", rows[i].name, err ? err : "good");
        ck_assert_msg(zone.table.live == rows[i].live, "%s: %d entries",
                      rows[i].name, (int) zone.table.live);
    }
}
END_TEST

START_TEST (test_revoked_tokens) {
    static const char said[] =
        "{\"now\":12.5,\"cursor\":\"a-B._:,9\",\"more\":true,\"revocations\":"
        "[{\"id\":\"a\"," DIES
        "},{\"subject\":\"s\",\"issued_before\":100.5," DIES
        "},{\"subject\":\"t\",\"issued_before\":100.5004," DIES "}]}";

    ck_assert_ptr_null(page_read(said, sizeof(said) - 1));
    ck_assert_int_eq(page->now, 12500);
    ck_assert_uint_eq(page->more, 1);
    ck_assert_uint_eq(page->cursor.len, 8);
    ck_assert_mem_eq(page->cursor.data, "a-B._:,9", 8);
    ck_assert(known_as('i', "a", INT64_MAX - 1));
    ck_assert(known_as('s', "s", 100499));
    ck_assert(!known_as('s', "s", 100500));
    ck_assert(known_as('s', "t", 100500)); /* in the same millisecond */
    ck_assert(!known_as('s', "t", 100501));
    ck_assert(!known_as('i', "s", 0)); /* not as a session */
    ck_assert(!known_as('s', "a", 0));
}
END_TEST

/* A page of n entries, each with a string of in_entry bytes and an array of so
 * many values.  The page itself has a string of beside bytes. */
static size_t page_of(unsigned n, size_t in_entry, size_t values, size_t beside)
{
    FILE *to = fmemopen(text, sizeof(text), "w");
    long len;

    ck_assert_ptr_nonnull(to);
    fprintf(to, "{\"x\":\"%*s\",\"cursor\":\"c\",\"more\":false,", (int) beside,
            "");
    fprintf(to, "\"revocations\":[");
    for (unsigned i = 0; i < n; i++) {
        fprintf(to, "%s{\"id\":\"%u\",\"x\":\"%*s\",\"y\":[", i ? "," : "", i,
                (int) in_entry, "");
        for (size_t v = 0; v < values; v++)
            fprintf(to, v ? ",0" : "0");
        fprintf(to, "]," DIES "}");
    }
    fprintf(to, "]}");
    len = ftell(to);
    ck_assert_int_eq(fclose(to), 0);
    return (size_t) len;
}

START_TEST (test_limits) {
    /* 5 values of the page, and 5 of an entry with an empty array */
    const size_t least = 5 + 5, all = NGX_HTTP_PGW_FEED_MAX_VALUES - least;
    const struct {
        unsigned n;
        size_t in_entry, values, beside;
        const char *err;
        ngx_uint_t live;
    } limits[] = {
        {2000, 0, 0, 0, NULL, 2000},
        {2000, 0, 10, 0, NULL, 2000},
        {2001, 0, 0, 0, "too many entries", 0},
        {1, 250000, 0, 0, NULL, 1},
        {1, 0, 0, 250000, NULL, 1},
        {1, 0, all, 0, NULL, 1},
        {1, 0, all + 1, 0, "too many JSON values", 0},
        {1, 262144, 0, 0, "JSON", 0},
        {1, 0, 0, 262144, "JSON", 0},
        {0, 0, 0, 900000, "JSON", 0},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        size_t len = page_of(limits[i].n, limits[i].in_entry, limits[i].values,
                             limits[i].beside);
        const char *err = page_read(text, len);

        ck_assert_msg(limits[i].err ? err && strstr(err, limits[i].err) : !err,
                      "%d: %s", (int) i, err ? err : "good");
        ck_assert_uint_eq(zone.table.live, limits[i].live);
    }
    for (int over = 0; over < 2; over++) {
        int len = snprintf(text, sizeof(text),
                           "{\"cursor\":\"%0*d\",\"more\":true,"
                           "\"revocations\":[]}",
                           NGX_HTTP_PGW_CURSOR_MAX + over, 0);

        ck_assert_int_eq(page_read(text, (size_t) len) == NULL, !over);
    }
    /* empty entries to the last byte */
    memcpy(text, OPEN, sizeof(OPEN) - 1);
    for (size_t n = sizeof(OPEN) - 1; n < NGX_HTTP_PGW_FEED_MAX_BYTES; n += 3)
        memcpy(&text[n], "{},", 3);
    ck_assert_ptr_nonnull(page_read(text, NGX_HTTP_PGW_FEED_MAX_BYTES));
    ck_assert_uint_eq(zone.table.live, 0);
}
END_TEST

/* Deep nesting does not overflow the stack. */
START_TEST (test_nesting) {
    for (size_t n = 4000; n <= 400000; n *= 100) {
        memset(text, '[', n);
        ck_assert_ptr_nonnull(page_read(text, n));
        ck_assert_uint_eq(zone.table.live, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page");
    TCase *tc = tcase_create("page");
    SRunner *runner = srunner_create(suite);
    int failed;

    zone.secret[0] = 1;
    if (ngx_http_pgw_feed_seed(&zone, &name) != NGX_OK)
        return EXIT_FAILURE;
    zone.news.cursor_len = 4;
    memcpy(zone.news.cursor, "last", 4);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_pages);
    tcase_add_test(tc, test_revoked_tokens);
    tcase_add_test(tc, test_limits);
    tcase_add_test(tc, test_nesting);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
