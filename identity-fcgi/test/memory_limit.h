/* For tests of what happens when memory is short. */

#ifndef MEMORY_LIMIT_H_INCLUDED
#define MEMORY_LIMIT_H_INCLUDED

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Limits this process, which must be forked by the test, to this many MiB more
 * than it uses; 0 restores the limit. */
static inline bool memory_limit(rlim_t more_mib)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages;
    struct rlimit limit, now;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    if (more_mib > 0) {
        limit.rlim_cur =
            pages * (rlim_t) sysconf(_SC_PAGESIZE) + (more_mib << 20);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &now), 0);
    if (now.rlim_cur != limit.rlim_cur) {
        puts("memory is not limited here: a test ends early");
    }
    return now.rlim_cur == limit.rlim_cur;
}

#endif
