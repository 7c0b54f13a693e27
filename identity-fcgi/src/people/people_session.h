/* Sessions of accounts. */

#pragma once

#include "people/people.h"

/* Counts the sessions of an account that are not over, or only by their time.
 */
enum people_outcome
people_session_count(struct people *p, const char *account_id, int64_t *count);

/* Locks out the account, whose row is locked: a single write, however many
 * sessions it has, because every statement that reads a session compares it.
 * The time is later than the last lockout and not before any existing session,
 * even if the clock was set back. */
enum people_outcome people_session_lock_out(struct people *p,
                                            const char *account_id);

/* The rows of sessions that a lockout has ended are marked in transactions of
 * their own: call this again while *more. */
struct session_mark {
    const char *account_id;
    bool wait; /* for a locked row; initially false */
    bool more;
};
enum people_outcome people_session_mark(struct people *p, void *mark);
