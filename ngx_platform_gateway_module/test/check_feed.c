/* Tests of pages of revocations: their list, issuer, keys and times. */

#include "feed.h"

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
#define ENTRY "{\"id\":\"1\",\"dies_at\":1000900}"
#define REST ",\"cursor\":\"a\",\"more\":false}"
        {"{\"revocations\":[" ENTRY "]" REST, 1, 1},
        {"{\"a\":1,\"revocations\":[" ENTRY "]" REST, 1, 1},
        {"{\"x\\\"revocations\":[" ENTRY "],\"revocations\":[]" REST, 1, 0},
        {"{\"x,\\\"revocations\":[" ENTRY "]" REST, 0, 0},
        {"{\"revocations\":[],\"b\":{\"revocations\":[],\"c\":" ENTRY "}" REST,
         1, 0},
        {"{\"b\":{\"revocations\":[" ENTRY "]},\"revocations\":[]" REST, 1, 0},
        {"[\"revocations\",[" ENTRY "]]", 0, 0},
        {"[{\"revocations\":[" ENTRY "]}]", 0, 0},
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
    given = "{\"revocations\":[" ENTRY "]" REST;
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
#define LIST "\"revocations\":[" ENTRY "]"
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

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *tc = tcase_create("feed");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_place_of_the_list);
    tcase_add_test(tc, test_the_secret_is_in_the_keys);
    tcase_add_test(tc, test_issuer_of_the_entries);
    tcase_add_test(tc, test_times_are_rounded);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
