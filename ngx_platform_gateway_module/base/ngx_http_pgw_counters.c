
/*
 * Counters in shared memory.
 */


#include "base/base.h"


/* The upper bounds of a histogram's buckets, ms. */

static const ngx_msec_t  ngx_http_pgw_bounds[NGX_HTTP_PGW_DURATIONS] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, (ngx_msec_t) -1
};


static ngx_http_pgw_shared_t  ngx_http_pgw_private_counters;

ngx_http_pgw_shared_t  *ngx_http_pgw_counters = &ngx_http_pgw_private_counters;


ngx_http_pgw_route_t *
ngx_http_pgw_counters_route(ngx_conf_t *cf, const ngx_str_t *id)
{
    ngx_http_pgw_route_t      **route;
    ngx_http_pgw_main_conf_t   *mcf = ngx_http_pgw_conf_main(cf);

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


void
ngx_http_pgw_counters_outcome(ngx_atomic_t *counted, ngx_uint_t outcome)
{
    if (counted) {
        (void) ngx_atomic_fetch_add(&counted[outcome], 1);
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
ngx_http_pgw_counters_init_process(ngx_http_pgw_shared_t *shared)
{
    ngx_http_pgw_counters = shared ? shared : &ngx_http_pgw_private_counters;

    /* a killed worker may have left its number in this slot */

    ngx_http_pgw_counters_cached(0);
}
