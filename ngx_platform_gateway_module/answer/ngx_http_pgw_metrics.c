
/*
 * The content handler of platform_gateway_metrics, which writes all counters in
 * Prometheus text format 0.0.4.  Labels are names of the configuration, whose
 * escapes are those of JSON, and closed sets of names.
 */


#include "answer/answer.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"

#include <pj_version.h>


/* What a family is about: all, or each of a kind. */

typedef enum {
    NGX_HTTP_PGW_METRICS_ALL = 0,
    NGX_HTTP_PGW_METRICS_FEEDS,          /* all, if there is a feed */
    NGX_HTTP_PGW_METRICS_ROUTE,
    NGX_HTTP_PGW_METRICS_REASON,         /* to refuse */
    NGX_HTTP_PGW_METRICS_RESULT,         /* of a token's checks */
    NGX_HTTP_PGW_METRICS_ISSUER,
    NGX_HTTP_PGW_METRICS_ZONE
} ngx_http_pgw_metrics_of_e;


typedef struct {
    const char                 *name;
    const char                 *type;
    const char                 *help;
    ngx_http_pgw_metrics_of_e   of;
    const char                 *which;   /* label: of those; or NULL */
    size_t                      first;   /* where its words begin, in bytes */
    const char                 *word;    /* label: of its words, and ... */
    ngx_str_t                   names;   /* ... what they are called; or else */
    ngx_uint_t                  n;       /* how many it is the sum of */
} ngx_http_pgw_metrics_family_t;


/* The words of an issuer and of a zone, as they are at the moment. */

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


/* A kind and the struct whose member has the words; their names, or number. */

#define PGW_OF(kind, which, type, member)                                     \
    NGX_HTTP_PGW_METRICS_##kind, which, offsetof(ngx_http_pgw_##type, member)

#define PGW_EACH(word, names)  word, ngx_string(names), 0
#define PGW_SUM(n)             NULL, ngx_null_string, n

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
      PGW_OF(ALL, NULL, shared_t, cache),
      PGW_EACH("event", "hit,miss,eviction") },
    { "token_cache_entries", "gauge", "Tokens in the caches of all workers.",
      PGW_OF(ALL, NULL, shared_t, cached), PGW_SUM(NGX_MAX_PROCESSES) },
    { "key_fetches_total", "counter", "Fetches of the key set, by outcome.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, fetches),
      PGW_EACH("outcome", "new,unchanged,failed,superseded") },
    { "revocation_fetches_total", "counter", "Pages of the feed, by outcome.",
      PGW_OF(ISSUER, "issuer", metrics_issuer_t, pages),
      PGW_EACH("outcome", "read,failed,cursor,full,superseded") },
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
    { "zone_size_bytes", "gauge", "Size of the shared memory zone.",
      PGW_OF(ZONE, "zone", metrics_zone_t, size), PGW_SUM(1) },
    { "zone_free_bytes", "gauge", "Free whole pages of the zone.",
      PGW_OF(ZONE, "zone", metrics_zone_t, free), PGW_SUM(1) },
    { NULL, NULL, NULL, 0, NULL, 0, PGW_SUM(0) }
};


typedef struct {
    ngx_http_pgw_text_t                   text;
    const ngx_http_pgw_metrics_family_t  *family;
    ngx_uint_t                            lines;   /* of it, so far */
} ngx_http_pgw_metrics_t;


/* One line: of which, and of the word that has a name; n may be in ms. */

static void
ngx_http_pgw_metrics_line(ngx_http_pgw_metrics_t *m, const char *suffix,
    const ngx_str_t *which, const ngx_str_t *name, uint64_t n, ngx_uint_t ms)
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

    if (which->data) {
        ngx_http_pgw_text_format(text, "{%s=", f->which);
        ngx_http_pgw_text_json(text, "", which);
        before = ",";
    }

    if (name) {
        ngx_http_pgw_text_format(text, "%s%s=\"%V\"", before, f->word, name);
        before = ",";
    }

    ngx_http_pgw_text_format(text, ms && n % 1000 ? "%s %uL.%03uL\n"
                                                  : "%s %uL\n",
                             *before == ',' ? "}" : "", ms ? n / 1000 : n,
                             n % 1000);
}


/* The lines of the family for one of what it is about, at words. */

