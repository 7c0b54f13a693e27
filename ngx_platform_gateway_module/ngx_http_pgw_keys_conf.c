
/*
 * The directives of the key set and the checks of nginx -t.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_peek.h"


#define NGX_HTTP_PGW_KEYS_MIN_ZONE   (256 * 1024)
#define NGX_HTTP_PGW_KEYS_ZONE_SIZE  (1024 * 1024)

/* A fetch may take as long as the cooldown, but at least this. */
#define NGX_HTTP_PGW_KEYS_TIMEOUT  5000  /* ms */


static char *ngx_http_pgw_keys_ages(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);
static char *ngx_http_pgw_keys_origin(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);
static void ngx_http_pgw_keys_address(ngx_conf_t *cf,
    const ngx_http_pgw_keys_t *keys, ngx_str_t part[2]);
static char *ngx_http_pgw_keys_check_location(ngx_conf_t *cf,
    ngx_http_pgw_keys_t *keys);
static ngx_int_t ngx_http_pgw_keys_add_zone(ngx_conf_t *cf,
    ngx_http_pgw_keys_t *keys, ngx_str_t *name, size_t size);


static ngx_str_t  ngx_http_pgw_keys_zone_name = ngx_string("platform_gateway");


ngx_http_pgw_keys_t *
ngx_http_pgw_keys_create(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_keys_t));
}


ngx_uint_t
ngx_http_pgw_keys_usable(const ngx_http_pgw_keys_t *keys)
{
    return keys->location.len || keys->file.len;
}


char *
ngx_http_pgw_keys_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    u_char     *colon;
    ssize_t     size;
    ngx_str_t  *value, name, text;

    (void) cmd;

    if (mcf->keys->shm_zone) {
        return "is duplicate";
    }

    value = cf->args->elts;

    colon = (u_char *) ngx_strchr(value[1].data, ':');

    if (colon == NULL || colon == value[1].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid zone \"%V\": it is NAME:SIZE, like "
                           "\"platform_gateway:1m\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    name.data = value[1].data;
    name.len = (size_t) (colon - value[1].data);

    text.data = colon + 1;
    text.len = value[1].len - name.len - 1;

    size = ngx_parse_size(&text);

    if (size < NGX_HTTP_PGW_KEYS_MIN_ZONE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone size \"%V\" is invalid or below 256k",
                           &text);
        return NGX_CONF_ERROR;
    }

    return ngx_http_pgw_keys_add_zone(cf, mcf->keys, &name, (size_t) size)
           == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* There is one set of keys, and one place that it comes from. */

