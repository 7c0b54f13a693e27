/* Held accounts, whose rows are locked for longer than requests wait. */

#pragma once

#include <pj.h>

/* Marks an account (a UUID) as held for kept_ms, after a statement timed out
 * waiting for its row.  The latest 64 are remembered. */
void held_add(pj_str_t account_id, int64_t kept_ms);

/* Returns false if the account is held and max requests for held accounts are
 * in progress already.  If *counted is set, call held_leave() once. */
PJ_MUST_CHECK bool held_enter(pj_str_t account_id, int max, bool *counted);
void held_leave(void);
