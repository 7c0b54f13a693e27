
/*
 * The key set: its directives, the set that each worker has parsed, and the
 * timer that keeps it fresh.
 */


#include "ngx_http_platform_gateway_keys.h"


#define NGX_HTTP_PLATFORM_GATEWAY_KEYS_TICK  250  /* ms, while fetching */
#define NGX_HTTP_PLATFORM_GATEWAY_KEYS_REST  100  /* ms, between two looks */


static char *ngx_http_platform_gateway_keys_ages(ngx_conf_t *cf,
    ngx_http_platform_gateway_main_conf_t *mcf);
static char *ngx_http_platform_gateway_keys_check_location(ngx_conf_t *cf,
    ngx_http_platform_gateway_keys_t *keys);
static ngx_http_core_loc_conf_t *ngx_http_platform_gateway_keys_find_location(
    ngx_http_core_loc_conf_t *clcf, const ngx_str_t *uri);
static ngx_int_t ngx_http_platform_gateway_keys_add_zone(ngx_conf_t *cf,
    ngx_http_platform_gateway_keys_t *keys, ngx_str_t *name, size_t size);
static void ngx_http_platform_gateway_keys_load(
    ngx_http_platform_gateway_keys_t *keys);
static pj_err_t ngx_http_platform_gateway_keys_parse(const ngx_str_t *document,
    pj_keyset_t **set, ngx_log_t *log);
static void ngx_http_platform_gateway_keys_free(pj_keyset_t *set);
static void ngx_http_platform_gateway_keys_adopt(
    ngx_http_platform_gateway_keys_t *keys, pj_keyset_t *set,
    ngx_uint_t version);
static void ngx_http_platform_gateway_keys_timer(ngx_event_t *ev);
static void ngx_http_platform_gateway_keys_fetched(void *data,
    ngx_str_t *document, const char *err);
static void ngx_http_platform_gateway_keys_log_failure(
    const ngx_http_platform_gateway_keys_t *keys, const char *err);


static ngx_str_t  ngx_http_platform_gateway_keys_zone_name =
    ngx_string("platform_gateway");


ngx_http_platform_gateway_keys_t *
ngx_http_platform_gateway_keys_create(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_platform_gateway_keys_t));
}


ngx_uint_t
ngx_http_platform_gateway_keys_usable(
    const ngx_http_platform_gateway_keys_t *keys)
{
    return keys->location.len != 0;
}


char *
ngx_http_platform_gateway_keys_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_platform_gateway_main_conf_t *mcf = conf;

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

    if (size < NGX_HTTP_PLATFORM_GATEWAY_KEYS_MIN_ZONE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "zone size \"%V\" is invalid or below 256k",
                           &text);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_platform_gateway_keys_add_zone(cf, mcf->keys, &name,
                                                (size_t) size)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_platform_gateway_keys_location(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_str_t                              *value;
    ngx_http_platform_gateway_keys_t       *keys;
    ngx_http_platform_gateway_main_conf_t  *mcf;

    (void) cmd;
    (void) conf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);
    keys = mcf->keys;

    if (keys->location.len) {
        return "is duplicate: the key set is one for the whole nginx";
    }

    value = cf->args->elts;

    if (value[1].len == 0 || value[1].data[0] != '/') {
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
ngx_http_platform_gateway_keys_init_conf(ngx_conf_t *cf,
    ngx_http_platform_gateway_main_conf_t *mcf)
{
    char                              *rv;
    ngx_http_core_loc_conf_t          *clcf;
    ngx_http_platform_gateway_keys_t  *keys;

    keys = mcf->keys;

    rv = ngx_http_platform_gateway_keys_ages(cf, mcf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (!ngx_http_platform_gateway_keys_usable(keys)) {

        if (mcf->guarded) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "a location with \"platform_gateway_access\" other "
                          "than \"public\" needs keys: add "
                          "\"platform_gateway_key_location\" to a server");
            return NGX_CONF_ERROR;
        }

        return NGX_CONF_OK;
    }

    rv = ngx_http_platform_gateway_keys_check_location(cf, keys);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (keys->shm_zone == NULL
        && ngx_http_platform_gateway_keys_add_zone(cf, keys,
                               &ngx_http_platform_gateway_keys_zone_name,
                               1024 * 1024)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    clcf = keys->ctx->loc_conf[ngx_http_core_module.ctx_index];
    keys->log = clcf->error_log;

    return NGX_CONF_OK;
}


/* The times, in the units of the engine. */

static char *
ngx_http_platform_gateway_keys_ages(ngx_conf_t *cf,
    ngx_http_platform_gateway_main_conf_t *mcf)
{
    ngx_http_platform_gateway_keys_t  *keys;

    ngx_conf_init_value(mcf->key_soft_age, 300);
    ngx_conf_init_value(mcf->key_hard_age, ngx_max(86400, mcf->key_soft_age));
    ngx_conf_init_value(mcf->key_cooldown, ngx_min(10, mcf->key_soft_age));
    ngx_conf_init_msec_value(mcf->key_wait, 2000);
    ngx_conf_init_value(mcf->key_waiters, 256);

    if (mcf->key_cooldown < 1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_cooldown\" must be at least 1s");
        return NGX_CONF_ERROR;
    }

    if (mcf->key_soft_age < mcf->key_cooldown) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_soft_age\" (%Ts) must not be "
                      "below \"platform_gateway_key_cooldown\" (%Ts)",
                      mcf->key_soft_age, mcf->key_cooldown);
        return NGX_CONF_ERROR;
    }

    if (mcf->key_hard_age < mcf->key_soft_age) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_hard_age\" (%Ts) must not be "
                      "below \"platform_gateway_key_soft_age\" (%Ts)",
                      mcf->key_hard_age, mcf->key_soft_age);
        return NGX_CONF_ERROR;
    }

    keys = mcf->keys;

    keys->soft_age = (ngx_msec_t) mcf->key_soft_age * 1000;
    keys->hard_age = (ngx_msec_t) mcf->key_hard_age * 1000;
    keys->cooldown = (ngx_msec_t) mcf->key_cooldown * 1000;
    keys->timeout = ngx_max(keys->cooldown,
                            NGX_HTTP_PLATFORM_GATEWAY_KEYS_TIMEOUT);
    keys->wait = mcf->key_wait;
    keys->waiters = (ngx_uint_t) mcf->key_waiters;

    return NGX_CONF_OK;
}


