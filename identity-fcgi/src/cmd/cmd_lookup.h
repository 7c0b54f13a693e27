/* The commands show and list. */

#pragma once

#include "cmd/cmd.h"

/* Reads and prints the pages of a list. */
bool cmd_lookup_pages(struct cmd *c);

/* Prints all data about the account. */
bool cmd_lookup_account(struct cmd *c);

/* Sets "hmac" and, for --address, "prefix", under which failed logins are
 * counted. */
bool cmd_lookup_attempts(struct cmd *c);
