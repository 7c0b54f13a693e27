
/*
 * The content handler of platform_gateway_metrics: Prometheus text format
 * 0.0.4.  Labels are route ids of the configuration and closed sets of names.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"

#include <pj_version.h>


#define ngx_http_pgw_family(name, type, help)                                 \
    "# HELP platform_gateway_" name " " help "\n"                             \
    "# TYPE platform_gateway_" name " " type "\n"

#define ngx_http_pgw_gauge(name, help, value)                                 \
    ngx_http_pgw_family(name, "gauge", help)                                  \
    "platform_gateway_" name value "\n"


static void
ngx_http_pgw_metrics_routes(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *routes)
{
    ngx_uint_t                   i;
    const ngx_http_pgw_route_t  *route;

    static const char * const  classes[NGX_HTTP_PGW_CLASSES] = {
        "none", "1xx", "2xx", "3xx", "4xx", "5xx"
    };

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("requests_total", "counter",
                            "Requests by route and decision."));

    for (route = routes; route; route = route->next) {
        for (i = 0; i < NGX_HTTP_PGW_DECISIONS; i++) {
            ngx_http_pgw_text_format(text,
                "platform_gateway_requests_total{route=\"%V\","
                "decision=\"%V\"} %uA\n", &route->label,
                &ngx_http_pgw_decisions[i], route->counters->requests[i]);
        }
    }

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("upstream_responses_total", "counter",
                            "Requests by route and class of the status that "
                            "the upstream answered with."));

    for (route = routes; route; route = route->next) {
        for (i = 0; i < NGX_HTTP_PGW_CLASSES; i++) {
            ngx_http_pgw_text_format(text,
                "platform_gateway_upstream_responses_total{route=\"%V\","
                "class=\"%s\"} %uA\n", &route->label, classes[i],
                route->counters->upstream[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_durations(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *route)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  ms, n;

    static const char * const  bounds[NGX_HTTP_PGW_DURATIONS] = {
        "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5",
        "5", "10", "+Inf"
    };

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("request_duration_seconds", "histogram",
                            "Time from the first byte of a request to the "
                            "last of its response, by route."));

    for ( /* void */ ; route; route = route->next) {

        ms = route->counters->duration_ms;

        for (i = 0, n = 0; i < NGX_HTTP_PGW_DURATIONS; i++) {
            n += route->counters->durations[i];

            ngx_http_pgw_text_format(text,
                "platform_gateway_request_duration_seconds_bucket{"
                "route=\"%V\",le=\"%s\"} %uA\n", &route->label, bounds[i], n);
        }

        ngx_http_pgw_text_format(text,
            "platform_gateway_request_duration_seconds_sum{route=\"%V\"} "
            "%uA.%03uA\n"
            "platform_gateway_request_duration_seconds_count{route=\"%V\"} "
            "%uA\n", &route->label, ms / 1000, ms % 1000, &route->label, n);
    }
}