/* What would otherwise only show when the first fetch fails. */

static char *
ngx_http_platform_gateway_keys_check_location(ngx_conf_t *cf,
    ngx_http_platform_gateway_keys_t *keys)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = keys->ctx->loc_conf[ngx_http_core_module.ctx_index];
    clcf = ngx_http_platform_gateway_keys_find_location(clcf, &keys->location);

    if (clcf == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_key_location %V\" names no location "
                      "of its server: add \"location = %V { internal; ... }\"",
                      &keys->location, &keys->location);
        return NGX_CONF_ERROR;
    }

    if (!clcf->internal) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" of \"platform_gateway_key_location\" "
                      "must be internal: add \"internal;\" to it",
                      &clcf->name);
        return NGX_CONF_ERROR;
    }

    if (clcf->subrequest_output_buffer_size < PJ_KEYSET_MAX_BYTES) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" of \"platform_gateway_key_location\" "
                      "cannot hold a key set: add "
                      "\"subrequest_output_buffer_size 64k;\" to it",
                      &clcf->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* The static location that serves uri, as a request would find it. */

static ngx_http_core_loc_conf_t *
ngx_http_platform_gateway_keys_find_location(ngx_http_core_loc_conf_t *clcf,
    const ngx_str_t *uri)
{
    size_t                          n, len;
    u_char                         *p;
    ngx_int_t                       rc;
    ngx_http_core_loc_conf_t       *found, *nested;
    ngx_http_location_tree_node_t  *node;

    found = NULL;
    p = uri->data;
    len = uri->len;
    node = clcf->static_locations;

    while (node) {
        n = ngx_min(len, (size_t) node->len);
        rc = ngx_filename_cmp(p, node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;
            continue;
        }

        if (len < (size_t) node->len) {
            node = node->left;
            continue;
        }

        if (len == (size_t) node->len && node->exact) {
            return node->exact;
        }

        if (node->inclusive == NULL) {
            node = node->right;
            continue;
        }

        found = node->inclusive;

        if (len == (size_t) node->len) {
            break;
        }

        p += n;
        len -= n;
        node = node->tree;
    }

    if (found) {
        nested = ngx_http_platform_gateway_keys_find_location(found, uri);

        if (nested) {
            return nested;
        }
    }

    return found;
}


static ngx_int_t
ngx_http_platform_gateway_keys_add_zone(ngx_conf_t *cf,
    ngx_http_platform_gateway_keys_t *keys, ngx_str_t *name, size_t size)
{
    ngx_shm_zone_t  *shm_zone;

    shm_zone = ngx_shared_memory_add(cf, name, size,
                                     &ngx_http_platform_gateway_module);
    if (shm_zone == NULL) {
        return NGX_ERROR;
    }

    shm_zone->init = ngx_http_platform_gateway_zone_init;
    shm_zone->data = keys;
    keys->shm_zone = shm_zone;

    return NGX_OK;
}


