/* Transactions of several statements on a separate connection. */

#pragma once

#include "base/config.h"
#include "db/db.h"

/* Connects. limit_ms bounds each statement.  On failure returns NULL and *e has
 * one line. */
struct db_script *db_script_open(const struct config *cfg, int64_t limit_ms,
                                 struct error *e);

struct db_conn;
/* The same on a connection that the caller has; NULL if memory is short. */
struct db_script *db_script_borrow(struct db_conn *conn, int64_t limit_ms,
                                   bool prepared);

/* The first failure since the transaction began.  If the answer to a COMMIT was
 * lost, its effect is unknown and all later statements fail. */
const struct db_error *db_script_error(const struct db_script *s);

struct db_conn *db_script_conn(const struct db_script *s);
/* The outcome of that failure, or DB_DONE. */
enum db_outcome db_script_outcome(const struct db_script *s);

/* Begins a transaction, READ COMMITTED regardless of the role's default. */
PJ_MUST_CHECK bool db_script_begin(struct db_script *s);

/* Runs one or more statements.  Copies the first value of the last row, or "",
 * to value, which may be NULL. No snapshot is held afterwards. */
PJ_MUST_CHECK bool db_script_run(struct db_script *s, const char *sql,
                                 char *value, size_t value_cap);

/* Runs a statement with parameters.  The caller owns *rows, whose values are
 * text, for db_text(). */
PJ_MUST_CHECK bool db_script_query(struct db_script *s, const char *sql,
                                   const struct db_params *params,
                                   struct db_rows **rows);
/* The same for a statement of the service: the values are binary, as of a pool.
 * A fence does not end. */
PJ_MUST_CHECK bool db_script_execute(struct db_script *s,
                                     const struct db_statement *st,
                                     const struct db_params *params,
                                     struct db_rows **rows);
/* Returns true for a connection by a Unix socket or a loopback address. */
bool db_script_is_local(const struct db_script *s);
void db_script_close(struct db_script *s);
