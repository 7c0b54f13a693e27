/* The operator's commands: finding, helping, parsing, running. */

#pragma once

#include "cmd/cmd.h"

/* Whether word begins a command of a table. */
bool cmd_main_knows(const char *word);

/* Runs argv[0..argc), whose first word is known, or with c->help helps. */
bool cmd_main(struct cmd *c, int argc, char *const *argv);

/* A line for each command of a group, or (NULL) of all. */
void cmd_main_list(const char *group);

/* Frees and wipes everything; the exit status, after a line that says why. */
int cmd_main_end(struct cmd *c);

/* Parses argv[1..argc) for c->spec; argv[0] is the command's last word.
 * Options may stand anywhere, as "--name value" or "--name=value"; "--" ends
 * them.  No error repeats a value: it may be a secret in the wrong place. */
bool cmd_main_parse(struct cmd *c, int argc, char *const *argv);
