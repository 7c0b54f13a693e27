
/*
 * The content handler of platform_gateway_metrics: Prometheus text format
 * 0.0.4.  Labels are route ids of the configuration and closed sets of names.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"

#include <pj_version.h>


/* Counters with one label, and that of the route where they are its own. */

typedef struct {
    const char          *name;
    const char          *help;
    ngx_uint_t           by_route;
    size_t               offset;  /* in a route's counters, or the shared */
    const char          *label;
    const char * const  *values;
    ngx_uint_t           n;
} ngx_http_pgw_family_t;


static const char * const  ngx_http_pgw_metrics_classes[] = {
    "none", "1xx", "2xx", "3xx", "4xx", "5xx"
};

static const char * const  ngx_http_pgw_metrics_events[] = {
    [NGX_HTTP_PGW_CACHE_HIT] = "hit",
    [NGX_HTTP_PGW_CACHE_MISS] = "miss",
    [NGX_HTTP_PGW_CACHE_EVICTION] = "eviction"
};

static const char * const  ngx_http_pgw_metrics_outcomes[] = {
    [NGX_HTTP_PGW_FETCH_NEW] = "new",
    [NGX_HTTP_PGW_FETCH_UNCHANGED] = "unchanged",
    [NGX_HTTP_PGW_FETCH_FAILED] = "failed",
    [NGX_HTTP_PGW_FETCH_SUPERSEDED] = "superseded"
};

static const ngx_http_pgw_family_t  ngx_http_pgw_metrics_families[] = {

    { "requests_total", "Requests by route and decision.", 1,
      offsetof(ngx_http_pgw_counters_t, requests), "decision",
      ngx_http_pgw_decisions, NGX_HTTP_PGW_DECISIONS },

    { "upstream_responses_total",
      "Requests by route and class of the status that the upstream answered "
      "with.", 1, offsetof(ngx_http_pgw_counters_t, upstream), "class",
      ngx_http_pgw_metrics_classes, NGX_HTTP_PGW_CLASSES },

    { "token_cache_total",
      "Look-ups of the verified-token cache by outcome, and what was evicted "
      "for want of room.", 0, offsetof(ngx_http_pgw_shared_t, cache), "event",
      ngx_http_pgw_metrics_events, NGX_HTTP_PGW_CACHE_EVENTS },

    { "key_fetches_total", "Fetches of the key set, by outcome.", 0,
      offsetof(ngx_http_pgw_shared_t, fetches), "outcome",
      ngx_http_pgw_metrics_outcomes, NGX_HTTP_PGW_FETCH_OUTCOMES },

    { NULL, NULL, 0, 0, NULL, NULL, 0 }
};


static void
ngx_http_pgw_metrics_family(ngx_http_pgw_text_t *text, const char *name,
    const char *type, const char *help)
{
    ngx_http_pgw_text_format(text,
                             "# HELP platform_gateway_%s %s\n"
                             "# TYPE platform_gateway_%s %s\n",
                             name, help, name, type);
}


/* A metric, its first label, and the operator's text that is its value. */

static void
ngx_http_pgw_metrics_label(ngx_http_pgw_text_t *text, const char *name,
    const char *label, const ngx_str_t *value)
{
    ngx_http_pgw_text_format(text, "platform_gateway_%s{%s=\"", name, label);
    ngx_http_pgw_text_label(text, value);
}


