/* What the files of the PostgreSQL store share; nobody else includes it. */

#ifndef STORE_SQL_H_INCLUDED
#define STORE_SQL_H_INCLUDED

#include "db.h"
#include "store.h"

struct store {
    struct db_pool *pool;
    int64_t deadline_ms; /* of the request in hand; 0: none was set */
    int64_t default_timeout_ms;
    int64_t fence_us; /* of the database's clock; see store_session.c */
};

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

/* Reads workspace, tenant, member, branch, branch ids and roles from col on;
 * false when the arena is spent. */
bool store_copy_scope(pj_arena_t *arena, const struct db_rows *rows,
                      size_t row, int col, struct scope *out);

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
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
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
