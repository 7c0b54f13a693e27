
/*
 * The directives of issuers, their zones, and their checks by nginx -t.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "issuer/issuer.h"


#define NGX_HTTP_PGW_KEYS_MIN_ZONE     (256 * 1024)
/* fits 64 issuers, because a zone whose size changes is lost at a reload */
#define NGX_HTTP_PGW_KEYS_ZONE         (10 * 1024 * 1024)


ngx_http_pgw_issuer_t *
ngx_http_pgw_issuer_conf_new(ngx_conf_t *cf)
{
    ngx_uint_t              n;
    ngx_http_pgw_issuer_t  *issuer;

    issuer = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_issuer_t));

    if (issuer) {
        for (n = 0; n < NGX_HTTP_PGW_AGES; n++) {
            issuer->ages[n] = NGX_CONF_UNSET_MSEC;
        }

        issuer->leeway = NGX_CONF_UNSET;
        issuer->discover = NGX_CONF_UNSET;
    }

    return issuer;
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


/* Adds the source of keys, and refuses a second. */

static char *
ngx_http_pgw_issuer_conf_source(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer)
{
    if (!ngx_http_pgw_issuer_usable(issuer)) {
        ngx_http_pgw_fetch_conf_add(cf, &issuer->from,
                                    &ngx_http_pgw_keys_fetch_source, issuer);
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "the source of this issuer's keys is already given by "
                       "\"%skey_%s\" in %V:%ui: leave one out",
                       issuer->name.len ? "" : "platform_gateway_",
                       issuer->file.len ? "file" : "location",
                       &issuer->from.place.file, issuer->from.place.line);

    return NGX_CONF_ERROR;
}


char *
ngx_http_pgw_issuer_conf_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_issuer_t  *issuer = conf;

    ngx_str_t    *value = cf->args->elts;
    const char   *err;
    pj_keyset_t  *set;

    if (ngx_http_pgw_issuer_conf_source(cf, issuer) != NGX_CONF_OK) {
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

    ngx_http_pgw_keys_warn_duplicate(issuer, set, cf->log);
    ngx_http_pgw_keys_free(set);

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_issuer_conf_location(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_issuer_t  *issuer = conf;

    ngx_str_t  *value = cf->args->elts;

    if (ngx_http_pgw_issuer_conf_source(cf, issuer) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (value[1].data[0] != '/') {
        return "must begin with \"/\"";
    }

    issuer->from.location = value[1];

    /* outside of a block, the location is in the server of the directive */

    issuer->from.ctx = issuer->name.len ? NULL : cf->ctx;

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


/* Sets default ages.  Each age must not be below the age before. */

static char *
ngx_http_pgw_issuer_conf_ages(ngx_conf_t *cf,
    const ngx_http_pgw_issuer_t *issuer, ngx_msec_t *age)
{
    ngx_uint_t  n;

    static const char  *names[NGX_HTTP_PGW_AGES] = {
        "cooldown", "soft_age", "hard_age"
    };

    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_SOFT], 300000);
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_HARD],
                             ngx_max(86400000, age[NGX_HTTP_PGW_AGE_SOFT]));
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_COOLDOWN],
                             ngx_max(1000, ngx_min(10000,
                                                age[NGX_HTTP_PGW_AGE_SOFT])));

    if (age[NGX_HTTP_PGW_AGE_COOLDOWN] < 1000) {
        return ngx_http_pgw_conf_fail(cf, &issuer->from.place,
                   "\"platform_gateway_key_cooldown\" must be at least 1s "
                   "for the keys");
    }

    for (n = 1; n < NGX_HTTP_PGW_AGES; n++) {
        if (age[n] < age[n - 1]) {
            return ngx_http_pgw_conf_fail(cf, &issuer->from.place,
                       "\"platform_gateway_key_%s\" (%Ms) must not be below "
                       "\"platform_gateway_key_%s\" (%Ms) for the keys",
                       names[n], age[n] / 1000, names[n - 1],
                       age[n - 1] / 1000);
        }
    }

    return NGX_CONF_OK;
}


/*
 * Checks the source of keys, and computes its digest from the issuer's names,
 * the location and the upstream as they stand in the configuration.  Shared
 * memory and the cache file have the digest: if it differs, their keys are
 * discarded.
 */

