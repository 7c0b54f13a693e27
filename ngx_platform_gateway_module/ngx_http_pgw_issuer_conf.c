
/*
 * The directives of issuers, their zones, and the checks of nginx -t.
 */


#include "ngx_http_pgw_issuer_conf.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_peek.h"
#include "ngx_http_pgw_poll.h"
#include "ngx_http_pgw_refresh.h"
#include "ngx_http_pgw_revocations.h"
#include "ngx_http_pgw_token.h"


#define NGX_HTTP_PGW_KEYS_MIN_ZONE     (256 * 1024)
#define NGX_HTTP_PGW_KEYS_ZONE         (1024 * 1024)

#define NGX_HTTP_PGW_REVOKED_MIN_ZONE  (128 * 1024)
#define NGX_HTTP_PGW_REVOKED_AFTER     10000  /* ms */


/* What is fetched from the location, as far as it is said by now. */

static const ngx_http_pgw_source_t  ngx_http_pgw_issuer_conf_keys = {
    .name = "keys",
    .directive = "platform_gateway_key_location",
    .max = PJ_KEYSET_MAX_BYTES,
    .too_small = "cannot hold a key set: add "
                 "\"subrequest_output_buffer_size 64k;\"",
    .handler = ngx_http_pgw_refresh_fetched
};

static const ngx_http_pgw_source_t  ngx_http_pgw_issuer_conf_feed = {
    .name = "revocations",
    .directive = "platform_gateway_revocations",
    .max = NGX_HTTP_PGW_FEED_MAX_BYTES,
    .too_small = "cannot hold a page of the feed: add "
                 "\"subrequest_output_buffer_size 1m;\"",
    .handler = ngx_http_pgw_poll_fetched,
    .cooldown = 500
};


static void
ngx_http_pgw_issuer_conf_from(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf,
    ngx_http_pgw_source_t *from, const ngx_http_pgw_source_t *as, void *data)
{
    *from = *as;
    from->data = data;
    from->next = mcf->sources;
    mcf->sources = from;

    ngx_http_pgw_conf_place(cf, &from->place);
}


char *
ngx_http_pgw_issuer_conf_create(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_uint_t  i;

    mcf->issuers = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_issuer_t));
    if (mcf->issuers == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->issuers->algorithms = ngx_http_pgw_token_algorithms();

    for (i = 0; i < NGX_HTTP_PGW_AGES; i++) {
        mcf->limits.ages[i] = NGX_CONF_UNSET_MSEC;
    }

    mcf->limits.wait = NGX_CONF_UNSET_MSEC;
    mcf->limits.waiters = NGX_CONF_UNSET;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    if (mcf->zone_size) {
        return "is duplicate";
    }

    return ngx_http_pgw_conf_zone(cf, &((ngx_str_t *) cf->args->elts)[1],
                                  "platform_gateway:1m",
                                  NGX_HTTP_PGW_KEYS_MIN_ZONE,
                                  &mcf->zone_name, &mcf->zone_size);
}


static char *
ngx_http_pgw_issuer_conf_file(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer)
{
    const char   *err;
    pj_keyset_t  *set;

    if (issuer->file.len == 0) {
        return "needs the name of a file";
    }

    issuer->document.data = ngx_pnalloc(cf->pool, PJ_KEYSET_MAX_BYTES);

    if (issuer->document.data == NULL
        || ngx_conf_full_name(cf->cycle, &issuer->file, 1) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    err = ngx_http_pgw_keys_read(&issuer->file, issuer->document.data,
                                 PJ_KEYSET_MAX_BYTES, &issuer->document.len);
    if (err == NULL) {
        err = ngx_http_pgw_keys_parse(&issuer->document, &set);
    }

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"platform_gateway_key_file\" \"%V\" gives no "
                           "keys: %s; put the issuer's key set there, a JSON "
                           "object like {\"keys\":[...]} with at least one RSA "
                           "key,", &issuer->file, err);
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_keys_free(set);

    return NGX_CONF_OK;
}


/* An issuer has one set of keys, and one place that it comes from. */

