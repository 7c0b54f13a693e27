/* A bounded pool of connections that all threads share. */

#include "db/db_pool.h"

#include "base/log.h"
#include "base/metrics.h"
#include "db/db_conn.h"
#include "db/db_script.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS 1000

/* A connection is assumed to be alive for this long after an answer.  A lost
 * write is of unknown effect; a lost read is repeated. */
#define FRESH_FOR_WRITE_MS 20
#define FRESH_FOR_READ_MS 1000

struct db_pool {
    const struct config *cfg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t size, lent;
    /* State of connecting, shared by all threads. */
    unsigned failures; /* consecutive */
    bool refused;      /* at the last attempt */
    int64_t retry_at_ms;
    size_t host; /* the last host that worked */
    struct db_conn conns[];
};

struct db_pool *db_pool_new(const struct config *cfg)
{
    size_t size = cfg->db_pool_size > 0 ? (size_t) cfg->db_pool_size : 1;
    struct db_pool *pool =
        calloc(1, sizeof(*pool) + size * sizeof(pool->conns[0]));

    if (pool != NULL) {
        pool->cfg = cfg;
        pool->size = size;
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->changed, NULL);
    }
    return pool;
}

void db_pool_free(struct db_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (size_t i = 0; i < pool->size; i++) {
        db_conn_close(&pool->conns[i]);
    }
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void db_pool_use(struct db_pool *pool, int *size, int *used, bool *refused)
{
    pthread_mutex_lock(&pool->lock);
    *size = (int) pool->size;
    *used = (int) pool->lent;
    *refused = pool->refused;
    pthread_mutex_unlock(&pool->lock);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Reserves an idle connection, or one that is not connected if none is idle or
 * another is requested.  The server may allow fewer connections than the pool's
 * size, so a thread that cannot connect waits for a connection in use.  Returns
 * NULL at the deadline, and immediately if no connection is in use and
 * connecting has just failed. */
static struct db_conn *pool_reserve(struct db_pool *pool, bool another,
                                    int64_t deadline_ms)
{
    struct db_conn *c;
    bool expired;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        int64_t now = db_now_ms(), until = deadline_ms;
        struct db_conn *idle = NULL;  /* the last used of these */
        struct db_conn *spare = NULL; /* not connected */
        struct timespec ts;

        expired = now >= deadline_ms;
        for (c = pool->conns; c < pool->conns + pool->size; c++) {
            if (!c->lent && c->pg == NULL) {
                spare = c;
            } else if (!c->lent &&
                       (idle == NULL || c->answered_ms > idle->answered_ms)) {
                idle = c;
            }
        }
        if (spare != NULL && pool->failures > 0 && now < pool->retry_at_ms) {
            until = earlier(deadline_ms, pool->retry_at_ms);
            spare = NULL;
        }
        c = spare != NULL && (another || idle == NULL) ? spare : idle;
        if (expired || c != NULL || pool->lent == 0) {
            break;
        }
        ts.tv_sec = (time_t) (until / 1000);
        ts.tv_nsec = (long) (until % 1000) * 1000000;
        (void) pthread_cond_clockwait(&pool->changed, &pool->lock,
                                      CLOCK_MONOTONIC, &ts);
    }
    if (c != NULL && !expired) {
        c->lent = true;
        pool->lent++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (expired) {
        metrics_count(METRICS_DB_ERROR_POOL);
        log_line(LOG_WARN_, "db.pool_busy", "no connection free in time");
    }
    return expired ? NULL : c;
}

static void pool_release(struct db_pool *pool, struct db_conn *c)
{
    pthread_mutex_lock(&pool->lock);
    c->lent = false;
    pool->lent--;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Connects c and records the result.  Logs it when it changes. */
static bool connect_within(struct db_pool *pool, struct db_conn *c,
                           int64_t deadline_ms)
{
    int64_t most_ms = db_now_ms() + pool->cfg->db_connect_timeout_ms;
    struct error e;
    unsigned before;
    size_t host;
    bool ok, changed;

    pthread_mutex_lock(&pool->lock);
    host = pool->host;
    pthread_mutex_unlock(&pool->lock);
    ok = db_conn_open(c, pool->cfg, &host, true, earlier(deadline_ms, most_ms),
                      &e);

    pthread_mutex_lock(&pool->lock);
    before = pool->failures;
    changed = before == 0 || pool->refused != c->refused;
    pool->refused = !ok && c->refused;
    if (ok) {
        pool->failures = 0;
        pool->host = host;
    } else {
        pool->failures++;
        pool->retry_at_ms =
            db_now_ms() +
            earlier(BACKOFF_FIRST_MS << earlier(before, 8), BACKOFF_MOST_MS);
    }
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);

    metrics_count(ok           ? METRICS_DB_CONNECTS
                  : c->refused ? METRICS_DB_ERROR_LOGIN
                               : METRICS_DB_ERROR_CONNECT);
    if (ok && before > 0) {
        log_line(LOG_INFO_, "db.connected", "connected again");
    } else if (!ok && changed) {
        log_line(LOG_ERROR_, c->refused ? "db.refused" : "db.unavailable", "%s",
                 e.text);
    }
    return ok;
}

/* Returns true if the connection seems alive, without a round trip.  A server
 * that went away has usually sent a message or closed the connection.  Reading
 * that before sending a write makes lost answers rare. */
static bool is_alive(struct db_conn *c, bool before_write)
{
    int64_t fresh_ms = before_write ? FRESH_FOR_WRITE_MS : FRESH_FOR_READ_MS;
    struct pollfd p = {PQsocket(c->pg), POLLIN, 0};

    if (db_now_ms() - c->answered_ms < fresh_ms) {
        return true;
    }
    for (int i = 0; poll(&p, 1, 0) != 0; i++) {
        if (i == 4 || !PQconsumeInput(c->pg) ||
            PQstatus(c->pg) != CONNECTION_OK) {
            return false;
        }
    }
    return true;
}

/* Reserves a connection that seems alive, connecting it if necessary. */
static struct db_conn *pool_borrow(struct db_pool *pool, bool another,
                                   bool before_write, int64_t deadline_ms)
{
    struct db_conn *c;

    while ((c = pool_reserve(pool, another, deadline_ms)) != NULL) {
        if (c->pg != NULL ? is_alive(c, before_write)
                          : connect_within(pool, c, deadline_ms)) {
            break;
        }
        db_conn_close(c);
        pool_release(pool, c);
    }
    return c;
}

static const enum metrics_counter errors[] = {
    [DB_REFUSED] = METRICS_DB_ERROR_REFUSED,
    [DB_LOCKED] = METRICS_DB_ERROR_LOCKED,
    [DB_RETRY] = METRICS_DB_ERROR_TRANSIENT,
    [DB_LOST] = METRICS_DB_ERROR_LOST,
    [DB_DOUBT] = METRICS_DB_ERROR_LOST,
};

enum db_outcome db_pool_run(struct db_pool *pool, const struct db_statement *st,
                            const struct db_params *params, int64_t deadline_ms,
                            struct meanwhile *meanwhile, struct db_rows **rows)
{
    enum db_outcome outcome = DB_RETRY;

    *rows = NULL;
    for (int i = 0; i < 2 && outcome >= DB_RETRY &&
                    !(outcome == DB_DOUBT && st->kind == DB_WRITES);
         i++) {
        /* If a connection was lost, the idle ones probably were too. */
        struct db_conn *c =
            pool_borrow(pool, i > 0, st->kind == DB_WRITES, deadline_ms);
        int64_t started_us = metrics_now_us();

        if (c == NULL) {
            break;
        }
        outcome =
            db_conn_try(c, pool->cfg, st, params, deadline_ms, meanwhile, rows);
        metrics_time(METRICS_STATEMENT, metrics_now_us() - started_us);
        if (outcome != DB_DONE) {
            metrics_count(errors[outcome]);
        }
        pool_release(pool, c);
    }
    return outcome;
}

/* -- transactions -- */

struct db_script *db_pool_begin(struct db_pool *pool, int64_t deadline_ms)
{
    int64_t limit_ms = pool->cfg->db_statement_timeout_ms;
    struct db_script *script;
    struct db_conn *c;
    char sql[512];

    for (int i = 0; i < 2; i++) {
        c = pool_borrow(pool, i > 0, true, deadline_ms);
        if (c == NULL) {
            return NULL;
        }
        limit_ms = earlier(limit_ms, deadline_ms - db_now_ms());
        script = limit_ms > 0
                     ? db_script_borrow(c, limit_ms, pool->cfg->db_prepared)
                     : NULL;
        db_conn_write_begin(sql, sizeof(sql), limit_ms,
                            pool->cfg->db_lock_timeout_ms);
        if (script != NULL && db_script_run(script, sql, NULL, 0)) {
            return script;
        }
        if (script == NULL) {
            pool_release(pool, c);
            return NULL;
        }
        (void) db_pool_end(pool, script, false);
    }
    return NULL;
}

static void report(enum db_outcome outcome, const struct db_error *error)
{
    /* A violated constraint is an answer to the client. */
    if (outcome != DB_DONE && strncmp(error->state, "23", 2) != 0) {
        metrics_count(errors[outcome]);
        log_line(LOG_ERROR_, "db.error", "transaction: %s %s",
                 error->state[0] != '\0' ? error->state : "-", error->message);
    }
}

enum db_outcome db_pool_end(struct db_pool *pool, struct db_script *script,
                            bool commit)
{
    struct db_conn *c = db_script_conn(script);
    enum db_outcome outcome = db_script_outcome(script);
    bool sent = commit && outcome == DB_DONE;

    if (sent && !db_script_run(script, "COMMIT", NULL, 0)) {
        outcome = db_script_outcome(script);
        outcome = outcome == DB_LOST ? DB_DOUBT : outcome;
    }
    report(outcome, db_script_error(script));
    /* A plan of this connection may be out of date. */
    if (outcome >= DB_RETRY || (!sent && c->pg != NULL &&
                                !db_script_run(script, "ROLLBACK", NULL, 0))) {
        db_conn_close(c);
    }
    if (c->pg != NULL) {
        c->answered_ms = db_now_ms();
    }
    db_script_close(script);
    pool_release(pool, c);
    return outcome;
}
