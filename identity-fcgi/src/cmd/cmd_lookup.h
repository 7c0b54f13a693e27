/* What only reads: show and list. */

#pragma once

#include "cmd/cmd.h"

/* Prints all that is held about the account (cmd_lookup.c). */
bool cmd_lookup_person(struct cmd *c);

/* Sets what the account's failed logins are counted under: "hmac" and, of
 * --address, "prefix" (cmd_lookup.c). */
bool cmd_lookup_attempts(struct cmd *c);
