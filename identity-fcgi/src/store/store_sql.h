/* Shared by the files of the store only. */

#ifndef STORE_SQL_H_INCLUDED
#define STORE_SQL_H_INCLUDED

#include "db/db.h"
#include "store/store.h"

/* A condition: the time of a db_param_fence() has not come. */
#define STORE_BEFORE_FENCE(param) "   AND clock_timestamp() < " param

/* A condition on the row s of auth_sessions: its account was not locked out
 * since the session was opened. */
#define STORE_NOT_LOCKED_OUT(s)                                               \
    "   AND " s ".created_at > (SELECT a.sessions_valid_after"                \
    "       FROM accounts a WHERE a.account_id = " s ".account_id)"

/* When the account a was last locked out, as a finite time. */
#define STORE_VALID_AFTER(a)                                                  \
    "least(greatest(" a ".sessions_valid_after, 'epoch'), '9999-01-01Z')"
/* The columns of a struct store_clock; a is the account's row. */
#define STORE_CLOCK "now(), " STORE_VALID_AFTER("a")

/* The first columns of a statement that gives a row for each branch t of
 * selectable_branches.  The roles are read, and not null, in the row of the
 * branch that is asked about; no role has a comma. */
#define STORE_BRANCH_COLUMNS(is_asked_about)                                  \
    "t.workspace_id AS in_workspace_id, t.tenant_id,"                         \
    " t.member_id AS as_member_id, t.branch_id,"                              \
    " CASE WHEN " is_asked_about "      THEN array_to_string(ARRAY("          \
    "           SELECT r.role_code FROM member_roles r"                       \
    "            WHERE r.member_id = t.member_id"                             \
    "              AND r.branch_id = t.branch_id"                             \
    "            ORDER BY r.role_code), ',')"                                 \
    " END AS roles, t.branch_name, t.workspace_name"

enum {
    STORE_COL_WORKSPACE_ID,
    STORE_COL_TENANT_ID,
    STORE_COL_MEMBER_ID,
    STORE_COL_BRANCH_ID,
    STORE_COL_ROLES,
    STORE_COL_BRANCH_NAME,
    STORE_COL_WORKSPACE_NAME,
    STORE_BRANCH_COLS
};

/* Runs a statement, and meanwhile (or NULL) while the database works. STORE_OK
 * gives rows to free. */
enum store_result store_run(struct store *st, const struct db_statement *sql,
                            const struct db_params *params,
                            struct meanwhile *meanwhile,
                            struct db_rows **rows);

/* Runs one that should touch or find a row: STORE_NONE when it did not. */
enum store_result store_run_one(struct store *st,
                                const struct db_statement *sql,
                                const struct db_params *params);

/* Adds a UUID given as a C string. */
void store_param_uuid(struct db_params *p, const char *uuid);

/* Adds the address and the agent of who asks; "" is null; and until when the
 * access tokens live that this request issues. */
void store_param_client(struct db_params *p, const struct store *st);

/* Reads the columns of STORE_CLOCK, the first of which is col. */
void store_copy_clock(const struct db_rows *rows, int col,
                      struct store_clock *out);

/* Reads the columns of an account: id, type, whether it is enabled; its
 * credential from the column hash, and STORE_CLOCK from the column clock on.
 */
void store_copy_account(const struct db_rows *rows, int hash, int clock,
                        struct account *out);

/* A copy in the arena; NULL when that is spent. */
const char *store_keep(pj_arena_t *arena, const char *text);

/* Copies a text column, cut to cap - 1 bytes. */
void store_copy_text(const struct db_rows *rows, size_t row, int col,
                     char *out, size_t cap);

/*
 * Fills all of out but the session, which is filled already, from rows of
 * STORE_BRANCH_COLUMNS; these are null in a row without a branch.  The list is
 * filled if asked for or if nothing is selectable.  False when the arena is
 * spent.
 */
bool store_copy_branches(pj_arena_t *arena, const struct db_rows *rows,
                         bool list, struct session_view *out);

/* By workspace name, branch name and branch id, each by its bytes. */
void store_sort_branches(struct branch *items, size_t count);

/* The SQL of db/ inside the binary; db/embed.sh writes the definitions. */
struct sql_file {
    int version; /* number of a migration; 0 for the seed */
    const char *name;
    size_t len;
    const char *sql; /* NUL-terminated */
};

extern const struct sql_file sql_migrations[]; /* versions 1, 2, 3, ... */
extern const size_t sql_migration_count;
extern const struct sql_file sql_seed_local;

#endif
