/* What went wrong, in one line for people. */

#pragma once

#include <stdbool.h>

struct error {
    char text[512];
};

/* Writes it; always false. */
bool error_is(struct error *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