static void
ngx_http_pgw_metrics_put(ngx_http_pgw_metrics_t *m, ngx_str_t which,
    const void *words)
{
    uint64_t                              n = 0;
    ngx_str_t                             name, rest;
    ngx_uint_t                            i, histogram;
    const ngx_atomic_t                   *word;
    const ngx_http_pgw_metrics_family_t  *f = m->family;

    word = (const void *) ((const u_char *) words + f->first);
    histogram = (*f->type == 'h');
    rest = f->names;

    if (*word == NGX_HTTP_PGW_METRICS_NONE) {
        return;
    }

    while (ngx_http_pgw_names_next(&rest, &name)) {
        n = *word++ + (histogram ? n : 0);
        ngx_http_pgw_metrics_line(m, histogram ? "_bucket" : "", &which, &name,
                                  n, 0);
    }

    if (histogram) {
        ngx_http_pgw_metrics_line(m, "_count", &which, NULL, n, 0);
        ngx_http_pgw_metrics_line(m, "_sum", &which, NULL, *word, 1);
    }

    for (i = 0; i < f->n; i++) {
        n += word[i];
    }

    if (f->n) {
        ngx_http_pgw_metrics_line(m, "", &which, NULL, n,
                                  ngx_strstr(f->name, "seconds") != NULL);
    }
}


/* Another worker's clock may be a moment ahead. */

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
    ngx_http_pgw_metrics_issuer_t      words;
    const ngx_http_pgw_revocations_t  *feed = issuer->revocations;

    /* NONE, but for what follows */

    ngx_memset(&words, 0xff, sizeof(words));

    if (ngx_http_pgw_issuer_usable(issuer)) {
        set = ngx_http_pgw_keys_get(issuer);
        words.keys = set ? set->count : 0;
        words.version = issuer->zone->version;

        if (issuer->zone->fetched_at) {
            words.fetched = ngx_http_pgw_metrics_age(issuer->zone->fetched);
        }
    }

    ngx_memcpy((void *) words.fetches, (void *) issuer->from.counted,
               sizeof(words.fetches));

    if (feed) {
        zone = feed->zone;
        words.entries = zone->table.live;
        words.max = zone->table.max;
        words.full = zone->full;

        if (zone->complete) {
            words.asked = ngx_http_pgw_metrics_age(zone->asked);
        }

        ngx_memcpy((void *) words.pages, (void *) feed->from.counted,
                   sizeof(words.pages));
    }

    ngx_http_pgw_metrics_put(m, issuer->name, &words);
}


static void
ngx_http_pgw_metrics_family(ngx_http_pgw_metrics_t *m,
    const ngx_http_pgw_main_conf_t *mcf)
{
    ngx_str_t                     name;
    ngx_uint_t                    i, flag, of = m->family->of, feed = 0;
    ngx_slab_pool_t              *shpool;
    ngx_http_pgw_issuer_t        *issuer;
    const ngx_http_pgw_route_t   *route;
    ngx_http_pgw_metrics_zone_t   words;

    static const ngx_str_t        all = ngx_null_string;
    const ngx_shm_zone_t *const   zones[] = {
        mcf->counters_zone, mcf->keys_zone
    };

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        feed |= (issuer->revocations != NULL);

        if (of == NGX_HTTP_PGW_METRICS_ISSUER) {
            ngx_http_pgw_metrics_issuer(m, issuer);
        }
    }

    for (i = 0; of == NGX_HTTP_PGW_METRICS_ZONE && i < 2; i++) {
        if (zones[i]) {
            shpool = (ngx_slab_pool_t *) zones[i]->shm.addr;
            words.size = zones[i]->shm.size;
            words.free = shpool->pfree * ngx_pagesize;
            ngx_http_pgw_metrics_put(m, zones[i]->shm.name, &words);
        }
    }

    for (route = mcf->routes; route; route = route->next) {
        if (of == NGX_HTTP_PGW_METRICS_ROUTE) {
            ngx_http_pgw_metrics_put(m, route->id, route->counters);
        }
    }

    flag = of == NGX_HTTP_PGW_METRICS_REASON ? NGX_HTTP_PGW_REASON_REFUSES
           : of == NGX_HTTP_PGW_METRICS_RESULT ? NGX_HTTP_PGW_REASON_VERIFIES
           : 0;

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {
        if (ngx_http_pgw_reasons[i].flags & flag) {
            name.data = (u_char *) ngx_http_pgw_reasons[i].name;
            name.len = ngx_strlen(name.data);
            ngx_http_pgw_metrics_put(m, name, &mcf->counters->reasons[i]);
        }
    }

    if (of == NGX_HTTP_PGW_METRICS_ALL
        || (of == NGX_HTTP_PGW_METRICS_FEEDS && feed))
    {
        ngx_http_pgw_metrics_put(m, all, mcf->counters);
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
