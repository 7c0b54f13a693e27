/*
 * Tests of reading a page of revocations: its entries, its errors and its
 * limits.
 */

#include "feed.h"

static ngx_http_pgw_page_t *page;

/* Reads a page of len bytes and returns its error, or NULL. */
static const char *page_read(const char *body, size_t len)
{
    ngx_str_t document = {len, (u_char *) body};

    setup();
    zone.news.cursor_len = 4;
    memcpy(zone.news.cursor, "last", 4);
    free(page);
    page = calloc(1, sizeof(*page) + ngx_http_pgw_feed_mem());
    ck_assert_ptr_nonnull(page);
    page->zone = &zone;
    page->reading = &zone.news;
    page->name = names;
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
    ck_assert_int_eq(ngx_http_pgw_feed_key(names, kind, &node, &key), NGX_OK);
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
} every_page[] = {
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
    for (size_t i = 0; i < sizeof(every_page) / sizeof(every_page[0]); i++) {
        const char *err =
            page_read(every_page[i].text, strlen(every_page[i].text));

        ck_assert_msg(every_page[i].err == NULL
                          ? err == NULL
                          : err && strstr(err, every_page[i].err),
                      "%s: %s", every_page[i].name, err ? err : "good");
        ck_assert_msg(zone.table.live == every_page[i].live, "%s: %d entries",
                      every_page[i].name, (int) zone.table.live);
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

/* -- pages that a worker polls */

static const char *given;

static const char *gives(unsigned n)
{
    return given;
}

START_TEST (test_place_of_the_list) {
    static const struct {
        const char *page;
        int ok;
        ngx_uint_t entries;
    } rows[] = {
#define ONE "{\"id\":\"1\",\"dies_at\":1000900}"
#define REST ",\"cursor\":\"a\",\"more\":false}"
        {"{\"revocations\":[" ONE "]" REST, 1, 1},
        {"{\"a\":1,\"revocations\":[" ONE "]" REST, 1, 1},
        {"{\"x\\\"revocations\":[" ONE "],\"revocations\":[]" REST, 1, 0},
        {"{\"x,\\\"revocations\":[" ONE "]" REST, 0, 0},
        {"{\"revocations\":[],\"b\":{\"revocations\":[],\"c\":" ONE "}" REST, 1,
         0},
        {"{\"b\":{\"revocations\":[" ONE "]},\"revocations\":[]" REST, 1, 0},
        {"[\"revocations\",[" ONE "]]", 0, 0},
        {"[{\"revocations\":[" ONE "]}]", 0, 0},
    };

    feed = gives;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup();
        given = rows[i].page;
        work();
        ck_assert_msg(zone.complete == (ngx_atomic_t) rows[i].ok, "%s", given);
        ck_assert_msg(zone.table.live == rows[i].entries, "%s", given);
        ck_assert_int_eq(known(1), rows[i].entries == 1);
    }
}
END_TEST

/* Without the secret, ids could be chosen that collide in the table. */
START_TEST (test_the_secret_is_in_the_keys) {
    feed = gives;
    given = "{\"revocations\":[" ONE "]" REST;
    work();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ngx_http_pgw_feed_seed(&zone, &names[0]), NGX_OK);
        ck_assert_int_eq(known(1), i != 1);
        zone.secret[15] ^= 1;
    }
}
END_TEST

/* An entry of one issuer does not revoke the tokens of another. */
START_TEST (test_issuer_of_the_entries) {
#define LIST "\"revocations\":[" ONE "]"
#define ISSUER(of) "\"issuer\":" of
    static const struct {
        const char *page;
        int ok, of[2];
    } rows[] = {
        {ISSUER("\"a\"") "," LIST, 1, {1, 0}},
        {ISSUER("\"bc\"") "," LIST, 1, {0, 1}},
        {ISSUER("\"\\u0061\"") "," LIST, 1, {1, 0}},
        {LIST, 1, {1, 1}},
        {"\"b\":{" ISSUER("\"a\"") "}," LIST, 1, {1, 1}},
        {ISSUER("\"b\"") "," LIST, 0, {0, 0}},
        {ISSUER("\"\"") "," LIST, 0, {0, 0}},
        {ISSUER("1") "," LIST, 0, {0, 0}},
        {LIST "," ISSUER("\"a\""), 1, {1, 0}},
        {ISSUER("\"bc\"") "," ISSUER("\"a\"") "," LIST, 0, {0, 0}},
        {ISSUER("\"a\"") ",\"revocations\":[]," ISSUER("\"a\""), 0, {0, 0}},
    };

    feed = gives;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup();
        accepted.nelts = 2;
        snprintf(text, sizeof(text), "{%s" REST, rows[i].page);
        given = text;
        work();
        ck_assert_msg(zone.complete == (ngx_atomic_t) rows[i].ok, "%s", given);
        for (int n = 0; n < 2; n++)
            ck_assert_msg(known_of(&names[n], 1) == rows[i].of[n], "%s", given);
    }
}
END_TEST

START_TEST (test_times_are_rounded) {
    static const struct {
        const char *seconds;
        int64_t down, up;
    } rows[] = {
        {"1000", 1000000, 1000000},
        {"1000.001", 1000001, 1000001},
        {"1000.0004", 1000000, 1000001},
        {"1000.0006", 1000000, 1000001},
        {"0", 0, 0},
        {"253402300800", 253402300800000, 253402300800000},
        {"253402300800.001", -1, -1},
        {"-0.001", -1, -1},
        {"1e3", -1, -1},
        {"1E3", -1, -1},
        {"0e3", -1, -1},
        {"0E3", -1, -1},
    };
    pj_json_t node = {.type = PJ_JSON_NUMBER};
    pj_round_t both[] = {PJ_ROUND_DOWN, PJ_ROUND_UP};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int up = 0; up < 2; up++) {
            int64_t ms = -2, want = up ? rows[i].up : rows[i].down;

            node.text.data = (const u_char *) rows[i].seconds;
            node.text.len = strlen(rows[i].seconds);
            if (want < 0) {
                ck_assert_int_eq(ngx_http_pgw_feed_time(&node, both[up], &ms),
                                 NGX_ERROR);
                continue;
            }
            ck_assert_int_eq(ngx_http_pgw_feed_time(&node, both[up], &ms),
                             NGX_OK);
            ck_assert_int_eq(ms, want);
        }
    }
}
END_TEST

UNIT_MAIN("page", setup, test_pages, test_revoked_tokens, test_limits,
          test_nesting, test_place_of_the_list, test_the_secret_is_in_the_keys,
          test_issuer_of_the_entries, test_times_are_rounded)
