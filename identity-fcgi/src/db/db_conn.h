/* One connection, between db_pool.c that lends it and db.c that uses it. */

#ifndef DB_CONN_H_INCLUDED
#define DB_CONN_H_INCLUDED

#include "db/db.h"

/* What became of one attempt to run a statement. */
enum db_outcome {
    DB_DONE,
    DB_REFUSED, /* the server said no: nothing was changed */
    DB_RETRY,   /* likewise, and a second try may go better */
    DB_LOST     /* no answer */
};

struct db_conn;

/* A connection that is not connected yet; NULL when memory is short. */
struct db_conn *db_conn_new(void);
void db_conn_free(struct db_conn *c);
void db_conn_disconnect(struct db_conn *c);

/*
 * Tries each host of cfg once, *host first, until deadline_ms, and sets *host
 * to the one that answered.  On failure one line in err.
 */
bool db_conn_connect(struct db_conn *c, const struct config *cfg, size_t *host,
                     int64_t deadline_ms, char *err, size_t err_cap);

bool db_conn_is_connected(const struct db_conn *c);

/*
 * Whether a connection, as far as can be told without asking, still is one.
 * One that answered just now is trusted: for a moment before a write, which
 * must not be lost, and longer before a read.
 */
bool db_conn_is_alive(struct db_conn *c, bool before_write);

/*
 * Runs st once.  *sent tells whether the server may have got it.  After
 * DB_LOST and DB_RETRY the connection is closed.
 */
enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params,
                            int64_t deadline_ms, struct meanwhile *meanwhile,
                            struct db_rows **rows, bool *sent);

/* A time as a timestamptz travels in binary. */
void db_fence_bytes(int64_t us, unsigned char out[8]);

#endif
