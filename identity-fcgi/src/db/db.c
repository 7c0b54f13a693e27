/*
 * Connections to PostgreSQL: bounded waiting, and one honest answer to "did it
 * happen?".
 *
 * libpq is used without blocking: every wait is a poll() with a deadline, so a
 * server that hangs costs a request its time and no more.  There is no
 * PQcancel(): it blocks on a server that does not answer, and the server's own
 * statement_timeout ends what we gave up on.
 */

#include "db/db_pg.h"

#include "base/log.h"

#include <poll.h>
#include <string.h>
#include <time.h>

/* The client waits this much longer than the server, whose answer "canceled"
 * is worth more than our giving up. */
#define GRACE_MS 250
/* How long after an answer a connection is taken to be one still.  A write
 * that is lost leaves doubt, a read is just sent again. */
#define FRESH_FOR_WRITE_MS 20
#define FRESH_FOR_READ_MS 1000
/* How long the difference between the server's clock and ours is trusted. */
#define CLOCK_TRUSTED_MS 1000

/* -- time -- */

int64_t db_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool db_pg_wait(PGconn *pg, short events, int64_t deadline_ms)
{
    struct pollfd p = {PQsocket(pg), events, 0};

    for (;;) {
        int64_t left = deadline_ms - db_now_ms();
        int n;

        if (left <= 0 || p.fd < 0) {
            return false;
        }
        n = poll(&p, 1, left < 60000 ? (int) left : 60000);
        if (n > 0) {
            return true;
        }
        /* 0 and EINTR: look at the clock again. */
    }
}

/* -- one statement on one connection -- */

static enum db_outcome judge(const PGresult *res)
{
    static const char *const transient[] = {
        "08",    /* connection exception */
        "25006", /* read-only: a standby now */
        "26000", /* the prepared statement is gone */
        "0A000", /* its plan's columns have changed */
        "40",    /* deadlock or serialisation failure */
        "53300", /* too many connections */
        "57P",   /* shutting down */
    };
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

    for (size_t i = 0;
         state != NULL && i < sizeof(transient) / sizeof(transient[0]); i++) {
        if (strncmp(state, transient[i], strlen(transient[i])) == 0) {
            return DB_RETRY;
        }
    }
    return DB_REFUSED;
}

static bool flush(PGconn *pg, int64_t deadline_ms)
{
    for (;;) {
        int n = PQflush(pg);

        if (n <= 0) {
            return n == 0;
        }
        if (!db_pg_wait(pg, POLLIN | POLLOUT, deadline_ms) ||
            !PQconsumeInput(pg)) {
            return false;
        }
    }
}

enum db_outcome db_pg_collect(PGconn *pg, int64_t deadline_ms, PGresult **out)
{
    enum db_outcome outcome = DB_DONE;

    if (!flush(pg, deadline_ms)) {
        return DB_LOST;
    }
    for (;;) {
        PGresult *res;

        while (PQisBusy(pg)) {
            if (!db_pg_wait(pg, POLLIN, deadline_ms) || !PQconsumeInput(pg)) {
                return DB_LOST;
            }
        }
        res = PQgetResult(pg);
        if (res == NULL) { /* the end of one statement */
            if (PQstatus(pg) != CONNECTION_OK) {
                return DB_LOST;
            }
            if (PQpipelineStatus(pg) == PQ_PIPELINE_OFF) {
                return outcome;
            }
            continue;
        }
        switch (PQresultStatus(res)) {
        case PGRES_PIPELINE_SYNC:
            PQclear(res);
            return PQexitPipelineMode(pg) ? outcome : DB_LOST;
        case PGRES_PIPELINE_ABORTED: /* by what came before it */
            PQclear(res);
            continue;
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
            break;
        default:
            outcome = judge(res);
        }
        PQclear(*out);
        *out = res;
        if (outcome != DB_DONE && PQstatus(pg) != CONNECTION_OK) {
            return DB_LOST;
        }
    }
}

