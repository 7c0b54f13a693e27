
/*
 * What is counted of a request, and the content handler of
 * platform_gateway_metrics, which writes all counters in Prometheus text format
 * 0.0.4.  Labels are names of the configuration, whose escapes are those of
 * JSON, and closed sets of names.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_feed.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_log.h"
#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_revocations.h"
#include "ngx_http_pgw_text.h"

#include <pj_version.h>


/* A series: its family, and a name of the configuration that it is about. */

typedef struct {
    const char       *family;
    const char       *label;     /* "{route=" */
    const ngx_str_t  *value;     /* NULL, or data NULL: it has none */
} ngx_http_pgw_series_t;


ngx_int_t
ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r)
{
    ngx_uint_t                        i;
    ngx_http_pgw_request_t           *gr;
    ngx_http_pgw_counters_t          *counters;
    ngx_http_pgw_srv_conf_t          *sscf = ngx_http_pgw_srv(r);
    ngx_http_pgw_loc_conf_t          *conf = ngx_http_pgw_loc(r);
    ngx_http_pgw_decision_e           decision;
    const ngx_http_upstream_state_t  *upstream;

    counters = conf->route->counters;

    if (counters == NULL || r != r->main || !sscf->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_OK;
    }

    decision = ngx_http_pgw_request_decision(r, gr);
    (void) ngx_atomic_fetch_add(&counters->requests[decision], 1);

    if (decision >= NGX_HTTP_PGW_DECISION_DENY) {
        i = ngx_http_pgw_request_reason(r, gr);
        ngx_http_pgw_counters_of(refusals[decision], i);
    }

    ngx_http_pgw_counters_add(&counters->durations,
                              ngx_http_pgw_log_duration(r));

    upstream = ngx_http_pgw_log_upstream(r);
    i = upstream ? upstream->status / 100 : 0;

    if (i >= NGX_HTTP_PGW_CLASSES) {
        i = 0;      /* not a class of HTTP's */
    }

    (void) ngx_atomic_fetch_add(&counters->upstream[i], 1);

    return NGX_OK;
}


/* What stands before the series of a family. */

static void
ngx_http_pgw_metrics_head(ngx_http_pgw_text_t *text, const char *family,
    const char *type, const char *help)
{
    ngx_http_pgw_text_format(text, "# HELP platform_gateway_%s %s\n"
                             "# TYPE platform_gateway_%s %s\n", family, help,
                             family, type);
}


/* One line: with a second label where there is a name, and n in thousandths. */

static void
ngx_http_pgw_metrics_line(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_series_t *series, const char *suffix, const char *label,
    const char *name, int64_t n)
{
    ngx_uint_t  named = series->value && series->value->data;

    ngx_http_pgw_text_format(text, "platform_gateway_%s%s", series->family,
                             suffix);

    if (named) {
        ngx_http_pgw_text_json(text, series->label, series->value);
    }

    if (name) {
        ngx_http_pgw_text_format(text, "%s%s=\"%s\"", named ? "," : "{", label,
                                 name);
    }

    ngx_http_pgw_text_format(text, n % 1000 ? "%s %L.%03L\n" : "%s %L\n",
                             named || name ? "}" : "", n / 1000, n % 1000);
}


/* A line for each word that has a name. */

static void
ngx_http_pgw_metrics_words(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_series_t *series, const char *label,
    const ngx_atomic_t *words, const char *const *names)
{
    ngx_uint_t  i;

    for (i = 0; names[i]; i++) {
        ngx_http_pgw_metrics_line(text, series, "", label, names[i],
                                  (int64_t) words[i] * 1000);
    }
}


static void
ngx_http_pgw_metrics_histogram(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_series_t *series, const ngx_http_pgw_histogram_t *h)
{
    int64_t     n = 0;
    ngx_uint_t  i;

    static const char *const  bounds[NGX_HTTP_PGW_DURATIONS] = {
        "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5",
        "5", "10", "+Inf"
    };

    for (i = 0; i < NGX_HTTP_PGW_DURATIONS; i++) {
        n += (int64_t) h->buckets[i] * 1000;
        ngx_http_pgw_metrics_line(text, series, "_bucket", "le", bounds[i], n);
    }

    ngx_http_pgw_metrics_line(text, series, "_sum", NULL, NULL,
                              (int64_t) h->ms);
    ngx_http_pgw_metrics_line(text, series, "_count", NULL, NULL, n);
}


