/* Tests of the text that both halves read alike. */

#include "web.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void assert_text(pj_str_t got, const char *want)
{
    ck_assert_msg(pj_str_eq(got, pj_str(want)), "got '%.*s', want '%s'",
                  (int) got.len, (const char *) got.data, want);
}

START_TEST (test_text) {
    pj_str_t rest;

    ck_assert(web_begins(PJ_STR("ab"), "ab"));
    ck_assert(!web_begins(PJ_STR("a"), "ab"));
    assert_text(web_trim(PJ_STR("\t a \t b\t ")), "a \t b");
    assert_text(web_trim(PJ_STR(" \t")), "");
    assert_text(web_unquote(PJ_STR("\"\"")), "");
    assert_text(web_unquote(PJ_STR("\"a\"")), "a");
    assert_text(web_unquote(PJ_STR("\"")), "\"");
    assert_text(web_unquote(PJ_STR("\"a")), "\"a");
    assert_text(web_split(PJ_STR("a=b=c"), '=', &rest), "a");
    assert_text(rest, "b=c");
    assert_text(web_split(PJ_STR("a="), '=', &rest), "a");
    ck_assert(rest.data != NULL && rest.len == 0);
    assert_text(web_split(PJ_STR("a"), '=', &rest), "a");
    ck_assert_ptr_null(rest.data);
    assert_text(web_split((pj_str_t){NULL, 0}, '=', &rest), "");
}
END_TEST

START_TEST (test_plain) {
    ck_assert(web_plain(PJ_STR("azAZ09-_"), "-_"));
    ck_assert(!web_plain(PJ_STR(""), "-_"));
    for (int c = 0; c < 256; c++) {
        unsigned char text[3] = {'a', (unsigned char) c, 'a'};
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || c == '-' || c == 0xE9;

        ck_assert_msg(web_plain((pj_str_t){text, 3}, "-\xE9") == plain, "%d",
                      c);
    }
}
END_TEST

START_TEST (test_ids) {
    unsigned char text[129];

    memset(text, 'a', sizeof(text));
    ck_assert(web_id_valid((pj_str_t){text, 128}));
    ck_assert(!web_id_valid((pj_str_t){text, 129}));
    ck_assert(!web_id_valid((pj_str_t){text, 0}));
    ck_assert(web_id_valid(PJ_STR("A.b:1_-")));
    ck_assert(!web_id_valid(PJ_STR("a b")));
    ck_assert(!web_id_valid(PJ_STR("a\"b")));
}
END_TEST

START_TEST (test_cookies) {
    static const struct {
        const char *item, *value; /* NULL if it is another cookie */
    } cases[] = {
        {"rt=abc", "abc"},     {" rt=abc\t", "abc"},  {"rt = abc", "abc"},
        {"rt=a=b==", "a=b=="}, {"rt=\"abc\"", "abc"}, {"rt= \"a\" ", "a"},
        {"rt=\"abc", "\"abc"}, {"rt=abc\"", "abc\""}, {"rt=", ""},
        {"rt=\"\"", ""},       {"rt", NULL},          {"", NULL},
        {"=abc", NULL},        {"xrt=abc", NULL},     {"rtx=abc", NULL},
        {"RT=abc", NULL},      {"x=rt=abc", NULL},    {"\"rt\"=abc", NULL},
    };
    pj_str_t value;

    for (size_t i = 0; i < COUNT(cases); i++) {
        bool found = web_cookie(pj_str(cases[i].item), PJ_STR("rt"), &value);

        ck_assert_msg(found == (cases[i].value != NULL), "%s", cases[i].item);
        if (found)
            assert_text(value, cases[i].value);
    }
}
END_TEST

START_TEST (test_labels) {
    static const char *const yes[] = {"a", "a.b", "A-1._b", "1.2.3.4"};
    static const char *const no[] = {"",     ".",   ".a",  "a.",  "a..b",
                                     "a/.b", "a b", "a:1", "[a]", "*.a"};

    for (size_t i = 0; i < COUNT(yes); i++)
        ck_assert_msg(web_labels(pj_str(yes[i])), "%s", yes[i]);
    for (size_t i = 0; i < COUNT(no); i++)
        ck_assert_msg(!web_labels(pj_str(no[i])), "%s", no[i]);
}
END_TEST

