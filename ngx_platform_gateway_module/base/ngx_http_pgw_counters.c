
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


static ngx_int_t
ngx_http_pgw_counters_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_uint_t                 fits;
    ngx_http_pgw_route_t      *route;
    ngx_http_pgw_main_conf_t  *mcf = shm_zone->data;

    static const ngx_str_t  unnamed = ngx_null_string;

    mcf->counters = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_COUNTERS,
                                           sizeof(ngx_http_pgw_shared_t),
                                           &unnamed);
    fits = (mcf->counters != NULL);

    for (route = mcf->routes; route; route = route->next) {

        route->counters = ngx_http_pgw_zone_part(shm_zone,
                              NGX_HTTP_PGW_ZONE_ROUTE,
                              sizeof(ngx_http_pgw_counters_t), &route->id);
        fits &= (route->counters != NULL);
    }

    if (!fits) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" is too small for the counters of "
                      "\"platform_gateway_metrics\" in %V:%ui: make "
                      "\"platform_gateway_zone\" larger, which it follows",
                      &shm_zone->shm.name, &mcf->metrics_place.file,
                      mcf->metrics_place.line);
    }

    return fits ? NGX_OK : NGX_ERROR;
}


char *
ngx_http_pgw_counters_init_conf(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    u_char     *p;
    ngx_str_t   name;

    if (mcf->metrics_place.line == 0) {
        return NGX_CONF_OK;
    }

    name.len = mcf->zone_name.len + sizeof("_counters") - 1;
    name.data = p = ngx_pnalloc(cf->pool, name.len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_sprintf(p, "%V_counters", &mcf->zone_name);

    mcf->counters_zone = ngx_shared_memory_add(cf, &name, mcf->zone_size,
                                            &ngx_http_platform_gateway_module);
    if (mcf->counters_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->counters_zone->init = ngx_http_pgw_counters_zone_init;
    mcf->counters_zone->data = mcf;

    return NGX_CONF_OK;
}
