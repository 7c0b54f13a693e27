/* Counters and histograms of the process, in Prometheus's text format. */

#pragma once

#include "base/buf.h"

/* More routes than this share the last place. */
#define METRICS_MAX_ENDPOINTS 24

/* What is counted, apart from requests.  metrics.c has a row for each. */
enum metrics_counter {
    METRICS_LOGIN_SUCCEEDED,
    METRICS_LOGIN_FAILED,      /* the account or the credential */
    METRICS_LOGIN_LIMITED,     /* too many failures before */
    METRICS_LOGIN_BUSY,        /* no hash slot in time */
    METRICS_LOGIN_UNAVAILABLE, /* no database */
    METRICS_LOGIN_ERROR,       /* our own fault */
    METRICS_LOGIN_INVALID,     /* no acceptable request */
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
    METRICS_HASH_WORK, /* KiB of memory times passes over it */
    METRICS_DB_CONNECTS,
    METRICS_DB_ERROR_CONNECT,
    METRICS_DB_ERROR_LOGIN,     /* role, password or database is refused */
    METRICS_DB_ERROR_POOL,      /* no connection free in time */
    METRICS_DB_ERROR_REFUSED,   /* the server said no */
    METRICS_DB_ERROR_LOCKED,    /* others held a row for too long */
    METRICS_DB_ERROR_TRANSIENT, /* it said no, and was asked again */
    METRICS_DB_ERROR_LOST,      /* it did not answer */
    METRICS_CONN_ACCEPTED,
    METRICS_CONN_GARBAGE,    /* sent what is no request */
    METRICS_CONN_INCOMPLETE, /* left before the request was whole */
    METRICS_CONN_TIMED_OUT,  /* did not send or take a request in time */
    METRICS_KEYS_RELOADED,
    METRICS_KEYS_RELOAD_FAILED,
    METRICS_SWEEPS,
    METRICS_SWEEPS_BUSY, /* another process was at it */
    METRICS_SWEEPS_FAILED,
    METRICS_SWEPT_SESSIONS,
    METRICS_SWEPT_TOKENS,
    METRICS_SWEPT_ATTEMPTS,
    METRICS_SWEPT_REVOCATIONS,
    METRICS_COUNTERS
};

/* What is timed, apart from requests. */
enum metrics_timer {
    METRICS_HASH,      /* one Argon2id computation */
    METRICS_HASH_WAIT, /* for a slot, given or not */
    METRICS_STATEMENT, /* one SQL statement, with its round trip */
    METRICS_TIMERS
};

/* Values that are read when the exposition is rendered. */
struct metrics_gauge {
    const char *name;
    const char *help;
    int64_t value;
};

/* Notes the process's start, before there are threads. */
void metrics_start(void);

/* CLOCK_MONOTONIC in microseconds. */
int64_t metrics_now_us(void);

/* Any thread may count; it takes no lock. */
void metrics_add(enum metrics_counter counter, uint64_t n);
#define metrics_count(counter) metrics_add(counter, 1)
void metrics_time(enum metrics_timer timer, int64_t microseconds);

/* Counts a request that was answered with status and code (NULL: none); a pair
 * that metrics.c does not know as "other", so that no client makes a series. */
void metrics_request(size_t endpoint, int status, const char *code,
                     int64_t microseconds);

/* Appends the exposition.  endpoint_name gives the label of each endpoint; kid
 * is the signing key's id, NULL where there is none. */
void metrics_render(struct buf *out, const char *(*endpoint_name)(size_t),
                    const struct metrics_gauge *gauges, size_t gauge_count,
                    const void *kid, size_t kid_len);