static void
ngx_http_pgw_metrics_routes(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *first)
{
    ngx_uint_t                   i, n;
    const char                  *decisions[NGX_HTTP_PGW_DECISIONS + 1];
    ngx_http_pgw_series_t        series = { .label = "{route=" };
    const ngx_http_pgw_route_t  *route;

    static const char *const  families[][3] = {
        { "requests_total", "counter", "Requests by route and decision." },
        { "upstream_responses_total", "counter",
          "Requests by route and status class of the upstream's response." },
        { "request_duration_seconds", "histogram",
          "Time from the first byte of a request to the last of its response, "
          "by route." }
    };
    static const char *const  classes[] = {
        "none", "1xx", "2xx", "3xx", "4xx", "5xx", NULL
    };

    for (i = 0; i < NGX_HTTP_PGW_DECISIONS; i++) {
        decisions[i] = (const char *) ngx_http_pgw_request_decisions[i].data;
    }

    decisions[i] = NULL;

    for (n = 0; n < 3; n++) {

        series.family = families[n][0];
        ngx_http_pgw_metrics_head(text, series.family, families[n][1],
                                  families[n][2]);

        for (route = first; route; route = route->next) {

            series.value = &route->id;

            if (n == 2) {
                ngx_http_pgw_metrics_histogram(text, &series,
                                               &route->counters->durations);
                continue;
            }

            ngx_http_pgw_metrics_words(text, &series, n ? "class" : "decision",
                                       n ? route->counters->upstream
                                         : route->counters->requests,
                                       n ? classes : decisions);
        }
    }
}


static void
ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text)
{
    ngx_str_t                     name;
    ngx_uint_t                    i, decision, reason;
    ngx_http_pgw_series_t         series = { "refusals_total", "{reason=",
                                             &name };
    const ngx_http_pgw_reason_t  *reasons = ngx_http_pgw_reasons;

    ngx_http_pgw_metrics_head(text, series.family, "counter",
                              "Requests refused (deny), or that would have "
                              "been (shadow), by reason.");

    for (i = 0; i < 2 * NGX_HTTP_PGW_REASONS; i++) {

        decision = NGX_HTTP_PGW_DECISION_DENY + i / NGX_HTTP_PGW_REASONS;
        reason = i % NGX_HTTP_PGW_REASONS;

        if (reasons[reason].flags & NGX_HTTP_PGW_REASON_REFUSES) {
            name.data = (u_char *) reasons[reason].name;
            name.len = ngx_strlen(name.data);

            ngx_http_pgw_metrics_line(text, &series, "", "decision",
                (const char *) ngx_http_pgw_request_decisions[decision].data,
                (int64_t) ngx_http_pgw_counters->refusals[decision][reason]
                * 1000);
        }
    }

    series = (ngx_http_pgw_series_t) { "token_verifications_total", NULL,
                                       NULL };
    ngx_http_pgw_metrics_head(text, series.family, "counter",
                              "Tokens checked, by result.");

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reasons[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_metrics_line(text, &series, "", "result",
                                      reasons[i].name,
                        (int64_t) ngx_http_pgw_counters->verifications[i]
                        * 1000);
        }
    }
}


/* Fetches for each issuer by outcome: of keys, or pages of a feed. */

