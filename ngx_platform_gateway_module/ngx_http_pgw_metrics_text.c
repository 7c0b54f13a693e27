
/*
 * The content handler of platform_gateway_metrics: Prometheus text format
 * 0.0.4.  Labels are route ids of the configuration and closed sets of names.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_text.h"

#include <pj_version.h>


static ngx_int_t ngx_http_pgw_metrics_handler(ngx_http_request_t *r);
static void ngx_http_pgw_metrics_routes(ngx_http_pgw_text_t *text,
    const ngx_array_t *routes);
static void ngx_http_pgw_metrics_durations(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *route);
static void ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_shared_t *shared);
static void ngx_http_pgw_metrics_tokens(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_shared_t *shared);
static void ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text,
    ngx_http_pgw_keys_t *keys, const ngx_http_pgw_shared_t *shared);
static void ngx_http_pgw_metrics_zone(ngx_http_pgw_text_t *text,
    ngx_shm_zone_t *zone);
static void ngx_http_pgw_metrics_family(ngx_http_pgw_text_t *text,
    const char *name, const char *type, const char *help);
static void ngx_http_pgw_metrics_set(ngx_http_pgw_text_t *text,
    const char *name, const ngx_http_pgw_route_t *route, const char *label,
    const char * const *values, ngx_uint_t n, const ngx_atomic_t *words);


static const char * const  ngx_http_pgw_metrics_decisions[] = {
    [NGX_HTTP_PGW_DECISION_NONE] = "none",
    [NGX_HTTP_PGW_DECISION_ALLOW] = "allow",
    [NGX_HTTP_PGW_DECISION_DENY] = "deny",
    [NGX_HTTP_PGW_DECISION_SHADOW] = "shadow"
};


static const char * const  ngx_http_pgw_metrics_classes[] = {
    "none", "1xx", "2xx", "3xx", "4xx", "5xx"
};


char *
ngx_http_pgw_metrics_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_main_conf_t  *mcf;

    (void) cmd;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = ngx_http_pgw_metrics_handler;
    lcf->methods |= NGX_HTTP_GET|NGX_CONF_BITMASK_SET;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (mcf->metrics->place.line == 0) {
        mcf->metrics->place.file = cf->conf_file->file.name;
        mcf->metrics->place.line = cf->conf_file->line;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_text_t        text;
    ngx_http_pgw_metrics_t    *metrics;
    ngx_http_pgw_main_conf_t  *mcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);
    metrics = mcf->metrics;

    ngx_http_pgw_text_init(&text, r);

    ngx_http_pgw_metrics_family(&text, "build_info", "gauge",
                                "The versions of the module and of nginx.");
    ngx_http_pgw_text_format(&text, "platform_gateway_build_info{version=\""
                             PLATFORM_VERSION "\",nginx_version=\""
                             NGINX_VERSION "\"} 1\n");

    ngx_http_pgw_metrics_routes(&text, &metrics->routes);
    ngx_http_pgw_metrics_reasons(&text, metrics->shared);

    if (ngx_http_pgw_keys_usable(mcf->keys)) {
        ngx_http_pgw_metrics_tokens(&text, metrics->shared);
        ngx_http_pgw_metrics_keys(&text, mcf->keys, metrics->shared);
    }

    ngx_http_pgw_metrics_zone(&text, metrics->zone);

    return ngx_http_pgw_text_send(&text,
                                  "text/plain; version=0.0.4; charset=utf-8");
}


static void
ngx_http_pgw_metrics_routes(ngx_http_pgw_text_t *text,
    const ngx_array_t *routes)
{
    ngx_uint_t                     i;
    ngx_http_pgw_route_t * const  *route;

    route = routes->elts;

    ngx_http_pgw_metrics_family(text, "requests_total", "counter",
                                "Requests by route and decision.");

    for (i = 0; i < routes->nelts; i++) {
        ngx_http_pgw_metrics_set(text, "requests_total", route[i], "decision",
                                 ngx_http_pgw_metrics_decisions,
                                 NGX_HTTP_PGW_DECISIONS,
                                 route[i]->counters->requests);
    }

    ngx_http_pgw_metrics_family(text, "upstream_responses_total", "counter",
                                "Requests by route and class of the status "
                                "that the upstream answered with.");

    for (i = 0; i < routes->nelts; i++) {
        ngx_http_pgw_metrics_set(text, "upstream_responses_total", route[i],
                                 "class", ngx_http_pgw_metrics_classes,
                                 NGX_HTTP_PGW_CLASSES,
                                 route[i]->counters->upstream);
    }

    ngx_http_pgw_metrics_family(text, "request_duration_seconds", "histogram",
                                "Time from the first byte of a request to the "
                                "last of its response, by route.");

    for (i = 0; i < routes->nelts; i++) {
        ngx_http_pgw_metrics_durations(text, route[i]);
    }
}


static void
ngx_http_pgw_metrics_durations(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *route)
{
    ngx_uint_t         i;
    ngx_atomic_t       below[NGX_HTTP_PGW_DURATIONS];
    const char        *bounds[NGX_HTTP_PGW_DURATIONS];
    ngx_atomic_uint_t  ms, n;

    ms = route->counters->duration_ms;
    n = 0;

    for (i = 0; i < NGX_HTTP_PGW_DURATIONS; i++) {
        n += route->counters->durations[i];
        below[i] = n;
        bounds[i] = ngx_http_pgw_durations[i].seconds;
    }

    ngx_http_pgw_metrics_set(text, "request_duration_seconds_bucket", route,
                             "le", bounds, NGX_HTTP_PGW_DURATIONS, below);

    ngx_http_pgw_text_format(text, "platform_gateway_"
                             "request_duration_seconds_sum{route=\"");
    ngx_http_pgw_text_label(text, &route->id);
    ngx_http_pgw_text_format(text, "\"} %uA.%03uA\nplatform_gateway_"
                             "request_duration_seconds_count{route=\"",
                             ms / 1000, ms % 1000);
    ngx_http_pgw_text_label(text, &route->id);
    ngx_http_pgw_text_format(text, "\"} %uA\n", n);
}


static void
ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_uint_t                    i, decision;
    const ngx_http_pgw_reason_t  *reason;

    reason = ngx_http_pgw_reasons;

    ngx_http_pgw_metrics_family(text, "refusals_total", "counter",
                                "Requests refused (deny), or that would have "
                                "been (shadow), by reason.");

    for (decision = NGX_HTTP_PGW_DECISION_DENY;
         decision < NGX_HTTP_PGW_DECISIONS;
         decision++)
    {
        for (i = 1; i < NGX_HTTP_PGW_REASONS; i++) {

            if (reason[i].flags & NGX_HTTP_PGW_REASON_REFUSES) {
                ngx_http_pgw_text_format(text,
                        "platform_gateway_refusals_total{reason=\"%s\","
                        "decision=\"%s\"} %uA\n", reason[i].name,
                        ngx_http_pgw_metrics_decisions[decision],
                        shared->refusals[decision][i]);
            }
        }
    }

    ngx_http_pgw_metrics_family(text, "token_verifications_total", "counter",
                                "Tokens checked, by result.");

    for (i = 1; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reason[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_text_format(text,
                        "platform_gateway_token_verifications_total"
                        "{result=\"%s\"} %uA\n", reason[i].name,
                        shared->verifications[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_tokens(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_uint_t    i;
    ngx_atomic_t  cached;

    static const char * const  events[] = {
        [NGX_HTTP_PGW_CACHE_HIT] = "hit",
        [NGX_HTTP_PGW_CACHE_MISS] = "miss",
        [NGX_HTTP_PGW_CACHE_EVICTION] = "eviction"
    };

    ngx_http_pgw_metrics_family(text, "token_cache_total", "counter",
                                "Look-ups of the verified-token cache by "
                                "outcome, and what was evicted for want of "
                                "room.");
    ngx_http_pgw_metrics_set(text, "token_cache_total", NULL, "event", events,
                             NGX_HTTP_PGW_CACHE_EVENTS, shared->cache);

    cached = 0;

    for (i = 0; i < NGX_MAX_PROCESSES; i++) {
        cached += shared->cached[i];
    }

    ngx_http_pgw_metrics_family(text, "token_cache_entries", "gauge",
                                "Tokens in the caches of all workers.");
    ngx_http_pgw_text_format(text, "platform_gateway_token_cache_entries %uA\n",
                             cached);
}


static void
ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text, ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_msec_t                  age;
    const pj_keyset_t          *set;
    const ngx_http_pgw_zone_t  *zone;

    static const char * const  outcomes[] = {
        [NGX_HTTP_PGW_FETCH_NEW] = "new",
        [NGX_HTTP_PGW_FETCH_UNCHANGED] = "unchanged",
        [NGX_HTTP_PGW_FETCH_FAILED] = "failed",
        [NGX_HTTP_PGW_FETCH_SUPERSEDED] = "superseded"
    };

    zone = keys->zone;

    ngx_http_pgw_metrics_family(text, "key_fetches_total", "counter",
                                "Fetches of the key set, by outcome.");
    ngx_http_pgw_metrics_set(text, "key_fetches_total", NULL, "outcome",
                             outcomes, NGX_HTTP_PGW_FETCH_OUTCOMES,
                             shared->fetches);

    set = ngx_http_pgw_keys_get(keys);

    ngx_http_pgw_metrics_family(text, "key_set_keys", "gauge",
                                "Usable keys; 0 before the first set and past "
                                "the hard age.");
    ngx_http_pgw_text_format(text, "platform_gateway_key_set_keys %uz\n",
                             set ? set->count : 0);

    ngx_http_pgw_metrics_family(text, "key_set_version", "gauge",
                                "Counts the changes of the key set; 0: none "
                                "yet.");
    ngx_http_pgw_text_format(text, "platform_gateway_key_set_version %uA\n",
                             zone->version);

    if (zone->fetched_at == 0) {
        return;
    }

    age = ngx_current_msec - zone->fetched;

    if ((ngx_msec_int_t) age < 0) {
        age = 0;        /* another worker's clock was a moment ahead */
    }

    ngx_http_pgw_metrics_family(text, "key_set_age_seconds", "gauge",
                                "Time since the last good fetch.");
    ngx_http_pgw_text_format(text,
                             "platform_gateway_key_set_age_seconds %M.%03M\n",
                             age / 1000, age % 1000);
}