static ngx_http_platform_gateway_keys_t *
ngx_http_platform_gateway_keys_of(ngx_cycle_t *cycle)
{
    ngx_http_platform_gateway_main_conf_t  *mcf;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NULL;
    }

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                              ngx_http_platform_gateway_module);

    if (mcf == NULL || !ngx_http_platform_gateway_keys_usable(mcf->keys)) {
        return NULL;
    }

    return mcf->keys;
}


ngx_int_t
ngx_http_platform_gateway_keys_init_process(ngx_cycle_t *cycle)
{
    ngx_msec_t                           part;
    ngx_http_platform_gateway_keys_t    *keys;
    ngx_http_platform_gateway_worker_t  *worker;

    keys = ngx_http_platform_gateway_keys_of(cycle);

    if (keys == NULL) {
        return NGX_OK;
    }

    worker = ngx_pcalloc(cycle->pool,
                         sizeof(ngx_http_platform_gateway_worker_t));
    if (worker == NULL) {
        return NGX_ERROR;
    }

    /* 5 to 10 % early: workers and hosts apart, and in time if it is slow. */

    part = keys->soft_age / 20;
    worker->early = part + (ngx_msec_t) ngx_random() % (part + 1);

    worker->timer.handler = ngx_http_platform_gateway_keys_timer;
    worker->timer.data = keys;
    worker->timer.log = keys->log;
    worker->timer.cancelable = 1;

    keys->worker = worker;

    ngx_http_platform_gateway_zone_activate(keys);

    ngx_add_timer(&worker->timer, 1);

    return NGX_OK;
}


void
ngx_http_platform_gateway_keys_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_platform_gateway_keys_t    *keys;
    ngx_http_platform_gateway_worker_t  *worker;

    keys = ngx_http_platform_gateway_keys_of(cycle);

    if (keys == NULL || keys->worker == NULL) {
        return;
    }

    ngx_http_platform_gateway_fetch_abort();

    worker = keys->worker;

    if (worker->timer.timer_set) {
        ngx_del_timer(&worker->timer);
    }

    ngx_http_platform_gateway_keys_free(worker->set);
    worker->set = NULL;
}


const pj_keyset_t *
ngx_http_platform_gateway_keys_get(ngx_http_platform_gateway_keys_t *keys)
{
    ngx_http_platform_gateway_worker_t  *worker;

    worker = keys->worker;

    if (worker == NULL) {
        return NULL;
    }

    if (worker->seen != keys->zone->version) {
        ngx_http_platform_gateway_keys_load(keys);
    }

    if (worker->set == NULL) {
        return NULL;
    }

    if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) > 0) {
        return worker->set;
    }

    worker->usable_until = keys->zone->fetched + keys->hard_age;

    if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) > 0) {
        return worker->set;
    }

    return NULL;
}


ngx_uint_t
ngx_http_platform_gateway_keys_version(
    const ngx_http_platform_gateway_keys_t *keys)
{
    return keys->worker ? keys->worker->version : 0;
}


time_t
ngx_http_platform_gateway_keys_fetched_at(
    const ngx_http_platform_gateway_keys_t *keys)
{
    return keys->zone ? keys->zone->fetched_at : 0;
}


/* Parses what another worker has fetched. */

static void
ngx_http_platform_gateway_keys_load(ngx_http_platform_gateway_keys_t *keys)
{
    pj_err_t      err;
    ngx_str_t     document;
    ngx_uint_t    version;
    pj_keyset_t  *set;

    document.data = ngx_alloc(PJ_KEYSET_MAX_BYTES, keys->log);
    if (document.data == NULL) {
        return;
    }

    document.len = ngx_http_platform_gateway_zone_copy(keys, document.data,
                                                       &version);

    err = ngx_http_platform_gateway_keys_parse(&document, &set, keys->log);

    ngx_free(document.data);

    if (err == PJ_OK) {
        ngx_http_platform_gateway_keys_adopt(keys, set, version);
        return;
    }

    /* It parsed once, so this is a lack of memory: the next request retries */

    ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                  "platform gateway: key set not loaded: %s",
                  pj_strerror(err));
}


static pj_err_t
ngx_http_platform_gateway_keys_parse(const ngx_str_t *document,
    pj_keyset_t **out, ngx_log_t *log)
{
    void         *mem;
    size_t        size;
    pj_err_t      err;
    pj_str_t      json;
    pj_arena_t    arena;
    pj_keyset_t  *set;

    *out = NULL;

    size = pj_keyset_arena_bytes(document->len);

    set = ngx_calloc(sizeof(pj_keyset_t), log);
    mem = ngx_alloc(size, log);

    if (set == NULL || mem == NULL) {
        err = PJ_ERR_NO_SPACE;
        goto done;
    }

    pj_arena_init(&arena, mem, size);

    json.data = document->data;
    json.len = document->len;

    err = pj_keyset_parse(set, &arena, json);

    if (err == PJ_OK) {
        *out = set;
        set = NULL;
    }

done:

    if (mem) {
        ngx_free(mem);
    }

    if (set) {
        ngx_free(set);
    }

    return err;
}


