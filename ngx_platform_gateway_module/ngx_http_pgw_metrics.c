
/*
 * What is counted of a request, and the content handler of
 * platform_gateway_metrics, which writes all counters in Prometheus text format
 * 0.0.4.  Labels are route ids of the configuration, whose escapes are
 * those of JSON, and closed sets of names.
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


#define ngx_http_pgw_family(name, type, help)                                 \
    "# HELP platform_gateway_" name " " help "\n"                             \
    "# TYPE platform_gateway_" name " " type "\n"

#define ngx_http_pgw_gauge(name, help, value)                                 \
    ngx_http_pgw_family(name, "gauge", help)                                  \
    "platform_gateway_" name value "\n"


/* The bounds of a histogram, as they are written. */

#define NGX_HTTP_PGW_BUCKETS                                                  \
    "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5",  \
    "10", "+Inf"


/* What is counted by route, or once for all. */

typedef struct {
    const char              *head;
    const char              *series;
    const char              *label;
    size_t                   words;     /* in counters_t */
    ngx_uint_t               histogram;
    ngx_uint_t               n;
    const char              *names[NGX_HTTP_PGW_DURATIONS];
                                        /* none: those of the decisions */
} ngx_http_pgw_family_t;

static const ngx_http_pgw_family_t  ngx_http_pgw_families[] = {

    { ngx_http_pgw_family("requests_total", "counter",
                          "Requests by route and decision."),
      "platform_gateway_requests_total", "decision",
      offsetof(ngx_http_pgw_counters_t, requests), 0, NGX_HTTP_PGW_DECISIONS,
      { NULL } },

    { ngx_http_pgw_family("upstream_responses_total", "counter",
                          "Requests by route and status class of the "
                          "upstream's response."),
      "platform_gateway_upstream_responses_total", "class",
      offsetof(ngx_http_pgw_counters_t, upstream), 0, NGX_HTTP_PGW_CLASSES,
      { "none", "1xx", "2xx", "3xx", "4xx", "5xx" } },

    { ngx_http_pgw_family("request_duration_seconds", "histogram",
                          "Time from the first byte of a request to the last "
                          "of its response, by route."),
      "platform_gateway_request_duration_seconds", "le",
      offsetof(ngx_http_pgw_counters_t, durations), 1, NGX_HTTP_PGW_DURATIONS,
      { NGX_HTTP_PGW_BUCKETS } }
};

#define NGX_HTTP_PGW_FAMILIES                                                 \
    (sizeof(ngx_http_pgw_families) / sizeof(ngx_http_pgw_families[0]))

static const ngx_http_pgw_family_t  ngx_http_pgw_lag = {
    ngx_http_pgw_family("revocation_lag_seconds", "histogram",
                        "Time from a revocation, as the feed dates it, to its "
                        "effect on all workers."),
    "platform_gateway_revocation_lag_seconds", "le", 0, 1,
    NGX_HTTP_PGW_DURATIONS, { NGX_HTTP_PGW_BUCKETS }
};


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


/* "NAME{", or of a route "NAME{route="...",". */

static void
ngx_http_pgw_metrics_name(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_family_t *family, const char *suffix,
    const ngx_str_t *route, const char *comma)
{
    ngx_http_pgw_text_format(text, "%s%s{", family->series, suffix);

    if (route) {
        ngx_http_pgw_text_json(text, "route=", route);
        ngx_http_pgw_text_format(text, "%s", comma);
    }
}


/* The series of a family for one route (NULL: there is none). */

static void
ngx_http_pgw_metrics_series(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_family_t *family, const ngx_str_t *route,
    const ngx_atomic_t *words)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  n, ms;

    for (i = 0, n = 0; i < family->n; i++) {
        n = words[i] + (family->histogram ? n : 0);

        ngx_http_pgw_metrics_name(text, family,
                                  family->histogram ? "_bucket" : "", route,
                                  ",");
        ngx_http_pgw_text_format(text, "%s=\"%s\"} %uA\n", family->label,
            family->names[0] ? (u_char *) family->names[i]
                             : ngx_http_pgw_request_decisions[i].data, n);
    }

    if (family->histogram) {
        ms = words[family->n];

        ngx_http_pgw_metrics_name(text, family, "_sum", route, "");
        ngx_http_pgw_text_format(text, "} %uA.%03uA\n", ms / 1000, ms % 1000);
        ngx_http_pgw_metrics_name(text, family, "_count", route, "");
        ngx_http_pgw_text_format(text, "} %uA\n", n);
    }
}


