/* What reading a session and rotating it have in common: the statement's text
 * and rows. */

#ifndef STORE_SESSION_READ_H_INCLUDED
#define STORE_SESSION_READ_H_INCLUDED

#include "store/store_sql.h"

/*
 * A row of the session, then one for each branch that can be selected in it:
 * the other columns of each are null, which costs nothing to send.  The
 * branches are sorted here: for the few that most have, a row each costs the
 * server less than a sort and aggregates that make one row of them.
 */
#define STORE_SESSION                                                         \
    "WITH session AS MATERIALIZED ("                                          \
    "   SELECT s.account_id, a.account_type,"                                 \
    "          a.status = 'ACTIVE' AS account_enabled,"                       \
    "          s.status = 'ACTIVE'"                                           \
    "          AND s.created_at > a.sessions_valid_after AS active,"          \
    "          s.jti, s.workspace_id, s.member_id, s.active_branch_id,"       \
    "          s.created_at, s.expires_at, " STORE_CLOCK                      \
    "     FROM auth_sessions s"                                               \
    "     JOIN accounts a ON a.account_id = s.account_id"                     \
    "    WHERE s.session_id = $1)"
/* asked: the branch asked about.  everywhere: whether a session in a workspace
 * has the branches of the others too. */
#define STORE_SELECTABLE(asked, everywhere)                                   \
    ", selectable AS MATERIALIZED ("                                          \
    "SELECT " STORE_BRANCH_COLUMNS("t.branch_id = " asked)                    \
        STORE_SELECTABLE_FROM(everywhere)
#define STORE_SELECTABLE_FROM(everywhere)                                     \
    "  FROM session s"                                                        \
    "  JOIN selectable_branches t ON t.account_id = s.account_id"             \
    "   AND (" everywhere "s.workspace_id IS NULL"                            \
    "        OR t.workspace_id = s.workspace_id))"
/* more is one more column of the session's row, or nothing; null is then a
 * null for it in the others. */
#define STORE_SESSION_ROWS(more, null)                                        \
    " SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, session.*" more        \
    "   FROM session"                                                         \
    " UNION ALL"                                                              \
    " SELECT selectable.*, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"   \
    "        NULL, NULL, NULL, NULL" null "   FROM selectable"

/* The column more of STORE_SESSION_ROWS; those before it are the session's. */
#define STORE_COL_MORE (STORE_BRANCH_COLS + 12)

/*
 * Fills out from the rows of such a statement, whose first parameter is the
 * session's id; result is what running it came to, STORE_NONE: no session.
 */
enum store_result store_session_read_copy(enum store_result result,
                                          const struct db_params *p,
                                          const struct db_rows *rows,
                                          pj_arena_t *arena, bool list,
                                          struct session_view *out);

/* Without a scope the list is of all workspaces, and a session in one has not
 * been shown the others: it is to be read once more. */
bool store_session_read_again(const struct session_view *view);

#endif
