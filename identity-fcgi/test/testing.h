/* Shared by the unit test programs of this folder: tests that register
 * themselves, and running them. */

#ifndef TESTING_H_INCLUDED
#define TESTING_H_INCLUDED

#include <check.h>
#include <pj.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* The program's tests. */
static struct {
    const TTest *test;
    int runs; /* with _i from 0 */
} testing_tests[64];
static int testing_count;

static inline void testing_add(const TTest *test, int runs)
{
    if (testing_count == LENGTH(testing_tests)) {
        abort();
    }
    testing_tests[testing_count].test = test;
    testing_tests[testing_count++].runs = runs;
}

/* Defines a test and registers it, so that a test cannot be left out. */
#define TEST(name) TESTS (name, 1)
#define TESTS(name, runs)                                                      \
    static const TTest *name;                                                  \
    __attribute__((constructor)) static void name##_register(void)             \
    {                                                                          \
        testing_add(name, runs);                                               \
    }                                                                          \
    START_TEST (name)

static inline pj_str_t str(const char *text)
{
    return (pj_str_t){(const unsigned char *) text, strlen(text)};
}

static inline bool is(pj_str_t s, const char *text)
{
    return s.len == strlen(text) &&
           (s.len == 0 || memcmp(s.data, text, s.len) == 0);
}

/* Runs the tests; fill, unless it is NULL, sets fixtures and a timeout.
 * Returns the exit status. */
static inline int run_case(const char *name, void (*fill)(TCase *))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    if (fill != NULL) {
        fill(tcase);
    }
    for (int i = 0; i < testing_count; i++) {
        tcase_add_loop_test(tcase, testing_tests[i].test, 0,
                            testing_tests[i].runs);
    }
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