static void
ngx_http_pgw_metrics_routes(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_route_t *route, const ngx_http_pgw_family_t *family)
{
    ngx_http_pgw_text_format(text, "%s", family->head);

    for ( /* void */ ; route; route = route->next) {
        ngx_http_pgw_metrics_series(text, family, &route->id,
                     (ngx_atomic_t *) (void *)
                     ((u_char *) route->counters + family->words));
    }
}


static void
ngx_http_pgw_metrics_reasons(ngx_http_pgw_text_t *text)
{
    ngx_uint_t                    i, decision, reason;
    const ngx_http_pgw_reason_t  *reasons = ngx_http_pgw_reasons;

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
                &ngx_http_pgw_request_decisions[decision],
                ngx_http_pgw_counters->refusals[decision][reason]);
        }
    }

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("token_verifications_total", "counter",
                            "Tokens checked, by result."));

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {

        if (reasons[i].flags & NGX_HTTP_PGW_REASON_VERIFIES) {
            ngx_http_pgw_text_format(text,
                "platform_gateway_token_verifications_total{result=\"%s\"} "
                "%uA\n", reasons[i].name,
                ngx_http_pgw_counters->verifications[i]);
        }
    }
}


/* Series with one word for each name; an issuer is said if it has a name. */

static void
ngx_http_pgw_metrics_words(ngx_http_pgw_text_t *text, const char *series,
    const ngx_http_pgw_issuer_t *issuer, const char *label,
    const ngx_atomic_t *words, const char *const *names)
{
    ngx_uint_t  i;

    for (i = 0; names[i]; i++) {

        ngx_http_pgw_text_format(text, "platform_gateway_%s{", series);

        if (issuer && issuer->name.len) {
            ngx_http_pgw_text_json(text, "issuer=", &issuer->name);
            ngx_http_pgw_text_format(text, ",");
        }

        ngx_http_pgw_text_format(text, "%s=\"%s\"} %uA\n", label, names[i],
                                 words[i]);
    }
}


/* Fetches for each issuer by outcome: of keys, or pages of a feed. */

static void
ngx_http_pgw_metrics_fetches(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *issuer, ngx_uint_t feed)
{
    ngx_uint_t                    n = 0;
    const ngx_http_pgw_source_t  *from;

    static const char *const  fetches[] = {
        "new", "unchanged", "failed", "superseded", NULL
    };
    static const char *const  pages[] = {
        "read", "failed", "cursor", "full", "superseded", NULL
    };

    for ( /* void */ ; issuer; issuer = issuer->next) {

        from = feed && issuer->revocations ? &issuer->revocations->from
                                           : &issuer->from;

        if (feed ? issuer->revocations == NULL
            : issuer->name.len && !ngx_http_pgw_issuer_usable(issuer))
        {
            continue;
        }

        if (n++ == 0) {
            ngx_http_pgw_text_format(text, feed
                ? ngx_http_pgw_family("revocation_fetches_total", "counter",
                                      "Pages of the feed of revocations, by "
                                      "outcome.")
                : ngx_http_pgw_family("key_fetches_total", "counter",
                                      "Fetches of the key set, by outcome."));
        }

        ngx_http_pgw_metrics_words(text, feed ? "revocation_fetches_total"
                                              : "key_fetches_total", issuer,
                                   "outcome", from->counted,
                                   feed ? pages : fetches);
    }
}


static void
ngx_http_pgw_metrics_events(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *first, ngx_uint_t feed)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  cached;

    static const char *const  events[] = { "hit", "miss", "eviction", NULL };

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("token_cache_total", "counter",
                            "Lookups in the verified-token cache by outcome, "
                            "and evictions from it."));
    ngx_http_pgw_metrics_words(text, "token_cache_total", NULL, "event",
                               ngx_http_pgw_counters->cache, events);

    for (i = 0, cached = 0; i < NGX_MAX_PROCESSES; i++) {
        cached += ngx_http_pgw_counters->cached[i];
    }

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_gauge("token_cache_entries",
                           "Tokens in the caches of all workers.", " %uA"),
        cached);

    ngx_http_pgw_metrics_fetches(text, first, 0);

    if (!feed) {
        return;
    }

    ngx_http_pgw_metrics_fetches(text, first, 1);

    ngx_http_pgw_text_format(text,
        ngx_http_pgw_family("revocation_unchecked_total", "counter",
                            "Requests let in while the feed was stale.")
        "platform_gateway_revocation_unchecked_total %uA\n%s",
        ngx_http_pgw_counters->unchecked[0], ngx_http_pgw_lag.head);
    ngx_http_pgw_metrics_series(text, &ngx_http_pgw_lag, NULL,
                                ngx_http_pgw_counters->lag.buckets);
}


