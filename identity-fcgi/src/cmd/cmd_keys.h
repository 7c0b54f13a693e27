/* keys list, add, activate, retire, remove, revoke, rotate */

#ifndef CMD_KEYS_H_INCLUDED
#define CMD_KEYS_H_INCLUDED

#include "cmd/cmd.h"

extern const struct cmd_spec cmd_key_files[];

#endif
