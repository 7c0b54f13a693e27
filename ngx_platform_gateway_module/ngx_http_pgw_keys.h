
/*
 * What lies in shared memory: the key set, and counters.  All workers, those of
 * an older configuration too, add to the same words by ngx_atomic_fetch_add().
 * Each route id has its counters once, for as long as the zone lives: a reload
 * loses nothing, and a route that one configuration drops and a later one names
 * again goes on where it stopped.
 */


#ifndef _NGX_HTTP_PGW_KEYS_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_H_INCLUDED_


#include "ngx_http_pgw_fetch.h"


/* Buckets of the histogram; the last one has no bound. */
#define NGX_HTTP_PGW_DURATIONS  12

/* The status of the upstream by hundreds; 0: it has not answered. */
#define NGX_HTTP_PGW_CLASSES    6


typedef enum {
    NGX_HTTP_PGW_FETCH_NEW = 0,     /* a new key set */
    NGX_HTTP_PGW_FETCH_UNCHANGED,   /* the one that is known */
    NGX_HTTP_PGW_FETCH_FAILED,
    NGX_HTTP_PGW_FETCH_SUPERSEDED,  /* by a reload, or too late */
    NGX_HTTP_PGW_FETCH_OUTCOMES
} ngx_http_pgw_fetch_e;


typedef enum {
    NGX_HTTP_PGW_FEED_READ = 0,     /* a page */
    NGX_HTTP_PGW_FEED_FAILED,
    NGX_HTTP_PGW_FEED_CURSOR,       /* refused: from the beginning again */
    NGX_HTTP_PGW_FEED_FULL,         /* no room for all of a page */
    NGX_HTTP_PGW_FEED_SUPERSEDED,
    NGX_HTTP_PGW_FEED_OUTCOMES
} ngx_http_pgw_feed_e;


typedef enum {
    NGX_HTTP_PGW_CACHE_HIT = 0,
    NGX_HTTP_PGW_CACHE_MISS,
    NGX_HTTP_PGW_CACHE_EVICTION,    /* for want of room */
    NGX_HTTP_PGW_CACHE_EVENTS
} ngx_http_pgw_cache_e;


typedef struct {
    ngx_atomic_t              buckets[NGX_HTTP_PGW_DURATIONS];
    ngx_atomic_t              ms;   /* of all together */
} ngx_http_pgw_histogram_t;


/* What is counted of a route; in the zone. */

typedef struct ngx_http_pgw_counters_s  ngx_http_pgw_counters_t;

struct ngx_http_pgw_counters_s {
    ngx_http_pgw_counters_t  *next;
    size_t                    len;  /* of the id */

    ngx_atomic_t              requests[NGX_HTTP_PGW_DECISIONS];
    ngx_http_pgw_histogram_t  durations;
    ngx_atomic_t              upstream[NGX_HTTP_PGW_CLASSES];

    u_char                    id[];
};


/*
 * Of all routes.  cached[] is indexed by a process's place in nginx's own
 * table, which no two live processes share.
 */

