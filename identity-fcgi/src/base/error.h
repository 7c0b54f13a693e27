/* A one-line error message. */

#pragma once

#include <stdbool.h>

struct error {
    char text[512];
};

void error_write(struct error *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the message.  The value is false, in a form that analyzers
 * understand. */
#define error_is(...) (error_write(__VA_ARGS__), false)