static void
ngx_http_pgw_metrics_fetches(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *issuer, ngx_uint_t feed)
{
    ngx_uint_t                    n = 0;
    ngx_http_pgw_series_t         series = { feed ? "revocation_fetches_total"
                                                  : "key_fetches_total",
                                             "{issuer=", NULL };
    const ngx_http_pgw_source_t  *from;

    static const char *const  fetches[] = {
        "new", "unchanged", "failed", "superseded", NULL
    };
    static const char *const  pages[] = {
        "read", "failed", "cursor", "full", "superseded", NULL
    };

    for ( /* void */ ; issuer; issuer = issuer->next) {

        from = !feed ? &issuer->from
               : issuer->revocations ? &issuer->revocations->from : NULL;

        if (from == NULL) {
            continue;
        }

        if (n++ == 0) {
            ngx_http_pgw_metrics_head(text, series.family, "counter",
                                      feed ? "Pages of the feed of "
                                             "revocations, by outcome."
                                           : "Fetches of the key set, by "
                                             "outcome.");
        }

        series.value = &issuer->name;
        ngx_http_pgw_metrics_words(text, &series, "outcome", from->counted,
                                   feed ? pages : fetches);
    }
}


static void
ngx_http_pgw_metrics_events(ngx_http_pgw_text_t *text)
{
    int64_t                 cached = 0;
    ngx_uint_t              i;
    ngx_http_pgw_series_t   series = { .family = "token_cache_total" };
    ngx_http_pgw_shared_t  *shared = ngx_http_pgw_counters;

    static const char *const  events[] = { "hit", "miss", "eviction", NULL };

    ngx_http_pgw_metrics_head(text, series.family, "counter",
                              "Lookups in the verified-token cache by outcome, "
                              "and evictions from it.");
    ngx_http_pgw_metrics_words(text, &series, "event", shared->cache, events);

    for (i = 0; i < NGX_MAX_PROCESSES; i++) {
        cached += (int64_t) shared->cached[i];
    }

    series.family = "token_cache_entries";
    ngx_http_pgw_metrics_head(text, series.family, "gauge",
                              "Tokens in the caches of all workers.");
    ngx_http_pgw_metrics_line(text, &series, "", NULL, NULL, cached * 1000);
}


static void
ngx_http_pgw_metrics_feeds(ngx_http_pgw_text_t *text)
{
    ngx_http_pgw_series_t  series = { .family = "revocation_unchecked_total" };

    ngx_http_pgw_metrics_head(text, series.family, "counter",
                              "Requests let in while the feed was stale.");
    ngx_http_pgw_metrics_line(text, &series, "", NULL, NULL,
                      (int64_t) ngx_http_pgw_counters->unchecked[0] * 1000);

    series.family = "revocation_lag_seconds";
    ngx_http_pgw_metrics_head(text, series.family, "histogram",
                              "Time from a revocation, as the feed dates it, "
                              "to its effect on all workers.");
    ngx_http_pgw_metrics_histogram(text, &series, &ngx_http_pgw_counters->lag);
}


/* What there is of each issuer, in thousandths; some of it not yet. */

static const char *const  ngx_http_pgw_metrics_gauges[][2] = {
    { "key_set_keys",
      "Usable keys; 0 before the first set and past the hard age." },
    { "key_set_version", "Changes of the key set so far; 0: none yet." },
    { "key_set_age_seconds", "Time since the last good fetch." },
    { "revocation_entries", "Revocations in the zone." },
    { "revocation_entries_max", "Revocations that the zone has room for." },
    { "revocation_zone_full", "1: some did not fit into it." },
    { "revocation_feed_age_seconds",
      "Time since the feed was read to its end." }
};

#define NGX_HTTP_PGW_GAUGES                                                   \
    (sizeof(ngx_http_pgw_metrics_gauges)                                      \
     / sizeof(ngx_http_pgw_metrics_gauges[0]))


static void
ngx_http_pgw_metrics_values(ngx_http_pgw_issuer_t *issuer, int64_t *value)
{
    ngx_uint_t                     i;
    const pj_keyset_t             *set;
    const ngx_http_pgw_revoked_t  *zone;

    for (i = 0; i < NGX_HTTP_PGW_GAUGES; i++) {
        value[i] = -1;
    }

    /* another worker's clock may be a moment ahead */

    if (ngx_http_pgw_issuer_usable(issuer)) {
        set = ngx_http_pgw_keys_get(issuer);
        value[0] = set ? (int64_t) set->count * 1000 : 0;
        value[1] = (int64_t) issuer->zone->version * 1000;

        if (issuer->zone->fetched_at) {
            value[2] = ngx_max(0, (ngx_msec_int_t)
                                  (ngx_current_msec - issuer->zone->fetched));
        }
    }

    if (issuer->revocations) {
        zone = issuer->revocations->zone;
        value[3] = (int64_t) zone->table.live * 1000;
        value[4] = (int64_t) zone->table.max * 1000;
        value[5] = (int64_t) zone->full * 1000;

        if (zone->complete) {
            value[6] = ngx_max(0, (ngx_msec_int_t)
                                  (ngx_current_msec - zone->asked));
        }
    }
}


