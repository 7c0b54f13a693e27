/* Connections, for the files that use libpq. */

#pragma once

#include "base/config.h"
#include "base/meanwhile.h"
#include "db/db.h"

#include <libpq-fe.h>

#define DB_MAX_PREPARED 128

/* The client waits this much longer than the server's timeout.  An answer of
 * "canceled" proves that nothing was done; giving up does not. */
#define DB_GRACE_MS 250

struct db_conn {
    PGconn *pg;   /* NULL if not connected */
    bool lent;    /* in use; guarded by the pool's lock */
    bool refused; /* a host refused the last attempt to connect */
    const struct db_statement *prepared[DB_MAX_PREPARED];
    size_t prepared_count;
    /* A pooler shares the server's session with other clients.  So the session
     * is not configured; each statement carries its own settings. */
    bool shared;
    char timeout_ms[24]; /* statement_timeout */
    char lock_ms[24];    /* lock_timeout */
    int64_t answered_ms; /* time of the last answer, or 0 */
    /* The server's clock minus db_now_ms(), and the time of that
     * measurement. */
    int64_t clock_ahead_us, clock_read_ms; /* 0 if not measured */
    unsigned char fence[8];                /* of the current statement */
};

/* Tries each host of cfg once, starting with *host, with an equal share of the
 * remaining time.  Sets *host to the host that answered.  With autocommit,
 * statements are READ COMMITTED and have the timeouts of cfg, regardless of the
 * role's defaults.  On failure *e has one line. */
bool db_conn_open(struct db_conn *c, const struct config *cfg, size_t *host,
                  bool autocommit, int64_t deadline_ms, struct error *e);
void db_conn_close(struct db_conn *c);

/* Runs st once.  Closes the connection if the outcome is DB_RETRY, DB_LOST or
 * DB_DOUBT. */
enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params, int64_t deadline_ms,
                            struct meanwhile *meanwhile, struct db_rows **rows);

/* A statement that this connection has prepared. */
bool db_conn_has_prepared(const struct db_conn *c,
                          const struct db_statement *st);
void db_conn_add_prepared(struct db_conn *c, const struct db_statement *st);

/* SQL that begins a transaction with the settings of a request's statements and
 * these timeouts. */
void db_conn_write_begin(char *sql, size_t cap, int64_t statement_ms,
                         int64_t lock_ms);

/* Reads results until the server is ready for the next statement.  *out is the
 * last result; the caller clears it. */
enum db_outcome db_conn_collect(PGconn *pg, int64_t deadline_ms,
                                PGresult **out);

/* Describes a failure in one line; res may be NULL. */
void db_conn_error(const PGconn *pg, const PGresult *res,
                   struct db_error *error);