static char *
ngx_http_pgw_issuer_conf_init_keys(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer)
{
    ngx_log_t              *log = ngx_http_pgw_conf_core(cf)->error_log;
    ngx_http_pgw_source_t  *from = &issuer->from;
    const ngx_str_t         file[] = { issuer->file, ngx_string("file") };

    if (!ngx_http_pgw_issuer_usable(issuer)) {
        return NGX_CONF_OK;
    }

    if (issuer->file.len && issuer->cache_file.len) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "\"platform_gateway_key_cache_file\" keeps what "
                   "\"platform_gateway_key_location\" fetched: leave it out, "
                   "it has no use beside \"platform_gateway_key_file\"");
    }

    if (ngx_http_pgw_issuer_conf_ages(cf, issuer, issuer->ages) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    from->cooldown = issuer->ages[NGX_HTTP_PGW_AGE_COOLDOWN];
    from->timeout = ngx_max(from->cooldown, NGX_HTTP_PGW_TIMEOUT);

    if (ngx_http_pgw_issuer_digest(issuer, from->source) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (from->location.len) {
        return ngx_http_pgw_fetch_conf_check(cf, from);
    }

    from->log = log ? log : &cf->cycle->new_log;

    return ngx_http_pgw_lease_digest(from->source, file, 2) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* Refuses a name or a cache file that two issuers have, and an issuer with
   names but without keys. */

static char *
ngx_http_pgw_issuer_conf_check(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf,
    ngx_http_pgw_issuer_t *issuer)
{
    ngx_uint_t                  i;
    ngx_http_pgw_issuer_t      *other;
    const ngx_http_pgw_name_t  *name = issuer->names.elts;

    for (i = 0; i < issuer->names.nelts; i++) {

        other = ngx_http_pgw_issuer_find(mcf->issuers, &name[i].iss);

        if (other != issuer) {
            return ngx_http_pgw_conf_fail(cf, &issuer->from.place,
                       "\"%*s\" is the name of two issuers, of \"%V\" and, "
                       "before, of \"%V\": one token has one issuer,",
                       name[i].iss.len, name[i].iss.data, &issuer->name,
                       ngx_http_pgw_issuer_label(other));
        }
    }

    for (other = mcf->issuers; other != issuer; other = other->next) {

        if (issuer->cache_file.len
            && issuer->cache_file.len == other->cache_file.len
            && ngx_strcmp(issuer->cache_file.data, other->cache_file.data) == 0)
        {
            return ngx_http_pgw_conf_fail(cf, &issuer->from.place,
                       "\"%V\" is the key cache file of two issuers, of \"%V\" "
                       "and, before, of \"%V\": give each a file of its own,",
                       &issuer->cache_file, &issuer->name,
                       ngx_http_pgw_issuer_label(other));
        }
    }

    return i == 0 || ngx_http_pgw_issuer_usable(issuer) ? NGX_CONF_OK
           : ngx_http_pgw_conf_fail(cf, &mcf->guarded->place,
                  "platform_gateway: a guarded location needs keys to check "
                  "tokens with: add \"platform_gateway_key_location\" to a "
                  "server, or \"platform_gateway_key_file\" to http, for the "
                  "location");
}


static void
ngx_http_pgw_issuer_conf_defaults(ngx_http_pgw_main_conf_t *mcf,
    ngx_http_pgw_issuer_t *issuer)
{
    ngx_uint_t  n;

    issuer->wait = mcf->key_wait;

    for (n = 0; n < NGX_HTTP_PGW_AGES; n++) {
        ngx_conf_init_msec_value(issuer->ages[n], mcf->issuers->ages[n]);
    }

    if (issuer->claims.subject == NULL) {
        issuer->claims.subject = "sub";
    }

    if (issuer->claims.session == NULL) {
        issuer->claims.session = issuer->name.len ? "sid" : "session_id";
    }

    if (issuer->acr == NULL) {
        issuer->acr = "acr";
    }

    if (issuer->auth_time == NULL) {
        issuer->auth_time = "auth_time";
    }
}


char *
ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_http_pgw_issuer_t  *issuer;

    mcf->cycle = cf->cycle;
    ngx_conf_init_msec_value(mcf->key_wait, 2000);
    ngx_conf_init_value(mcf->key_waiters, 256);

    if (mcf->zone_size == 0) {
        ngx_str_set(&mcf->zone_name, "platform_gateway");
        mcf->zone_size = NGX_HTTP_PGW_KEYS_ZONE;
    }

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {

        ngx_http_pgw_issuer_conf_defaults(mcf, issuer);

        if (ngx_http_pgw_issuer_usable(issuer) && mcf->keys_zone == NULL) {

            mcf->keys_zone = ngx_shared_memory_add(cf, &mcf->zone_name,
                                           mcf->zone_size,
                                           &ngx_http_platform_gateway_module);
            if (mcf->keys_zone == NULL) {
                return NGX_CONF_ERROR;
            }

            mcf->keys_zone->init = ngx_http_pgw_keys_fetch_zone_init;
            mcf->keys_zone->data = mcf;
        }

        if (ngx_http_pgw_issuer_names(cf, issuer, mcf->policies) != NGX_CONF_OK
            || ngx_http_pgw_issuer_conf_check(cf, mcf, issuer) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_pgw_counters_init_conf(cf, mcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        if (ngx_http_pgw_issuer_conf_init_keys(cf, issuer) != NGX_CONF_OK
            || ngx_http_pgw_feed_conf_init(cf, mcf, issuer) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}
