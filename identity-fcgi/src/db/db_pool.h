/* A bounded pool of connections, for all threads of the process. */

#pragma once

#include "base/config.h"
#include "base/meanwhile.h"
#include "db/db.h"

enum db_result {
    DB_OK,
    DB_UNAVAILABLE, /* nothing was changed */
    DB_BUSY,        /* likewise, since others held a row for too long */
    DB_UNKNOWN      /* the answer to a write was lost */
};

/* NULL when memory is short; cfg must outlive it. */
struct db_pool *db_pool_new(const struct config *cfg);
void db_pool_free(struct db_pool *pool);
/* Connections that there may be and that are in use; whether the server refused
 * the role, its password or the database when last connecting. */
void db_pool_use(struct db_pool *pool, int *size, int *used, bool *refused);

/* Runs a statement, waiting for a connection, connecting and executing until
 * deadline_ms of db_now_ms() at most.  meanwhile, if not NULL, is run while the
 * server works.  On DB_OK *rows is the caller's. */
PJ_MUST_CHECK enum db_result
db_pool_run(struct db_pool *pool, const struct db_statement *st,
            const struct db_params *params, int64_t deadline_ms,
            struct meanwhile *meanwhile, struct db_rows **rows);
