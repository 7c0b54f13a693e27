/* Accounts of which somebody holds a row for longer than requests wait. */

#pragma once

#include <pj.h>

/* A statement for this account, a UUID, has waited in vain for a locked row.
 * The account counts as held for kept_ms; the latest 64 are remembered. */
void held_note(pj_str_t account_id, int64_t kept_ms);

/* Whether a request for this account may go on; false if it is held, and most
 * other requests for such accounts are under way.  If *inside was set,
 * held_leave() is to be called once. */
PJ_MUST_CHECK bool held_enter(pj_str_t account_id, int most, bool *inside);
void held_leave(void);
