
/*
 * The key set, as _keys.c, _keys_conf.c, _zone.c and _wait.c see it.
 */


#ifndef _NGX_HTTP_PLATFORM_GATEWAY_KEYS_H_INCLUDED_
#define _NGX_HTTP_PLATFORM_GATEWAY_KEYS_H_INCLUDED_


#include "ngx_http_platform_gateway.h"


/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  A document is written into the slot that is not current;
 * then the one store of the version makes it current, so that a worker may die
 * at any point.  Times in milliseconds are ngx_current_msec, a clock that all
 * processes of a host share.
 */

typedef struct {
    ngx_uint_t                   layout;       /* always the first field */
    ngx_uint_t                   generation;   /* of the configuration whose
                                                  workers may fetch */

    ngx_atomic_t                 version;      /* 0: no set yet */
    ngx_atomic_t                 ended;        /* fetches so far */
    ngx_atomic_t                 fetched;      /* ms, the last good one */
    time_t                       fetched_at;   /* the same, wall clock */

    ngx_atomic_t                 lease_until;  /* ms, where leased */
    ngx_atomic_t                 leased;       /* a fetch is in progress */
    ngx_uint_t                   lease;        /* which: one number each */
    ngx_atomic_t                 next_try;     /* ms, no fetch before */
    ngx_uint_t                   refresh;      /* due whatever the age */

    void                        *metrics;      /* _metrics.c; NULL: none yet */

    size_t                       len[2];       /* slot: version & 1 */
    u_char                       document[2][PJ_KEYSET_MAX_BYTES];
} ngx_http_platform_gateway_zone_t;


/* Of one worker process. */

typedef struct {
    pj_keyset_t                 *set;          /* NULL: none parsed yet */
    ngx_uint_t                   version;      /* of set */
    ngx_uint_t                   seen;         /* version last looked at */
    ngx_msec_t                   usable_until;

    ngx_event_t                  timer;
    ngx_msec_t                   early;        /* ms before the soft age */
    ngx_uint_t                   lease;        /* of our own fetch */
    ngx_uint_t                   fetching;     /* it is in progress */
    ngx_uint_t                   waiting;      /* parked requests */

    ngx_uint_t                   leaving;      /* the process exits ... */
    ngx_msec_t                   leave_at;     /* ... and fetches until then */
} ngx_http_platform_gateway_worker_t;


struct ngx_http_platform_gateway_keys_s {
    ngx_http_platform_gateway_zone_t    *zone;
    ngx_slab_pool_t                     *shpool;
    ngx_http_platform_gateway_worker_t  *worker;  /* set in workers only */

    ngx_http_platform_gateway_metrics_t  *metrics;

    ngx_shm_zone_t              *shm_zone;
    ngx_uint_t                   generation;

    ngx_str_t                    location;     /* URI; len 0: no source */
    ngx_str_t                    conf_file;    /* where that was said */
    ngx_uint_t                   conf_line;
    ngx_http_conf_ctx_t         *ctx;          /* the location's server */
    ngx_log_t                   *log;          /* that server's */

    ngx_msec_t                   soft_age;
    ngx_msec_t                   hard_age;
    ngx_msec_t                   cooldown;
    ngx_msec_t                   timeout;      /* of a fetch */
    ngx_msec_t                   wait;
    ngx_uint_t                   waiters;
};


/* ngx_http_platform_gateway_zone.c: what is shared, and the lease */

ngx_int_t ngx_http_platform_gateway_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);

/* Called by each worker at its start: its configuration is in force now. */
void ngx_http_platform_gateway_zone_activate(
    ngx_http_platform_gateway_keys_t *keys);

/*
 * Asks for the right to fetch now.  NGX_OK: it is ours, until zone_release();
 * NGX_AGAIN: a fetch is in progress; NGX_DECLINED: not before the cooldown is
 * over, or not by a worker of an older configuration.
 */
ngx_int_t ngx_http_platform_gateway_zone_lease(
    ngx_http_platform_gateway_keys_t *keys);

/* The same answer without asking for the right. */
ngx_int_t ngx_http_platform_gateway_zone_peek(
    const ngx_http_platform_gateway_keys_t *keys);

/*
 * Ends our fetch; document is NULL when it failed.  NGX_OK: the set in the
 * zone is now document; NGX_DECLINED: it was already, or there is none;
 * NGX_ABORT: the lease had passed to others, nothing was changed.
 */
ngx_int_t ngx_http_platform_gateway_zone_release(
    ngx_http_platform_gateway_keys_t *keys, const ngx_str_t *document);

/* Copies the current document, at most PJ_KEYSET_MAX_BYTES, into buf. */
size_t ngx_http_platform_gateway_zone_copy(
    ngx_http_platform_gateway_keys_t *keys, u_char *buf, ngx_uint_t *version);

/* Milliseconds until a fetch is due, or until the lease is; 0: now. */
ngx_msec_t ngx_http_platform_gateway_zone_due(
    const ngx_http_platform_gateway_keys_t *keys, ngx_msec_t early);


/* ngx_http_platform_gateway_keys.c */

/* Starts a fetch if one is permitted; answers like zone_lease(). */
ngx_int_t ngx_http_platform_gateway_keys_fetch(
    ngx_http_platform_gateway_keys_t *keys);


#endif /* _NGX_HTTP_PLATFORM_GATEWAY_KEYS_H_INCLUDED_ */
