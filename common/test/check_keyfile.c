/* Tests of the names of files in a directory of keys. */

#include "keyfile.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST (test_names) {
    static const struct {
        const char *name;
        const char *kid; /* NULL: not the name of a key */
        keyfile_state_t state;
        int64_t since;
    } rows[] = {
        {"a.signing.1.pem", "a", KEYFILE_SIGNING, 1},
        {"a.published.0.pem", "a", KEYFILE_PUBLISHED, 0},
        {"a.refresh.999999999999.pem", "a", KEYFILE_REFRESH, 999999999999},
        {"a.b-c_d.signing.007.pem", "a.b-c_d", KEYFILE_SIGNING, 7},
        {"a.signing.1.pem.signing.2.pem", "a.signing.1.pem", KEYFILE_SIGNING,
         2},
        {"", NULL, 0, 0},
        {".pem", NULL, 0, 0},
        {"1.pem", NULL, 0, 0},
        {"signing.1.pem", NULL, 0, 0},
        {".signing.1.pem", NULL, 0, 0},
        {".a.signing.1.pem", NULL, 0, 0},
        {"a/b.signing.1.pem", NULL, 0, 0},
        {"a.signing..pem", NULL, 0, 0},
        {"a.signing.pem", NULL, 0, 0},
        {"a.signing.1", NULL, 0, 0},
        {"a.signing.1.pem~", NULL, 0, 0},
        {"a.signing.1.PEM", NULL, 0, 0},
        {"a.signing.-1.pem", NULL, 0, 0},
        {"a.signing.1234567890123.pem", NULL, 0, 0},
        {"a.replaced.1.pem", NULL, 0, 0},
        {"a.sign.1.pem", NULL, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        keyfile_t file;
        bool good = keyfile_parse(&file, pj_str(rows[i].name));

        ck_assert_msg(good == (rows[i].kid != NULL), "%s", rows[i].name);
        if (good) {
            ck_assert(pj_str_eq(file.kid, pj_str(rows[i].kid)));
            ck_assert_int_eq(file.state, rows[i].state);
            ck_assert_int_eq(file.since, rows[i].since);
        }
    }
}
END_TEST

#define BEGIN "-----BEGIN PUBLIC KEY-----"

START_TEST (test_parts) {
    static const struct {
        const char *private;
        const char *public;
    } rows[] = {
        {"private\n", BEGIN "\nx"},
        {"", BEGIN},
        {"private", ""},
        {"", ""},
        {"-----BEGIN PUBLIC KEY----", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[100];
        keyfile_parts_t parts;

        snprintf(text, sizeof(text), "%s%s", rows[i].private, rows[i].public);
        parts = keyfile_split(pj_str(text));
        ck_assert(pj_str_eq(parts.private, pj_str(rows[i].private)));
        ck_assert(pj_str_eq(parts.public, pj_str(rows[i].public)));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keyfile");
    TCase *tc = tcase_create("keyfile");
    SRunner *runner;
    int failed;

    tcase_add_test(tc, test_names);
    tcase_add_test(tc, test_parts);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
