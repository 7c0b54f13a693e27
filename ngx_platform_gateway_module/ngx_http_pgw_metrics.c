
/*
 * Counters in shared memory: where they are, and what is counted.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"


/* Changes with the structures, as a reload may load another build. */
#define NGX_HTTP_PGW_METRICS_LAYOUT                                           \
    (0x200000 + sizeof(ngx_http_pgw_shared_t)                                 \
     + sizeof(ngx_http_pgw_counters_t))


/* Of this process; NULL: nothing is counted. */

static ngx_http_pgw_shared_t  *ngx_http_pgw_shared;


ngx_http_pgw_metrics_t *
ngx_http_pgw_metrics_create(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_metrics_t));
}


/* s as the inside of a label value (Prometheus text format 0.0.4). */

static ngx_int_t
ngx_http_pgw_metrics_label(ngx_conf_t *cf, const ngx_str_t *s,
    ngx_str_t *label)
{
    bool     valid;
    size_t   n;
    u_char  *p, *dst, *last;

    /* a byte becomes three at most */

    dst = ngx_pnalloc(cf->pool, s->len * 3 + 1);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    label->data = dst;
    last = s->data + s->len;

    for (p = s->data; p < last; p += n) {

        n = pj_utf8_next(p, last, &valid);

        if (!valid) {
            dst = ngx_cpymem(dst, "\xef\xbf\xbd", 3);      /* U+FFFD */

        } else if (*p == '\n') {
            dst = ngx_cpymem(dst, "\\n", 2);

        } else {
            if (*p == '"' || *p == '\\') {
                *dst++ = '\\';
            }

            dst = ngx_cpymem(dst, p, n);
        }
    }

    label->len = (size_t) (dst - label->data);

    return NGX_OK;
}


char *
ngx_http_pgw_metrics_init_conf(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_shm_zone_t          *zone;
    ngx_http_pgw_metrics_t  *metrics;

    metrics = mcf->metrics;
    zone = mcf->keys->shm_zone;

    mcf->keys->metrics = metrics;

    if (zone) {
        return ngx_http_pgw_metrics_label(cf, &zone->shm.name, &metrics->zone)
               == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    if (metrics->place.line == 0) {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"platform_gateway_metrics\" counts in shared memory, and "
                  "there is none: add \"platform_gateway_zone "
                  "platform_gateway:1m\" to http{}, in %V:%ui",
                  &metrics->place.file, metrics->place.line);

    return NGX_CONF_ERROR;
}


ngx_http_pgw_route_t *
ngx_http_pgw_metrics_route(ngx_conf_t *cf, const ngx_str_t *id)
{
    ngx_http_pgw_route_t      **route;
    ngx_http_pgw_main_conf_t   *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    for (route = &mcf->metrics->routes; *route; route = &(*route)->next) {
        if ((*route)->id.len == id->len
            && ngx_memcmp((*route)->id.data, id->data, id->len) == 0)
        {
            return *route;
        }
    }

    *route = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_route_t));

    if (*route == NULL
        || ngx_http_pgw_metrics_label(cf, id, &(*route)->label) != NGX_OK)
    {
        return NULL;
    }

    (*route)->id = *id;

    return *route;
}


/*
 * What the route has in the zone, or gets now.  The master process alone adds
 * to the list, and never takes away: whoever reads it needs no lock.
 */

static ngx_http_pgw_counters_t *
ngx_http_pgw_metrics_counters(ngx_slab_pool_t *shpool,
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
ngx_http_pgw_metrics_zone_init(ngx_http_pgw_metrics_t *metrics,
    ngx_shm_zone_t *shm_zone, void **out)
{
    ngx_slab_pool_t        *shpool;
    ngx_http_pgw_route_t   *route;
    ngx_http_pgw_shared_t  *shared;

    if (metrics->place.line == 0) {
        return NGX_OK;
    }

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    shared = *out;

    if (shared == NULL || shared->layout != NGX_HTTP_PGW_METRICS_LAYOUT) {
        shared = ngx_slab_calloc(shpool, sizeof(ngx_http_pgw_shared_t));
        if (shared == NULL) {
            goto failed;
        }

        shared->layout = NGX_HTTP_PGW_METRICS_LAYOUT;
        *out = shared;
    }

    for (route = metrics->routes; route; route = route->next) {
        route->counters = ngx_http_pgw_metrics_counters(shpool, shared,
                                                        &route->id);
        if (route->counters == NULL) {
            goto failed;
        }
    }

    metrics->shared = shared;

    return NGX_OK;

failed:

    ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                  "platform_gateway_zone \"%V\" is too small for the "
                  "counters of \"platform_gateway_metrics\" in %V:%ui",
                  &shm_zone->shm.name, &metrics->place.file,
                  metrics->place.line);

    return NGX_ERROR;
}


void
ngx_http_pgw_metrics_count(size_t offset)
{
    u_char  *p;

    p = (u_char *) ngx_http_pgw_shared;

    if (p) {
        (void) ngx_atomic_fetch_add((ngx_atomic_t *) (void *) (p + offset), 1);
    }
}


ngx_int_t
ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r)
{
    ngx_uint_t                        i;
    ngx_msec_t                        duration;
    ngx_http_pgw_request_t           *gr;
    ngx_http_pgw_counters_t          *counters;
    ngx_http_pgw_srv_conf_t          *sscf;
    ngx_http_pgw_loc_conf_t          *conf;
    ngx_http_pgw_decision_e           decision;
    const ngx_http_upstream_state_t  *upstream;

    /* the bounds of the histogram */

    static const ngx_msec_t  bounds[NGX_HTTP_PGW_DURATIONS] = {
        5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, (ngx_msec_t) -1
    };

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);
    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);
    counters = conf->route->counters;

    if (counters == NULL || r != r->main || !sscf->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_OK;
    }

    decision = ngx_http_pgw_decision(r, gr);
    (void) ngx_atomic_fetch_add(&counters->requests[decision], 1);

    if (decision >= NGX_HTTP_PGW_DECISION_DENY) {
        i = ngx_http_pgw_reason(r, gr);
        ngx_http_pgw_metrics_of(refusals[decision], i);
    }

    duration = ngx_http_pgw_log_duration(r);

    for (i = 0; duration > bounds[i]; i++) { /* void */ }

    (void) ngx_atomic_fetch_add(&counters->durations[i], 1);
    (void) ngx_atomic_fetch_add(&counters->duration_ms,
                                (ngx_atomic_int_t) duration);

    upstream = ngx_http_pgw_log_upstream(r);
    i = upstream ? upstream->status / 100 : 0;

    if (i >= NGX_HTTP_PGW_CLASSES) {
        i = 0;      /* of no class that HTTP knows */
    }

    (void) ngx_atomic_fetch_add(&counters->upstream[i], 1);

    return NGX_OK;
}


void
ngx_http_pgw_metrics_cached(ngx_uint_t tokens)
{
    if (ngx_http_pgw_shared) {
        ngx_http_pgw_shared->cached[ngx_process_slot] = tokens;
    }
}


void
ngx_http_pgw_metrics_init_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_platform_gateway_module);

    ngx_http_pgw_shared = mcf ? mcf->metrics->shared : NULL;

    /* one that was killed left its number here */

    ngx_http_pgw_metrics_cached(0);
}
