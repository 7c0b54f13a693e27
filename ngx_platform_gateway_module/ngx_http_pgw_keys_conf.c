
/*
 * The directives of the key set and the checks of nginx -t.
 */


#include "ngx_http_pgw_keys_conf.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_refresh.h"


#define NGX_HTTP_PGW_KEYS_MIN_ZONE  (256 * 1024)
#define NGX_HTTP_PGW_KEYS_ZONE      (1024 * 1024)


char *
ngx_http_pgw_keys_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t  *value;

    if (mcf->zone_size) {
        return "is duplicate";
    }

    value = cf->args->elts;

    return ngx_http_pgw_conf_zone(cf, &value[1], "platform_gateway:1m",
                                  NGX_HTTP_PGW_KEYS_MIN_ZONE,
                                  &mcf->zone_name, &mcf->zone_size);
}


static char *
ngx_http_pgw_keys_conf_file(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys)
{
    const char   *err;
    pj_keyset_t  *set;

    if (keys->file.len == 0) {
        return "needs the name of a file";
    }

    keys->document.data = ngx_pnalloc(cf->pool, PJ_KEYSET_MAX_BYTES);

    if (keys->document.data == NULL
        || ngx_conf_full_name(cf->cycle, &keys->file, 1) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    err = ngx_http_pgw_keys_read(&keys->file, keys->document.data,
                                 PJ_KEYSET_MAX_BYTES, &keys->document.len);
    if (err == NULL) {
        err = ngx_http_pgw_keys_parse(&keys->document, &set);
    }

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"platform_gateway_key_file\" \"%V\" gives no "
                           "keys: %s; put the issuer's key set there, a JSON "
                           "object like {\"keys\":[...]} with at least one RSA "
                           "key,", &keys->file, err);
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_keys_free(set);

    return NGX_CONF_OK;
}


/* There is one set of keys, and one place that it comes from. */

char *
ngx_http_pgw_keys_conf_source(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                 *value;
    ngx_http_pgw_keys_t       *keys;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);
    keys = mcf->keys;
    value = cf->args->elts;

    if (ngx_http_pgw_keys_usable(keys)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "there is one key set for the whole nginx, and its "
                           "source is already given by "
                           "\"platform_gateway_key_%s\" in %V:%ui: leave one "
                           "out", keys->file.len ? "file" : "location",
                           &keys->from.place.file, keys->from.place.line);
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_conf_place(cf, &keys->from.place);

    if (cmd->type & NGX_HTTP_MAIN_CONF) {
        keys->file = value[1];
        return ngx_http_pgw_keys_conf_file(cf, keys);
    }

    if (value[1].data[0] != '/') {
        return "must begin with \"/\"";
    }

    keys->from.place_of = NGX_HTTP_PGW_SOURCE_KEYS;
    keys->from.name = "keys";
    keys->from.directive = "platform_gateway_key_location";
    keys->from.max = PJ_KEYSET_MAX_BYTES;
    keys->from.too_small = "cannot hold a key set: add "
                           "\"subrequest_output_buffer_size 64k;\"";
    keys->from.handler = ngx_http_pgw_refresh_fetched;
    keys->from.data = keys;
    keys->from.location = value[1];
    keys->from.ctx = cf->ctx;
    ngx_str_set(&keys->document, "");

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_keys_conf_cache_file(ngx_conf_t *cf, void *post, void *data)
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
ngx_http_pgw_keys_conf_age(ngx_conf_t *cf, void *post, void *data)
{
    ngx_msec_t                *age = data;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    ngx_http_pgw_conf_place(cf, &mcf->key_places[age - mcf->key_ages]);

    return (age != &mcf->key_ages[NGX_HTTP_PGW_AGE_COOLDOWN] || *age >= 1000)
           ? NGX_CONF_OK : "must be at least 1s";
}


/* None of the ages may be below the one before it. */