/* What there is of each issuer, in thousandths; some of it not yet. */

#define ngx_http_pgw_metrics_of(name, help)                                   \
    { ngx_http_pgw_family(name, "gauge", help), "platform_gateway_" name }

static const char *const  ngx_http_pgw_metrics_gauges[][2] = {
    ngx_http_pgw_metrics_of("key_set_keys",
                            "Usable keys; 0 before the first set and past the "
                            "hard age."),
    ngx_http_pgw_metrics_of("key_set_version",
                            "Changes of the key set so far; 0: none yet."),
    ngx_http_pgw_metrics_of("key_set_age_seconds",
                            "Time since the last good fetch."),
    ngx_http_pgw_metrics_of("revocation_entries",
                            "Revocations in the zone."),
    ngx_http_pgw_metrics_of("revocation_entries_max",
                            "Revocations that the zone has room for."),
    ngx_http_pgw_metrics_of("revocation_zone_full",
                            "1: some did not fit into it."),
    ngx_http_pgw_metrics_of("revocation_feed_age_seconds",
                            "Time since the feed was read to its end.")
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
    const char *const      *gauge;
    ngx_http_pgw_issuer_t  *issuer;

    for (i = 0; i < NGX_HTTP_PGW_GAUGES; i++) {
        for (issuer = first, n = 0; issuer; issuer = issuer->next) {

            ngx_http_pgw_metrics_values(issuer, value);

            if (value[i] < 0) {
                continue;
            }

            gauge = ngx_http_pgw_metrics_gauges[i];
            ngx_http_pgw_text_format(text, "%s%s", n++ ? "" : gauge[0],
                                     gauge[1]);

            if (issuer->name.len) {
                ngx_http_pgw_text_json(text, "{issuer=", &issuer->name);
                ngx_http_pgw_text_format(text, "}");
            }

            ngx_http_pgw_text_format(text, value[i] % 1000 ? " %L.%03L\n"
                                                           : " %L\n",
                                     value[i] / 1000, value[i] % 1000);
        }
    }
}


static void
ngx_http_pgw_metrics_zones(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_main_conf_t *mcf)
{
    size_t                 size;
    ngx_uint_t             i, free;
    const ngx_slab_pool_t  *shpool;

    const ngx_shm_zone_t *const  zones[] = {
        mcf->counters_zone, mcf->keys_zone
    };

    for (i = 0; i < 4; i++) {

        free = i / 2;

        if (i % 2 == 0) {
            ngx_http_pgw_text_format(text, "%s", free
                ? ngx_http_pgw_family("zone_free_bytes", "gauge",
                                      "Free whole pages of the zone.")
                : ngx_http_pgw_family("zone_size_bytes", "gauge",
                                      "Size of the shared memory zone."));
        }

        if (zones[i % 2]) {
            shpool = (ngx_slab_pool_t *) zones[i % 2]->shm.addr;
            size = free ? shpool->pfree * ngx_pagesize : zones[i % 2]->shm.size;

            ngx_http_pgw_text_json(text, free
                                   ? "platform_gateway_zone_free_bytes{zone="
                                   : "platform_gateway_zone_size_bytes{zone=",
                                   &zones[i % 2]->shm.name);
            ngx_http_pgw_text_format(text, "} %uz\n", size);
        }
    }
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_uint_t                 i, feed = 0;
    ngx_http_pgw_text_t        text = { .request = r };
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    mcf = ngx_http_pgw_main(r);

    for (i = 0; i < NGX_HTTP_PGW_FAMILIES; i++) {
        ngx_http_pgw_metrics_routes(&text, mcf->routes,
                                    &ngx_http_pgw_families[i]);
    }

    ngx_http_pgw_metrics_reasons(&text);

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        feed |= (issuer->revocations != NULL);
    }

    ngx_http_pgw_metrics_events(&text, mcf->issuers, feed);
    ngx_http_pgw_metrics_issuers(&text, mcf->issuers);

    ngx_http_pgw_text_format(&text,
        ngx_http_pgw_gauge("build_info",
                           "The versions of the module and of nginx.",
                           "{version=\"" PLATFORM_VERSION "\","
                           "nginx_version=\"" NGINX_VERSION "\"} 1"));

    ngx_http_pgw_metrics_zones(&text, mcf);

    return ngx_http_pgw_text_send(&text,
                                  "text/plain; version=0.0.4; charset=utf-8");
}


ngx_http_pgw_content_t  ngx_http_pgw_metrics_content =
    { ngx_http_pgw_metrics_handler, NGX_HTTP_GET };
