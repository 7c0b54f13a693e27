/* Secrets that a command is told: from a pipe, or a prompt without echo. */

#ifndef CMD_INPUT_H_INCLUDED
#define CMD_INPUT_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/*
 * Reads one line from standard input into out[0..cap), without its line end;
 * *len is its length, no NUL is added.  Where standard input is a terminal,
 * prompt is shown on standard error and nothing is echoed; with again it has
 * to be typed twice.  False with one line in err; out is wiped then.
 */
bool cmd_read_secret(const char *prompt, const char *again, char *out,
                     size_t cap, size_t *len, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

#endif
