
/*
 * The zone of the counters of each route, issuer and feed.
 */


#include "conf/conf.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"


/* Sets the counters of a source, one for each outcome of a fetch.  Returns 0 if
   the zone is too small. */

static ngx_uint_t
ngx_http_pgw_counters_conf_outcomes(ngx_shm_zone_t *shm_zone, ngx_uint_t kind,
    const ngx_http_pgw_issuer_t *issuer, ngx_http_pgw_source_t *from)
{
    ngx_http_pgw_zone_part_t  *part;

    part = ngx_http_pgw_zone_part(shm_zone, kind, sizeof(*part)
                        + NGX_HTTP_PGW_FEED_OUTCOMES * sizeof(ngx_atomic_t),
                        &issuer->name);

    from->counted = part ? (ngx_atomic_t *) (void *) (part + 1) : NULL;

    return part != NULL;
}


static ngx_int_t
ngx_http_pgw_counters_conf_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_uint_t                 fits;
    ngx_http_pgw_route_t      *route;
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf = shm_zone->data;

    static const ngx_str_t  unnamed = ngx_null_string;

    mcf->counters = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_COUNTERS,
                                           sizeof(ngx_http_pgw_shared_t),
                                           &unnamed);
    fits = (mcf->counters != NULL);

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {

        fits &= ngx_http_pgw_counters_conf_outcomes(shm_zone,
                    NGX_HTTP_PGW_ZONE_FETCHES, issuer, &issuer->from);

        if (issuer->revocations) {
            fits &= ngx_http_pgw_counters_conf_outcomes(shm_zone,
                        NGX_HTTP_PGW_ZONE_PAGES, issuer,
                        &issuer->revocations->from);
        }
    }

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
ngx_http_pgw_counters_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
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

    mcf->counters_zone->init = ngx_http_pgw_counters_conf_zone_init;
    mcf->counters_zone->data = mcf;

    return NGX_CONF_OK;
}
