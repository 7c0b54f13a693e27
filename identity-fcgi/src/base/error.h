/* What went wrong, in one line for people. */

#pragma once

#include <stdbool.h>

struct error {
    char text[512];
};

void error_write(struct error *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes it; always false, as analyzers can see. */
#define error_is(...) (error_write(__VA_ARGS__), false)
