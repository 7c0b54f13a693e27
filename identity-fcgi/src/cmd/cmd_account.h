/* account add, rename and the like; sessions revoke */

#ifndef CMD_ACCOUNT_H_INCLUDED
#define CMD_ACCOUNT_H_INCLUDED

#include "cmd/cmd.h"

extern const struct cmd_spec cmd_accounts[];

#endif
