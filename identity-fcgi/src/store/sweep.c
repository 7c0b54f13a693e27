/*
 * The background work of a serving process: sweeping, and a look at how
 * durable the database is.  One thread with connections of its own, so that it
 * holds no request up.
 */

#include "store/sweep.h"

#include "base/log.h"
#include "base/metrics.h"
#include "store/store.h"
#include "store/store_sweep.h"

#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two batches, for the disk and for those who wait for a lock. */
#define PAUSE_MS 20

struct sweeper {
    const struct config *cfg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool stop;
    uint64_t cursor;
};

static struct timespec in_ms(clockid_t clock, int64_t ms)
{
    struct timespec t;

    clock_gettime(clock, &t);
    t.tv_sec += (time_t) (ms / 1000);
    t.tv_nsec += (long) (ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* False once it is to stop. */
static bool sleep_ms(struct sweeper *s, int64_t ms)
{
    struct timespec until = in_ms(CLOCK_MONOTONIC, ms);
    bool stop;

    pthread_mutex_lock(&s->lock);
    while (!s->stop &&
           pthread_cond_timedwait(&s->told, &s->lock, &until) == 0) {
    }
    stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return !stop;
}

static bool pause_between(void *arg)
{
    return sleep_ms(arg, PAUSE_MS);
}

static void sweep_once(struct sweeper *s)
{
    struct sweep_plan plan = {.keep_s = SWEEP_KEEP_S,
                              .cursor = &s->cursor,
                              .go_on = pause_between,
                              .arg = s};
    struct sweep_counts counts;
    char err[320];
    enum sweep_result result =
        store_sweep(s->cfg, &plan, &counts, err, sizeof(err));
    const struct log_number numbers[] = {
        {"sessions", counts.sessions},
        {"rotatedTokens", counts.rotated_tokens},
        {"attempts", counts.attempts},
    };
    bool any = counts.sessions + counts.rotated_tokens + counts.attempts > 0;

    metrics_add(METRICS_SWEPT_SESSIONS, (uint64_t) counts.sessions);
    metrics_add(METRICS_SWEPT_TOKENS, (uint64_t) counts.rotated_tokens);
    metrics_add(METRICS_SWEPT_ATTEMPTS, (uint64_t) counts.attempts);
    metrics_count(result == SWEEP_FAILED ? METRICS_SWEEPS_FAILED
                  : result == SWEEP_BUSY ? METRICS_SWEEPS_BUSY
                                         : METRICS_SWEEPS);
    if (result == SWEEP_FAILED) {
        log_line(LOG_WARN_, "sweep.failed", "%s", err);
    } else if (result == SWEEP_BUSY) {
        log_line(LOG_DEBUG_, "sweep.busy", "another process is sweeping");
    }
    if (any || result == SWEEP_DONE) {
        log_event_numbers(any ? LOG_INFO_ : LOG_DEBUG_, "sweep.done", NULL,
                          NULL, 0, numbers, 3);
    }
}

/* A commit that is lost brings logged-out and replaced tokens back. */
static void warn_of_loss(const struct config *cfg)
{
    char why[160];

    if (store_may_forget(cfg, why, sizeof(why))) {
        log_line(LOG_WARN_, "db.not_durable",
                 "%s; ended sessions may come back, and identity-fcgi "
                 "sessions revoke --help says what to do then",
                 why);
    }
}

/* The first look is taken here, where no request waits for the database. */
static void *run(void *arg)
{
    struct sweeper *s = arg;
    int64_t interval_ms = s->cfg->sweep_interval_s * 1000;
    unsigned char random[8] = {0};

    warn_of_loss(s->cfg);
    if (interval_ms == 0) {
        return NULL;
    }

    /* Processes that start together take turns, and begin at different
     * places of a large table. */
    (void) RAND_bytes(random, sizeof(random));
    memcpy(&s->cursor, random, 4);
    if (!sleep_ms(s, interval_ms / 2 + interval_ms / 2 * random[4] / 256)) {
        return NULL;
    }
    do {
        sweep_once(s);
    } while (sleep_ms(s, interval_ms));
    return NULL;
}

static void destroy(struct sweeper *s)
{
    pthread_cond_destroy(&s->told);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct sweeper *sweep_start(const struct config *cfg)
{
    struct sweeper *s = calloc(1, sizeof(*s));
    pthread_condattr_t attr;

    if (s != NULL) {
        s->cfg = cfg;
        pthread_mutex_init(&s->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&s->told, &attr);
        pthread_condattr_destroy(&attr);
        if (pthread_create(&s->thread, NULL, run, s) == 0) {
            return s;
        }
        destroy(s);
    }
    log_line(LOG_ERROR_, "sweep.failed", "no memory for the sweeping thread");
    return NULL;
}

void sweep_stop(struct sweeper *s)
{
    if (s != NULL) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->told);
        pthread_mutex_unlock(&s->lock);
    }
}

bool sweep_join(struct sweeper *s, int wait_ms)
{
    struct timespec until = in_ms(CLOCK_REALTIME, wait_ms);

    if (s == NULL) {
        return true;
    }
    sweep_stop(s);
    if (pthread_timedjoin_np(s->thread, NULL, &until) != 0) {
        return false;
    }
    destroy(s);
    return true;
}