static void
ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_uint_t                    i, decision, reason;
    const ngx_http_pgw_reason_t  *reasons;

    reasons = ngx_http_pgw_reasons;

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("refusals_total", "counter",
                            "Requests refused (deny), or that would have been "
                            "(shadow), by reason."));

    for (i = 0; i < 2 * NGX_HTTP_PGW_REASONS; i++) {

        decision = NGX_HTTP_PGW_DECISION_DENY + i / NGX_HTTP_PGW_REASONS;
        reason = i % NGX_HTTP_PGW_REASONS;

        if (reasons[reason].flags & NGX_HTTP_PGW_REASON_REFUSES) {
            ngx_http_pgw_text_format(text,
                "platform_gateway_refusals_total{reason=\"%s\","
                "decision=\"%V\"} %uA\n", reasons[reason].name,
                &ngx_http_pgw_decisions[decision],
                shared->refusals[decision][reason]);
        }
    }

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("token_verifications_total", "counter",
                            "Tokens checked, by result."));

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reasons[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_text_format(text,
                "platform_gateway_token_verifications_total{result=\"%s\"} "
                "%uA\n", reasons[i].name, shared->verifications[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text, ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_uint_t          i;
    ngx_msec_t          age;
    ngx_atomic_uint_t   cached;
    const pj_keyset_t  *set;

    for (i = 0, cached = 0; i < NGX_MAX_PROCESSES; i++) {
        cached += shared->cached[i];
    }

    set = ngx_http_pgw_keys_get(keys);

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("token_cache_total", "counter",
                            "Look-ups of the verified-token cache by outcome, "
                            "and what was evicted for want of room.")
        "platform_gateway_token_cache_total{event=\"hit\"} %uA\n"
        "platform_gateway_token_cache_total{event=\"miss\"} %uA\n"
        "platform_gateway_token_cache_total{event=\"eviction\"} %uA\n"
        ngx_http_pgw_gauge("token_cache_entries",
                           "Tokens in the caches of all workers.", " %uA"),
        shared->cache[NGX_HTTP_PGW_CACHE_HIT],
        shared->cache[NGX_HTTP_PGW_CACHE_MISS],
        shared->cache[NGX_HTTP_PGW_CACHE_EVICTION], cached);

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("key_fetches_total", "counter",
                            "Fetches of the key set, by outcome.")
        "platform_gateway_key_fetches_total{outcome=\"new\"} %uA\n"
        "platform_gateway_key_fetches_total{outcome=\"unchanged\"} %uA\n"
        "platform_gateway_key_fetches_total{outcome=\"failed\"} %uA\n"
        "platform_gateway_key_fetches_total{outcome=\"superseded\"} %uA\n"
        ngx_http_pgw_gauge("key_set_keys",
                           "Usable keys; 0 before the first set and past the "
                           "hard age.", " %uz")
        ngx_http_pgw_gauge("key_set_version",
                           "Counts the changes of the key set; 0: none yet.",
                           " %uA"),
        shared->fetches[NGX_HTTP_PGW_FETCH_NEW],
        shared->fetches[NGX_HTTP_PGW_FETCH_UNCHANGED],
        shared->fetches[NGX_HTTP_PGW_FETCH_FAILED],
        shared->fetches[NGX_HTTP_PGW_FETCH_SUPERSEDED],
        set ? set->count : 0, keys->zone->version);

    if (keys->zone->fetched_at == 0) {
        return;
    }

    age = ngx_current_msec - keys->zone->fetched;

    if ((ngx_msec_int_t) age < 0) {
        age = 0;        /* another worker's clock was a moment ahead */
    }

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_gauge("key_set_age_seconds",
                           "Time since the last good fetch.", " %M.%03M"),
        age / 1000, age % 1000);
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_shm_t                 *shm;
    ngx_slab_pool_t           *shpool;
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
    shm = &mcf->keys->shm_zone->shm;
    shpool = (ngx_slab_pool_t *) shm->addr;

    ngx_http_pgw_text_init(&text, r);

    ngx_http_pgw_metrics_routes(&text, metrics->routes);
    ngx_http_pgw_metrics_durations(&text, metrics->routes);
    ngx_http_pgw_metrics_reasons(&text, metrics->shared);

    if (ngx_http_pgw_keys_usable(mcf->keys)) {
        ngx_http_pgw_metrics_keys(&text, mcf->keys, metrics->shared);
    }

    ngx_http_pgw_text_format(&text,
        ngx_http_pgw_gauge("build_info",
                           "The versions of the module and of nginx.",
                           "{version=\"" PLATFORM_VERSION "\","
                           "nginx_version=\"" NGINX_VERSION "\"} 1")
        ngx_http_pgw_gauge("zone_size_bytes",
                           "Size of the shared memory zone.",
                           "{zone=\"%V\"} %uz")
        ngx_http_pgw_gauge("zone_free_bytes",
                           "Of it, in whole pages that are free.",
                           "{zone=\"%V\"} %uz"),
        &metrics->zone, shm->size, &metrics->zone,
        shpool->pfree * ngx_pagesize);

    return ngx_http_pgw_text_send(&text,
                                  "text/plain; version=0.0.4; charset=utf-8");
}


char *
ngx_http_pgw_metrics_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_main_conf_t  *mcf;

    (void) cmd;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = ngx_http_pgw_metrics_handler;
    lcf->methods |= NGX_HTTP_GET|NGX_CONF_BITMASK_SET;

    if (mcf->metrics->place.line == 0) {
        mcf->metrics->place.file = cf->conf_file->file.name;
        mcf->metrics->place.line = cf->conf_file->line;
    }

    return NGX_CONF_OK;
}
