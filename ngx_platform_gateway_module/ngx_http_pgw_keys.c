
/*
 * The shared zone of the key set: the last good document, the lease that lets
 * one worker at a time fetch the next, and the copy that each worker parses.
 *
 * The lease is a deadline, so that a worker that dies with it wedges nobody.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_metrics.h"


#define NGX_HTTP_PGW_ZONE_LAYOUT  3

/* The lease outlives the fetch by this, so that only a dead one loses it. */
#define NGX_HTTP_PGW_ZONE_SLACK  2000  /* ms */


static void ngx_http_pgw_zone_preset(ngx_http_pgw_keys_t *keys, ngx_log_t *log);
static ngx_int_t ngx_http_pgw_zone_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);
static void ngx_http_pgw_zone_drop(ngx_http_pgw_zone_t *zone,
    const u_char *source);

/* Milliseconds from now to then; 0 when then has passed. */
static ngx_msec_t ngx_http_pgw_zone_left(ngx_msec_t then);

static ngx_int_t ngx_http_pgw_keys_load(ngx_http_pgw_keys_t *keys);


ngx_int_t
ngx_http_pgw_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_slab_pool_t      *shpool;
    ngx_http_pgw_keys_t  *keys;
    ngx_http_pgw_zone_t  *zone;

    keys = shm_zone->data;

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    zone = (data || shm_zone->shm.exists) ? shpool->data : NULL;

    if (zone && zone->layout != NGX_HTTP_PGW_ZONE_LAYOUT) {

        /* Left to the old workers, which may still be using it. */

        ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                      "platform gateway zone \"%V\" has another layout, "
                      "starting afresh", &shm_zone->shm.name);
        zone = NULL;
    }

    if (zone == NULL) {
        zone = ngx_slab_calloc(shpool, sizeof(ngx_http_pgw_zone_t));
        if (zone == NULL) {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "platform_gateway_zone \"%V\" is too small",
                          &shm_zone->shm.name);
            return NGX_ERROR;
        }

        zone->layout = NGX_HTTP_PGW_ZONE_LAYOUT;
        zone->next_try = ngx_current_msec;
        ngx_memcpy(zone->source, keys->source, NGX_HTTP_PGW_KEYS_DIGEST);
        shpool->data = zone;
    }

    keys->shpool = shpool;
    keys->zone = zone;

    if (zone->version == 0 && zone->generation == 0 && keys->cache_file.len) {
        ngx_http_pgw_zone_preset(keys, shm_zone->shm.log);
    }

    /* In force only once a worker runs with it: a reload may yet fail. */

    keys->generation = zone->generation + 1;

    return ngx_http_pgw_metrics_zone_init(keys->metrics, shm_zone,
                                          &zone->metrics);
}


/* A zone that nobody uses yet gets the set that was kept on disk. */

static void
ngx_http_pgw_zone_preset(ngx_http_pgw_keys_t *keys, ngx_log_t *log)
{
    time_t     age, fetched;
    u_char    *buf;
    ngx_str_t  document;

    buf = ngx_http_pgw_disk_load(keys, &document, &fetched, log);
    if (buf == NULL) {
        return;
    }

    age = ngx_max(ngx_time() - fetched, 0);

    (void) ngx_http_pgw_zone_put(keys->zone, &document,
                                 ngx_current_msec - (ngx_msec_t) age * 1000,
                                 ngx_time() - age);
    ngx_free(buf);

    if (!ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "platform gateway: key set of %T s ago taken from "
                      "\"%V\"", age, &keys->cache_file);
    }
}


void
ngx_http_pgw_zone_activate(ngx_http_pgw_keys_t *keys)
{
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;

    ngx_shmtx_lock(&keys->shpool->mutex);

    if (zone->generation < keys->generation) {

        /*
         * Fetch soon, and take nothing that an older configuration's worker
         * still brings: its lease is no longer the last.  What that one has
         * begun counts for no cooldown then.
         */

        if (zone->leased) {
            zone->leased = 0;
            zone->lease++;
            zone->next_try = ngx_current_msec;
        }

        zone->generation = keys->generation;

        if (ngx_memcmp(zone->source, keys->source, NGX_HTTP_PGW_KEYS_DIGEST)
            != 0)
        {
            ngx_log_debug0(NGX_LOG_DEBUG_HTTP, keys->log, 0,
                           "http platform gateway: key set dropped, "
                           "it is of another source");

            ngx_http_pgw_zone_drop(zone, keys->source);
        }

        if (keys->document.len) {
            (void) ngx_http_pgw_zone_put(zone, &keys->document,
                                         ngx_current_msec, ngx_time());
        }

        zone->refresh = 1;
        zone->complaint = 0;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);
}


ngx_int_t
ngx_http_pgw_zone_lease(ngx_http_pgw_keys_t *keys)
{
    ngx_int_t             rc;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;

    ngx_shmtx_lock(&keys->shpool->mutex);

    rc = ngx_http_pgw_zone_peek(keys);

    if (rc == NGX_OK) {
        zone->leased = 1;
        zone->lease++;
        zone->began = ngx_current_msec;
        zone->began_at = ngx_time();
        zone->lease_until = ngx_current_msec + keys->timeout
                            + NGX_HTTP_PGW_ZONE_SLACK;
        zone->next_try = ngx_current_msec + keys->cooldown;

        keys->worker->lease = zone->lease;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, keys->log, 0,
                   "http platform gateway: key lease %ui, rc:%i",
                   keys->worker->lease, rc);

    return rc;
}


