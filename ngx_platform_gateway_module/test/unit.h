/* The main of a unit program: one suite with a fixture, or NULL. */

#ifndef UNIT_H_INCLUDED
#define UNIT_H_INCLUDED

#include <check.h>
#include <stdlib.h>

static int unit_run(const char *name, SFun setup, const TTest *const tests[])
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    if (setup != NULL)
        tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 120);
    for (; *tests != NULL; tests++)
        tcase_add_test(tc, *tests);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define UNIT_MAIN(name, setup, ...)                                            \
    int main(void)                                                             \
    {                                                                          \
        return unit_run(name, setup, (const TTest *[]){__VA_ARGS__, NULL});    \
    }

#endif
