/* What the files of the PostgreSQL store share; nobody else includes it. */

#ifndef STORE_SQL_H_INCLUDED
#define STORE_SQL_H_INCLUDED

#include "db/db.h"
#include "store/store.h"

struct store {
    struct db_pool *pool;
    int64_t deadline_ms; /* of the request in hand; 0: none was set */
    int64_t default_timeout_ms;
};

/* A condition, that the time of a db_param_fence() has not come. */
#define STORE_BEFORE_FENCE(param) "   AND clock_timestamp() < " param

/* A condition on the row of auth_sessions called s: its account has not been
 * locked out since it was opened. */
#define STORE_NOT_LOCKED_OUT(s)                                               \
    "   AND " s ".created_at > (SELECT a.sessions_valid_after"                \
    "       FROM accounts a WHERE a.account_id = " s ".account_id)"

/* Gives the row called s the jti $3 and the expiry $4.  That is by the
 * service's clock, and so might be before created_at, which is by the
 * database's. */
#define STORE_ROTATE                                                          \
    "UPDATE auth_sessions s SET jti = $3,"                                    \
    "       expires_at = greatest($4, created_at + interval '1 us')"

/* After a CTE `rotated` of session ids: their old jti, $2, is kept for a
 * while, and older ones are dropped. */
#define STORE_FORGET                                                          \
    " forgotten AS (DELETE FROM rotated_tokens r USING rotated"               \
    "    WHERE r.session_id = rotated.session_id"                             \
    "      AND r.rotated_at < now() - interval '2 minutes')"
#define STORE_REMEMBER                                                        \
    " INSERT INTO rotated_tokens (session_id, jti)"                           \
    " SELECT session_id, $2 FROM rotated"                                     \
    " ON CONFLICT (session_id, jti) DO UPDATE SET rotated_at = now()"

/* Runs a statement.  STORE_OK gives rows to free. */
enum store_result store_run(struct store *st, const struct db_statement *sql,
                            const struct db_params *params,
                            struct db_rows **rows);

/* Likewise, with something to do while the database works, or NULL. */
enum store_result store_run_meanwhile(struct store *st,
                                      const struct db_statement *sql,
                                      const struct db_params *params,
                                      struct meanwhile *meanwhile,
                                      struct db_rows **rows);

/* Likewise, for one that is to touch a row: STORE_NONE when it did not. */
enum store_result store_run_write(struct store *st,
                                  const struct db_statement *sql,
                                  const struct db_params *params);

/* Adds a UUID given as a C string. */
void store_param_uuid(struct db_params *p, const char *uuid);

/* Copies a text column, cut to cap - 1 bytes. */
void store_copy_text(const struct db_rows *rows, size_t row, int col,
                     char *out, size_t cap);

/* Reads four array columns (branch ids and names, workspace ids and names) as
 * a list; false when the arena is spent. */
bool store_copy_branches(pj_arena_t *arena, const struct db_rows *rows,
                         size_t row, const int cols[4],
                         struct branch_list *out);

/* Reads an array column of UUIDs; false when the arena is spent. */
bool store_copy_uuids(pj_arena_t *arena, const struct db_rows *rows,
                      size_t row, int col, const char *const **out,
                      size_t *count);

/* Reads workspace, tenant, member, branch and roles from col on (branch ids
 * are left alone); false when the arena is spent. */
bool store_copy_scope(pj_arena_t *arena, const struct db_rows *rows,
                      size_t row, int col, struct scope *out);

/* Copies, with a NUL; NULL when the arena is spent or data is no UUID. */
const char *store_arena_text(pj_arena_t *arena, const unsigned char *data,
                             size_t len);
const char *store_arena_uuid(pj_arena_t *arena, const unsigned char *data,
                             size_t len);

/*
 * Reads the branch of each row that has one, if it is in the workspace within
 * (NULL: in any), from the columns of its id and name and its workspace's id
 * and name.  The names are those in rows, until store_keep_names().  False
 * when the arena is spent.
 */
bool store_row_branches(pj_arena_t *arena, const struct db_rows *rows,
                        const int cols[4], const char *within,
                        struct branch **items, size_t *count);
bool store_keep_names(pj_arena_t *arena, struct branch *items, size_t count);

/* By workspace name, branch name and branch id, each by its bytes. */
void store_sort_branches(struct branch *items, size_t count);

/* Their ids as an array; false when the arena is spent. */
bool store_branch_ids(pj_arena_t *arena, const struct branch *items,
                      size_t count, const char *const **out);

/* The operations of store_session*.c, as store_ops documents them. */
enum store_result store_branches(struct store *st, pj_arena_t *arena,
                                 const char *account_id,
                                 struct branch_list *out);
enum store_result store_scope(struct store *st, pj_arena_t *arena,
                              const char *account_id, const char *branch_id,
                              struct scope *out);
enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash);
enum store_result store_session_limit(struct store *st,
                                      const struct session *s, int most,
                                      struct session_ref *done,
                                      size_t *done_count);
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out);
enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out);
enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const char *new_jti,
                                       int64_t expires_at_s, bool clear_scope,
                                       bool remember);
enum store_result store_session_rotated(struct store *st,
                                        const char *session_id, pj_str_t jti,
                                        int64_t within_s);
enum store_result store_session_select(struct store *st,
                                       const char *session_id,
                                       const struct scope *to);
enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_ref *done,
                                       size_t *done_count);

#endif
