
/*
 * The key set, as _keys*.c, _refresh.c and _fetch.c see it.
 */


#ifndef _NGX_HTTP_PGW_KEYS_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_H_INCLUDED_


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_KEYS_ERROR   128  /* bytes of a message */
#define NGX_HTTP_PGW_KEYS_DIGEST  64   /* SHA-256 in hex */


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
    u_char                       source[NGX_HTTP_PGW_KEYS_DIGEST];
                                               /* of the set, and of them */

    ngx_atomic_t                 version;      /* of the set */
    ngx_atomic_t                 ended;        /* fetches so far */
    ngx_atomic_t                 brought;      /* lease of the last good one */
    ngx_atomic_t                 fetched;      /* ms, its beginning */
    time_t                       fetched_at;   /* the same, wall clock; 0: no
                                                  set of this source yet */

    ngx_atomic_t                 lease_until;  /* ms, where leased */
    ngx_atomic_t                 leased;       /* a fetch is in progress */
    ngx_atomic_t                 lease;        /* which: one number each */
    ngx_msec_t                   began;        /* that fetch, ... */
    time_t                       began_at;     /* ... wall clock */
    ngx_atomic_t                 next_try;     /* ms, no fetch before */
    ngx_uint_t                   refresh;      /* due whatever the age */
    ngx_uint_t                   complaint;    /* last one about the key file,
                                                  0: none */

    void                        *metrics;      /* _metrics.c; NULL: none yet */

    size_t                       len[2];       /* slot: version & 1; 0: none */
    u_char                       document[2][PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_zone_t;


/* What the zone held at one instant. */

typedef struct {
    ngx_str_t                    document;     /* len 0: no set of ours */
    ngx_uint_t                   version;
    ngx_msec_t                   fetched;
    time_t                       fetched_at;
} ngx_http_pgw_copy_t;


/* Of one worker process. */

typedef struct {
    pj_keyset_t                 *set;          /* NULL: none */
    ngx_uint_t                   version;      /* of the zone, for set */
    ngx_msec_t                   usable_until;

    ngx_event_t                  timer;
    ngx_msec_t                   early;        /* ms before the soft age */
    ngx_uint_t                   lease;        /* of our own fetch */
    ngx_uint_t                   fetching;     /* it is in progress */
    ngx_uint_t                   waiting;      /* parked requests */

    ngx_event_t                  file;         /* reads the key file */
    ngx_err_t                    cache_err;    /* said of the cache file */

    ngx_uint_t                   leaving;      /* the process exits ... */
    ngx_msec_t                   leave_at;     /* ... and fetches until then */
} ngx_http_pgw_worker_t;


struct ngx_http_pgw_keys_s {
    ngx_http_pgw_zone_t             *zone;
    ngx_slab_pool_t                 *shpool;
    ngx_http_pgw_worker_t           *worker;     /* set in workers only */

    ngx_http_pgw_metrics_t          *metrics;

    ngx_shm_zone_t                  *shm_zone;
    ngx_uint_t                       generation;

    /* one of two sources: the URI of a location, or a file */
    ngx_str_t                        location;
    ngx_str_t                        file;
    ngx_str_t                        document;  /* of the file, as configured */
    ngx_str_t                        conf_file;  /* where that was said */
    ngx_uint_t                       conf_line;
    ngx_http_conf_ctx_t             *ctx;        /* the location's server */
    const ngx_http_core_loc_conf_t  *clcf;     /* the location; NULL: a file */
    ngx_log_t                       *log;        /* that server's */

    ngx_str_t                        cache_file;  /* len 0: none */

    /* the issuers and where their keys are, as a digest: what a set of keys
       is good for */
    u_char                           source[NGX_HTTP_PGW_KEYS_DIGEST];

    ngx_msec_t                       soft_age;
    ngx_msec_t                       hard_age;
    ngx_msec_t                       cooldown;
    ngx_msec_t                       timeout;    /* of a fetch */
    ngx_msec_t                       wait;
    ngx_uint_t                       waiters;
};


/* ngx_http_pgw_keys.c: what is shared, the lease, and what is parsed */

ngx_int_t ngx_http_pgw_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/*
 * Called by each worker at its start: its configuration is in force now, and a
 * set of another source is gone.
 */
void ngx_http_pgw_zone_activate(ngx_http_pgw_keys_t *keys);

/*
 * Asks for the right to fetch now.  NGX_OK: it is ours, until zone_release();
 * NGX_AGAIN: a fetch is in progress; NGX_DECLINED: not before the cooldown is
 * over, or not by a worker of an older configuration.
 */
ngx_int_t ngx_http_pgw_zone_lease(ngx_http_pgw_keys_t *keys);

/* The same answer without asking for the right. */
ngx_int_t ngx_http_pgw_zone_peek(const ngx_http_pgw_keys_t *keys);

/*
 * Ends our fetch; document is NULL when it failed.  NGX_OK: the set in the
 * zone is now document; NGX_DECLINED: it was already, or there is none;
 * NGX_ABORT: the lease had passed to others, or to a newer configuration:
 * nothing was changed.
 */
ngx_int_t ngx_http_pgw_zone_release(ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document);

/*
 * Takes document, version and times under one lock.  copy->document.data is the
 * caller's and has PJ_KEYSET_MAX_BYTES.
 */
void ngx_http_pgw_zone_copy(ngx_http_pgw_keys_t *keys,
    ngx_http_pgw_copy_t *copy);

/* Milliseconds until a fetch is due, or until the lease is; 0: now. */
ngx_msec_t ngx_http_pgw_zone_due(const ngx_http_pgw_keys_t *keys,
    ngx_msec_t early);


/* *set is to be freed with keys_free(), which takes NULL too. */
pj_err_t ngx_http_pgw_keys_parse(const ngx_str_t *document, pj_keyset_t **set,
    ngx_log_t *log);
void ngx_http_pgw_keys_free(pj_keyset_t *set);


/* ngx_http_pgw_fetch.c: the detached internal request */

/*
 * Called once when a fetch ends: document is what it brought, unless err says
 * in a few words why there is none.  Both are gone when it returns.
 */
typedef void (*ngx_http_pgw_fetch_done_pt)(ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, const char *err);

/*
 * Starts GET of the key location in its server; only the answer of that
 * location counts.  NGX_ERROR: out of memory, or this worker fetches already;
 * done is not called then.
 */
ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_keys_t *keys,
    ngx_http_pgw_fetch_done_pt done);