char *
ngx_http_pgw_keys_source(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                 *value;
    ngx_http_pgw_keys_t       *keys;
    ngx_http_pgw_main_conf_t  *mcf;

    (void) conf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);
    keys = mcf->keys;
    value = cf->args->elts;

    if (ngx_http_pgw_keys_usable(keys)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the key set is one for the whole nginx, and its "
                           "source is already given by "
                           "\"platform_gateway_key_%s\" in %V:%ui: leave one "
                           "out", keys->file.len ? "file" : "location",
                           &keys->conf_file, keys->conf_line);
        return NGX_CONF_ERROR;
    }

    keys->conf_file = cf->conf_file->file.name;
    keys->conf_line = cf->conf_file->line;

    if (cmd->type & NGX_HTTP_MAIN_CONF) {

        if (value[1].len == 0) {
            return "needs the name of a file";
        }

        keys->file = value[1];

        return ngx_conf_full_name(cf->cycle, &keys->file, 1) == NGX_OK
               ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    if (value[1].data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "key location \"%V\" must begin with \"/\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    keys->location = value[1];
    keys->ctx = cf->ctx;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_keys_cache_file(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t            *value;
    ngx_http_pgw_keys_t  *keys;

    (void) cmd;

    keys = mcf->keys;

    if (keys->cache_file.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0 || value[1].data[value[1].len - 1] == '/') {
        return "needs the name of a file, in a directory that the worker "
               "processes may write to";
    }

    keys->cache_file = value[1];

    return ngx_conf_full_name(cf->cycle, &keys->cache_file, 0) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* Remembers where an age was given, for messages at the end of http{}. */

char *
ngx_http_pgw_keys_age(ngx_conf_t *cf, void *post, void *data)
{
    time_t                    *age = data;
    ngx_http_pgw_main_conf_t  *mcf;

    (void) post;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    mcf->key_ages[age - &mcf->key_soft_age].file = cf->conf_file->file.name;
    mcf->key_ages[age - &mcf->key_soft_age].line = cf->conf_file->line;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_keys_init_conf(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    char                      *rv;
    ngx_http_pgw_keys_t       *keys;
    ngx_http_core_loc_conf_t  *clcf;

    keys = mcf->keys;

    rv = ngx_http_pgw_keys_ages(cf, mcf);

    if (rv != NGX_CONF_OK || !ngx_http_pgw_keys_usable(keys)) {
        return rv;
    }

    rv = keys->file.len
         ? ngx_http_pgw_keys_file_check(cf, keys)
         : ngx_http_pgw_keys_check_location(cf, keys);

    if (rv == NGX_CONF_OK) {
        rv = ngx_http_pgw_keys_origin(cf, mcf);
    }

    if (rv == NGX_CONF_OK && keys->shm_zone == NULL
        && ngx_http_pgw_keys_add_zone(cf, keys, &ngx_http_pgw_keys_zone_name,
                                      NGX_HTTP_PGW_KEYS_ZONE_SIZE)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    clcf = keys->file.len
           ? ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module)
           : keys->ctx->loc_conf[ngx_http_core_module.ctx_index];

    keys->log = clcf->error_log ? clcf->error_log : &cf->cycle->new_log;

    return rv;
}


/*
 * What a set is good for, in shared memory and in a cache file, is known by
 * its source: other issuers, another location or another place behind it, and
 * its keys are not ours.
 */

static char *
ngx_http_pgw_keys_origin(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_str_t            *part;
    ngx_array_t           parts;
    ngx_http_pgw_keys_t  *keys;

    keys = mcf->keys;

    if (keys->cache_file.len && keys->file.len) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_cache_file\" keeps what "
                      "\"platform_gateway_key_location\" fetched: it has no "
                      "use beside \"platform_gateway_key_file\" in %V:%ui, "
                      "leave it out", &keys->conf_file, keys->conf_line);
        return NGX_CONF_ERROR;
    }

    if (ngx_array_init(&parts, cf->temp_pool, 4, sizeof(ngx_str_t)) != NGX_OK
        || ngx_http_pgw_policy_issuers(mcf, &parts) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    part = ngx_array_push_n(&parts, 3);
    if (part == NULL) {
        return NGX_CONF_ERROR;
    }

    part[0] = keys->file.len ? keys->file : keys->location;
    ngx_http_pgw_keys_address(cf, keys, &part[1]);

    return ngx_http_pgw_keys_digest(keys->source, parts.elts, parts.nelts)
           == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/*
 * What the key location passes to, as far as the configuration says it in so
 * many words; for a file something that no location gives.
 */

static void
ngx_http_pgw_keys_address(ngx_conf_t *cf, const ngx_http_pgw_keys_t *keys,
    ngx_str_t part[2])
{
    void                            *ctx;
    ngx_uint_t                       known;
    ngx_http_conf_ctx_t              location;
    const ngx_http_upstream_conf_t  *u;

    static ngx_str_t  proxy = ngx_string("proxy");

    ngx_str_null(&part[0]);
    ngx_str_null(&part[1]);

    if (keys->file.len) {
        ngx_str_set(&part[0], "file");
        return;
    }

    ctx = cf->ctx;
    location = *keys->ctx;
    location.loc_conf = keys->clcf->loc_conf;
    cf->ctx = &location;

    u = ngx_http_pgw_peek_passes(cf, &proxy, &known);

    cf->ctx = ctx;

    if (u && u->upstream) {
        part[0] = u->upstream->host;
        part[1].data = (u_char *) &u->upstream->port;
        part[1].len = sizeof(in_port_t);
    }
}


/* The times, in the units of the engine. */

static char *
ngx_http_pgw_keys_ages(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    time_t                *age;
    ngx_uint_t             n, below, above;
    ngx_http_pgw_keys_t   *keys;
    ngx_http_pgw_place_t  *place;

    enum { SOFT, HARD, COOLDOWN };

    static const char        *names[] = { "soft_age", "hard_age", "cooldown" };
    static const ngx_uint_t   order[][2] = { { COOLDOWN, SOFT },
                                             { SOFT, HARD } };

    ngx_conf_init_value(mcf->key_soft_age, 300);
    ngx_conf_init_value(mcf->key_hard_age, ngx_max(86400, mcf->key_soft_age));
    ngx_conf_init_value(mcf->key_cooldown, ngx_min(10, mcf->key_soft_age));
    ngx_conf_init_msec_value(mcf->key_wait, 2000);
    ngx_conf_init_value(mcf->key_waiters, 256);

    if (mcf->key_cooldown < 1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_cooldown\" must be at least 1s "
                      "in %V:%ui", &mcf->key_ages[COOLDOWN].file,
                      mcf->key_ages[COOLDOWN].line);
        return NGX_CONF_ERROR;
    }

    age = &mcf->key_soft_age;

    for (n = 0; n < 2; n++) {
        above = order[n][0];
        below = order[n][1];

        if (age[below] >= age[above]) {
            continue;
        }

        /* one of the two is a default that follows none: it has no line */

        place = &mcf->key_ages[mcf->key_ages[below].line ? below : above];

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_%s\" (%Ts) must not be below "
                      "\"platform_gateway_key_%s\" (%Ts) in %V:%ui",
                      names[below], age[below], names[above], age[above],
                      &place->file, place->line);
        return NGX_CONF_ERROR;
    }

    keys = mcf->keys;

    keys->soft_age = (ngx_msec_t) mcf->key_soft_age * 1000;
    keys->hard_age = (ngx_msec_t) mcf->key_hard_age * 1000;
    keys->cooldown = (ngx_msec_t) mcf->key_cooldown * 1000;
    keys->timeout = ngx_max(keys->cooldown, NGX_HTTP_PGW_KEYS_TIMEOUT);
    keys->wait = mcf->key_wait;
    keys->waiters = (ngx_uint_t) mcf->key_waiters;

    return NGX_CONF_OK;
}


/* What would otherwise only show when the first fetch fails. */

static char *
ngx_http_pgw_keys_check_location(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys)
{
    void                     **loc_conf;
    ngx_http_core_loc_conf_t  *clcf;

    loc_conf = keys->ctx->loc_conf;

    if (ngx_http_pgw_locate(NULL, &keys->location, &loc_conf) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_location %V\" names no location "
                      "of its server: add \"location = %V { internal; ... }\" "
                      "in %V:%ui", &keys->location, &keys->location,
                      &keys->conf_file, keys->conf_line);
        return NGX_CONF_ERROR;
    }

    clcf = loc_conf[ngx_http_core_module.ctx_index];

    if (!clcf->internal) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" of \"platform_gateway_key_location\" "
                      "must be internal: add \"internal;\" to it, or a "
                      "\"location = %V\" of its own, in %V:%ui",
                      &clcf->name, &keys->location, &keys->conf_file,
                      keys->conf_line);
        return NGX_CONF_ERROR;
    }

    if (clcf->subrequest_output_buffer_size < PJ_KEYSET_MAX_BYTES) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" of \"platform_gateway_key_location\" "
                      "cannot hold a key set: add "
                      "\"subrequest_output_buffer_size 64k;\" to it in "
                      "%V:%ui", &clcf->name, &keys->conf_file,
                      keys->conf_line);
        return NGX_CONF_ERROR;
    }

    keys->clcf = clcf;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_keys_add_zone(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys,
    ngx_str_t *name, size_t size)
{
    ngx_shm_zone_t  *shm_zone;

    shm_zone = ngx_shared_memory_add(cf, name, size,
                                     &ngx_http_platform_gateway_module);
    if (shm_zone == NULL) {
        return NGX_ERROR;
    }

    shm_zone->init = ngx_http_pgw_zone_init;
    shm_zone->data = keys;
    keys->shm_zone = shm_zone;

    return NGX_OK;
}
