/* The operator's commands: finding, help, parsing, running. */

#pragma once

#include "cmd/cmd.h"

/* Returns true if word starts a command. */
bool cmd_main_knows(const char *word);

/* Runs argv[0..argc), or prints its help if c->help is set. */
bool cmd_main(struct cmd *c, int argc, char *const *argv);

/* Prints a line for each command of a group, or of all groups if it is NULL. */
void cmd_main_list(const char *group);

/* Prints the error message, frees and wipes everything and returns the exit
 * status. */
int cmd_main_end(struct cmd *c);

/* Parses argv[1..argc) for c->spec; argv[0] is the command's last word.
 * Options may be anywhere, as "--name value" or "--name=value"; "--" ends them.
 * Errors do not repeat values, because a value may be a misplaced secret. */
bool cmd_main_parse(struct cmd *c, int argc, char *const *argv);