ngx_int_t
ngx_http_pgw_zone_peek(const ngx_http_pgw_keys_t *keys)
{
    const ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;

    if (zone->leased && ngx_http_pgw_zone_left(zone->lease_until)) {
        return NGX_AGAIN;
    }

    if (zone->generation != keys->generation
        || ngx_http_pgw_zone_left(zone->next_try))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_zone_release(ngx_http_pgw_keys_t *keys, const ngx_str_t *document)
{
    ngx_int_t             rc;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    rc = NGX_ABORT;

    ngx_shmtx_lock(&keys->shpool->mutex);

    if (zone->lease == keys->worker->lease) {
        rc = NGX_DECLINED;

        if (document) {
            rc = ngx_http_pgw_zone_put(zone, document, zone->began,
                                       zone->began_at);
            zone->brought = zone->lease;
        }

        zone->leased = 0;
        zone->ended++;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);

    return rc;
}


/*
 * A document is as old as its fetch: what the issuer changed since the fetch
 * began need not be in it.  NGX_DECLINED: the same document again, which is as
 * fresh all the same.
 */

static ngx_int_t
ngx_http_pgw_zone_put(ngx_http_pgw_zone_t *zone, const ngx_str_t *document,
    ngx_msec_t fetched, time_t fetched_at)
{
    ngx_int_t   rc;
    ngx_uint_t  slot;

    rc = NGX_DECLINED;
    slot = zone->version & 1;

    if (zone->len[slot] != document->len
        || ngx_memcmp(zone->document[slot], document->data, document->len)
           != 0)
    {
        slot = !slot;
        ngx_memcpy(zone->document[slot], document->data, document->len);
        zone->len[slot] = document->len;
        ngx_memory_barrier();
        zone->version++;
        rc = NGX_OK;
    }

    ngx_memory_barrier();
    zone->fetched = fetched;
    zone->fetched_at = fetched_at;
    zone->refresh = 0;
    zone->complaint = 0;

    return rc;
}


/* No set, as at the very start, for a source that may be fetched from now. */

static void
ngx_http_pgw_zone_drop(ngx_http_pgw_zone_t *zone, const u_char *source)
{
    ngx_memcpy(zone->source, source, NGX_HTTP_PGW_KEYS_DIGEST);

    zone->len[!(zone->version & 1)] = 0;
    ngx_memory_barrier();
    zone->version++;

    zone->fetched_at = 0;
    zone->next_try = ngx_current_msec;
}


/* A worker of an older configuration gets no keys of another source either. */

void
ngx_http_pgw_zone_copy(ngx_http_pgw_keys_t *keys, ngx_http_pgw_copy_t *copy)
{
    ngx_uint_t            slot;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    copy->document.len = 0;

    ngx_shmtx_lock(&keys->shpool->mutex);

    copy->version = zone->version;
    copy->fetched = zone->fetched;
    copy->fetched_at = zone->fetched_at;

    if (ngx_memcmp(zone->source, keys->source, NGX_HTTP_PGW_KEYS_DIGEST) == 0)
    {
        slot = zone->version & 1;
        copy->document.len = zone->len[slot];
        ngx_memcpy(copy->document.data, zone->document[slot],
                   copy->document.len);
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);
}


ngx_msec_t
ngx_http_pgw_zone_due(const ngx_http_pgw_keys_t *keys, ngx_msec_t early)
{
    ngx_msec_t                  wait, stale;
    const ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    wait = zone->leased ? ngx_http_pgw_zone_left(zone->lease_until) : 0;

    if (wait) {
        return wait;
    }

    wait = ngx_http_pgw_zone_left(zone->next_try);

    if (zone->fetched_at == 0 || zone->refresh) {
        return wait;
    }

    stale = ngx_http_pgw_zone_left(zone->fetched + keys->soft_age - early);

    return ngx_max(wait, stale);
}


static ngx_msec_t
ngx_http_pgw_zone_left(ngx_msec_t then)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (then - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
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

    if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) <= 0) {

        worker->usable_until = fetched + keys->hard_age;

        if ((ngx_msec_int_t) (worker->usable_until - ngx_current_msec) <= 0) {
            return NULL;
        }
    }

    return worker->set;
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

    copy.document.data = ngx_alloc(PJ_KEYSET_MAX_BYTES, keys->log);
    if (copy.document.data == NULL) {
        return NGX_ERROR;
    }

    ngx_http_pgw_zone_copy(keys, &copy);

    set = NULL;
    err = PJ_OK;

    if (copy.document.len) {
        err = ngx_http_pgw_keys_parse(&copy.document, &set, keys->log);
    }

    ngx_free(copy.document.data);

    if (err != PJ_OK) {

        /* It parsed once, so memory is short: the next request retries. */

        ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                      "platform gateway: key set not loaded: %s",
                      pj_strerror(err));
        return NGX_ERROR;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, keys->log, 0,
                   "http platform gateway: key set version %ui adopted, "
                   "%uz keys", copy.version, set ? set->count : 0);

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
