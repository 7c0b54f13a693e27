/* Transactions of several statements, on a connection of their own. */

#pragma once

#include "base/config.h"
#include "db/db.h"

/* Connects; each statement may take limit_ms.  NULL with one line in *e. */
struct db_script *db_script_open(const struct config *cfg, int64_t limit_ms,
                                 struct error *e);

/* The first failure since the transaction began.  Without an answer a COMMIT
 * may or may not have happened, and whatever is run after it fails. */
const struct db_error *db_script_error(const struct db_script *s);

/* Begins a transaction, READ COMMITTED whatever the role's default. */
PJ_MUST_CHECK bool db_script_begin(struct db_script *s);

/* Runs statements; the first value of the last row is copied to value, unless
 * that is NULL ("" without one).  They hold no snapshot when it returns. */
PJ_MUST_CHECK bool db_script_run(struct db_script *s, const char *sql,
                                 char *value, size_t value_cap);

/* Runs one with parameters; *rows, all text for db_text(), is the caller's. */
PJ_MUST_CHECK bool db_script_query(struct db_script *s, const char *sql,
                                   const struct db_params *params,
                                   struct db_rows **rows);
/* Whether the server is reached by a Unix socket or a loopback address. */
bool db_script_is_local(const struct db_script *s);
void db_script_close(struct db_script *s);