/* Likewise, after doing what there is to do meanwhile: the answer may then be
 * there, and there is no need to ask for it. */
static enum db_outcome collect_meanwhile(PGconn *pg, int64_t deadline_ms,
                                         struct meanwhile *meanwhile,
                                         PGresult **out)
{
    if (!flush(pg, deadline_ms) ||
        (meanwhile_run(meanwhile) && !PQconsumeInput(pg))) {
        return DB_LOST;
    }
    return db_pg_collect(pg, deadline_ms, out);
}

static const Oid oids[] = {
    [DB_UUID] = 2950,  [DB_TEXT] = 25,          [DB_INT8] = 20,
    [DB_BOOL] = 16,    [DB_BYTEA] = 17,         [DB_INET] = 869,
    [DB_UUIDS] = 2951, [DB_TIMESTAMPTZ] = 1184, [DB_FENCE] = 1184,
};

static bool is_prepared(const struct db_conn *c, const struct db_statement *st)
{
    for (size_t i = 0; i < c->prepared_count; i++) {
        if (c->prepared[i] == st) {
            return true;
        }
    }
    return false;
}

static enum db_outcome prepare(struct db_conn *c,
                               const struct db_statement *st,
                               const struct db_params *params,
                               int64_t deadline_ms, PGresult **res)
{
    Oid types[DB_MAX_PARAMS];
    enum db_outcome outcome;

    if (is_prepared(c, st)) {
        return DB_DONE;
    }
    for (size_t i = 0; i < params->count; i++) {
        types[i] = oids[params->types[i]];
    }
    if (c->prepared_count == DB_MAX_PREPARED ||
        !PQsendPrepare(c->pg, st->name, st->sql, (int) params->count, types)) {
        return DB_LOST;
    }
    outcome = db_pg_collect(c->pg, deadline_ms, res);
    if (outcome == DB_DONE) {
        c->prepared[c->prepared_count++] = st;
    }
    return outcome;
}

/*
 * Begins a pipeline, all of which is one transaction: its isolation, then the
 * statement's timeout.  (SET LOCAL would do the same, but the server warns of
 * it in its log.)
 */
static bool send_settings(struct db_conn *c)
{
    const char *timeout[] = {c->timeout_ms};

    return PQenterPipelineMode(c->pg) &&
           PQsendQueryParams(c->pg,
                             "SET transaction_isolation = 'read committed'", 0,
                             NULL, NULL, NULL, NULL, 0) &&
           PQsendQueryParams(
               c->pg, "SELECT set_config('statement_timeout', $1, true)", 1,
               NULL, timeout, NULL, NULL, 0);
}

bool db_pg_send(struct db_conn *c, const struct db_statement *st,
                const struct db_params *params, bool prepared)
{
    Oid types[DB_MAX_PARAMS];
    const char *values[DB_MAX_PARAMS];
    int formats[DB_MAX_PARAMS];
    int n = (int) params->count;
    bool ok;

    if (c->shared && !send_settings(c)) {
        return false;
    }
    for (size_t i = 0; i < params->count; i++) {
        types[i] = oids[params->types[i]];
        values[i] = params->types[i] == DB_FENCE ? (const char *) c->fence
                                                 : params->values[i];
        formats[i] = params->types[i] != DB_INET;
    }
    ok = prepared ? PQsendQueryPrepared(c->pg, st->name, n, values,
                                        params->lengths, formats, 1)
                  : PQsendQueryParams(c->pg, st->sql, n, types, values,
                                      params->lengths, formats, 1);
    return ok && (!c->shared || PQpipelineSync(c->pg));
}

/*
 * Asks for the server's clock, now and then.  It was read before its answer
 * came, so a fence errs by that little to the early side, which is the safe
 * one.
 */
