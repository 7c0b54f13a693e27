/* A one-line error message. */

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

void error_write(struct error *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void) vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
}
