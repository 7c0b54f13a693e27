
/*
 * Counters in shared memory, and what counts.
 *
 * Each worker process owns a slot and is the only one that writes to it, so
 * that counting takes neither lock nor atomic instruction.  A counter's value
 * is its sum over all slots.  A slot outlives its owner and goes, as it stands,
 * to a worker that starts later: sums never go down, whoever exits, dies or is
 * replaced by a reload.
 */


#ifndef _NGX_HTTP_PGW_METRICS_H_INCLUDED_
#define _NGX_HTTP_PGW_METRICS_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "ngx_http_pgw_reason.h"


typedef enum {
    NGX_HTTP_PGW_DECISION_NONE = 0,
    NGX_HTTP_PGW_DECISION_ALLOW,
    NGX_HTTP_PGW_DECISION_DENY,
    NGX_HTTP_PGW_DECISION_SHADOW,
    NGX_HTTP_PGW_DECISIONS
} ngx_http_pgw_decision_e;


typedef enum {
    NGX_HTTP_PGW_FETCH_NEW = 0,   /* a new key set */
    NGX_HTTP_PGW_FETCH_UNCHANGED, /* the one that is known */
    NGX_HTTP_PGW_FETCH_FAILED,
    NGX_HTTP_PGW_FETCH_SUPERSEDED, /* by a reload, or too late */
    NGX_HTTP_PGW_FETCH_OUTCOMES
} ngx_http_pgw_fetch_e;


typedef enum {
    NGX_HTTP_PGW_CACHE_HIT = 0,
    NGX_HTTP_PGW_CACHE_MISS,
    NGX_HTTP_PGW_CACHE_EVICTION,  /* for want of room */
    NGX_HTTP_PGW_CACHE_EVENTS
} ngx_http_pgw_cache_e;


/* A route id of the configuration; index 0 is that of requests without. */

struct ngx_http_pgw_route_s {
    ngx_str_t                    id;
    ngx_uint_t                   index;        /* into slot->requests */
};


/*
 * To add a counter: a member here, its sum in metrics_text.c.  All members
 * before requests[] are words that add up.
 */

typedef struct {
    ngx_atomic_t  refusals[2][NGX_HTTP_PGW_REASONS]; /* denied,
                                                                 shadowed */
    ngx_atomic_t  verifications[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t  fetches[NGX_HTTP_PGW_FETCH_OUTCOMES];

    ngx_atomic_t  cache[NGX_HTTP_PGW_CACHE_EVENTS];

    /* what the owner's cache holds now; 0 with no owner */
    ngx_atomic_t  cached;

    /* [route->index * DECISIONS + decision] */
    ngx_atomic_t  requests[];
} ngx_http_pgw_counters_t;


typedef struct ngx_http_pgw_slot_s ngx_http_pgw_slot_t;

struct ngx_http_pgw_slot_s {
    ngx_http_pgw_slot_t     *next;
    ngx_pid_t                owner;   /* 0: free */
    ngx_uint_t               routes;  /* places in requests[] */
    ngx_http_pgw_counters_t  counters;
};


/*
 * All that is in shared memory, under the slab mutex but for the counters.
 * Routes keep their index for as long as the zone lives, so that workers of
 * several configurations mean the same by one.
 */

typedef struct ngx_http_pgw_name_s ngx_http_pgw_name_t;

struct ngx_http_pgw_name_s {
    ngx_http_pgw_name_t  *next;
    ngx_uint_t            index;
    size_t                len;
    u_char                data[];
};

typedef struct {
    ngx_uint_t            layout;  /* always the first */
    ngx_uint_t            routes;  /* indexes given out */
    ngx_http_pgw_name_t  *names;
    ngx_http_pgw_slot_t  *slots;
} ngx_http_pgw_shared_t;


/* Of one configuration. */

struct ngx_http_pgw_metrics_s {
    ngx_array_t            *routes;     /* pointers to route_t;
                                           the first has no id */
    ngx_str_t               conf_file;  /* of the directive */
    ngx_uint_t              conf_line;  /* 0: not counting */

    ngx_http_pgw_shared_t  *shared;
    ngx_slab_pool_t        *shpool;
    ngx_str_t               zone;
    size_t                  zone_size;
};


/* ngx_http_pgw_metrics.c: slots and counting */

ngx_http_pgw_metrics_t *ngx_http_pgw_metrics_create(ngx_conf_t *cf);

/* Checks at the end of http{}: counting needs the shared zone. */
char *ngx_http_pgw_metrics_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);

/* The route of that id, made at its first use; NULL: out of memory. */
ngx_http_pgw_route_t *ngx_http_pgw_metrics_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/*
 * Finds or makes the shared part, which *shared points at over reloads, and
 * gives the routes their indexes.
 */
ngx_int_t ngx_http_pgw_metrics_zone_init(ngx_http_pgw_metrics_t *metrics,
    ngx_shm_zone_t *shm_zone, void **shared);

ngx_int_t ngx_http_pgw_metrics_init_process(ngx_cycle_t *cycle);
void ngx_http_pgw_metrics_exit_process(ngx_cycle_t *cycle);

/* LOG phase: one more request. */
ngx_int_t ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r);

/* One more token whose checks ended with err; PJ_OK: verified. */
void ngx_http_pgw_metrics_verification(pj_err_t err);

/* One more fetch of the key set. */
void ngx_http_pgw_metrics_fetch(ngx_http_pgw_fetch_e outcome);

/* One more event of the token cache. */
void ngx_http_pgw_metrics_cache(ngx_http_pgw_cache_e event);

/* How many tokens this worker's cache holds. */
void ngx_http_pgw_metrics_cached(ngx_uint_t tokens);

/*
 * The sums over all slots, with requests[] for every index given out; NULL
 * when memory is short.
 */
ngx_http_pgw_counters_t *ngx_http_pgw_metrics_sum(
    const ngx_http_pgw_metrics_t *metrics, ngx_pool_t *pool);


/* ngx_http_pgw_metrics_text.c: the content handler */

/* platform_gateway_metrics; */
char *ngx_http_pgw_metrics_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_PGW_METRICS_H_INCLUDED_ */
