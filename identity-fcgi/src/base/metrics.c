/*
 * Counters and histograms: cells that each thread has for itself.
 *
 * A cell has one writer, so counting is an addition to memory that no other
 * thread's cache holds.  Whoever reads adds all threads' cells up; a sum may
 * miss what is being counted at that moment, and never goes back.
 */

#include "base/metrics_cells.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_LINE 64

const struct metrics_outcome metrics_outcomes[METRICS_OUTCOMES] = {
    {0, "other"}, /* the first: where all else goes */
    {200, ""},
    {200, "AUTH_LOGIN_SUCCESS"},
    {200, "AUTH_LOGOUT_SUCCESS"},
    {200, "AUTH_REFRESH_SUCCESS"},
    {200, "AUTH_SELECT_BRANCH_SUCCESS"},
    {304, ""},
    {400, "AUTH_REFRESH_TOKEN_CONFLICT"},
    {400, "REQUEST_INVALID"},
    {401, "AUTH_ACCOUNT_TOKEN_REQUIRED"},
    {401, "AUTH_INVALID_CREDENTIALS"},
    {401, "AUTH_REFRESH_TOKEN_INVALID"},
    {401, "AUTH_REFRESH_TOKEN_MISSING"},
    {401, "AUTH_REFRESH_TOKEN_STALE"},
    {401, "AUTH_SESSION_NOT_ACTIVE"},
    {403, "AUTH_BRANCH_NOT_SELECTABLE"},
    {403, "AUTH_ORIGIN_NOT_ALLOWED"},
    {404, "RESOURCE_NOT_FOUND"},
    {405, "METHOD_NOT_ALLOWED"},
    {412, "PRECONDITION_FAILED"},
    {413, "REQUEST_TOO_LARGE"},
    {415, "MEDIA_TYPE_UNSUPPORTED"},
    {429, "AUTH_TOO_MANY_ATTEMPTS"},
    {500, "INTERNAL_ERROR"},
    {503, "AUTH_BUSY"},
    {503, "DATABASE_UNAVAILABLE"},
    {503, "SERVICE_NOT_READY"},
};

const int64_t metrics_bounds_us[METRICS_BOUNDS] = {
    1000,   2500,   5000,    10000,   25000,   50000,   100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000};

const char *const metrics_bounds_s[METRICS_BOUNDS] = {
    "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1",
    "0.25",  "0.5",    "1",     "2.5",  "5",     "10"};

/* One thread's cells.  They stay when it ends: sums never go back. */
struct shard {
    struct shard *next;
    _Atomic uint64_t cells[METRICS_CELLS];
};

static struct shard shared; /* of threads that got no memory */
static _Atomic(struct shard *) shards = &shared;
static _Thread_local struct shard *mine;
static _Atomic int64_t started_s;

int64_t metrics_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void metrics_start(void)
{
    atomic_store(&started_s, (int64_t) time(NULL));
}

int64_t metrics_started_s(void)
{
    return atomic_load(&started_s);
}

/* -- counting -------------------------------------------------------------
 */

static struct shard *shard_new(void)
{
    size_t size = (sizeof(struct shard) + CACHE_LINE - 1) / CACHE_LINE;
    struct shard *s = aligned_alloc(CACHE_LINE, size * CACHE_LINE);

    if (s == NULL) {
        return &shared;
    }
    memset(s, 0, sizeof(*s));
    s->next = atomic_load(&shards);
    while (!atomic_compare_exchange_weak(&shards, &s->next, s)) {
    }
    return s;
}

static void add(size_t cell, uint64_t n)
{
    if (mine == NULL) {
        mine = shard_new();
    }
    atomic_fetch_add_explicit(&mine->cells[cell], n, memory_order_relaxed);
}

void metrics_add(enum metrics_counter counter, uint64_t n)
{
    add(counter, n);
}

void metrics_count(enum metrics_counter counter)
{
    add(counter, 1);
}

static void observe(size_t histogram, int64_t us)
{
    size_t first = metrics_histogram_cell(histogram);
    size_t i = 0;

    if (us < 0) {
        us = 0;
    }
    while (i < METRICS_BOUNDS && us > metrics_bounds_us[i]) {
        i++;
    }
    add(first + i, 1);
    add(first + METRICS_BOUNDS + 1, (uint64_t) us);
}

void metrics_time(enum metrics_timer timer, int64_t microseconds)
{
    observe(timer, microseconds);
}

static size_t outcome_of(int status, const char *code)
{
    for (size_t i = 1; i < METRICS_OUTCOMES; i++) {
        const struct metrics_outcome *o = &metrics_outcomes[i];

        if (o->code == NULL) {
            break;
        }
        if (o->status == status && strcmp(o->code, code) == 0) {
            return i;
        }
    }
    return 0;
}

void metrics_request(size_t endpoint, int status, const char *code,
                     int64_t microseconds)
{
    if (endpoint >= METRICS_MAX_ENDPOINTS) {
        endpoint = METRICS_MAX_ENDPOINTS - 1;
    }
    add(metrics_request_cell(endpoint,
                             outcome_of(status, code != NULL ? code : "")),
        1);
    observe(METRICS_TIMERS + endpoint, microseconds);
}

/* -- reading --------------------------------------------------------------
 */

void metrics_sum(uint64_t cells[METRICS_CELLS])
{
    memset(cells, 0, METRICS_CELLS * sizeof(cells[0]));
    for (struct shard *s = atomic_load(&shards); s != NULL; s = s->next) {
        for (size_t i = 0; i < METRICS_CELLS; i++) {
            cells[i] +=
                atomic_load_explicit(&s->cells[i], memory_order_relaxed);
        }
    }
}

void metrics_clear(void)
{
    for (struct shard *s = atomic_load(&shards); s != NULL; s = s->next) {
        for (size_t i = 0; i < METRICS_CELLS; i++) {
            atomic_store_explicit(&s->cells[i], 0, memory_order_relaxed);
        }
    }
}
