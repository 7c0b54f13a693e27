/* Prints errors of commands, as text or JSON. */

#pragma once

#include "cmd/cmd.h"

/* Prints the error, with --json as a JSON object; it is about this line of an
 * input, unless line is NULL. */
void cmd_problem_print(const struct cmd *c, const char *line);