typedef struct {
    ngx_http_pgw_counters_t  *routes;

    ngx_atomic_t              refusals[NGX_HTTP_PGW_DECISIONS]
                                      [NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              verifications[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              fetches[NGX_HTTP_PGW_FETCH_OUTCOMES];
    ngx_atomic_t              cache[NGX_HTTP_PGW_CACHE_EVENTS];
    ngx_atomic_t              cached[NGX_MAX_PROCESSES];

    ngx_atomic_t              feed[NGX_HTTP_PGW_FEED_OUTCOMES];
    ngx_atomic_t              unchecked[1];  /* let in with a stale feed */
    ngx_http_pgw_histogram_t  lag;  /* from a revocation to its effect */
} ngx_http_pgw_shared_t;


/* A route id of the configuration. */

struct ngx_http_pgw_route_s {
    ngx_http_pgw_route_t     *next;
    ngx_str_t                 id;
    ngx_http_pgw_counters_t  *counters;  /* NULL: nothing is counted */
};


/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  A document is written into the slot that is not current;
 * then the one store of the version makes it current, so that a worker may die
 * at any point.
 */

typedef struct {
    ngx_uint_t      layout;       /* always the first field */
    ngx_http_pgw_lease_t  lease;  /* its source is that of the set */

    ngx_atomic_t    version;      /* of the set */
    ngx_atomic_t    ended;        /* fetches so far */
    ngx_atomic_t    brought;      /* lease of the last good one */
    ngx_atomic_t    fetched;      /* ms, its beginning */
    time_t          fetched_at;   /* the same, wall clock; 0: no set of this
                                     source yet */

    ngx_uint_t      refresh;      /* due whatever the age */
    ngx_uint_t      complaint;    /* last one about the key file, 0: none */

    ngx_http_pgw_shared_t  metrics;

    size_t          len[2];       /* slot: version & 1; 0: none */
    u_char          document[2][PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_zone_t;


/* The set on disk. */

typedef struct {
    u_char          magic[sizeof("platform-gateway-keys 1\nfetched ") - 1];
    u_char          fetched[20];
    u_char          source_is[sizeof("\nsource ") - 1];
    u_char          source[NGX_HTTP_PGW_DIGEST];
    u_char          digest_is[sizeof("\ndigest ") - 1];
    u_char          digest[NGX_HTTP_PGW_DIGEST];
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

    /* one of two sources: the URI of a location, or a file */
    ngx_http_pgw_source_t            from;
    ngx_str_t                        file;
    ngx_str_t                        document;   /* of the file, at first */

    ngx_str_t                        zone_name;
    size_t                           zone_size;  /* 0: not said */
    ngx_shm_zone_t                  *shm_zone;   /* NULL: none is needed */
    ngx_http_pgw_zone_t             *zone;

    /* of one worker process */

    ngx_uint_t                       working;    /* it is one */
    pj_keyset_t                     *set;        /* NULL: none */
    ngx_uint_t                       version;    /* of the zone, for set */
    ngx_msec_t                       fetched;    /* likewise */

    ngx_event_t                      timer;
    ngx_msec_t                       early;      /* ms before the soft age */
    ngx_uint_t                       waiting;    /* parked requests */
    ngx_err_t                        disk_err;   /* the last one said */
    ngx_msec_t                       leave_at;   /* exiting, it fetches until
                                                    then; 0: it does not exit */
};


/* Whether the configuration names a source of keys at all. */

#define ngx_http_pgw_keys_usable(keys)                                        \
    ((keys)->from.location.len || (keys)->file.len)


/* ngx_http_pgw_keys_conf.c: directives of the key set */

ngx_http_pgw_set_t  ngx_http_pgw_keys_zone;
ngx_http_pgw_set_t  ngx_http_pgw_keys_source;

char *ngx_http_pgw_keys_cache_file(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_pgw_keys_age(ngx_conf_t *cf, void *post, void *data);

/*
 * Called at postconfiguration, when every location is merged: defaults of the
 * mcf->key_* that are unset, and the checks.
 */
char *ngx_http_pgw_keys_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_keys.c: the shared document, and each worker's parsed set */

/* A worker's configuration is in force now; a set of another source is gone. */
void ngx_http_pgw_zone_activate(ngx_http_pgw_keys_t *keys);

/*
 * A document's age counts from the beginning of its fetch: it need not have
 * what the issuer changed since.  An UNCHANGED document is as fresh as a NEW
 * one.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_zone_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);

/* Document, version and times, taken under one lock; valid until the next
   call. */
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

/*
 * Brings this worker's parsed set up to date with the zone (one atomic read
 * when nothing changed) and returns it, or NULL while there is no usable set
 * or the last good one is past the hard age.  Valid until the event loop is
 * returned to.  Then keys->version is that of the set.
 */
const pj_keyset_t *ngx_http_pgw_keys_get(ngx_http_pgw_keys_t *keys);

/*
 * Parks r until the key set changes, a fetch ends or the wait is over; then
 * the phases of r run again.  NGX_AGAIN: parked.  NGX_OK: a good fetch that
 * began after r came has ended: a key that it did not bring does not exist.
 * NGX_DECLINED: no fetch is in progress or permitted, the waiters are full, or
 * r has waited for as long as it may: decide now.
 */
ngx_int_t ngx_http_pgw_keys_wait(ngx_http_request_t *r,
    ngx_http_pgw_keys_t *keys);

/* The member "keySet" of an explanation. */
void ngx_http_pgw_keys_explain(ngx_http_pgw_text_t *text,
    ngx_http_pgw_keys_t *keys);

/* Seconds until a fetch is worth asking for again; at least 1. */
time_t ngx_http_pgw_keys_retry_after(const ngx_http_pgw_keys_t *keys);


/* ngx_http_pgw_refresh.c: where it comes from, and when */

ngx_int_t ngx_http_pgw_keys_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/* Starts counting, and the worker's refresh timer. */
ngx_int_t ngx_http_pgw_keys_init_process(ngx_cycle_t *cycle);
void ngx_http_pgw_keys_exit_process(ngx_cycle_t *cycle);

/* The end of a fetch of the key set (data). */
void ngx_http_pgw_keys_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);


/* ngx_http_pgw_metrics.c: what is counted, and the directive that shows it */

/* The route of that id, made at its first use; NULL: out of memory. */
ngx_http_pgw_route_t *ngx_http_pgw_metrics_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/* Finds or makes the counters of the configuration's routes in the zone. */
ngx_int_t ngx_http_pgw_metrics_zone_init(const ngx_http_pgw_main_conf_t *mcf,
    ngx_shm_zone_t *shm_zone, ngx_http_pgw_shared_t *shared);

/* mcf NULL: there is no http{}. */
void ngx_http_pgw_metrics_init_process(const ngx_http_pgw_main_conf_t *mcf);

ngx_int_t ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r);

/* One more of what is at that offset of shared_t. */
void ngx_http_pgw_metrics_count(size_t offset);

#define ngx_http_pgw_metrics_of(words, i)                                     \
    ngx_http_pgw_metrics_count(offsetof(ngx_http_pgw_shared_t, words)         \
                               + (i) * sizeof(ngx_atomic_t))

/* One more in a histogram of shared_t. */
void ngx_http_pgw_metrics_observe(size_t offset, ngx_msec_t ms);

/* How many tokens the cache of this process holds. */
void ngx_http_pgw_metrics_cached(ngx_uint_t tokens);

extern ngx_http_pgw_content_t  ngx_http_pgw_metrics_content;


#endif /* _NGX_HTTP_PGW_KEYS_H_INCLUDED_ */
