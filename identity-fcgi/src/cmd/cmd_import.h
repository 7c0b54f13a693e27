/* account import */

#ifndef CMD_IMPORT_H_INCLUDED
#define CMD_IMPORT_H_INCLUDED

#include "cmd/cmd.h"

extern const struct cmd_spec cmd_imports[];

#endif
