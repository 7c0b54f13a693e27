/* Shared by all unit test programs that use Check, except those of the module:
 * tests that register themselves, and running them. */

#ifndef JOSE_TESTING_H_INCLUDED
#define JOSE_TESTING_H_INCLUDED

#include <check.h>
#include <stdlib.h>

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

/* Runs the tests; fill, unless it is NULL, adds fixtures.  Returns the exit
 * status. */
static inline int run_case(const char *name, void (*fill)(TCase *))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 120); /* also of a busy machine */
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
