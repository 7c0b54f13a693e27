/* The output of commands: results as aligned lines or JSON, and audit lines. */

#pragma once

#include "cmd/cmd.h"

/* Writes the audit line of a committed change, regardless of
 * PLATFORM_LOG_LEVEL: the operator and the values for audit, or only the value
 * only. */
void cmd_out_audit(struct cmd *c, const char *event, const char *only);

/* cmd_out_open() and cmd_out_close() enclose a result: the available values of
 * spec->columns, or rows of them, a single claim, or lines for people. */
void cmd_out_open(struct cmd *c);
bool cmd_out_values(struct cmd *c);
void cmd_out_row(struct cmd *c);
/* Begins a list; any is false for an empty list. */
void cmd_out_list(struct cmd *c, bool any);
void cmd_out_rows(struct cmd *c, const struct people_member *members,
                  const struct people_rows *rows);
/* Prints a member of item, which is a list, as a part of a result.  Such a part
 * can also be printed by cmd_out_list(), rows, and this end. */
void cmd_out_part(struct cmd *c, const struct cmd_spec *part,
                  const struct people_member *list, const void *item);
void cmd_out_part_end(struct cmd *c);
void cmd_out_claim(struct cmd *c, const char *label, const char *value,
                   bool time);
void cmd_out_line(struct cmd *c, const char *line);
bool cmd_out_secret(struct cmd *c); /* c->secret */
/* Formats a time; "" if it is 0 or invalid. */
void cmd_out_time(const char *epoch_s, char out[], size_t cap);
bool cmd_out_close(struct cmd *c);