static char *
ngx_http_pgw_keys_conf_ages(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_uint_t   n;
    ngx_msec_t  *age;

    static const char  *names[NGX_HTTP_PGW_AGES] = {
        "cooldown", "soft_age", "hard_age"
    };

    age = mcf->key_ages;

    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_SOFT], 300000);
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_HARD],
                             ngx_max(86400000, age[NGX_HTTP_PGW_AGE_SOFT]));
    ngx_conf_init_msec_value(age[NGX_HTTP_PGW_AGE_COOLDOWN],
                             ngx_max(1000, ngx_min(10000,
                                           age[NGX_HTTP_PGW_AGE_SOFT])));
    ngx_conf_init_msec_value(mcf->key_wait, 2000);
    ngx_conf_init_value(mcf->key_waiters, 256);

    for (n = 1; n < NGX_HTTP_PGW_AGES; n++) {

        /* one of the two is a default that follows none: it has no line */

        if (age[n] < age[n - 1]) {
            return ngx_http_pgw_conf_fail(cf,
                       &mcf->key_places[mcf->key_places[n].line ? n : n - 1],
                       "\"platform_gateway_key_%s\" (%Ms) must not be below "
                       "\"platform_gateway_key_%s\" (%Ms)",
                       names[n], age[n] / 1000, names[n - 1],
                       age[n - 1] / 1000);
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_keys_conf_cmp(const void *one, const void *two)
{
    const pj_str_t  *a = &((const ngx_http_pgw_name_t *) one)->iss;
    const pj_str_t  *b = &((const ngx_http_pgw_name_t *) two)->iss;

    return ngx_memn2cmp((u_char *) a->data, (u_char *) b->data, a->len, b->len);
}


/* The names that any location accepts, once each and in one order. */

static char *
ngx_http_pgw_keys_conf_names(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_uint_t                      i, n;
    ngx_array_t                    *names = &mcf->names;
    ngx_http_pgw_name_t            *name;
    const ngx_http_pgw_loc_conf_t  *conf;

    if (ngx_array_init(names, cf->pool, 2, sizeof(ngx_http_pgw_name_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (conf = mcf->policies; conf; conf = conf->policy_next) {
        for (i = 0; i < conf->issuers->nelts; i++) {

            name = ngx_array_push(names);
            if (name == NULL) {
                return NGX_CONF_ERROR;
            }

            name->iss = ((pj_str_t *) conf->issuers->elts)[i];
        }
    }

    name = names->elts;
    ngx_sort(name, names->nelts, names->size, ngx_http_pgw_keys_conf_cmp);

    for (i = 0, n = 0; i < names->nelts; i++) {
        if (n == 0 || ngx_http_pgw_keys_conf_cmp(&name[i], &name[n - 1]) != 0) {
            name[n++] = name[i];
        }
    }

    names->nelts = n;

    return NGX_CONF_OK;
}


/*
 * Names the source of a key set, in shared memory and in a cache file: the
 * issuers, the location and the upstream, as the configuration spells them.  If
 * one of them is another, the keys are not ours.
 */

static char *
ngx_http_pgw_keys_conf_origin(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    u_char               *source;
    ngx_http_pgw_keys_t  *keys = mcf->keys;

    source = keys->from.source;

    if (ngx_http_pgw_lease_names(source, &mcf->names) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (keys->from.ctx) {
        return ngx_http_pgw_lease_check(cf, &keys->from);
    }

    return ngx_http_pgw_lease_digest(source, keys->file.data, keys->file.len)
           == NGX_OK
           && ngx_http_pgw_lease_digest(source, (u_char *) "file", 4) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_pgw_keys_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_http_pgw_keys_t  *keys;

    keys = mcf->keys;
    keys->conf = mcf;

    if (ngx_http_pgw_keys_conf_ages(cf, mcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    keys->from.cooldown = mcf->key_ages[NGX_HTTP_PGW_AGE_COOLDOWN];
    keys->from.timeout = ngx_max(keys->from.cooldown, NGX_HTTP_PGW_TIMEOUT);

    ngx_http_pgw_lease_log(cf, &keys->from);

    if (ngx_http_pgw_keys_conf_names(cf, mcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (keys->file.len && mcf->key_cache_file.len) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_cache_file\" keeps what "
                      "\"platform_gateway_key_location\" fetched: it has no "
                      "use beside \"platform_gateway_key_file\" in %V:%ui, "
                      "leave it out", &keys->from.place.file,
                      keys->from.place.line);
        return NGX_CONF_ERROR;
    }

    if (mcf->guarded && !ngx_http_pgw_keys_usable(keys)) {
        return ngx_http_pgw_conf_fail(cf, &mcf->guarded->place,
                   "platform_gateway: a guarded location needs keys to check "
                   "tokens with: add \"platform_gateway_key_location\" to a "
                   "server, or \"platform_gateway_key_file\" to http, for the "
                   "location");
    }

    if (mcf->zone_size == 0) {
        ngx_str_set(&mcf->zone_name, "platform_gateway");
        mcf->zone_size = NGX_HTTP_PGW_KEYS_ZONE;
    }

    if (!ngx_http_pgw_keys_usable(keys)) {
        return NGX_CONF_OK;
    }

    keys->shm_zone = ngx_shared_memory_add(cf, &mcf->zone_name, mcf->zone_size,
                                           &ngx_http_platform_gateway_module);
    if (keys->shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    keys->shm_zone->init = ngx_http_pgw_refresh_zone_init;
    keys->shm_zone->data = keys;

    return ngx_http_pgw_keys_conf_origin(cf, mcf);
}
