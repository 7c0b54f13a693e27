
/*
 * The key set, as _keys*.c, _refresh.c and _fetch.c see it.
 */


#ifndef _NGX_HTTP_PGW_KEYS_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_H_INCLUDED_


#include "ngx_http_pgw_metrics.h"


#define NGX_HTTP_PGW_KEYS_DIGEST  64   /* in hex */


/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  A document is written into the slot that is not current;
 * then the one store of the version makes it current, so that a worker may die
 * at any point.  Times in milliseconds are ngx_current_msec, a clock that all
 * processes of a host share.
 */

typedef struct {
    ngx_uint_t      layout;       /* always the first field */
    ngx_uint_t      generation;   /* of the configuration whose workers may
                                     fetch */
    u_char          source[NGX_HTTP_PGW_KEYS_DIGEST];  /* of that, of the set */

    ngx_atomic_t    version;      /* of the set */
    ngx_atomic_t    ended;        /* fetches so far */
    ngx_atomic_t    brought;      /* lease of the last good one */
    ngx_atomic_t    fetched;      /* ms, its beginning */
    time_t          fetched_at;   /* the same, wall clock; 0: no set of this
                                     source yet */

    ngx_atomic_t    lease;        /* of the last fetch: one number each */
    ngx_atomic_t    lease_until;  /* ms; past: no fetch is in progress */
    ngx_msec_t      began;        /* that fetch, ... */
    time_t          began_at;     /* ... wall clock */
    ngx_atomic_t    next_try;     /* ms, no fetch before */
    ngx_uint_t      refresh;      /* due whatever the age */
    ngx_uint_t      complaint;    /* last one about the key file, 0: none */

    void           *metrics;      /* _metrics.c; NULL: none yet */

    size_t          len[2];       /* slot: version & 1; 0: none */
    u_char          document[2][PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_zone_t;


/* The set on disk, of fixed widths: a time can be replaced in place. */

typedef struct {
    u_char          magic[sizeof("platform-gateway-keys 1\nfetched ") - 1];
    u_char          fetched[20];
    u_char          source_is[sizeof("\nsource ") - 1];
    u_char          source[NGX_HTTP_PGW_KEYS_DIGEST];
    u_char          digest_is[sizeof("\ndigest ") - 1];
    u_char          digest[NGX_HTTP_PGW_KEYS_DIGEST];
    u_char          end[2];
    u_char          document[PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_disk_t;


/* What the zone held at one instant. */

typedef struct {
    ngx_uint_t           version;
    ngx_msec_t           fetched;
    time_t               fetched_at;
    ngx_str_t            document;  /* lies in disk; len 0: no set of ours */
    ngx_http_pgw_disk_t  disk;
} ngx_http_pgw_copy_t;


struct ngx_http_pgw_keys_s {
    const ngx_http_pgw_main_conf_t  *conf;       /* ages and limits */
    ngx_msec_t                       timeout;    /* of a fetch */

    /* one of two sources: the URI of a location, or a file */
    ngx_str_t                        location;
    ngx_str_t                        file;
    ngx_str_t                        document;   /* of the file, at first */
    ngx_http_pgw_place_t             place;      /* where that was said */
    ngx_http_conf_ctx_t             *ctx;        /* the location's server */
    const ngx_http_core_loc_conf_t  *clcf;       /* the location, and ... */
    const ngx_http_upstream_srv_conf_t  *upstream;  /* ... what is behind it;
                                                       NULL: not known */
    ngx_log_t                       *log;        /* that server's */

    /* the issuers and where their keys are, as a digest: what a set of keys
       is good for */
    u_char                           source[NGX_HTTP_PGW_KEYS_DIGEST];

    ngx_shm_zone_t                  *shm_zone;   /* NULL: none is needed */
    ngx_slab_pool_t                 *shpool;
    ngx_http_pgw_zone_t             *zone;
    ngx_uint_t                       generation;
    ngx_http_pgw_metrics_t          *metrics;

    /* of one worker process */

    ngx_uint_t                       working;    /* it is one */
    pj_keyset_t                     *set;        /* NULL: none */
    ngx_uint_t                       version;    /* of the zone, for set */
    ngx_msec_t                       fetched;    /* likewise */

    ngx_event_t                      timer;
    ngx_msec_t                       early;      /* ms before the soft age */
    ngx_event_t                      begin;      /* posted: a fetch */
    ngx_uint_t                       lease;      /* of our own fetch */
    ngx_uint_t                       fetching;   /* it is in progress */
    ngx_uint_t                       waiting;    /* parked requests */
    ngx_err_t                        disk_err;   /* the last one said */
    ngx_msec_t                       leave_at;   /* exiting, it fetches until
                                                    then; 0: it does not exit */
};


/* Milliseconds from now to then; 0 when then has passed. */

static ngx_inline ngx_msec_t
ngx_http_pgw_keys_left(ngx_msec_t then)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (then - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


/* ngx_http_pgw_keys.c: what is shared, and what is made of it */

/* A worker's configuration is in force now; a set of another source is gone. */
void ngx_http_pgw_zone_activate(ngx_http_pgw_keys_t *keys);

/*
 * A document is as old as its fetch: what the issuer changed since the fetch
 * began need not be in it.  The same document again is as fresh as a NEW one.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_zone_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);

/* Document, version and times, of one lock; valid until the next call. */
ngx_http_pgw_copy_t *ngx_http_pgw_zone_copy(ngx_http_pgw_keys_t *keys);

/*
 * Begins a fetch.  NGX_AGAIN: one is in progress; NGX_DECLINED: not before the
 * cooldown is over, or not by this worker.
 */
ngx_int_t ngx_http_pgw_keys_fetch(ngx_http_pgw_keys_t *keys);

/*
 * Ends it; document is NULL where it failed.  SUPERSEDED: the lease had passed
 * to others, or to a newer configuration, and nothing was changed.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_release(ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document);

/* Makes of hex, which has no NUL, a digest (HMAC-SHA-256) of it and of data. */
ngx_int_t ngx_http_pgw_keys_digest(u_char *hex, const u_char *data,
    size_t len);

/*
 * Reads a regular file of at most max bytes.  Returns why it cannot be used, as
 * a text that lasts until the next call, or NULL.
 */
const char *ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf,
    size_t max, size_t *len);

/* What is wrong with the document, or NULL; then keys_free(*set). */
const char *ngx_http_pgw_keys_parse(const ngx_str_t *document,
    pj_keyset_t **set);
void ngx_http_pgw_keys_free(pj_keyset_t *set);


/* ngx_http_pgw_refresh.c: where it comes from */

ngx_int_t ngx_http_pgw_keys_zone_init(ngx_shm_zone_t *shm_zone, void *data);


/* ngx_http_pgw_fetch.c: the detached internal request */

/*
 * Called once when a fetch ends: document is what it brought, unless err says
 * in a few words why there is none.  Both are gone when it returns.
 */
typedef void (*ngx_http_pgw_fetch_done_pt)(ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, const char *err);

/*
 * GET of the key location in its server; only its own answer counts.
 * NGX_ERROR: out of memory, or this worker fetches already: no call of done.
 */
ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_keys_t *keys,
    ngx_http_pgw_fetch_done_pt done);

/* Ends the worker's fetch, if there is one. */
void ngx_http_pgw_fetch_abort(void);

/* Keeps a connection for the next fetch, where there is none yet. */
void ngx_http_pgw_fetch_reserve(ngx_log_t *log);


#endif /* _NGX_HTTP_PGW_KEYS_H_INCLUDED_ */
