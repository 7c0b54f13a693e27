/* Sessions of accounts. */

#pragma once

#include "people/people.h"

/* Locks out the account, whose row is locked: a single write, however many
 * sessions it has, because every statement that reads a session compares it.
 * The time is later than the last lockout and not before any existing session,
 * even if the clock was set back.  *ended is the number of sessions whose rows
 * are to be marked. */
enum people_outcome people_session_lock_out(struct people *p,
                                            const char *account_id,
                                            int64_t *ended);

/* The rows of sessions that a lockout has ended are marked in transactions of
 * their own: call this again while *more. */
struct session_mark {
    const char *from, *to; /* ids: the accounts from the one to the other */
    bool wait;             /* for a locked row; initially false */
    bool more;
    int64_t marked; /* rows, by the last call */
};
enum people_outcome people_session_mark(struct people *p, void *mark);

/* -- everybody's -- */

/* A step of a walk over all accounts by id. */
struct session_step {
    char after[STORE_UUID]; /* the id before them, "" to begin */
    /* Lock out only accounts with a session that was not over at this
     * time; 0 locks out none. */
    int64_t since_us;
    char from[STORE_UUID], to[STORE_UUID]; /* the next ones */
    bool found;                            /* false at the end */
    int64_t locked_out;
};
enum people_outcome people_session_step(struct people *p, void *step);

/* -- the list -- */

struct session_query {
    const char *account_id; /* must exist */
    bool all;               /* ended ones, too */
    const char *after;      /* a cursor, or NULL */
    int64_t limit;          /* 1 to PEOPLE_PAGE_MAX */
};

/* sessionId, status, createdAt, usedAt, expiresAt, revokedAt, address, agent,
 * loginAddress, loginAgent, workspaceId, workspaceName, branchId, branchName */
extern const struct people_member people_session_members[];

/* Lists sessions, newest first. */
enum people_outcome people_session_list(struct people *p,
                                        const struct session_query *query,
                                        struct people_rows *page);
const char *people_session_cursor(struct people *p, const void *item);

/* Ends one.  PEOPLE_NOT_FOUND unless it is an active one of this account. */
enum people_outcome people_session_end(struct people *p, const char *account_id,
                                       const char *session_id);

/* -- erasing -- */

/* Erases the addresses and agents of sessions that are over, a page in each
 * transaction: call this again while *more. */
struct session_erase {
    const char *account_id;
    bool more;
    int64_t after_us; /* of the last one; initially 0 */
    char after_id[STORE_UUID];
};
enum people_outcome people_session_erase(struct people *p, void *erase);
