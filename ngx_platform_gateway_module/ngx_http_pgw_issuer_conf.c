
/*
 * The directives of issuers, their zones, and the checks of nginx -t.
 */


#include "ngx_http_pgw_issuer_conf.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_feed_conf.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_refresh.h"
#include "ngx_http_pgw_token.h"


#define NGX_HTTP_PGW_KEYS_MIN_ZONE     (256 * 1024)
/* for 64 issuers: a zone whose size changes is lost at a reload */
#define NGX_HTTP_PGW_KEYS_ZONE         (10 * 1024 * 1024)


/* What is fetched from the location, as far as it is said by now. */

static const ngx_http_pgw_source_t  ngx_http_pgw_issuer_conf_keys = {
    .name = "keys",
    .directive = "platform_gateway_key_location",
    .max = PJ_KEYSET_MAX_BYTES,
    .too_small = "cannot hold a key set: add "
                 "\"subrequest_output_buffer_size 64k;\"",
    .handler = ngx_http_pgw_refresh_fetched
};

static void
ngx_http_pgw_issuer_conf_unset(ngx_http_pgw_limits_t *limits)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_PGW_AGES; i++) {
        limits->ages[i].ms = NGX_CONF_UNSET_MSEC;
    }

    limits->wait = NGX_CONF_UNSET_MSEC;
    limits->waiters = NGX_CONF_UNSET;
}


ngx_http_pgw_issuer_t *
ngx_http_pgw_issuer_conf_new(ngx_conf_t *cf)
{
    ngx_http_pgw_issuer_t  *issuer;

    issuer = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_issuer_t));

    if (issuer) {
        ngx_http_pgw_issuer_conf_unset(&issuer->limits);
        issuer->leeway = NGX_CONF_UNSET;
        issuer->discover = NGX_CONF_UNSET;
    }

    return issuer;
}