static void
ngx_http_pgw_metrics_zone(ngx_http_pgw_text_t *text, ngx_shm_zone_t *zone)
{
    ngx_slab_pool_t  *shpool;

    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    ngx_http_pgw_metrics_family(text, "zone_size_bytes", "gauge",
                                "Size of the shared memory zone.");
    ngx_http_pgw_text_format(text, "platform_gateway_zone_size_bytes{zone=\"");
    ngx_http_pgw_text_label(text, &zone->shm.name);
    ngx_http_pgw_text_format(text, "\"} %uz\n", zone->shm.size);

    ngx_http_pgw_metrics_family(text, "zone_free_bytes", "gauge",
                                "Of it, in whole pages that are free.");
    ngx_http_pgw_text_format(text, "platform_gateway_zone_free_bytes{zone=\"");
    ngx_http_pgw_text_label(text, &zone->shm.name);
    ngx_http_pgw_text_format(text, "\"} %uz\n", shpool->pfree * ngx_pagesize);
}


static void
ngx_http_pgw_metrics_family(ngx_http_pgw_text_t *text, const char *name,
    const char *type, const char *help)
{
    ngx_http_pgw_text_format(text,
                             "# HELP platform_gateway_%s %s\n"
                             "# TYPE platform_gateway_%s %s\n",
                             name, help, name, type);
}


/* The n values of a label, of the route where it is not NULL. */

static void
ngx_http_pgw_metrics_set(ngx_http_pgw_text_t *text, const char *name,
    const ngx_http_pgw_route_t *route, const char *label,
    const char * const *values, ngx_uint_t n, const ngx_atomic_t *words)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        ngx_http_pgw_text_format(text, "platform_gateway_%s{", name);

        if (route) {
            ngx_http_pgw_text_format(text, "route=\"");
            ngx_http_pgw_text_label(text, &route->id);
            ngx_http_pgw_text_format(text, "\",");
        }

        ngx_http_pgw_text_format(text, "%s=\"%s\"} %uA\n", label, values[i],
                                 words[i]);
    }
}