/* Ends the worker's fetch, if there is one. */
void ngx_http_pgw_fetch_abort(void);

/* Keeps a connection for the next fetch, where there is none yet. */
void ngx_http_pgw_fetch_reserve(ngx_log_t *log);


/* ngx_http_pgw_keys_disk.c: key sets in files */

/* SHA-256 of parts, each with its length; hex has no NUL. */
ngx_int_t ngx_http_pgw_keys_digest(u_char *hex, const ngx_str_t *parts,
    ngx_uint_t n);

/*
 * Reads a regular file of at most max bytes.  NGX_DECLINED: there is none;
 * NGX_ERROR: it cannot be used; err says why in either case and is
 * NGX_HTTP_PGW_KEYS_ERROR bytes long.
 */
ngx_int_t ngx_http_pgw_keys_read(const ngx_str_t *name, u_char *buf,
    size_t max, size_t *len, u_char *err);

/* Reads and checks the key file for nginx -t, and for the first worker. */
char *ngx_http_pgw_keys_file_check(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys);

/*
 * What the set on disk is, if it is whole, ours and young enough: document
 * points into what is returned and to be freed with ngx_free().  NULL: none,
 * and the log says why.
 */
u_char *ngx_http_pgw_disk_load(ngx_http_pgw_keys_t *keys, ngx_str_t *document,
    time_t *fetched, ngx_log_t *log);

/* Logs if this process will not be able to write the set on disk. */
void ngx_http_pgw_disk_check(const ngx_http_pgw_keys_t *keys);

/* Keeps what is in the zone. */
void ngx_http_pgw_disk_store(ngx_http_pgw_keys_t *keys);


#endif /* _NGX_HTTP_PGW_KEYS_H_INCLUDED_ */