char *
ngx_http_pgw_issuer_conf_create(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_http_pgw_issuer_conf_unset(&mcf->limits);
    mcf->issuers = ngx_http_pgw_issuer_conf_new(cf);

    return mcf->issuers ? NGX_CONF_OK : NGX_CONF_ERROR;
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


/* An issuer has one set of keys, and one place that it comes from. */

static char *
ngx_http_pgw_issuer_conf_one_source(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer)
{
    ngx_http_pgw_source_t  *from = &issuer->from;

    if (ngx_http_pgw_issuer_usable(issuer)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "an issuer has one key set, and the source of this "
                           "one's is already given by \"%skey_%s\" in %V:%ui: "
                           "leave one out",
                           issuer->name.len ? "" : "platform_gateway_",
                           issuer->file.len ? "file" : "location",
                           &from->place.file, from->place.line);
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_conf_place(cf, &from->place);

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_issuer_t  *issuer = conf;

    ngx_str_t    *value = cf->args->elts;
    const char   *err;
    pj_keyset_t  *set;

    if (ngx_http_pgw_issuer_conf_one_source(cf, issuer) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    issuer->file = value[1];

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
        err = ngx_http_pgw_keys_parse(issuer, &issuer->document, &set);
    }

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" \"%V\" gives no keys: %s; put the issuer's "
                           "key set there, {\"keys\":[...]} in JSON, or public "
                           "keys in PEM, one of a type,",
                           &value[0], &issuer->file, err);
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_keys_free(set);

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_location(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_issuer_t  *issuer = conf;

    ngx_str_t  *value = cf->args->elts;

    if (ngx_http_pgw_issuer_conf_one_source(cf, issuer) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (value[1].data[0] != '/') {
        return "must begin with \"/\"";
    }

    ngx_http_pgw_lease_add(cf, ngx_http_pgw_conf_main(cf),
                                  &issuer->from,
                                  &ngx_http_pgw_issuer_conf_keys, issuer);
    issuer->from.location = value[1];

    return NGX_CONF_OK;
}


/* The same outside of a block: a location of the server where it stands. */

char *
ngx_http_pgw_issuer_conf_source(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                   *rv;
    ngx_http_pgw_issuer_t  *issuer = ngx_http_pgw_conf_main(cf)->issuers;

    if (cmd->type & NGX_HTTP_MAIN_CONF) {
        return ngx_http_pgw_issuer_conf_file(cf, cmd, issuer);
    }

    rv = ngx_http_pgw_issuer_conf_location(cf, cmd, issuer);

    if (rv == NGX_CONF_OK) {
        issuer->from.ctx = cf->ctx;
    }

    return rv;
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
    ngx_http_pgw_age_t  *age = data;    /* begins with what is set */

    ngx_http_pgw_conf_place(cf, &age->place);

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_cooldown(ngx_conf_t *cf, void *post, void *data)
{
    return *(ngx_msec_t *) data < 1000 ? "must be at least 1s"
           : ngx_http_pgw_issuer_conf_age(cf, post, data);
}


static void
ngx_http_pgw_issuer_conf_merge(ngx_http_pgw_limits_t *limits,
    const ngx_http_pgw_limits_t *all)
{
    ngx_uint_t  n;

    for (n = 0; n < NGX_HTTP_PGW_AGES; n++) {
        if (limits->ages[n].ms == NGX_CONF_UNSET_MSEC) {
            limits->ages[n] = all->ages[n];
        }
    }

    ngx_conf_merge_msec_value(limits->wait, all->wait, 2000);
    ngx_conf_merge_value(limits->waiters, all->waiters, 256);
}


/* None of the ages may be below the one before it. */

static char *
ngx_http_pgw_issuer_conf_ages(ngx_conf_t *cf, ngx_http_pgw_limits_t *limits)
{
    ngx_uint_t           n;
    ngx_http_pgw_age_t  *age = limits->ages;

    static const char  *names[NGX_HTTP_PGW_AGES] = {
        "cooldown", "soft_age", "hard_age"
    };

    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_SOFT].ms, 300000);
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_HARD].ms,
                             ngx_max(86400000, age[NGX_HTTP_PGW_AGE_SOFT].ms));
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_COOLDOWN].ms,
                             ngx_max(1000, ngx_min(10000,
                                           age[NGX_HTTP_PGW_AGE_SOFT].ms)));

    for (n = 1; n < NGX_HTTP_PGW_AGES; n++) {

        /* one of the two may be a default, which has no line */

        if (age[n].ms < age[n - 1].ms) {
            return ngx_http_pgw_conf_fail(cf,
                       &age[age[n].place.line ? n : n - 1].place,
                       "\"platform_gateway_key_%s\" (%Ms) must not be below "
                       "\"platform_gateway_key_%s\" (%Ms)",
                       names[n], age[n].ms / 1000, names[n - 1],
                       age[n - 1].ms / 1000);
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

    from->cooldown = issuer->limits.ages[NGX_HTTP_PGW_AGE_COOLDOWN].ms;
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

    if (from->location.len) {
        return ngx_http_pgw_lease_check(cf, from);
    }

    return ngx_http_pgw_lease_digest(from->source, issuer->file.data,
                                     issuer->file.len)
           == NGX_OK
           && ngx_http_pgw_lease_digest(from->source, (u_char *) "file", 4)
              == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* No name is that of two; and who has names needs keys. */

static char *
ngx_http_pgw_issuer_conf_check(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_pgw_issuer_t *issuer)
{
    ngx_uint_t                    i;
    const ngx_http_pgw_name_t    *name = issuer->names.elts;
    const ngx_http_pgw_issuer_t  *other;

    for (i = 0; i < issuer->names.nelts; i++) {

        other = ngx_http_pgw_issuer_of(mcf->issuers, &name[i].iss);

        if (other != issuer) {
            return ngx_http_pgw_conf_fail(cf, &issuer->from.place,
                       "\"%*s\" is the name of two issuers, of \"%V\" and, "
                       "before, of \"%V\": one token has one issuer,",
                       name[i].iss.len, name[i].iss.data, &issuer->name,
                       other->name.len ? &other->name
                                       : &ngx_http_pgw_issuer_own);
        }
    }

    return i == 0 || ngx_http_pgw_issuer_usable(issuer) ? NGX_CONF_OK
           : ngx_http_pgw_conf_fail(cf, &mcf->guarded->place,
                  "platform_gateway: a guarded location needs keys to check "
                  "tokens with: add \"platform_gateway_key_location\" to a "
                  "server, or \"platform_gateway_key_file\" to http, for the "
                  "location");
}


char *
ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    char                   *rv = NGX_CONF_OK;
    ngx_http_pgw_issuer_t  *issuer;

    mcf->issuers->limits = mcf->limits;

    for (issuer = mcf->issuers; issuer && rv == NGX_CONF_OK;
         issuer = issuer->next)
    {
        ngx_http_pgw_issuer_conf_merge(&issuer->limits, &mcf->limits);
        rv = ngx_http_pgw_issuer_names(cf, issuer, mcf->policies);
    }

    if (mcf->zone_size == 0) {
        ngx_str_set(&mcf->zone_name, "platform_gateway");
        mcf->zone_size = NGX_HTTP_PGW_KEYS_ZONE;
    }

    for (issuer = mcf->issuers; issuer && rv == NGX_CONF_OK;
         issuer = issuer->next)
    {
        rv = ngx_http_pgw_issuer_conf_check(cf, mcf, issuer);

        if (rv == NGX_CONF_OK) {
            rv = ngx_http_pgw_issuer_conf_init_keys(cf, mcf, issuer);
        }
    }

    if (rv == NGX_CONF_OK) {
        rv = ngx_http_pgw_counters_init(cf, mcf);
    }

    for (issuer = mcf->issuers; issuer && rv == NGX_CONF_OK;
         issuer = issuer->next)
    {
        rv = ngx_http_pgw_feed_conf_init(cf, mcf, issuer);
    }

    return rv;
}