static void
ngx_http_pgw_metrics_issuers(ngx_http_pgw_text_t *text,
    ngx_http_pgw_issuer_t *first)
{
    int64_t                 value[NGX_HTTP_PGW_GAUGES];
    ngx_uint_t              i, n;
    ngx_http_pgw_issuer_t  *issuer;
    ngx_http_pgw_series_t   series = { .label = "{issuer=" };

    for (i = 0; i < NGX_HTTP_PGW_GAUGES; i++) {

        series.family = ngx_http_pgw_metrics_gauges[i][0];

        for (issuer = first, n = 0; issuer; issuer = issuer->next) {

            ngx_http_pgw_metrics_values(issuer, value);

            if (value[i] < 0) {
                continue;
            }

            if (n++ == 0) {
                ngx_http_pgw_metrics_head(text, series.family, "gauge",
                                          ngx_http_pgw_metrics_gauges[i][1]);
            }

            series.value = &issuer->name;
            ngx_http_pgw_metrics_line(text, &series, "", NULL, NULL, value[i]);
        }
    }
}


static void
ngx_http_pgw_metrics_zones(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_main_conf_t *mcf)
{
    size_t                  size;
    ngx_uint_t              i, free;
    ngx_http_pgw_series_t   series = { .label = "{zone=" };
    const ngx_slab_pool_t  *shpool;

    const ngx_shm_zone_t *const  zones[] = {
        mcf->counters_zone, mcf->keys_zone
    };

    for (i = 0; i < 4; i++) {

        free = i / 2;
        series.family = free ? "zone_free_bytes" : "zone_size_bytes";

        if (i % 2 == 0) {
            ngx_http_pgw_metrics_head(text, series.family, "gauge",
                                      free ? "Free whole pages of the zone."
                                           : "Size of the shared memory zone.");
        }

        if (zones[i % 2]) {
            series.value = &zones[i % 2]->shm.name;
            shpool = (ngx_slab_pool_t *) zones[i % 2]->shm.addr;
            size = free ? shpool->pfree * ngx_pagesize : zones[i % 2]->shm.size;

            ngx_http_pgw_metrics_line(text, &series, "", NULL, NULL,
                                      (int64_t) size * 1000);
        }
    }
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_uint_t                 feed = 0;
    ngx_http_pgw_text_t        text = { .request = r };
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_main(r);

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        feed |= (issuer->revocations != NULL);
    }

    ngx_http_pgw_metrics_routes(&text, mcf->routes);
    ngx_http_pgw_metrics_reasons(&text);
    ngx_http_pgw_metrics_events(&text);
    ngx_http_pgw_metrics_fetches(&text, mcf->issuers, 0);
    ngx_http_pgw_metrics_fetches(&text, mcf->issuers, 1);

    if (feed) {
        ngx_http_pgw_metrics_feeds(&text);
    }

    ngx_http_pgw_metrics_issuers(&text, mcf->issuers);

    ngx_http_pgw_metrics_head(&text, "build_info", "gauge",
                              "The versions of the module and of nginx.");
    ngx_http_pgw_text_format(&text, "platform_gateway_build_info{version=\""
                             PLATFORM_VERSION "\",nginx_version=\""
                             NGINX_VERSION "\"} 1\n");

    ngx_http_pgw_metrics_zones(&text, mcf);

    return ngx_http_pgw_text_send(&text,
                                  "text/plain; version=0.0.4; charset=utf-8");
}


ngx_http_pgw_content_t  ngx_http_pgw_metrics_content =
    { ngx_http_pgw_metrics_handler, NGX_HTTP_GET };