static enum db_outcome read_clock(struct db_conn *c, int64_t deadline_ms,
                                  PGresult **res)
{
    enum db_outcome outcome;
    int64_t now = db_now_ms();

    if (c->clock_read_ms != 0 && now - c->clock_read_ms < CLOCK_TRUSTED_MS) {
        return DB_DONE;
    }
    if (!PQsendQueryParams(c->pg, "SELECT clock_timestamp()", 0, NULL, NULL,
                           NULL, NULL, 1)) {
        return DB_LOST;
    }
    outcome = db_pg_collect(c->pg, deadline_ms, res);
    if (outcome == DB_DONE) {
        c->clock_read_ms = db_now_ms();
        c->clock_ahead_us = db_time_us((struct db_rows *) *res, 0, 0) -
                            c->clock_read_ms * 1000;
    }
    return outcome;
}

static bool has_fence(const struct db_params *params)
{
    for (size_t i = 0; i < params->count; i++) {
        if (params->types[i] == DB_FENCE) {
            return true;
        }
    }
    return false;
}

/* Sets up the statement's fence, where it has one. */
static enum db_outcome set_fence(struct db_conn *c,
                                 const struct db_params *params,
                                 int64_t deadline_ms, PGresult **res)
{
    enum db_outcome outcome;

    if (!has_fence(params)) {
        return DB_DONE;
    }
    outcome = read_clock(c, deadline_ms, res);
    db_fence_bytes(c->clock_ahead_us + deadline_ms * 1000, c->fence);
    return outcome;
}

/* A write that did nothing may have met a clock that was set: its next try
 * shall know. */
static void doubt_clock(struct db_conn *c, const struct db_params *params,
                        PGresult *res)
{
    if (has_fence(params) && strcmp(PQcmdTuples(res), "0") == 0) {
        c->clock_read_ms = 0;
    }
}

/*
 * Whether an idle connection still is one.  A server that went away has
 * usually said so or closed: reading that here, before a write is sent, is
 * what keeps "answer lost" rare.
 */
bool db_conn_is_alive(struct db_conn *c, bool before_write)
{
    int64_t fresh_ms = before_write ? FRESH_FOR_WRITE_MS : FRESH_FOR_READ_MS;

    if (db_now_ms() - c->answered_ms < fresh_ms) {
        return true;
    }
    for (int i = 0; i < 4; i++) {
        struct pollfd p = {PQsocket(c->pg), POLLIN, 0};

        if (poll(&p, 1, 0) == 0) {
            return true;
        }
        if (!PQconsumeInput(c->pg) || PQstatus(c->pg) != CONNECTION_OK) {
            return false;
        }
    }
    return false;
}

static void log_refusal(const struct db_statement *st, PGconn *pg,
                        const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    if (text == NULL) {
        text = res == NULL ? "no answer in time" : PQerrorMessage(pg);
    }
    log_line(LOG_ERROR_, "db.error", "%s: %s %.*s", st->name,
             state != NULL ? state : "-", (int) strcspn(text, "\n"), text);
}

enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params,
                            int64_t deadline_ms, struct meanwhile *meanwhile,
                            struct db_rows **rows, bool *sent)
{
    enum db_outcome outcome = DB_DONE;
    PGresult *res = NULL;

    deadline_ms = earlier(
        deadline_ms, db_now_ms() + cfg->db_statement_timeout_ms + GRACE_MS);
    *sent = false;
    *rows = NULL;
    if (cfg->db_prepared) {
        outcome = prepare(c, st, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        outcome = set_fence(c, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        PQclear(res);
        res = NULL;
        *sent = true;
        outcome = db_pg_send(c, st, params, cfg->db_prepared)
                      ? collect_meanwhile(c->pg, deadline_ms, meanwhile, &res)
                      : DB_LOST;
    }
    if (outcome == DB_DONE) {
        c->answered_ms = db_now_ms();
        doubt_clock(c, params, res);
        *rows = (struct db_rows *) res;
        return outcome;
    }
    log_refusal(st, c->pg, res);
    PQclear(res);
    /* A connection that has not answered, or not as it should, is not used
     * again; a plain refusal leaves it as it was. */
    if (outcome != DB_REFUSED) {
        db_conn_disconnect(c);
    }
    return outcome;
}
