
/*
 * The content handler of platform_gateway_metrics: Prometheus text format
 * 0.0.4.  Labels are route ids of the configuration and closed sets of names.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_text.h"


static ngx_int_t ngx_http_pgw_metrics_handler(ngx_http_request_t *r);
static void ngx_http_pgw_metrics_family(ngx_http_pgw_text_t *text,
    const char *name, const char *type, const char *help);
static void ngx_http_pgw_metrics_requests(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_metrics_t *metrics, const ngx_http_pgw_counters_t *sum);
static void ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_counters_t *sum);
static void ngx_http_pgw_metrics_tokens(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_counters_t *sum);
static void ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text,
    ngx_http_pgw_keys_t *keys, const ngx_http_pgw_counters_t *sum);
static void ngx_http_pgw_metrics_zone(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_metrics_t *metrics);


static const char * const  ngx_http_pgw_metrics_decisions[] = {
    [NGX_HTTP_PGW_DECISION_NONE] = "none",
    [NGX_HTTP_PGW_DECISION_ALLOW] = "allow",
    [NGX_HTTP_PGW_DECISION_DENY] = "deny",
    [NGX_HTTP_PGW_DECISION_SHADOW] = "shadow"
};


static const char * const  ngx_http_pgw_metrics_outcomes[] = {
    [NGX_HTTP_PGW_FETCH_NEW] = "new",
    [NGX_HTTP_PGW_FETCH_UNCHANGED] = "unchanged",
    [NGX_HTTP_PGW_FETCH_FAILED] = "failed",
    [NGX_HTTP_PGW_FETCH_SUPERSEDED] = "superseded"
};


char *
ngx_http_pgw_metrics_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_http_core_loc_conf_t               *clcf;
    ngx_http_pgw_metrics_t    *metrics;
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
    metrics = mcf->metrics;

    if (metrics->conf_line == 0) {
        metrics->conf_file = cf->conf_file->file.name;
        metrics->conf_line = cf->conf_file->line;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_text_t        text;
    ngx_http_pgw_counters_t   *sum;
    ngx_http_pgw_main_conf_t  *mcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    sum = ngx_http_pgw_metrics_sum(mcf->metrics, r->pool);
    if (sum == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_text_init(&text, r);

    ngx_http_pgw_metrics_requests(&text, mcf->metrics, sum);
    ngx_http_pgw_metrics_reasons(&text, sum);

    if (ngx_http_pgw_keys_usable(mcf->keys)) {
        ngx_http_pgw_metrics_tokens(&text, sum);
        ngx_http_pgw_metrics_keys(&text, mcf->keys, sum);
    }

    ngx_http_pgw_metrics_zone(&text, mcf->metrics);

    return ngx_http_pgw_text_send(&text,
                                  "text/plain; version=0.0.4; charset=utf-8");
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


static void
ngx_http_pgw_metrics_requests(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_metrics_t *metrics, const ngx_http_pgw_counters_t *sum)
{
    ngx_uint_t                                 i, j;
    const ngx_atomic_t                        *requests;
    ngx_http_pgw_route_t * const  *route;

    ngx_http_pgw_metrics_family(text, "requests_total", "counter",
                                "Requests by route and decision.");

    route = metrics->routes->elts;

    for (i = 0; i < metrics->routes->nelts; i++) {

        requests = &sum->requests[route[i]->index * NGX_HTTP_PGW_DECISIONS];

        for (j = 0; j < NGX_HTTP_PGW_DECISIONS; j++) {

            ngx_http_pgw_text_format(text,
                                  "platform_gateway_requests_total{route=\"");
            ngx_http_pgw_text_label(text, &route[i]->id);
            ngx_http_pgw_text_format(text, "\",decision=\"%s\"} %uA\n",
                                     ngx_http_pgw_metrics_decisions[j],
                                     requests[j]);
        }
    }
}


static void
ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_counters_t *sum)
{
    ngx_uint_t                    i, decision;
    const ngx_http_pgw_reason_t  *reason;

    reason = ngx_http_pgw_reasons;

    ngx_http_pgw_metrics_family(text, "refusals_total", "counter",
                       "Requests refused (deny), or that would have been "
                       "(shadow), by reason.");

    for (decision = NGX_HTTP_PGW_DECISION_DENY;
         decision < NGX_HTTP_PGW_DECISIONS;
         decision++)
    {
        for (i = 1; i < NGX_HTTP_PGW_REASONS; i++) {

            if (!(reason[i].flags & NGX_HTTP_PGW_REASON_REFUSES))
            {
                continue;
            }

            ngx_http_pgw_text_format(text,
                        "platform_gateway_refusals_total{reason=\"%s\","
                        "decision=\"%s\"} %uA\n", reason[i].name,
                        ngx_http_pgw_metrics_decisions[decision],
                        sum->refusals[decision
                                    - NGX_HTTP_PGW_DECISION_DENY]
                                   [i]);
        }
    }

    ngx_http_pgw_metrics_family(text, "token_verifications_total", "counter",
                                "Tokens checked, by result.");

    for (i = 1; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reason[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_text_format(text,
                        "platform_gateway_token_verifications_total"
                        "{result=\"%s\"} %uA\n", reason[i].name,
                        sum->verifications[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_tokens(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_counters_t *sum)
{
    ngx_uint_t  i;

    static const char * const  events[] = {
        [NGX_HTTP_PGW_CACHE_HIT] = "hit",
        [NGX_HTTP_PGW_CACHE_MISS] = "miss",
        [NGX_HTTP_PGW_CACHE_EVICTION] = "eviction" };

    ngx_http_pgw_metrics_family(text, "token_cache_total",
                       "counter", "Look-ups of the verified-token cache by "
                       "outcome, and what was evicted for want of room.");

    for (i = 0; i < NGX_HTTP_PGW_CACHE_EVENTS; i++) {
        ngx_http_pgw_text_format(text,
                       "platform_gateway_token_cache_total"
                       "{event=\"%s\"} %uA\n", events[i], sum->cache[i]);
    }

    ngx_http_pgw_metrics_family(text, "token_cache_entries", "gauge",
                                "Tokens in the caches of all workers.");
    ngx_http_pgw_text_format(text,
                       "platform_gateway_token_cache_entries %uA\n",
                       sum->cached);
}


static void
ngx_http_pgw_metrics_keys(ngx_http_pgw_text_t *text, ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_counters_t *sum)
{
    ngx_msec_t                  age;
    ngx_uint_t                  i;
    const pj_keyset_t          *set;
    const ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;

    ngx_http_pgw_metrics_family(text, "key_fetches_total", "counter",
                                "Fetches of the key set, by outcome.");

    for (i = 0; i < NGX_HTTP_PGW_FETCH_OUTCOMES; i++) {
        ngx_http_pgw_text_format(text,
                        "platform_gateway_key_fetches_total"
                        "{outcome=\"%s\"} %uA\n",
                        ngx_http_pgw_metrics_outcomes[i],
                        sum->fetches[i]);
    }

    set = ngx_http_pgw_keys_get(keys);

    ngx_http_pgw_metrics_family(text, "key_set_keys", "gauge",
                       "Usable keys; 0 before the first set and past the "
                       "hard age.");
    ngx_http_pgw_text_format(text, "platform_gateway_key_set_keys %uz\n",
                             set ? set->count : 0);

    ngx_http_pgw_metrics_family(text, "key_set_version", "gauge",
                       "Counts the changes of the key set; 0: none yet.");
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
ngx_http_pgw_metrics_zone(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_metrics_t *metrics)
{
    ngx_uint_t  i;

    struct {
        const char  *name;
        const char  *help;
        size_t       bytes;
    } zone[] = {
        { "zone_size_bytes", "Size of the shared memory zone.",
          metrics->zone_size },
        { "zone_free_bytes", "Of it, in whole pages that are free.",
          metrics->shpool->pfree * ngx_pagesize }
    };

    for (i = 0; i < sizeof(zone) / sizeof(zone[0]); i++) {

        ngx_http_pgw_metrics_family(text, zone[i].name, "gauge", zone[i].help);
        ngx_http_pgw_text_format(text, "platform_gateway_%s{zone=\"",
                                 zone[i].name);
        ngx_http_pgw_text_label(text, &metrics->zone);
        ngx_http_pgw_text_format(text, "\"} %uz\n", zone[i].bytes);
    }
}
