/* A bounded pool of connections, which all threads of the process share. */

#include "db_conn.h"

#include "log.h"
#include "metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS 1000

struct db_pool {
    const struct config *cfg;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct db_conn **idle; /* a stack: the last one used is the warmest */
    size_t idle_count, size;
    /* Connecting, for all threads together. */
    unsigned failures; /* in a row */
    int64_t retry_at_ms;
    size_t host; /* the one that worked last */
};

struct db_pool *db_pool_new(const struct config *cfg)
{
    struct db_pool *pool = calloc(1, sizeof(*pool));
    size_t size = cfg->db_pool_size > 0 ? (size_t) cfg->db_pool_size : 1;
    pthread_condattr_t attr;

    if (pool == NULL) {
        return NULL;
    }
    pool->cfg = cfg;
    pool->size = size;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->freed, &attr);
    pthread_condattr_destroy(&attr);

    pool->idle = calloc(size, sizeof(struct db_conn *));
    for (size_t i = 0; pool->idle != NULL && i < size; i++) {
        pool->idle[i] = db_conn_new();
        if (pool->idle[i] == NULL) {
            break;
        }
        pool->idle_count++;
    }
    if (pool->idle_count < size) {
        db_pool_free(pool);
        return NULL;
    }
    return pool;
}

void db_pool_free(struct db_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (size_t i = 0; i < pool->idle_count; i++) {
        db_conn_free(pool->idle[i]);
    }
    pthread_cond_destroy(&pool->freed);
    pthread_mutex_destroy(&pool->lock);
    free(pool->idle);
    free(pool);
}

void db_pool_use(struct db_pool *pool, int *size, int *used)
{
    pthread_mutex_lock(&pool->lock);
    *size = (int) pool->size;
    *used = (int) (pool->size - pool->idle_count);
    pthread_mutex_unlock(&pool->lock);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct db_conn *take(struct db_pool *pool, int64_t deadline_ms)
{
    struct timespec until = {(time_t) (deadline_ms / 1000),
                             (long) (deadline_ms % 1000) * 1000000};
    struct db_conn *c = NULL;
    int waited = 0;

    pthread_mutex_lock(&pool->lock);
    while (pool->idle_count == 0 && waited == 0) {
        waited = pthread_cond_timedwait(&pool->freed, &pool->lock, &until);
    }
    if (pool->idle_count > 0) {
        c = pool->idle[--pool->idle_count];
    }
    pthread_mutex_unlock(&pool->lock);
    return c;
}

static void give(struct db_pool *pool, struct db_conn *c)
{
    pthread_mutex_lock(&pool->lock);
    pool->idle[pool->idle_count++] = c;
    pthread_cond_signal(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
}

/* Notes how connecting went; says so once when that changes. */
static void note_connect(struct db_pool *pool, bool ok, size_t host,
                         const char *err)
{
    int64_t wait = BACKOFF_FIRST_MS;
    unsigned before;

    pthread_mutex_lock(&pool->lock);
    before = pool->failures;
    if (ok) {
        pool->failures = 0;
        pool->host = host;
    } else {
        for (unsigned i = 0; i < before && wait < BACKOFF_MOST_MS; i++) {
            wait *= 2;
        }
        pool->failures++;
        pool->retry_at_ms = db_now_ms() + earlier(wait, BACKOFF_MOST_MS);
    }
    pthread_mutex_unlock(&pool->lock);

    metrics_count(ok ? METRICS_DB_CONNECTS : METRICS_DB_ERROR_CONNECT);
    if (ok && before > 0) {
        log_line(LOG_INFO_, "db.connected", "connected again");
    } else if (!ok && before == 0) {
        log_line(LOG_ERROR_, "db.unavailable", "%s", err);
    }
}

static bool ensure_connected(struct db_pool *pool, struct db_conn *c,
                             bool before_write, int64_t deadline_ms)
{
    char err[256];
    int64_t now = db_now_ms();
    bool wait, ok;
    size_t host;

    if (db_conn_is_alive(c, before_write)) {
        return true;
    }
    pthread_mutex_lock(&pool->lock);
    wait = pool->failures > 0 && now < pool->retry_at_ms;
    host = pool->host;
    pthread_mutex_unlock(&pool->lock);
    if (wait) {
        return false;
    }
    deadline_ms = earlier(deadline_ms, now + pool->cfg->db_connect_timeout_ms);
    ok = db_conn_connect(c, pool->cfg, &host, deadline_ms, err, sizeof(err));
    note_connect(pool, ok, host, err);
    return ok;
}

/* One attempt, timed and counted. */
static enum db_outcome try_once(struct db_conn *c, const struct config *cfg,
                                const struct db_statement *st,
                                const struct db_params *params,
                                int64_t deadline_ms,
                                struct meanwhile *meanwhile,
                                struct db_rows **rows, bool *sent)
{
    int64_t started_us = metrics_now_us();
    enum db_outcome outcome =
        db_conn_try(c, cfg, st, params, deadline_ms, meanwhile, rows, sent);

    metrics_time(METRICS_STATEMENT, metrics_now_us() - started_us);
    switch (outcome) {
    case DB_DONE:
        break;
    case DB_REFUSED:
        metrics_count(METRICS_DB_ERROR_REFUSED);
        break;
    case DB_RETRY:
        metrics_count(METRICS_DB_ERROR_TRANSIENT);
        break;
    case DB_LOST:
        metrics_count(METRICS_DB_ERROR_LOST);
        break;
    }
    return outcome;
}

enum db_result db_run(struct db_pool *pool, const struct db_statement *st,
                      const struct db_params *params, int64_t deadline_ms,
                      struct meanwhile *meanwhile, struct db_rows **rows)
{
    enum db_outcome outcome = DB_RETRY;
    bool sent = false;
    struct db_conn *c = take(pool, deadline_ms);

    *rows = NULL;
    if (c == NULL) {
        metrics_count(METRICS_DB_ERROR_POOL);
        log_line(LOG_WARN_, "db.pool_busy", "no connection free in time");
        return DB_UNAVAILABLE;
    }
    for (int i = 0; i < 2 && (outcome == DB_RETRY || outcome == DB_LOST);
         i++) {
        if (!ensure_connected(pool, c, st->writes, deadline_ms)) {
            break;
        }
        outcome = try_once(c, pool->cfg, st, params, deadline_ms, meanwhile,
                           rows, &sent);
        if (outcome == DB_LOST && sent && st->writes) {
            give(pool, c);
            return DB_UNKNOWN;
        }
    }
    give(pool, c);
    return outcome == DB_DONE ? DB_OK : DB_UNAVAILABLE;
}
