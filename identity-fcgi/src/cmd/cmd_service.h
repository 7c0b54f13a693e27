/* token system, inspect; keys generate; migrate, seed, sweep */

#pragma once

#include "cmd/cmd.h"

/* Migrates, and loads the local data if seed is set. */
bool cmd_service_migrate(struct cmd *c, bool seed);
