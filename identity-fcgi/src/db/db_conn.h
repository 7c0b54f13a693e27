/* Shared by the files that use libpq only. */

#pragma once

#include "base/config.h"
#include "base/meanwhile.h"
#include "db/db.h"

#include <libpq-fe.h>

#define DB_MAX_PREPARED 32

/* The client waits this much longer than the server: an answer of "canceled"
 * says for certain that nothing was done, while giving up does not. */
#define DB_GRACE_MS 250

struct db_conn {
    PGconn *pg;   /* NULL: not connected */
    bool lent;    /* by the pool, under its lock */
    bool refused; /* when last connecting: a host answered, but refused us */
    const struct db_statement *prepared[DB_MAX_PREPARED];
    size_t prepared_count;
    /* A pooler stands between and may hand the server's session to others: the
     * session is left alone, and each statement carries its own settings. */
    bool shared;
    char timeout_ms[24]; /* of a statement, for the server */
    char lock_ms[24];    /* likewise, of a wait for a locked row */
    int64_t answered_ms; /* of the last answer; 0: none yet */
    /* The server's clock minus db_now_ms(), and when that was found out. */
    int64_t clock_ahead_us, clock_read_ms; /* 0: not yet */
    unsigned char fence[8];                /* of the statement in hand */
};

/* The outcome of one attempt to run a statement. */
enum db_outcome {
    DB_DONE,
    DB_REFUSED, /* the server said no: nothing was changed */
    DB_LOCKED,  /* likewise, since others held a row for too long */
    DB_RETRY,   /* likewise, and a second try may go better */
    DB_LOST,    /* no answer to what came before the statement */
    DB_DOUBT    /* no answer to the statement */
};

/* Tries each host of cfg once, *host first, with an equal part of the remaining
 * time each, and sets *host to the one that answered.  autocommit: statements
 * are READ COMMITTED and have the timeout of cfg, whatever the role's defaults.
 * On failure one line in *e. */
bool db_conn_open(struct db_conn *c, const struct config *cfg, size_t *host,
                  bool autocommit, int64_t deadline_ms, struct error *e);
void db_conn_close(struct db_conn *c);

/* Runs st once.  If the outcome is DB_RETRY or a later one, the connection is
 * closed. */
enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params, int64_t deadline_ms,
                            struct meanwhile *meanwhile, struct db_rows **rows);

/* Reads results until the server is ready for the next statement; *out is the
 * last one, to be cleared. */
enum db_outcome db_conn_collect(PGconn *pg, int64_t deadline_ms,
                                PGresult **out);

/* The message of a failure, in one line; res may be NULL. */
void db_conn_error(const PGconn *pg, const PGresult *res,
                   struct db_error *error);