static void
ngx_http_platform_gateway_keys_free(pj_keyset_t *set)
{
    if (set) {
        pj_keyset_clear(set);
        ngx_free(set);
    }
}


static void
ngx_http_platform_gateway_keys_adopt(ngx_http_platform_gateway_keys_t *keys,
    pj_keyset_t *set, ngx_uint_t version)
{
    ngx_http_platform_gateway_worker_t  *worker;

    worker = keys->worker;

    ngx_http_platform_gateway_keys_free(worker->set);

    worker->set = set;
    worker->version = version;
    worker->seen = version;
    worker->usable_until = keys->zone->fetched + keys->hard_age;
}


static void
ngx_http_platform_gateway_keys_timer(ngx_event_t *ev)
{
    ngx_msec_t                           due;
    ngx_http_platform_gateway_keys_t    *keys;
    ngx_http_platform_gateway_worker_t  *worker;

    keys = ev->data;
    worker = keys->worker;

    if (ngx_exiting) {

        /* The new workers fetch for themselves; only a waiter needs ours. */

        if (worker->waiting == 0) {
            ngx_http_platform_gateway_fetch_abort();
        }

    } else if (ngx_http_platform_gateway_zone_due(keys, worker->early) == 0) {
        (void) ngx_http_platform_gateway_keys_fetch(keys);
    }

    due = ngx_http_platform_gateway_zone_due(keys, worker->early);
    due = ngx_max(due, NGX_HTTP_PLATFORM_GATEWAY_KEYS_REST);

    if (worker->fetching) {
        due = ngx_min(due, NGX_HTTP_PLATFORM_GATEWAY_KEYS_TICK);

    } else if (ngx_exiting) {
        return;
    }

    ngx_add_timer(ev, due);
}


ngx_int_t
ngx_http_platform_gateway_keys_fetch(ngx_http_platform_gateway_keys_t *keys)
{
    ngx_int_t                            rc;
    ngx_http_platform_gateway_worker_t  *worker;

    worker = keys->worker;

    if (worker == NULL || worker->fetching || ngx_exiting) {
        return ngx_http_platform_gateway_zone_peek(keys) == NGX_AGAIN
               ? NGX_AGAIN : NGX_DECLINED;
    }

    rc = ngx_http_platform_gateway_zone_peek(keys);

    if (rc == NGX_OK) {
        rc = ngx_http_platform_gateway_zone_lease(keys);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    worker->fetching = 1;

    if (ngx_http_platform_gateway_fetch_start(keys->ctx, &keys->location,
                                       PJ_KEYSET_MAX_BYTES, keys->timeout,
                                       ngx_http_platform_gateway_keys_fetched,
                                       keys, keys->log)
        != NGX_OK)
    {
        ngx_http_platform_gateway_keys_fetched(keys, NULL, "out of memory");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static void
ngx_http_platform_gateway_keys_fetched(void *data, ngx_str_t *document,
    const char *err)
{
    ngx_http_platform_gateway_keys_t *keys = data;

    pj_err_t      rc;
    ngx_int_t     released;
    pj_keyset_t  *set;

    set = NULL;
    keys->worker->fetching = 0;

    if (err == NULL) {
        rc = ngx_http_platform_gateway_keys_parse(document, &set, keys->log);

        if (rc != PJ_OK) {
            err = pj_strerror(rc);
            document = NULL;
        }
    }

    released = ngx_http_platform_gateway_zone_release(keys, document);

    if (released == NGX_OK) {
        ngx_log_error(NGX_LOG_NOTICE, keys->log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");

        ngx_http_platform_gateway_keys_adopt(keys, set, keys->zone->version);
        return;
    }

    ngx_http_platform_gateway_keys_free(set);

    if (err && released == NGX_DECLINED && !ngx_exiting && !ngx_terminate) {
        ngx_http_platform_gateway_keys_log_failure(keys, err);
    }
}


/* One line a fetch, and there is one fetch a cooldown at most. */

static void
ngx_http_platform_gateway_keys_log_failure(
    const ngx_http_platform_gateway_keys_t *keys, const char *err)
{
    ngx_msec_t                               age;
    const ngx_http_platform_gateway_zone_t  *zone;

    zone = keys->zone;

    if (zone->version == 0) {
        ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                      "platform gateway: key set not fetched: %s; "
                      "there is none yet", err);
        return;
    }

    age = ngx_current_msec - zone->fetched;

    ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                  "platform gateway: key set not refreshed: %s; the last good "
                  "one is %Ms old, %s", err, age / 1000,
                  age < keys->hard_age ? "and kept"
                                       : "which is past the hard age");
}