char *
ngx_http_pgw_issuer_conf_source(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                 *value = cf->args->elts;
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);

    issuer = mcf->issuers;

    if (ngx_http_pgw_issuer_usable(issuer)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "there is one key set for the whole nginx, and its "
                           "source is already given by "
                           "\"platform_gateway_key_%s\" in %V:%ui: leave one "
                           "out", issuer->file.len ? "file" : "location",
                           &issuer->from.place.file, issuer->from.place.line);
        return NGX_CONF_ERROR;
    }

    if (cmd->type & NGX_HTTP_MAIN_CONF) {
        ngx_http_pgw_conf_place(cf, &issuer->from.place);
        issuer->file = value[1];
        return ngx_http_pgw_issuer_conf_file(cf, issuer);
    }

    if (value[1].data[0] != '/') {
        return "must begin with \"/\"";
    }

    ngx_http_pgw_issuer_conf_from(cf, mcf, &issuer->from,
                                  &ngx_http_pgw_issuer_conf_keys, issuer);
    issuer->from.location = value[1];
    issuer->from.ctx = cf->ctx;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_cache_file(ngx_conf_t *cf, void *post,
    void *data)
{
    ngx_str_t  *name = data;

    if (name->len == 0 || name->data[name->len - 1] == '/') {
        return "needs the name of a file, in a directory that the worker "
               "processes may write to";
    }

    return ngx_conf_full_name(cf->cycle, name, 0) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* Remembers where an age was given, for messages at the end of http{}. */

char *
ngx_http_pgw_issuer_conf_age(ngx_conf_t *cf, void *post, void *data)
{
    ngx_msec_t             *age = data;
    ngx_http_pgw_limits_t  *limits = &ngx_http_pgw_conf_main(cf)->limits;

    ngx_http_pgw_conf_place(cf, &limits->places[age - limits->ages]);

    return (age != &limits->ages[NGX_HTTP_PGW_AGE_COOLDOWN] || *age >= 1000)
           ? NGX_CONF_OK : "must be at least 1s";
}


/* None of the ages may be below the one before it. */

static char *
ngx_http_pgw_issuer_conf_ages(ngx_conf_t *cf, ngx_http_pgw_limits_t *limits)
{
    ngx_uint_t   n;
    ngx_msec_t  *age;

    static const char  *names[NGX_HTTP_PGW_AGES] = {
        "cooldown", "soft_age", "hard_age"
    };

    age = limits->ages;

    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_SOFT], 300000);
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_HARD],
                             ngx_max(86400000, age[NGX_HTTP_PGW_AGE_SOFT]));
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_COOLDOWN],
                             ngx_max(1000, ngx_min(10000,
                                           age[NGX_HTTP_PGW_AGE_SOFT])));
    ngx_conf_init_msec_value(limits->wait, 2000);
    ngx_conf_init_value(limits->waiters, 256);

    for (n = 1; n < NGX_HTTP_PGW_AGES; n++) {

        /* one of the two may be a default, which has no line */

        if (age[n] < age[n - 1]) {
            return ngx_http_pgw_conf_fail(cf,
                       &limits->places[limits->places[n].line ? n : n - 1],
                       "\"platform_gateway_key_%s\" (%Ms) must not be below "
                       "\"platform_gateway_key_%s\" (%Ms)",
                       names[n], age[n] / 1000, names[n - 1],
                       age[n - 1] / 1000);
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_pgw_issuer_conf_parameter(ngx_conf_t *cf,
    ngx_http_pgw_revocations_t *rev, const ngx_str_t *value)
{
    ngx_str_t   text;
    ngx_msec_t  ms;

    text.data = (u_char *) ngx_strchr(value->data, '=');

    if (text.data++) {
        text.len = (size_t) (value->data + value->len - text.data);

        if (ngx_strncmp(value->data, "zone=", 5) == 0) {
            return ngx_http_pgw_conf_zone(cf, &text, "revocations:16m",
                                          NGX_HTTP_PGW_REVOKED_MIN_ZONE,
                                          &rev->zone_name, &rev->zone_size);
        }

        if (ngx_strncmp(value->data, "uri=/", 5) == 0) {
            rev->from.location = text;
            return NGX_CONF_OK;
        }

        if (ngx_strncmp(value->data, "claim=", 6) == 0 && text.len) {
            rev->claim = text;
            return ngx_http_pgw_conf_path(cf, &text);
        }

        ms = (ngx_msec_t) ngx_parse_time(&text, 0);

        if (ngx_strncmp(value->data, "interval=", 9) == 0
            && ms >= 50 && ms <= 60000)
        {
            rev->from.cooldown = ms;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\": say \"zone=NAME:SIZE\", "
                       "\"uri=/PATH\", and if need be \"interval=TIME\" of "
                       "50ms to 60s, \"claim=NAME\"", value);

    return NGX_CONF_ERROR;
}


char *
ngx_http_pgw_issuer_conf_revocations(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_pgw_revocations_t  *rev;

    if (mcf->issuers->revocations) {
        return "is duplicate";
    }

    rev = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_revocations_t));
    if (rev == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->issuers->revocations = rev;

    ngx_http_pgw_issuer_conf_from(cf, mcf, &rev->from,
                                  &ngx_http_pgw_issuer_conf_feed, rev);
    ngx_str_set(&rev->claim, "session_id");

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_pgw_issuer_conf_parameter(cf, rev, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return rev->zone_size && rev->from.location.len
           ? NGX_CONF_OK : "needs \"zone=NAME:SIZE\" and \"uri=/PATH\"";
}


/* platform_gateway_revocations_stale pass|refuse [after=TIME]; */

char *
ngx_http_pgw_issuer_conf_stale(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t  *value, text;

    if (mcf->revocations_after) {
        return "is duplicate";
    }

    value = cf->args->elts;
    mcf->revocations_after = NGX_HTTP_PGW_REVOKED_AFTER;
    mcf->revocations_refuse = (ngx_strcmp(value[1].data, "refuse") == 0);

    if (!mcf->revocations_refuse && ngx_strcmp(value[1].data, "pass") != 0) {
        return "accepts pass and refuse";
    }

    if (cf->args->nelts == 3) {
        text.data = value[2].data + 6;
        text.len = value[2].len - 6;

        if (ngx_strncmp(value[2].data, "after=", 6) != 0
            || (ngx_int_t) (mcf->revocations_after =
                            (ngx_msec_t) ngx_parse_time(&text, 0)) < 1000)
        {
            return "has no \"after=TIME\" of at least 1s";
        }
    }

    return NGX_CONF_OK;
}


/*
 * Where the keys come from.  Their source is named, in shared memory and in a
 * cache file, by the issuer's names, the location and the upstream, as the
 * configuration spells them.  If one of them is another, the keys are not ours.
 */

static char *
ngx_http_pgw_issuer_conf_init_keys(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer)
{
    ngx_http_pgw_source_t  *from = &issuer->from;

    if (ngx_http_pgw_issuer_conf_ages(cf, &issuer->limits) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (issuer->file.len && issuer->limits.cache_file.len) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "\"platform_gateway_key_cache_file\" keeps what "
                   "\"platform_gateway_key_location\" fetched: leave it out, "
                   "it has no use beside \"platform_gateway_key_file\"");
    }

    if (!ngx_http_pgw_issuer_usable(issuer)) {
        return NGX_CONF_OK;
    }

    from->cooldown = issuer->limits.ages[NGX_HTTP_PGW_AGE_COOLDOWN];
    from->timeout = ngx_max(from->cooldown, NGX_HTTP_PGW_TIMEOUT);

    ngx_http_pgw_lease_log(cf, from);

    mcf->keys_zone = ngx_shared_memory_add(cf, &mcf->zone_name, mcf->zone_size,
                                           &ngx_http_platform_gateway_module);

    if (mcf->keys_zone == NULL
        || ngx_http_pgw_issuer_digest(issuer, from->source) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    mcf->keys_zone->init = ngx_http_pgw_refresh_zone_init;
    mcf->keys_zone->data = mcf;

    if (from->ctx) {
        return ngx_http_pgw_lease_check(cf, from);
    }

    return ngx_http_pgw_lease_digest(from->source, issuer->file.data,
                                     issuer->file.len)
           == NGX_OK
           && ngx_http_pgw_lease_digest(from->source, (u_char *) "file", 4)
              == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* The first server with an internal location for the URI, or none. */

static ngx_http_conf_ctx_t *
ngx_http_pgw_issuer_conf_server(ngx_conf_t *cf, ngx_str_t *uri)
{
    void                       **loc_conf;
    ngx_uint_t                   i;
    ngx_http_core_srv_conf_t   **server;
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_core_main_conf_t   *cmcf = ngx_http_pgw_conf_nginx(cf);

    server = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {

        loc_conf = server[i]->ctx->loc_conf;

        if (ngx_http_pgw_peek_find(NULL, uri, &loc_conf) == NGX_OK) {
            clcf = loc_conf[ngx_http_core_module.ctx_index];

            if (clcf->internal) {
                return server[i]->ctx;
            }
        }
    }

    return NULL;
}


/* The zone of a feed, which is of no other, and what names its source: with
   another name to accept, all of the feed is wanted again. */

static char *
ngx_http_pgw_issuer_conf_feed_zone(ngx_conf_t *cf,
    const ngx_http_pgw_issuer_t *issuer, ngx_http_pgw_revocations_t *rev)
{
    ngx_shm_zone_t         *shm_zone;
    ngx_http_pgw_source_t  *from = &rev->from;

    shm_zone = ngx_shared_memory_add(cf, &rev->zone_name, rev->zone_size,
                                     &ngx_http_platform_gateway_module);
    if (shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (shm_zone->init) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "zone \"%V\" of \"platform_gateway_revocations\" is that "
                   "of \"platform_gateway_zone\", or of the counters, which "
                   "is named after it: give it another name,",
                   &rev->zone_name);
    }

    shm_zone->init = ngx_http_pgw_revocations_zone_init;
    shm_zone->data = rev;

    return ngx_http_pgw_lease_digest(from->source, rev->claim.data,
                                     rev->claim.len)
           == NGX_OK
           && ngx_http_pgw_issuer_digest(issuer, from->source) == NGX_OK
           ? ngx_http_pgw_lease_check(cf, from) : NGX_CONF_ERROR;
}


static char *
ngx_http_pgw_issuer_conf_init_feed(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer)
{
    ngx_http_pgw_source_t       *from;
    ngx_http_pgw_revocations_t  *rev = issuer->revocations;

    if (rev == NULL) {
        return NGX_CONF_OK;
    }

    from = &rev->from;
    from->timeout = NGX_HTTP_PGW_TIMEOUT;
    from->ctx = ngx_http_pgw_issuer_conf_server(cf, &from->location);

    rev->names = &issuer->names;
    rev->refuse = mcf->revocations_refuse;
    rev->after = mcf->revocations_after ? mcf->revocations_after
                                        : NGX_HTTP_PGW_REVOKED_AFTER;

    if (from->ctx == NULL) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "no server has an internal location for \"uri=%V\" of "
                   "\"platform_gateway_revocations\": add \"location = %V { "
                   "internal; ... }\" to one", &from->location,
                   &from->location);
    }

    if (rev->after < 2 * from->cooldown) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "\"interval=\" of \"platform_gateway_revocations\" is more "
                   "than half of \"after=\" of "
                   "\"platform_gateway_revocations_stale\": the feed would be "
                   "stale between two fetches");
    }

    ngx_http_pgw_lease_log(cf, from);

    return ngx_http_pgw_issuer_conf_feed_zone(cf, issuer, rev);
}


