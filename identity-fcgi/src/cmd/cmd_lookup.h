/* The commands that only read: show and list. */

#pragma once

#include "cmd/cmd.h"

/* Prints all that is held about the account. */
bool cmd_lookup_person(struct cmd *c);

/* Sets what failed logins are counted under: "hmac", of --address "prefix". */
bool cmd_lookup_attempts(struct cmd *c);
