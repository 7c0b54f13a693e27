/* Secrets from a pipe or a prompt. */

#pragma once

#include "cmd/cmd.h"

/* Reads a line of at most cap bytes from standard input into c->secret.  From a
 * terminal, reads without echo and, if again is set, twice; c->secret must have
 * room for 2 * cap bytes. */
bool cmd_secret_read(struct cmd *c, const char *what, size_t cap, bool again);
