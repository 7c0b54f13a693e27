/* POST /api/auth/select-branch */

#ifndef H_SELECT_BRANCH_H_INCLUDED
#define H_SELECT_BRANCH_H_INCLUDED

#include "auth/auth.h"

handler_fn h_select_branch;

#endif
