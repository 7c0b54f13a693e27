
/*
 * The key set: what each worker has parsed of it, and the timer that keeps it
 * fresh.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_metrics.h"


#define NGX_HTTP_PGW_KEYS_TICK  250  /* ms, while fetching */
#define NGX_HTTP_PGW_KEYS_REST  100  /* ms, between two looks */


static ngx_http_pgw_keys_t *ngx_http_pgw_keys_of(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_pgw_keys_load(ngx_http_pgw_keys_t *keys);
static void ngx_http_pgw_keys_timer(ngx_event_t *ev);
static void ngx_http_pgw_keys_leave(ngx_http_pgw_keys_t *keys);
static ngx_int_t ngx_http_pgw_keys_start(ngx_http_pgw_keys_t *keys);
static void ngx_http_pgw_keys_log_failure(ngx_http_pgw_keys_t *keys,
    const char *err);


static ngx_http_pgw_keys_t *
ngx_http_pgw_keys_of(ngx_cycle_t *cycle)
{
    ngx_http_pgw_main_conf_t  *mcf;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NULL;
    }

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_platform_gateway_module);

    if (mcf == NULL || !ngx_http_pgw_keys_usable(mcf->keys)) {
        return NULL;
    }

    return mcf->keys;
}


ngx_int_t
ngx_http_pgw_keys_init_process(ngx_cycle_t *cycle)
{
    ngx_msec_t              part;
    ngx_http_pgw_keys_t    *keys;
    ngx_http_pgw_worker_t  *worker;

    keys = ngx_http_pgw_keys_of(cycle);

    if (keys == NULL) {
        return NGX_OK;
    }

    worker = ngx_pcalloc(cycle->pool, sizeof(ngx_http_pgw_worker_t));
    if (worker == NULL) {
        return NGX_ERROR;
    }

    /* 5 to 10 % early: workers and hosts apart, and in time if it is slow. */

    part = keys->soft_age / 20;
    worker->early = part + (ngx_msec_t) ngx_random() % (part + 1);

    worker->timer.handler = ngx_http_pgw_keys_timer;
    worker->timer.data = keys;
    worker->timer.log = keys->log;
    worker->timer.cancelable = 1;

    worker->file.handler = ngx_http_pgw_keys_file_event;
    worker->file.data = keys;
    worker->file.log = keys->log;

    keys->worker = worker;

    if (keys->location.len) {
        ngx_http_pgw_fetch_reserve(keys->log);
    }

    ngx_http_pgw_zone_activate(keys);

    if (keys->cache_file.len && ngx_worker == 0) {
        ngx_http_pgw_keys_cache_check(keys);
    }

    ngx_add_timer(&worker->timer, 1);

    return NGX_OK;
}


void
ngx_http_pgw_keys_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_keys_t    *keys;
    ngx_http_pgw_worker_t  *worker;

    keys = ngx_http_pgw_keys_of(cycle);

    if (keys == NULL || keys->worker == NULL) {
        return;
    }

    ngx_http_pgw_fetch_abort();

    worker = keys->worker;

    if (worker->timer.timer_set) {
        ngx_del_timer(&worker->timer);
    }

    if (worker->file.posted) {
        ngx_delete_posted_event(&worker->file);
    }

    ngx_http_pgw_keys_free(worker->set);
    worker->set = NULL;
}


const pj_keyset_t *
ngx_http_pgw_keys_get(ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t              fetched;
    ngx_http_pgw_worker_t  *worker;

    worker = keys->worker;

    if (worker == NULL) {
        return NULL;
    }

    /* before the version: a later set's time is not for this one */

    fetched = keys->zone->fetched;
    ngx_memory_barrier();

    if (worker->version != keys->zone->version
        && ngx_http_pgw_keys_load(keys) != NGX_OK)
    {
        return NULL;
    }

    if (worker->set == NULL) {
        return NULL;
    }

    if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) > 0) {
        return worker->set;
    }

    worker->usable_until = fetched + keys->hard_age;

    if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) > 0) {
        return worker->set;
    }

    return NULL;
}


ngx_uint_t
ngx_http_pgw_keys_version(const ngx_http_pgw_keys_t *keys)
{
    return keys->worker ? keys->worker->version : 0;
}


time_t
ngx_http_pgw_keys_fetched_at(const ngx_http_pgw_keys_t *keys)
{
    return keys->zone ? keys->zone->fetched_at : 0;
}


/*
 * The one way in which a worker comes by a set, the worker that has fetched it
 * too: what is parsed, its version and its time are of one instant, however
 * long anything takes.
 */

static ngx_int_t
ngx_http_pgw_keys_load(ngx_http_pgw_keys_t *keys)
{
    pj_err_t                err;
    pj_keyset_t            *set;
    ngx_http_pgw_copy_t     copy;
    ngx_http_pgw_worker_t  *worker;

    if (ngx_http_pgw_zone_copy(keys, &copy) != NGX_OK) {
        return NGX_ERROR;
    }

    set = NULL;

    err = copy.document.len ? ngx_http_pgw_keys_parse(&copy.document, &set,
                                                      keys->log)
          : PJ_OK;

    ngx_free(copy.document.data);

    if (err != PJ_OK) {

        /* It parsed once, so memory is short: the next request retries. */

        ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                      "platform gateway: key set not loaded: %s",
                      pj_strerror(err));
        return NGX_ERROR;
    }

    worker = keys->worker;

    ngx_http_pgw_keys_free(worker->set);

    worker->set = set;
    worker->version = copy.version;
    worker->usable_until = copy.fetched + keys->hard_age;

    return NGX_OK;
}


