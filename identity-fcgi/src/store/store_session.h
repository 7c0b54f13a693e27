/* The life of a session: opened, read, bound to a branch, revoked. */

#ifndef STORE_SESSION_H_INCLUDED
#define STORE_SESSION_H_INCLUDED

#include "base/meanwhile.h"
#include "store/model.h"

struct sql_query;

/* The branches that a new session of the account, of which only the id is
 * known, can select; selectable if there is exactly one. */
enum store_result store_session_choices(struct store *st, pj_arena_t *arena,
                                        const char *account_id,
                                        struct session_view *out);

/* Inserts s (its ids, jti, expiry and, if set, the scope columns), where its
 * account is enabled, still has that credential and was not locked out since
 * s->clock was read; else STORE_NONE.  created_at is the database's. */
enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash);
/*
 * If the account of s has more than most active sessions, revokes the expired
 * and then the oldest of the others, some at a time, and puts them into
 * done; STORE_NONE if there are none.
 */
enum store_result store_session_limit(struct store *st,
                                      const struct session *s, int most,
                                      struct session_refs *done);
/*
 * Reads a session, and about branch_id (NULL: its own active branch) whether
 * it is selectable in the session, all in one statement.  The list is filled
 * if asked for, and always when that branch is not selectable.  Both ids may
 * be any strings.  meanwhile, if not NULL, is run while the database works.
 */
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out);
/* Sets the scope of an ACTIVE session whose workspace is null or the same. */
enum store_result store_session_select(struct store *st,
                                       const char *session_id,
                                       const struct scope *scope);
/*
 * ACTIVE -> REVOKED for ids[0..count), count <= STORE_MAX_REVOKE.  done
 * gets those that were ACTIVE.  Repeating it is safe.
 */
enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count,
                                       struct session_refs *done);

/* -- for store_refresh.c -- */

/*
 * Fills out from the rows of a statement of SQL_SESSION_ROWS that was run, and
 * whose first parameter is the session's id.
 */
void store_session_copy(struct sql_query *q, pj_arena_t *arena, bool list,
                        struct session_view *out);

/* Without a scope the list is of all workspaces, and a session in one has not
 * been shown the others: it is to be read once more. */
bool store_session_again(const struct session_view *view);

#endif
