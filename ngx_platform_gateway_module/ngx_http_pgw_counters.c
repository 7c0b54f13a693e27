
/*
 * Counters in shared memory: where they are, and adding to them.
 */


#include "ngx_http_pgw_counters.h"


/* The bounds of a histogram, and how they are written. */

static const ngx_msec_t  ngx_http_pgw_bounds[NGX_HTTP_PGW_DURATIONS] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, (ngx_msec_t) -1
};


ngx_http_pgw_shared_t  *ngx_http_pgw_counters;


ngx_http_pgw_route_t *
ngx_http_pgw_counters_route(ngx_conf_t *cf, const ngx_str_t *id)
{
    ngx_http_pgw_route_t      **route;
    ngx_http_pgw_main_conf_t   *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    for (route = &mcf->routes; *route; route = &(*route)->next) {
        if ((*route)->id.len == id->len
            && ngx_memcmp((*route)->id.data, id->data, id->len) == 0)
        {
            return *route;
        }
    }

    *route = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_route_t));

    if (*route) {
        (*route)->id = *id;
    }

    return *route;
}


/*
 * What the route has in the zone, or gets now.  The master process alone adds
 * to the list, and never takes away: whoever reads it needs no lock.
 */

static ngx_http_pgw_counters_t *
ngx_http_pgw_counters_find(ngx_slab_pool_t *shpool,
    ngx_http_pgw_shared_t *shared, const ngx_str_t *id)
{
    ngx_http_pgw_counters_t  *c;

    for (c = shared->routes; c; c = c->next) {
        if (c->len == id->len && ngx_memcmp(c->id, id->data, id->len) == 0) {
            return c;
        }
    }

    c = ngx_slab_calloc(shpool, sizeof(ngx_http_pgw_counters_t) + id->len);

    if (c) {
        c->next = shared->routes;
        c->len = id->len;
        ngx_memcpy(c->id, id->data, id->len);
        shared->routes = c;
    }

    return c;
}


ngx_int_t
ngx_http_pgw_counters_zone_init(const ngx_http_pgw_main_conf_t *mcf,
    ngx_shm_zone_t *shm_zone, ngx_http_pgw_shared_t *shared)
{
    ngx_http_pgw_route_t  *route;

    if (mcf->metrics_place.line == 0) {
        return NGX_OK;
    }

    for (route = mcf->routes; route; route = route->next) {

        route->counters = ngx_http_pgw_counters_find(
                              (ngx_slab_pool_t *) shm_zone->shm.addr, shared,
                              &route->id);

        if (route->counters == NULL) {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "platform_gateway_zone \"%V\" is too small for the "
                          "counters of \"platform_gateway_metrics\" in "
                          "%V:%ui", &shm_zone->shm.name,
                          &mcf->metrics_place.file, mcf->metrics_place.line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_http_pgw_counters_count(size_t offset)
{
    u_char  *p;

    p = (u_char *) ngx_http_pgw_counters;

    if (p) {
        (void) ngx_atomic_fetch_add((ngx_atomic_t *) (void *) (p + offset), 1);
    }
}


void
ngx_http_pgw_counters_add(ngx_http_pgw_histogram_t *h, ngx_msec_t ms)
{
    ngx_uint_t  i;

    for (i = 0; ms > ngx_http_pgw_bounds[i]; i++) { /* void */ }

    (void) ngx_atomic_fetch_add(&h->buckets[i], 1);
    (void) ngx_atomic_fetch_add(&h->ms, (ngx_atomic_int_t) ms);
}


void
ngx_http_pgw_counters_observe(size_t offset, ngx_msec_t ms)
{
    u_char  *p;

    p = (u_char *) ngx_http_pgw_counters;

    if (p) {
        ngx_http_pgw_counters_add((void *) (p + offset), ms);
    }
}


void
ngx_http_pgw_counters_cached(ngx_uint_t tokens)
{
    if (ngx_http_pgw_counters) {
        ngx_http_pgw_counters->cached[ngx_process_slot] = tokens;
    }
}


void
ngx_http_pgw_counters_init_process(ngx_http_pgw_shared_t *shared)
{
    ngx_http_pgw_counters = shared;

    /* a worker that was killed has left its number in this slot */

    ngx_http_pgw_counters_cached(0);
}