char *
ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    char                   *rv;
    ngx_uint_t              usable = 0;
    ngx_http_pgw_issuer_t  *issuer;

    mcf->issuers->limits = mcf->limits;

    if (mcf->zone_size == 0) {
        ngx_str_set(&mcf->zone_name, "platform_gateway");
        mcf->zone_size = NGX_HTTP_PGW_KEYS_ZONE;
    }

    rv = NGX_CONF_OK;

    for (issuer = mcf->issuers; issuer && rv == NGX_CONF_OK;
         issuer = issuer->next)
    {
        rv = ngx_http_pgw_issuer_names(cf, issuer, mcf->policies);

        if (rv == NGX_CONF_OK) {
            rv = ngx_http_pgw_issuer_conf_init_keys(cf, mcf, issuer);
        }

        usable |= ngx_http_pgw_issuer_usable(issuer);
    }

    if (rv == NGX_CONF_OK && mcf->guarded && !usable) {
        return ngx_http_pgw_conf_fail(cf, &mcf->guarded->place,
                   "platform_gateway: a guarded location needs keys to check "
                   "tokens with: add \"platform_gateway_key_location\" to a "
                   "server, or \"platform_gateway_key_file\" to http, for the "
                   "location");
    }

    if (rv == NGX_CONF_OK) {
        rv = ngx_http_pgw_counters_init(cf, mcf);
    }

    for (issuer = mcf->issuers; issuer && rv == NGX_CONF_OK;
         issuer = issuer->next)
    {
        rv = ngx_http_pgw_issuer_conf_init_feed(cf, mcf, issuer);
    }

    return rv;
}
