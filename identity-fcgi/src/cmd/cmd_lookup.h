/* The commands show and list. */

#pragma once

#include "cmd/cmd.h"
#include "people/people_end.h"

/* Reads and prints the pages of a list. */
bool cmd_lookup_pages(struct cmd *c);

/* Prints all data about the account. */
bool cmd_lookup_account(struct cmd *c);

/* Returns the means to find failed logins; without a signing key they find
 * none. */
struct end_attempts cmd_lookup_attempts(const struct cmd *c);
