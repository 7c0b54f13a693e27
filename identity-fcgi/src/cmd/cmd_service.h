/* token system, inspect; keys generate; migrate, seed, sweep */

#ifndef CMD_SERVICE_H_INCLUDED
#define CMD_SERVICE_H_INCLUDED

#include "cmd/cmd.h"

/* Migrates, and loads the local data if asked. */
bool cmd_service_migrate(struct cmd *c, bool seed);

#endif
