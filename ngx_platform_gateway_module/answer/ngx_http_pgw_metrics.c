
/*
 * The content handler of platform_gateway_metrics writes all counters in
 * Prometheus text format 0.0.4.  Values of labels are fixed names, and names
 * from the configuration, which are escaped as in JSON.
 */


#include "answer/answer.h"
#include "token/token.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"

#include <pj_version.h>


/* The objects for which a family of metrics has samples. */

typedef enum {
    NGX_HTTP_PGW_METRICS_GATEWAY = 0,    /* the gateway as a whole */
    NGX_HTTP_PGW_METRICS_FEEDS,          /* the gateway, if it has a feed */
    NGX_HTTP_PGW_METRICS_SIGNER,         /* the gateway, if it signs */
    NGX_HTTP_PGW_METRICS_ROUTE,
    NGX_HTTP_PGW_METRICS_REASON,         /* of a refusal */
    NGX_HTTP_PGW_METRICS_RESULT,         /* of a token's verification */
    NGX_HTTP_PGW_METRICS_ISSUER,
    NGX_HTTP_PGW_METRICS_PROOFS,         /* the zone of proofs, if any */
    NGX_HTTP_PGW_METRICS_ZONE
} ngx_http_pgw_metrics_scope_e;


typedef struct {
    const char                    *name;
    const char                    *type;
    const char                    *help;
    ngx_http_pgw_metrics_scope_e   scope;
    const char                    *label;    /* of the object, or NULL */
    size_t                         offset;   /* of the first counter in the
                                                object's structure */
    const char                    *counter_label;
    ngx_str_t                      counter_names;
    ngx_uint_t                     sum;      /* number of counters to add up;
                                                0 if they have names */
} ngx_http_pgw_metrics_family_t;


/* The present values of an issuer and of a zone. */

#define NGX_HTTP_PGW_METRICS_NONE  ((ngx_atomic_t) -1)

typedef struct {
    ngx_atomic_t                fetches[NGX_HTTP_PGW_FETCH_OUTCOMES];
    ngx_atomic_t                keys;
    ngx_atomic_t                version;
    ngx_atomic_t                fetched;
    ngx_atomic_t                pages[NGX_HTTP_PGW_FEED_OUTCOMES];
    ngx_atomic_t                entries;
    ngx_atomic_t                max;
    ngx_atomic_t                full;
    ngx_atomic_t                asked;
} ngx_http_pgw_metrics_issuer_t;

typedef struct {
    ngx_atomic_t                size;
    ngx_atomic_t                free;
} ngx_http_pgw_metrics_zone_t;


typedef struct {
    ngx_atomic_t                entries;
    ngx_atomic_t                max;
} ngx_http_pgw_metrics_proofs_t;


/* The place of the counters, and their names or their number. */

#define PGW_OF(scope, label, type, member)                                    \
    NGX_HTTP_PGW_METRICS_##scope, label, offsetof(ngx_http_pgw_##type, member)

#define PGW_EACH(label, names)  label, ngx_string(names), 0
#define PGW_SUM(n)              NULL, ngx_null_string, n

#define PGW_TIMES                                                             \
    PGW_EACH("le", "0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,+Inf")

