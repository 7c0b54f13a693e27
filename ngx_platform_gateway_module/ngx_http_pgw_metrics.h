
/*
 * Counters in shared memory.  All workers, those of an older configuration too,
 * add to the same words by ngx_atomic_fetch_add().  Each route id has its
 * counters once, for as long as the zone lives: a reload loses nothing, and
 * what a later configuration does not name goes on should it come back.
 */


#ifndef _NGX_HTTP_PGW_METRICS_H_INCLUDED_
#define _NGX_HTTP_PGW_METRICS_H_INCLUDED_


#include "ngx_http_pgw.h"


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
    NGX_HTTP_PGW_CACHE_HIT = 0,
    NGX_HTTP_PGW_CACHE_MISS,
    NGX_HTTP_PGW_CACHE_EVICTION,    /* for want of room */
    NGX_HTTP_PGW_CACHE_EVENTS
} ngx_http_pgw_cache_e;


/* What is counted of a route; in the zone. */

typedef struct ngx_http_pgw_counters_s  ngx_http_pgw_counters_t;

struct ngx_http_pgw_counters_s {
    ngx_http_pgw_counters_t  *next;
    size_t                    len;  /* of the id */

    ngx_atomic_t              requests[NGX_HTTP_PGW_DECISIONS];
    ngx_atomic_t              durations[NGX_HTTP_PGW_DURATIONS];
    ngx_atomic_t              duration_ms;  /* of all together */
    ngx_atomic_t              upstream[NGX_HTTP_PGW_CLASSES];

    u_char                    id[];
};


/*
 * All that is in the zone.  What the cache of a process holds is at its place
 * in nginx's own table, which no two processes that live share.
 */

typedef struct {
    ngx_uint_t                layout;  /* always the first */
    ngx_http_pgw_counters_t  *routes;

    ngx_atomic_t              refusals[NGX_HTTP_PGW_DECISIONS]
                                      [NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              verifications[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              fetches[NGX_HTTP_PGW_FETCH_OUTCOMES];
    ngx_atomic_t              cache[NGX_HTTP_PGW_CACHE_EVENTS];
    ngx_atomic_t              cached[NGX_MAX_PROCESSES];
} ngx_http_pgw_shared_t;


/* A route id of the configuration. */

struct ngx_http_pgw_route_s {
    ngx_http_pgw_route_t     *next;
    ngx_str_t                 id;
    ngx_str_t                 label;     /* the id, escaped as that */
    ngx_http_pgw_counters_t  *counters;  /* NULL: nothing is counted */
};


/* Of one configuration. */

struct ngx_http_pgw_metrics_s {
    ngx_http_pgw_route_t     *routes;
    ngx_http_pgw_place_t      place;     /* of the directive */
    ngx_http_pgw_shared_t    *shared;    /* NULL: nothing is counted */
    ngx_str_t                 zone;      /* its name as a label */
};


ngx_http_pgw_metrics_t *ngx_http_pgw_metrics_create(ngx_conf_t *cf);

/* Checks at the end of http{}: counting needs the shared zone. */
char *ngx_http_pgw_metrics_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);

/* The route of that id, made at its first use; NULL: out of memory. */
ngx_http_pgw_route_t *ngx_http_pgw_metrics_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/* Finds or makes the counters of the configuration's routes in the zone; *out
   lives there and leads to them over reloads. */
ngx_int_t ngx_http_pgw_metrics_zone_init(ngx_http_pgw_metrics_t *metrics,
    ngx_shm_zone_t *shm_zone, void **out);

void ngx_http_pgw_metrics_init_process(ngx_cycle_t *cycle);

ngx_int_t ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r);

/* One more of what is at that offset of shared_t. */
void ngx_http_pgw_metrics_count(size_t offset);

#define ngx_http_pgw_metrics_of(words, i)                                     \
    ngx_http_pgw_metrics_count(offsetof(ngx_http_pgw_shared_t, words)         \
                               + (i) * sizeof(ngx_atomic_t))

#define ngx_http_pgw_metrics_verification(err)                                \
    ngx_http_pgw_metrics_of(verifications, ngx_http_pgw_reason_of_token(err))
#define ngx_http_pgw_metrics_fetch(outcome)                                   \
    ngx_http_pgw_metrics_of(fetches, outcome)
#define ngx_http_pgw_metrics_cache(event)                                     \
    ngx_http_pgw_metrics_of(cache, event)

/* How many tokens the cache of this process holds. */
void ngx_http_pgw_metrics_cached(ngx_uint_t tokens);


/* platform_gateway_metrics; (ngx_http_pgw_metrics_text.c) */
char *ngx_http_pgw_metrics_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_PGW_METRICS_H_INCLUDED_ */
