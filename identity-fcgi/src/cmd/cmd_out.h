/* What commands print: results, as aligned lines or JSON; audit lines. */

#pragma once

#include "cmd/cmd.h"

/* The audit line of a change that is committed, whatever PLATFORM_LOG_LEVEL
 * says: who ran the command, its ids and numbers, or only this one. */
void cmd_out_audit(struct cmd *c, const char *event, const char *only);

/* cmd_out_open() and cmd_out_close() go around the result: the values that
 * there are of spec->columns, or rows of them; a value of no column; or lines
 * for people. */
void cmd_out_open(struct cmd *c);
bool cmd_out_values(struct cmd *c);
void cmd_out_row(struct cmd *c);
bool cmd_out_rows(struct cmd *c); /* all of the last result */
/* Runs a list's statement, again while it gives a full page of CMD_PAGE rows
 * and goes on from the last one: its values fromTime and sessionId are then
 * beforeTime and beforeId.  Prints the rows as a member of one object. */
#define CMD_PAGE 1000
bool cmd_out_part(struct cmd *c, const struct cmd_spec *part);
void cmd_out_claim(struct cmd *c, const char *label, const char *value,
                   bool time);
void cmd_out_line(struct cmd *c, const char *line);
/* "" where there is none, or no year of four digits. */
void cmd_out_time(const char *epoch_s, char out[], size_t cap);
bool cmd_out_close(struct cmd *c);