static const ngx_http_pgw_metrics_family_t  ngx_http_pgw_metrics_families[] = {
    { "requests_total", "counter", "Requests by route and decision.",
      PGW_OF(ROUTE, "route", counters_t, requests),
      PGW_EACH("decision", "none,allow,deny,shadow") },
    { "upstream_responses_total", "counter",
      "Requests by route and status class of the upstream's response.",
      PGW_OF(ROUTE, "route", counters_t, upstream),
      PGW_EACH("class", "none,1xx,2xx,3xx,4xx,5xx") },
    { "request_duration_seconds", "histogram",
      "Time from a request's first byte to its response's last, by route.",
      PGW_OF(ROUTE, "route", counters_t, durations), PGW_TIMES },
    { "refusals_total", "counter",
      "Requests refused (deny), or that would have been (shadow), by reason.",
      PGW_OF(REASON, "reason", reasons_t, refusals),
      PGW_EACH("decision", "deny,shadow") },
    { "token_verifications_total", "counter", "Tokens checked, by result.",
      PGW_OF(RESULT, "result", reasons_t, verifications), PGW_SUM(1) },
    { "token_cache_total", "counter",
      "Lookups in the verified-token cache by outcome, and evictions from it.",
      PGW_OF(GATEWAY, NULL, shared_t, cache),
      PGW_EACH("event", "hit,miss,eviction") },
    { "token_cache_entries", "gauge", "Tokens in the caches of all workers.",
      PGW_OF(GATEWAY, NULL, shared_t, cached), PGW_SUM(NGX_MAX_PROCESSES) },
    { "key_fetches_total", "counter", "Fetches of the key set, by outcome.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, fetches),
      PGW_EACH("outcome", "new,unchanged,failed,superseded") },
    { "revocation_fetches_total", "counter", "Pages of the feed, by outcome.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, pages),
      PGW_EACH("outcome", "read,failed,cursor,full,superseded") },
    { "assertions_total", "counter", "Assertions signed for services.",
      PGW_OF(SIGNER, NULL, shared_t, assertions), PGW_SUM(1) },
    { "revocation_unchecked_total", "counter",
      "Requests let in while the feed was stale.",
      PGW_OF(FEEDS, NULL, shared_t, unchecked), PGW_SUM(1) },
    { "revocation_lag_seconds", "histogram",
      "Time from a revocation, as the feed dates it, to its effect.",
      PGW_OF(FEEDS, NULL, shared_t, lag), PGW_TIMES },
    { "key_set_keys", "gauge", "Usable keys; 0: no set, or past the hard age.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, keys), PGW_SUM(1) },
    { "key_set_version", "gauge", "Changes of the key set so far.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, version), PGW_SUM(1) },
    { "key_set_age_seconds", "gauge", "Time since the last good fetch.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, fetched), PGW_SUM(1) },
    { "revocation_entries", "gauge", "Revocations in the zone.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, entries), PGW_SUM(1) },
    { "revocation_entries_max", "gauge", "Revocations that fit into the zone.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, max), PGW_SUM(1) },
    { "revocation_zone_full", "gauge", "1: some did not fit into it.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, full), PGW_SUM(1) },
    { "revocation_feed_age_seconds", "gauge",
      "Time since the feed's end was read.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, asked), PGW_SUM(1) },
    { "proof_entries", "gauge", "Used proofs in the zone that are remembered.",
      PGW_OF(PROOFS, NULL, metrics_proofs_t, entries), PGW_SUM(1) },
    { "proof_entries_max", "gauge", "Proofs that fit into the zone.",
      PGW_OF(PROOFS, NULL, metrics_proofs_t, max), PGW_SUM(1) },
    { "zone_size_bytes", "gauge", "Size of the shared memory zone.",
      PGW_OF(ZONE, "zone", metrics_zone_t, size), PGW_SUM(1) },
    { "zone_free_bytes", "gauge", "Free whole pages of the zone.",
      PGW_OF(ZONE, "zone", metrics_zone_t, free), PGW_SUM(1) },
    { NULL, NULL, NULL, 0, NULL, 0, PGW_SUM(0) }
};


typedef struct {
    ngx_http_pgw_text_t                   text;
    const ngx_http_pgw_metrics_family_t  *family;
    ngx_uint_t                            lines;   /* of the family so far */
} ngx_http_pgw_metrics_t;


/* Writes a sample.  object and name are values of labels; an empty object or a
   NULL name is left out.  n is divided by 1000 if ms is 1. */

static void
ngx_http_pgw_metrics_line(ngx_http_pgw_metrics_t *m, const char *suffix,
    const ngx_str_t *object, const ngx_str_t *name, uint64_t n, ngx_uint_t ms)
{
    const char                           *before = "{";
    ngx_http_pgw_text_t                  *text = &m->text;
    const ngx_http_pgw_metrics_family_t  *f = m->family;

    if (m->lines++ == 0) {
        ngx_http_pgw_text_format(text, "# HELP platform_gateway_%s %s\n"
                                 "# TYPE platform_gateway_%s %s\n",
                                 f->name, f->help, f->name, f->type);
    }

    ngx_http_pgw_text_format(text, "platform_gateway_%s%s", f->name, suffix);

    if (object->data) {
        ngx_http_pgw_text_format(text, "{%s=", f->label);
        ngx_http_pgw_text_json(text, "", object);
        before = ",";
    }

    if (name) {
        ngx_http_pgw_text_format(text, "%s%s=\"%V\"", before, f->counter_label,
                                 name);
        before = ",";
    }

    ngx_http_pgw_text_format(text, ms && n % 1000 ? "%s %uL.%03uL\n"
                                                  : "%s %uL\n",
                             *before == ',' ? "}" : "", ms ? n / 1000 : n,
                             n % 1000);
}


/* Writes the samples of the family for an object. */

static void
ngx_http_pgw_metrics_object(ngx_http_pgw_metrics_t *m, ngx_str_t object,
    const void *counters)
{
    uint64_t                              n = 0;
    ngx_str_t                             name, rest;
    ngx_uint_t                            i, histogram;
    const ngx_atomic_t                   *counter;
    const ngx_http_pgw_metrics_family_t  *f = m->family;

    counter = (const void *) ((const u_char *) counters + f->offset);
    histogram = (*f->type == 'h');
    rest = f->counter_names;

    if (*counter == NGX_HTTP_PGW_METRICS_NONE) {
        return;
    }

    while (ngx_http_pgw_names_next(&rest, &name)) {
        n = *counter++ + (histogram ? n : 0);
        ngx_http_pgw_metrics_line(m, histogram ? "_bucket" : "", &object, &name,
                                  n, 0);
    }

    if (histogram) {
        ngx_http_pgw_metrics_line(m, "_count", &object, NULL, n, 0);
        ngx_http_pgw_metrics_line(m, "_sum", &object, NULL, *counter, 1);
    }

    for (i = 0; i < f->sum; i++) {
        n += counter[i];
    }

    if (f->sum) {
        ngx_http_pgw_metrics_line(m, "", &object, NULL, n,
                                  ngx_strstr(f->name, "seconds") != NULL);
    }
}


/* At least 0, because another worker's clock may be ahead. */

static ngx_atomic_uint_t
ngx_http_pgw_metrics_age(ngx_msec_t since)
{
    return (ngx_atomic_uint_t) ngx_max(0, (ngx_msec_int_t)
                                          (ngx_current_msec - since));
}


static void
ngx_http_pgw_metrics_issuer(ngx_http_pgw_metrics_t *m,
    ngx_http_pgw_issuer_t *issuer)
{
    const pj_keyset_t                 *set;
    const ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_metrics_issuer_t      values;
    const ngx_http_pgw_revocations_t  *feed = issuer->revocations;

    /* all values are NONE unless they are set below */

    ngx_memset(&values, 0xff, sizeof(values));

    if (ngx_http_pgw_issuer_usable(issuer)) {
        set = ngx_http_pgw_keys_get(issuer);
        values.keys = set ? set->count : 0;
        values.version = issuer->zone->version;
        ngx_memcpy((void *) values.fetches,
                   (void *) issuer->zone->lease.outcomes,
                   sizeof(values.fetches));

        if (issuer->zone->fetched_at) {
            values.fetched = ngx_http_pgw_metrics_age(issuer->zone->fetched);
        }

    } else {
        ngx_memzero((void *) values.fetches, sizeof(values.fetches));
    }

    if (feed) {
        zone = feed->zone;
        values.entries = zone->table.live;
        values.max = zone->table.max;
        values.full = zone->full;

        if (zone->complete) {
            values.asked = ngx_http_pgw_metrics_age(zone->as_of);
        }

        ngx_memcpy((void *) values.pages, (void *) zone->lease.outcomes,
                   sizeof(values.pages));
    }

    ngx_http_pgw_metrics_object(m, issuer->name, &values);
}


static void
ngx_http_pgw_metrics_proofs(ngx_http_pgw_metrics_t *m,
    const ngx_http_pgw_replay_t *replay)
{
    static const ngx_str_t               unnamed = ngx_null_string;
    const ngx_http_pgw_metrics_proofs_t  values = {
        .entries = ngx_http_pgw_replay_live(replay, ngx_time()),
        .max = ngx_http_pgw_replay_max(replay)
    };

    ngx_http_pgw_metrics_object(m, unnamed, &values);
}


static void
ngx_http_pgw_metrics_family(ngx_http_pgw_metrics_t *m,
    const ngx_http_pgw_main_conf_t *mcf)
{
    ngx_str_t                     name;
    ngx_uint_t                    i, flag, feed = 0;
    ngx_http_pgw_issuer_t        *issuer;
    const ngx_http_pgw_route_t   *route;
    ngx_http_pgw_metrics_zone_t   values;
    ngx_http_pgw_metrics_scope_e  scope = m->family->scope;

    static const ngx_str_t        unnamed = ngx_null_string;
    const ngx_shm_zone_t *const   zones[] = {
        mcf->counters_zone, mcf->keys_zone
    };

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        feed |= (issuer->revocations != NULL);

        if (scope == NGX_HTTP_PGW_METRICS_ISSUER) {
            ngx_http_pgw_metrics_issuer(m, issuer);
        }
    }

    for (i = 0; scope == NGX_HTTP_PGW_METRICS_ZONE && i < 2; i++) {
        if (zones[i]) {
            values.size = zones[i]->shm.size;
            values.free = ((ngx_slab_pool_t *) zones[i]->shm.addr)->pfree
                          * ngx_pagesize;
            ngx_http_pgw_metrics_object(m, zones[i]->shm.name, &values);
        }
    }

    if (scope == NGX_HTTP_PGW_METRICS_PROOFS && mcf->proof) {
        ngx_http_pgw_metrics_proofs(m, mcf->proof->replay);
    }

    route = scope == NGX_HTTP_PGW_METRICS_ROUTE ? mcf->routes : NULL;
    for ( /* void */ ; route; route = route->next) {
        ngx_http_pgw_metrics_object(m, route->id, route->counters);
    }

    flag = scope == NGX_HTTP_PGW_METRICS_REASON ? NGX_HTTP_PGW_REASON_REFUSES
           : scope == NGX_HTTP_PGW_METRICS_RESULT ? NGX_HTTP_PGW_REASON_VERIFIES
           : 0;

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {
        if (ngx_http_pgw_reasons[i].flags & flag) {
            name.data = (u_char *) ngx_http_pgw_reasons[i].name;
            name.len = ngx_strlen(name.data);
            ngx_http_pgw_metrics_object(m, name, &mcf->counters->reasons[i]);
        }
    }

    if (scope == NGX_HTTP_PGW_METRICS_GATEWAY
        || (scope == NGX_HTTP_PGW_METRICS_FEEDS && feed)
        || (scope == NGX_HTTP_PGW_METRICS_SIGNER && mcf->signer->key))
    {
        ngx_http_pgw_metrics_object(m, unnamed, mcf->counters);
    }
}


static ngx_int_t
ngx_http_pgw_metrics_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_metrics_t  m = { .text = { .request = r },
                                  .family = ngx_http_pgw_metrics_families };

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    for ( /* void */ ; m.family->name; m.family++) {
        m.lines = 0;
        ngx_http_pgw_metrics_family(&m, ngx_http_pgw_main(r));
    }

    ngx_http_pgw_text_format(&m.text,
                             "# HELP platform_gateway_build_info The versions "
                             "of the module and of nginx.\n"
                             "# TYPE platform_gateway_build_info gauge\n"
                             "platform_gateway_build_info{version=\""
                             PLATFORM_VERSION "\",nginx_version=\""
                             NGINX_VERSION "\"} 1\n");

    return ngx_http_pgw_text_send(&m.text,
                                  "text/plain; version=0.0.4; charset=utf-8");
}


ngx_http_pgw_content_t  ngx_http_pgw_metrics_content =
    { .handler = ngx_http_pgw_metrics_handler, .methods = NGX_HTTP_GET,
      .metrics = 1 };
