/* Shared parts of the store's statements: SQL texts, execution, rows. */

#pragma once

#include "base/meanwhile.h"
#include "db/db.h"
#include "store/model.h"

/* A condition: the deadline of a DB_FENCE has not passed. */
#define SQL_BEFORE_FENCE(param) "   AND clock_timestamp() < " param

/* A condition that is always true: states who makes the change, for the audit
 * (0018_audit.sql).  param is a JSON object. */
#define SQL_ACTOR(param)                                                       \
    "   AND set_config('platform.actor', " param ", true) IS NOT NULL"

/* A condition on row s of auth_sessions: its account was not locked out since
 * the session was opened. */
#define SQL_NOT_LOCKED_OUT(s)                                                  \
    "   AND " s ".created_at > (SELECT a.sessions_valid_after"                 \
    "       FROM accounts a WHERE a.account_id = " s ".account_id)"

/* The time of the last lockout of account a, as a finite time. */
#define SQL_VALID_AFTER(a)                                                     \
    "least(greatest(" a ".sessions_valid_after, 'epoch'), '9999-01-01Z')"
/* The columns of a struct store_clock.  a is the account's row. */
#define SQL_CLOCK "now(), " SQL_VALID_AFTER("a")

/* The first columns of a statement that returns a row for each branch t of
 * selectable_branches.  roles is null except in the row of the requested
 * branch; role codes contain no commas. */
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

/* Returns a row for the session, then a row for each branch selectable in it,
 * with null in the columns of the other kind.  Branches are sorted here: for
 * the few branches of most accounts, rows cost the server less than a sort and
 * aggregates. */
#define SQL_SESSION                                                            \
    "WITH session AS MATERIALIZED ("                                           \
    "   SELECT s.account_id, a.account_type,"                                  \
    "          a.status = 'ACTIVE' AS account_enabled,"                        \
    "          s.status = 'ACTIVE'"                                            \
    "          AND s.created_at > a.sessions_valid_after AS active,"           \
    "          s.jti, s.workspace_id, s.member_id, s.active_branch_id,"        \
    "          s.created_at, s.expires_at, s.amr, s.authenticated_at,"         \
    "          " SQL_CLOCK "     FROM auth_sessions s"                         \
    "     JOIN accounts a ON a.account_id = s.account_id"                      \
    "    WHERE s.session_id = $1)"
/* asked is the requested branch.  everywhere includes branches of other
 * workspaces for a session that has a workspace. */
#define SQL_SELECTABLE(asked, everywhere)                                      \
    ", selectable AS MATERIALIZED ("                                           \
    "SELECT " SQL_BRANCH_COLUMNS("t.branch_id = " asked)                       \
        SQL_SELECTABLE_FROM(everywhere)
#define SQL_SELECTABLE_FROM(everywhere)                                        \
    "  FROM session s"                                                         \
    "  JOIN selectable_branches t ON t.account_id = s.account_id"              \
    "   AND (" everywhere "s.workspace_id IS NULL"                             \
    "        OR t.workspace_id = s.workspace_id))"
/* more is an additional column of the session's row, or empty; null is the
 * matching null in the other rows. */
#define SQL_SESSION_ROWS(more, null)                                           \
    " SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, session.*" more         \
    "   FROM session"                                                          \
    " UNION ALL"                                                               \
    " SELECT selectable.*, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"    \
    "        NULL, NULL, NULL, NULL, NULL, NULL" null "   FROM selectable"

/* The column more of SQL_SESSION_ROWS, after the columns of the session. */
#define SQL_COL_MORE (SQL_BRANCH_COLS + 14)

/* The execution of a statement.  Zero-initialise. */
struct sql_query {
    struct db_params p;
    struct db_rows *rows; /* freed by sql_end() */
    enum store_result result;
};

/* Runs a statement, and meanwhile (may be NULL) while the database works.  True
 * if the result is STORE_OK. */
bool sql_run(struct sql_query *q, struct store *st,
             const struct db_statement *sql, struct meanwhile *meanwhile);

/* The same, but the result is STORE_NONE if no row was found or changed. */
bool sql_run_one(struct sql_query *q, struct store *st,
                 const struct db_statement *sql);

/* Runs a statement with these parameters like sql_run_one(), and ends it. */
enum store_result sql_execute(struct store *st, const struct db_statement *sql,
                              const struct db_value *values, size_t count);
#define sql_do(st, sql, ...) sql_execute(st, sql, DB_VALUES(__VA_ARGS__))

/* Runs an idempotent write, and repeats it once if its answer is lost. */
bool sql_run_safe(struct sql_query *q, struct store *st,
                  const struct db_statement *sql);

/* Frees the rows and returns the result. */
enum store_result sql_end(struct sql_query *q);

/* Parameters: the client's address and agent ("" becomes null), and the expiry
 * of access tokens issued by this request. */
#define SQL_CLIENT(st)                                                         \
    DB_TEXT((st)->client_address), DB_TEXT((st)->client_agent),                \
        DB_TIME((st)->access_until_s)

/* Reads the columns of SQL_CLOCK, which start at col. */
void sql_copy_clock(const struct db_rows *rows, int col,
                    struct store_clock *out);

/* Reads an account: id, type and enabled are the first columns, hash is the
 * column of the credential, clock the first column of SQL_CLOCK. */
void sql_copy_account(const struct db_rows *rows, int hash, int clock,
                      struct account *out);

/* Copies text to the arena; NULL if the arena is full. */
char *sql_copy_string(pj_arena_t *arena, const char *text);

/* Copies a column of bytes to the arena.  False if the arena is full. */
bool sql_copy_bytes(pj_arena_t *arena, const struct db_rows *rows, size_t row,
                    int col, pj_str_t *out);

/* Copies a text column, truncated to cap - 1 bytes. */
void sql_copy_text(const struct db_rows *rows, size_t row, int col, char *out,
                   size_t cap);

/* Fills out, except its session, which must be filled already, from rows of
 * SQL_BRANCH_COLUMNS.  Rows with null in these columns are skipped.  The list
 * of branches is filled if list is set or the requested branch is not
 * selectable.  False if the arena is full. */
bool sql_copy_branches(pj_arena_t *arena, const struct db_rows *rows, bool list,
                       struct session_view *out);

/* Sorts by the bytes of workspace name, branch name and branch id. */
void sql_sort_branches(struct branch *items, size_t count);
