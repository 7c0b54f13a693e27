/* A bounded pool of connections that all threads share. */

#pragma once

#include "base/config.h"
#include "base/meanwhile.h"
#include "db/db.h"

/* NULL if memory is short; cfg must outlive the pool. */
struct db_pool *db_pool_new(const struct config *cfg);
void db_pool_free(struct db_pool *pool);
/* Size of the pool, connections in use, and whether the server refused the
 * role, its password or the database at the last attempt to connect. */
void db_pool_use(struct db_pool *pool, int *size, int *used, bool *refused);

/* Runs a statement. deadline_ms of db_now_ms() bounds waiting for a connection,
 * connecting and executing. meanwhile (may be NULL) runs while the server
 * works.  On DB_DONE the caller owns *rows. */
PJ_MUST_CHECK enum db_outcome
db_pool_run(struct db_pool *pool, const struct db_statement *st,
            const struct db_params *params, int64_t deadline_ms,
            struct meanwhile *meanwhile, struct db_rows **rows);

/* Begins a transaction on a connection, which is lent until db_pool_end().
 * Waiting for it, connecting and each statement are bounded by deadline_ms.
 * NULL if the database does not answer. */
struct db_script;
PJ_MUST_CHECK struct db_script *db_pool_begin(struct db_pool *pool,
                                              int64_t deadline_ms);
/* Commits or rolls back.  DB_DOUBT if the answer to a commit was lost; else the
 * outcome of the first statement that failed. */
enum db_outcome db_pool_end(struct db_pool *pool, struct db_script *script,
                            bool commit);