pj_err_t
ngx_http_pgw_keys_parse(const ngx_str_t *document, pj_keyset_t **out,
    ngx_log_t *log)
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


void
ngx_http_pgw_keys_free(pj_keyset_t *set)
{
    if (set) {
        pj_keyset_clear(set);
        ngx_free(set);
    }
}


static void
ngx_http_pgw_keys_timer(ngx_event_t *ev)
{
    ngx_msec_t              due;
    ngx_http_pgw_keys_t    *keys;
    ngx_http_pgw_worker_t  *worker;

    keys = ev->data;
    worker = keys->worker;

    if (ngx_exiting) {
        ngx_http_pgw_keys_leave(keys);

    } else if (ngx_http_pgw_zone_due(keys, worker->early) == 0) {
        (void) ngx_http_pgw_keys_fetch(keys);
    }

    due = ngx_http_pgw_zone_due(keys, worker->early);
    due = ngx_max(due, NGX_HTTP_PGW_KEYS_REST);

    if (worker->fetching) {
        due = ngx_min(due, NGX_HTTP_PGW_KEYS_TICK);

    } else if (ngx_exiting) {
        return;
    }

    ngx_add_timer(ev, due);
}


/*
 * The worker exits.  The workers of a new configuration fetch for themselves;
 * where there are none, requests of any worker may be waiting for our fetch,
 * but none for longer than a request waits.
 */

static void
ngx_http_pgw_keys_leave(ngx_http_pgw_keys_t *keys)
{
    ngx_http_pgw_worker_t  *worker;

    worker = keys->worker;

    if (!worker->leaving) {
        worker->leaving = 1;
        worker->leave_at = ngx_current_msec + keys->wait;
    }

    if (keys->zone->generation != keys->generation
        || (ngx_msec_int_t) (worker->leave_at - ngx_current_msec) <= 0)
    {
        ngx_http_pgw_fetch_abort();
    }
}


ngx_int_t
ngx_http_pgw_keys_fetch(ngx_http_pgw_keys_t *keys)
{
    ngx_int_t               rc;
    ngx_http_pgw_worker_t  *worker;

    worker = keys->worker;

    if (worker == NULL || worker->fetching || ngx_exiting) {
        return ngx_http_pgw_zone_peek(keys) == NGX_AGAIN
               ? NGX_AGAIN : NGX_DECLINED;
    }

    rc = ngx_http_pgw_zone_peek(keys);

    if (rc == NGX_OK) {
        rc = ngx_http_pgw_zone_lease(keys);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    worker->fetching = 1;

    if (ngx_http_pgw_keys_start(keys) != NGX_OK) {
        ngx_http_pgw_keys_fetched(keys, NULL, "out of memory");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_keys_start(ngx_http_pgw_keys_t *keys)
{
    if (keys->file.len) {

        /* not at once: the caller may be a request that holds the old set */

        ngx_post_event(&keys->worker->file, &ngx_posted_events);
        return NGX_OK;
    }

    return ngx_http_pgw_fetch_start(keys->ctx, keys->clcf, &keys->location,
                                    PJ_KEYSET_MAX_BYTES, keys->timeout,
                                    ngx_http_pgw_keys_fetched, keys,
                                    keys->log);
}


void
ngx_http_pgw_keys_fetched(void *data, ngx_str_t *document, const char *err)
{
    ngx_http_pgw_keys_t  *keys = data;

    pj_err_t      rc;
    ngx_int_t     released;
    pj_keyset_t  *set;

    set = NULL;
    keys->worker->fetching = 0;

    if (err == NULL) {
        rc = ngx_http_pgw_keys_parse(document, &set, keys->log);

        if (rc != PJ_OK) {
            err = pj_strerror(rc);
            document = NULL;
        }
    }

    released = ngx_http_pgw_zone_release(keys, document);

    ngx_http_pgw_metrics_fetch(
                released == NGX_OK ? NGX_HTTP_PGW_FETCH_NEW
                : released == NGX_ABORT
                          ? NGX_HTTP_PGW_FETCH_SUPERSEDED
                : err ? NGX_HTTP_PGW_FETCH_FAILED
                      : NGX_HTTP_PGW_FETCH_UNCHANGED);

    if (released == NGX_OK) {
        ngx_log_error(NGX_LOG_NOTICE, keys->log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");
    }

    ngx_http_pgw_keys_free(set);

    if (err == NULL && released != NGX_ABORT && keys->cache_file.len) {
        ngx_http_pgw_keys_cache_store(keys);
    }

    if (err && released == NGX_DECLINED && !ngx_exiting && !ngx_terminate) {
        ngx_http_pgw_keys_log_failure(keys, err);
    }
}


/* One line a fetch, and there is one fetch a cooldown at most. */

static void
ngx_http_pgw_keys_log_failure(ngx_http_pgw_keys_t *keys, const char *err)
{
    ngx_msec_t                  age;
    const ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    age = ngx_current_msec - zone->fetched;

    if (keys->file.len
        && !ngx_http_pgw_keys_file_complains(keys, err,
                                                      age >= keys->hard_age))
    {
        return;
    }

    if (zone->fetched_at == 0) {
        ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                      "platform gateway: key set not fetched: %s; "
                      "there is none yet", err);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                  "platform gateway: key set not refreshed: %s; the last good "
                  "one is %Ms old, %s", err, age / 1000,
                  age < keys->hard_age ? "and kept"
                                       : "which is past the hard age");
}
