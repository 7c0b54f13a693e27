/* What every unit test program of this folder shares: one case, one main. */

#ifndef TESTING_H_INCLUDED
#define TESTING_H_INCLUDED

#include <check.h>
#include <pj.h>
#include <stdlib.h>
#include <string.h>

static inline pj_str_t str(const char *text)
{
    return (pj_str_t){(const unsigned char *) text, strlen(text)};
}

static inline bool is(pj_str_t s, const char *text)
{
    return s.len == strlen(text) &&
           (s.len == 0 || memcmp(s.data, text, s.len) == 0);
}

static inline int run_case(const char *name, void (*fill)(TCase *))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    fill(tcase);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
