/* workspace, branch and member: what changes them */

#ifndef CMD_PLACE_H_INCLUDED
#define CMD_PLACE_H_INCLUDED

#include "cmd/cmd.h"

extern const struct cmd_spec cmd_places[];

#endif
