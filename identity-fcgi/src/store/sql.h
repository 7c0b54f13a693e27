/* What the statements of the store have in common: texts, runs, rows. */

#pragma once

#include "base/meanwhile.h"
#include "db/db.h"
#include "store/model.h"

/* A condition: the time of a DB_FENCE has not come. */
#define SQL_BEFORE_FENCE(param) "   AND clock_timestamp() < " param

/* A condition on the row s of auth_sessions: its account was not locked out
 * since the session was opened. */
#define SQL_NOT_LOCKED_OUT(s)                                                  \
    "   AND " s ".created_at > (SELECT a.sessions_valid_after"                 \
    "       FROM accounts a WHERE a.account_id = " s ".account_id)"

/* When the account a was last locked out, as a finite time. */
#define SQL_VALID_AFTER(a)                                                     \
    "least(greatest(" a ".sessions_valid_after, 'epoch'), '9999-01-01Z')"
/* The columns of a struct store_clock; a is the account's row. */
#define SQL_CLOCK "now(), " SQL_VALID_AFTER("a")

/* The first columns of a statement that gives a row for each branch t of
 * selectable_branches.  The roles are read, and not null, in the row of the
 * branch that is asked about; no role has a comma. */
#define SQL_BRANCH_COLUMNS(is_asked_about)                                     \
    "t.workspace_id AS in_workspace_id, t.tenant_id,"                          \
    " t.member_id AS as_member_id, t.branch_id,"                               \
    " CASE WHEN " is_asked_about "      THEN array_to_string(ARRAY("           \
    "           SELECT r.role_code FROM member_roles r"                        \
    "            WHERE r.member_id = t.member_id"                              \
    "              AND r.branch_id = t.branch_id"                              \
    "            ORDER BY r.role_code), ',')"                                  \
    " END AS roles, t.branch_name, t.workspace_name"

enum {
    SQL_COL_WORKSPACE_ID,
    SQL_COL_TENANT_ID,
    SQL_COL_MEMBER_ID,
    SQL_COL_BRANCH_ID,
    SQL_COL_ROLES,
    SQL_COL_BRANCH_NAME,
    SQL_COL_WORKSPACE_NAME,
    SQL_BRANCH_COLS
};

/* A row of the session, then one for each branch that can be selected in it:
 * the other columns of each are null, which costs nothing to send.  The
 * branches are sorted here: for the few that most have, a row each costs the
 * server less than a sort and aggregates that make one row of them. */
#define SQL_SESSION                                                            \
    "WITH session AS MATERIALIZED ("                                           \
    "   SELECT s.account_id, a.account_type,"                                  \
    "          a.status = 'ACTIVE' AS account_enabled,"                        \
    "          s.status = 'ACTIVE'"                                            \
    "          AND s.created_at > a.sessions_valid_after AS active,"           \
    "          s.jti, s.workspace_id, s.member_id, s.active_branch_id,"        \
    "          s.created_at, s.expires_at, " SQL_CLOCK                         \
    "     FROM auth_sessions s"                                                \
    "     JOIN accounts a ON a.account_id = s.account_id"                      \
    "    WHERE s.session_id = $1)"
/* asked: the branch asked about.  everywhere: whether a session in a workspace
 * has the branches of the others too. */
#define SQL_SELECTABLE(asked, everywhere)                                      \
    ", selectable AS MATERIALIZED ("                                           \
    "SELECT " SQL_BRANCH_COLUMNS("t.branch_id = " asked)                       \
        SQL_SELECTABLE_FROM(everywhere)
#define SQL_SELECTABLE_FROM(everywhere)                                        \
    "  FROM session s"                                                         \
    "  JOIN selectable_branches t ON t.account_id = s.account_id"              \
    "   AND (" everywhere "s.workspace_id IS NULL"                             \
    "        OR t.workspace_id = s.workspace_id))"
/* more is one more column of the session's row, or nothing; null is then a
 * null for it in the others. */
#define SQL_SESSION_ROWS(more, null)                                           \
    " SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, session.*" more         \
    "   FROM session"                                                          \
    " UNION ALL"                                                               \
    " SELECT selectable.*, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"    \
    "        NULL, NULL, NULL, NULL" null "   FROM selectable"

/* The column more of SQL_SESSION_ROWS; those before it are the session's. */
#define SQL_COL_MORE (SQL_BRANCH_COLS + 12)

/* A statement that is asked; zeroed at first. */
struct sql_query {
    struct db_params p;
    struct db_rows *rows; /* until sql_end() */
    enum store_result result;
};

/* Runs it, and meanwhile (or NULL) while the database works; true where result
 * is STORE_OK. */
bool sql_run(struct sql_query *q, struct store *st,
             const struct db_statement *sql, struct meanwhile *meanwhile);

/* Runs one that should touch or find a row: STORE_NONE when it did not. */
bool sql_run_one(struct sql_query *q, struct store *st,
                 const struct db_statement *sql);

/* That with these parameters, to its end. */
enum store_result sql_end_one(struct store *st, const struct db_statement *sql,
                              const struct db_value *values, size_t count);
#define sql_do(st, sql, ...) sql_end_one(st, sql, DB_VALUES(__VA_ARGS__))

/* Runs a write that may be repeated, once more where its answer is lost. */
bool sql_run_safe(struct sql_query *q, struct store *st,
                  const struct db_statement *sql);

/* Frees the rows. */
enum store_result sql_end(struct sql_query *q);

/* Parameters: the client's address and agent, "" is null; the end of the access
 * tokens that this request issues. */
#define SQL_CLIENT(st)                                                         \
    DB_TEXT((st)->client_address), DB_TEXT((st)->client_agent),                \
        DB_TIME((st)->access_until_s)

/* Reads the columns of SQL_CLOCK, the first of which is col. */
void sql_copy_clock(const struct db_rows *rows, int col,
                    struct store_clock *out);

/* Reads an account from its columns: id, type, whether it is enabled; its
 * credential from hash, and SQL_CLOCK from clock on. */
void sql_copy_account(const struct db_rows *rows, int hash, int clock,
                      struct account *out);

/* A copy in the arena; NULL when that is spent. */
char *sql_keep(pj_arena_t *arena, const char *text);

/* Copies a text column, cut to cap - 1 bytes. */
void sql_copy_text(const struct db_rows *rows, size_t row, int col, char *out,
                   size_t cap);

/* Fills all of out but the session, which is filled already, from rows of
 * SQL_BRANCH_COLUMNS; these are null in a row without a branch.  The list is
 * filled if asked for or if nothing is selectable.  False when the arena is
 * spent. */
bool sql_copy_branches(pj_arena_t *arena, const struct db_rows *rows, bool list,
                       struct session_view *out);

/* By workspace name, branch name and branch id, each by its bytes. */
void sql_sort_branches(struct branch *items, size_t count);
