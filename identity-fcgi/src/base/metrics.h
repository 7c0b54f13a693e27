/* Counters and histograms of the process, in Prometheus's text format. */

#pragma once

#include "base/buf.h"

/* Further endpoints share the last place. */
#define METRICS_MAX_ENDPOINTS 64

/* Counters, except requests.  Each is in a row of families[] in metrics.c. */
enum metrics_counter {
    METRICS_LOGIN_SUCCEEDED,
    METRICS_LOGIN_FACTOR,      /* right, but needs a second factor */
    METRICS_LOGIN_FAILED,      /* wrong account or credential */
    METRICS_LOGIN_LIMITED,     /* too many failures */
    METRICS_LOGIN_BUSY,        /* hash slots busy */
    METRICS_LOGIN_UNAVAILABLE, /* database unavailable */
    METRICS_LOGIN_ERROR,       /* internal error */
    METRICS_LOGIN_INVALID,     /* malformed request */
    METRICS_TOKEN_SUCCEEDED,
    METRICS_TOKEN_FAILED,      /* wrong client, secret or assertion */
    METRICS_TOKEN_LIMITED,     /* too many failures */
    METRICS_TOKEN_UNAVAILABLE, /* database unavailable */
    METRICS_TOKEN_ERROR,       /* internal error */
    METRICS_TOKEN_INVALID,     /* malformed request, or scope not allowed */
    METRICS_ROTATIONS,
    METRICS_RETRIES,
    METRICS_STALE_REFRESHES,
    METRICS_SESSIONS_REVOKED_LOGOUT,
    METRICS_SESSIONS_REVOKED_REUSE,
    METRICS_SESSIONS_REVOKED_DISABLED,
    METRICS_SESSIONS_REVOKED_LIMIT,
    METRICS_SESSIONS_REVOKED_OWNER,
    METRICS_SESSIONS_REVOKED_CREDENTIAL,
    METRICS_BRANCHES_SELECTED,
    METRICS_REHASHES,
    METRICS_HASH_WORK, /* KiB of memory times passes */
    METRICS_DB_CONNECTS,
    METRICS_DB_ERROR_CONNECT,
    METRICS_DB_ERROR_LOGIN,     /* role, password or database refused */
    METRICS_DB_ERROR_POOL,      /* all connections busy */
    METRICS_DB_ERROR_REFUSED,   /* the server refused a statement */
    METRICS_DB_ERROR_LOCKED,    /* timeout waiting for a locked row */
    METRICS_DB_ERROR_TRANSIENT, /* refused, then repeated */
    METRICS_DB_ERROR_LOST,      /* no answer from the server */
    METRICS_CONN_ACCEPTED,
    METRICS_CONN_GARBAGE,    /* malformed FastCGI */
    METRICS_CONN_INCOMPLETE, /* closed before the end of the request */
    METRICS_CONN_TIMED_OUT,  /* timeout sending or receiving */
    METRICS_KEYS_RELOADED,
    METRICS_KEYS_RELOAD_FAILED,
    METRICS_SWEEPS,
    METRICS_SWEEPS_BUSY, /* another process was sweeping */
    METRICS_SWEEPS_FAILED,
    METRICS_SWEPT_SESSIONS,
    METRICS_SWEPT_TOKENS,
    METRICS_SWEPT_ATTEMPTS,
    METRICS_SWEPT_REVOCATIONS,
    METRICS_COUNTERS
};

/* Histograms, except requests. */
enum metrics_timer {
    METRICS_HASH,      /* one Argon2id computation */
    METRICS_HASH_WAIT, /* waiting for a slot, successful or not */
    METRICS_STATEMENT, /* one SQL statement with its round trip */
    METRICS_TIMERS
};

/* A value that is read when the metrics are rendered. */
struct metrics_gauge {
    const char *name;
    const char *help;
    int64_t value;
};

/* Records the start time of the process.  Call before threads start. */
void metrics_start(void);

/* CLOCK_MONOTONIC in microseconds. */
int64_t metrics_now_us(void);

/* May be called by any thread; lock-free. */
void metrics_add(enum metrics_counter counter, uint64_t n);
#define metrics_count(counter) metrics_add(counter, 1)
void metrics_time(enum metrics_timer timer, int64_t microseconds);

/* Counts a request that was answered with status and code (or NULL).  Pairs
 * that are not in outcomes[] of metrics.c are counted as "other", so clients
 * cannot create new series. */
void metrics_request(size_t endpoint, int status, const char *code,
                     int64_t microseconds);

/* Appends all metrics. endpoint_name returns the label of an endpoint. kid is
 * the id of the signing key, or NULL. */
void metrics_render(struct buf *out, const char *(*endpoint_name)(size_t),
                    const struct metrics_gauge *gauges, size_t gauge_count,
                    const void *kid, size_t kid_len);