START_TEST (test_origins) {
    static const struct {
        const char *allowed, *origin;
        bool match;
    } cases[] = {
        {"https://a.example", "https://a.example", true},
        {"HTTPS://A.Example:443", "https://a.example", true},
        {"https://a.example", "https://A.example", false},
        {"https://a.example:443", "https://a.example:443", false},
        {"https://a.example:80", "https://a.example:80", true},
        {"https://a.example:80", "https://a.example", false},
        {"http://a.example:80", "http://a.example", true},
        {"http://a.example:443", "http://a.example:443", true},
        {"http://[::1]:5000", "http://[::1]:5000", true},
        {"http://[::80]", "http://[::80]", true},
        {"https://a.example", "http://a.example", false},
        {"https://a.example", "https://a.example:8443", false},
        {"https://a.example", "https://a.example.evil", false},
        {"https://a.example", "https://a.exampl", false},
        {"https://a.example", "null", false},
        {"https://a.example", "", false},
        {"app+x://a:443", "app+x://a:443", true},
        {"https://*.b.example", "https://a.b.example", true},
        {"https://*.B.example:443", "https://a_1.-.b.example", true},
        {"https://*.b.example", "https://A.b.example", false},
        {"https://*.b.example", "https://b.example", false},
        {"https://*.b.example", "https://.b.example", false},
        {"https://*.b.example", "https://ab.example", false},
        {"https://*.b.example", "https://a..b.example", false},
        {"https://*.b.example", "https://.a.b.example", false},
        {"https://*.b.example", "https://evil/.b.example", false},
        {"https://*.b.example", "https://evil:1.b.example", false},
        {"https://*.b.example", "https://evil@a.b.example", false},
        {"https://*.b.example", "https://evil#.b.example", false},
        {"https://*.b.example", "http://a.b.example", false},
        {"https://*.b.example", "https://a.b.example:8443", false},
        {"https://*.b.example:8443", "https://a.b.example:8443", true},
        {"https://*.b.example:8443", "https://a.b.example", false},
    };
    web_origin_t allowed;

    for (size_t i = 0; i < COUNT(cases); i++) {
        web_origin_set(&allowed, pj_str(cases[i].allowed));
        ck_assert_msg(web_origin_match(&allowed, pj_str(cases[i].origin)) ==
                          cases[i].match,
                      "%s %s", cases[i].allowed, cases[i].origin);
    }
    web_origin_set(&allowed, PJ_STR("https://*.B.example:443"));
    assert_text(allowed.text, "https://*.B.example");
}
END_TEST

START_TEST (test_own_origin) {
    static const struct {
        const char *origin, *host;
        bool plain, tls; /* answers without and with TLS */
    } cases[] = {
        {"https://a.example", "a.example", true, true},
        {"http://a.example", "a.example", true, false},
        {"https://a.example", "A.example", true, true},
        {"https://a.example", "a.example:443", true, true},
        {"https://a.example:443", "a.example", true, true},
        {"https://a.example", "a.example:", true, true},
        {"https://a.example", "a.example:80", false, false},
        {"http://a.example", "a.example:80", true, false},
        {"https://a.example:8443", "a.example:8443", true, true},
        {"https://a.example:8443", "a.example", false, false},
        {"https://a.example", "a.example:8443", false, false},
        {"http://[::1]:8080", "[::1]:8080", true, false},
        {"https://b.example", "a.example", false, false},
        {"https://a.example.evil", "a.example", false, false},
        {"https://a.example", "", false, false},
        {"https://", "", false, false},
        {"https://:443", "", false, false},
        {"https:a.example", "a.example", false, false},
        {"file://a.example", "a.example", false, false},
        {"a.example", "a.example", false, false},
        {"null", "null", false, false},
        {"", "", false, false},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        pj_str_t origin = pj_str(cases[i].origin), host = pj_str(cases[i].host);

        ck_assert_msg(web_origin_own(origin, host, false) == cases[i].plain,
                      "%s", cases[i].origin);
        ck_assert_msg(web_origin_own(origin, host, true) == cases[i].tls,
                      "%s, TLS", cases[i].origin);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("web");
    TCase *t = tcase_create("web");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(t, test_text);
    tcase_add_test(t, test_plain);
    tcase_add_test(t, test_ids);
    tcase_add_test(t, test_cookies);
    tcase_add_test(t, test_labels);
    tcase_add_test(t, test_origins);
    tcase_add_test(t, test_own_origin);
    suite_add_tcase(suite, t);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
