
/*
 * Counters, in shared memory.  All workers, those of an older configuration
 * too, add to the same words by ngx_atomic_fetch_add().  Each route id has its
 * counters once, for as long as the zone lives: a reload loses nothing, and a
 * route that one configuration drops and a later one names again goes on where
 * it stopped.
 */


#ifndef _NGX_HTTP_PGW_COUNTERS_H_INCLUDED_
#define _NGX_HTTP_PGW_COUNTERS_H_INCLUDED_


#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_zone.h"


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

typedef struct {
    ngx_http_pgw_zone_part_t  part;  /* its name is the route's id */

    ngx_atomic_t              requests[NGX_HTTP_PGW_DECISIONS];
    ngx_http_pgw_histogram_t  durations;
    ngx_atomic_t              upstream[NGX_HTTP_PGW_CLASSES];
} ngx_http_pgw_counters_t;


/* What is counted of a reason: by decision from DENY on; of tokens. */

typedef struct {
    ngx_atomic_t              refusals[2];
    ngx_atomic_t              verifications;
} ngx_http_pgw_reasons_t;


/*
 * Of all routes.  cached[] is indexed by a process's place in nginx's own
 * table, which no two live processes share.
 */

struct ngx_http_pgw_shared_s {
    ngx_http_pgw_zone_part_t  part;

    ngx_http_pgw_reasons_t    reasons[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              cache[NGX_HTTP_PGW_CACHE_EVENTS];
    ngx_atomic_t              cached[NGX_MAX_PROCESSES];

    ngx_atomic_t              unchecked;    /* let in with a stale feed */
    ngx_http_pgw_histogram_t  lag;  /* from a revocation to its effect */
};


/* A route id of the configuration. */

struct ngx_http_pgw_route_s {
    ngx_http_pgw_route_t     *next;
    ngx_str_t                 id;
    ngx_http_pgw_counters_t  *counters;  /* NULL: nothing is counted */
};


/* Where this process counts; for itself alone, where nothing shows it. */
extern ngx_http_pgw_shared_t  *ngx_http_pgw_counters;

/* One more of that member, and how many tokens our cache holds. */
#define ngx_http_pgw_counters_one(member)                                     \
    ((void) ngx_atomic_fetch_add(&ngx_http_pgw_counters->member, 1))
#define ngx_http_pgw_counters_cached(tokens)                                  \
    (ngx_http_pgw_counters->cached[ngx_process_slot] = (tokens))

/* Counts a fetch by its outcome, fetch_e or feed_e; counted may be NULL. */
void ngx_http_pgw_counters_end(ngx_atomic_t *counted, ngx_uint_t outcome);

/* One more in a histogram. */
void ngx_http_pgw_counters_add(ngx_http_pgw_histogram_t *h, ngx_msec_t ms);

/* The route of that id, made at its first use; NULL: out of memory. */
ngx_http_pgw_route_t *ngx_http_pgw_counters_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/* Sets where we count; NULL: for ourselves alone. */
void ngx_http_pgw_counters_init_process(ngx_http_pgw_shared_t *shared);


#endif /* _NGX_HTTP_PGW_COUNTERS_H_INCLUDED_ */