static void
ngx_http_pgw_metrics_counters(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_family_t *family, const ngx_http_pgw_route_t *route,
    const void *base)
{
    ngx_uint_t           i;
    const ngx_atomic_t  *words;

    words = (const void *) ((const u_char *) base + family->offset);

    for (i = 0; i < family->n; i++) {

        if (route) {
            ngx_http_pgw_metrics_label(text, family->name, "route",
                                       &route->id);
            ngx_http_pgw_text_format(text, "\",");

        } else {
            ngx_http_pgw_text_format(text, "platform_gateway_%s{",
                                     family->name);
        }

        ngx_http_pgw_text_format(text, "%s=\"%s\"} %uA\n", family->label,
                                 family->values[i], words[i]);
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

    ngx_http_pgw_metrics_family(text, "request_duration_seconds", "histogram",
                                "Time from the first byte of a request to the "
                                "last of its response, by route.");

    for ( /* void */ ; route; route = route->next) {

        ms = route->counters->duration_ms;

        for (i = 0, n = 0; i < NGX_HTTP_PGW_DURATIONS; i++) {
            n += route->counters->durations[i];

            ngx_http_pgw_metrics_label(text, "request_duration_seconds_bucket",
                                       "route", &route->id);
            ngx_http_pgw_text_format(text, "\",le=\"%s\"} %uA\n", bounds[i], n);
        }

        ngx_http_pgw_metrics_label(text, "request_duration_seconds_sum",
                                   "route", &route->id);
        ngx_http_pgw_text_format(text, "\"} %uA.%03uA\n", ms / 1000, ms % 1000);
        ngx_http_pgw_metrics_label(text, "request_duration_seconds_count",
                                   "route", &route->id);
        ngx_http_pgw_text_format(text, "\"} %uA\n", n);
    }
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
        for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {

            if (reason[i].flags & NGX_HTTP_PGW_REASON_REFUSES) {
                ngx_http_pgw_text_format(text,
                        "platform_gateway_refusals_total{reason=\"%s\","
                        "decision=\"%s\"} %uA\n", reason[i].name,
                        ngx_http_pgw_decisions[decision],
                        shared->refusals[decision][i]);
            }
        }
    }

    ngx_http_pgw_metrics_family(text, "token_verifications_total", "counter",
                                "Tokens checked, by result.");

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reason[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_text_format(text,
                        "platform_gateway_token_verifications_total"
                        "{result=\"%s\"} %uA\n", reason[i].name,
                        shared->verifications[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_gauge(ngx_http_pgw_text_t *text, const char *name,
    const char *help, const ngx_str_t *zone, ngx_uint_t value)
{
    ngx_http_pgw_metrics_family(text, name, "gauge", help);

    if (zone == NULL) {
        ngx_http_pgw_text_format(text, "platform_gateway_%s %ui\n", name,
                                 value);
        return;
    }

    ngx_http_pgw_metrics_label(text, name, "zone", zone);
    ngx_http_pgw_text_format(text, "\"} %ui\n", value);
}


static void
ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text, ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_shared_t *shared)
{
    ngx_uint_t          i, cached;
    ngx_msec_int_t      age;
    const pj_keyset_t  *set;

    for (i = 0, cached = 0; i < NGX_MAX_PROCESSES; i++) {
        cached += shared->cached[i];
    }

    set = ngx_http_pgw_keys_get(keys);

    ngx_http_pgw_metrics_gauge(text, "token_cache_entries",
                               "Tokens in the caches of all workers.", NULL,
                               cached);
    ngx_http_pgw_metrics_gauge(text, "key_set_keys",
                               "Usable keys; 0 before the first set and past "
                               "the hard age.", NULL, set ? set->count : 0);
    ngx_http_pgw_metrics_gauge(text, "key_set_version",
                               "Counts the changes of the key set; 0: none "
                               "yet.", NULL, keys->zone->version);

    if (keys->zone->fetched_at == 0) {
        return;
    }

    /* another worker's clock may be a moment ahead */

    age = (ngx_msec_int_t) (ngx_current_msec - keys->zone->fetched);
    age = ngx_max(age, 0);

    ngx_http_pgw_metrics_family(text, "key_set_age_seconds", "gauge",
                                "Time since the last good fetch.");
    ngx_http_pgw_text_format(text,
                             "platform_gateway_key_set_age_seconds %i.%03i\n",
                             (ngx_int_t) age / 1000, (ngx_int_t) age % 1000);
}


static void
ngx_http_pgw_metrics_write(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_main_conf_t *mcf)
{
    ngx_shm_t                    *shm;
    ngx_uint_t                    usable;
    ngx_slab_pool_t              *shpool;
    const ngx_http_pgw_route_t   *routes, *route;
    const ngx_http_pgw_family_t  *family;

    routes = mcf->metrics->routes;
    usable = ngx_http_pgw_keys_usable(mcf->keys);

    ngx_http_pgw_metrics_family(text, "build_info", "gauge",
                                "The versions of the module and of nginx.");
    ngx_http_pgw_text_format(text, "platform_gateway_build_info{version=\""
                             PLATFORM_VERSION "\",nginx_version=\""
                             NGINX_VERSION "\"} 1\n");

    for (family = ngx_http_pgw_metrics_families; family->name; family++) {

        if (!family->by_route && !usable) {
            continue;
        }

        ngx_http_pgw_metrics_family(text, family->name, "counter",
                                    family->help);

        if (!family->by_route) {
            ngx_http_pgw_metrics_counters(text, family, NULL,
                                          mcf->metrics->shared);
            continue;
        }

        for (route = routes; route; route = route->next) {
            ngx_http_pgw_metrics_counters(text, family, route,
                                          route->counters);
        }
    }

    ngx_http_pgw_metrics_durations(text, routes);
    ngx_http_pgw_metrics_reasons(text, mcf->metrics->shared);

    if (usable) {
        ngx_http_pgw_metrics_keys(text, mcf->keys, mcf->metrics->shared);
    }

    shm = &mcf->keys->shm_zone->shm;
    shpool = (ngx_slab_pool_t *) shm->addr;

    ngx_http_pgw_metrics_gauge(text, "zone_size_bytes",
                               "Size of the shared memory zone.",
                               &shm->name, shm->size);
    ngx_http_pgw_metrics_gauge(text, "zone_free_bytes",
                               "Of it, in whole pages that are free.",
                               &shm->name, shpool->pfree * ngx_pagesize);
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_text_t        text;
    ngx_http_pgw_main_conf_t  *mcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    ngx_http_pgw_text_init(&text, r);
    ngx_http_pgw_metrics_write(&text, mcf);

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
