/* Reads a number of the process's own metrics. */

#ifndef METRIC_H_INCLUDED
#define METRIC_H_INCLUDED

#include "base/metrics.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const char *no_endpoint(size_t endpoint)
{
    (void) endpoint;
    return "";
}

static inline uint64_t metric(const char *name)
{
    static char all[512 * 1024];
    char line[128];
    struct buf out;
    char *at;

    buf_init(&out, all, sizeof(all) - 1);
    metrics_render(&out, no_endpoint, NULL, 0, NULL, 0);
    all[out.len] = '\0';
    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(all, line);
    ck_assert_ptr_nonnull(at);
    return strtoull(strchr(at, ' '), NULL, 10);
}

#endif
