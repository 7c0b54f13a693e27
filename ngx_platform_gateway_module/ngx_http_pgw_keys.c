
/*
 * The key set that requests are decided by: the last good document in the
 * zone, the right to fetch the next, the copy that each worker parses, and the
 * requests that wait for a fetch, bounded in number and in time.
 *
 * The right to fetch is a lease with a deadline, so that a worker that dies
 * with it wedges nobody.
 */


#include "ngx_http_pgw_keys.h"

#include <openssl/hmac.h>


/* The lease outlives the fetch by this, so that only a dead one loses it. */
#define NGX_HTTP_PGW_KEYS_SLACK  2000  /* ms */

#define NGX_HTTP_PGW_KEYS_POLL  25     /* ms, of a request that waits */


typedef struct {
    ngx_http_request_t   *request;
    ngx_http_pgw_keys_t  *keys;
    ngx_event_t           timer;    /* set: parked */
    ngx_msec_t            until;
    ngx_uint_t            version;  /* of the set it saw */
    ngx_uint_t            ended;    /* fetches, likewise */
    ngx_uint_t            lease;    /* the last, as it came */
} ngx_http_pgw_wait_t;


ngx_int_t
ngx_http_pgw_keys_digest(u_char *hex, const u_char *data, size_t len)
{
    u_char  md[EVP_MAX_MD_SIZE];

    if (!HMAC(EVP_sha256(), hex, NGX_HTTP_PGW_KEYS_DIGEST, data, len, md, 0)) {
        return NGX_ERROR;
    }

    ngx_hex_dump(hex, md, NGX_HTTP_PGW_KEYS_DIGEST / 2);

    return NGX_OK;
}


const char *
ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf, size_t max,
    size_t *len)
{
    ssize_t          n;
    ngx_fd_t         fd;
    const char      *err;
    ngx_file_info_t  fi;

    static u_char  error[128];

    n = -1;
    err = NULL;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd != NGX_INVALID_FILE && ngx_fd_info(fd, &fi) != NGX_FILE_ERROR) {
        err = !ngx_is_file(&fi) ? "it is no regular file"
              : ngx_file_size(&fi) > (off_t) max ? "it is too large" : NULL;
        n = err ? 0 : ngx_read_fd(fd, buf, max);
    }

    if (n == -1) {
        *ngx_strerror(ngx_errno, error, sizeof(error) - 1) = '\0';
        err = (const char *) error;
    }

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    *len = (size_t) n;

    return err;
}


const char *
ngx_http_pgw_keys_parse(const ngx_str_t *document, pj_keyset_t **set)
{
    void        *mem;
    size_t       size;
    pj_err_t     err;
    pj_str_t     json = { document->data, document->len };
    pj_arena_t   arena;

    size = pj_keyset_arena_bytes(json.len);
    err = PJ_ERR_NO_SPACE;

    *set = ngx_calloc(sizeof(pj_keyset_t), ngx_cycle->log);
    mem = ngx_alloc(size, ngx_cycle->log);

    if (*set && mem) {
        pj_arena_init(&arena, mem, size);
        err = pj_keyset_parse(*set, &arena, json);
    }

    ngx_free(mem);

    if (err == PJ_OK) {
        return NULL;
    }

    ngx_free(*set);
    *set = NULL;

    return pj_strerror(err);
}


void
ngx_http_pgw_keys_free(pj_keyset_t *set)
{
    if (set) {
        pj_keyset_clear(set);
        ngx_free(set);
    }
}


ngx_http_pgw_fetch_e
ngx_http_pgw_zone_put(ngx_http_pgw_zone_t *zone, const ngx_str_t *document,
    ngx_msec_t fetched, time_t fetched_at)
{
    ngx_uint_t            slot;
    ngx_http_pgw_fetch_e  outcome;

    outcome = NGX_HTTP_PGW_FETCH_UNCHANGED;
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
        outcome = NGX_HTTP_PGW_FETCH_NEW;
    }

    ngx_memory_barrier();
    zone->fetched = fetched;
    zone->fetched_at = fetched_at;
    zone->refresh = 0;
    zone->complaint = 0;

    return outcome;
}


void
ngx_http_pgw_zone_activate(ngx_http_pgw_keys_t *keys)
{
    ngx_uint_t            other;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;

    ngx_shmtx_lock(&keys->shpool->mutex);

    if (zone->generation < keys->generation) {
        zone->generation = keys->generation;

        other = ngx_memcmp(zone->source, keys->source, sizeof(zone->source))
                != 0;

        /* what others have begun counts for no cooldown, and is not taken */

        if (other || ngx_http_pgw_keys_left(zone->lease_until)) {
            zone->next_try = ngx_current_msec;
        }

        zone->lease_until = ngx_current_msec;
        zone->lease++;

        /* the file, or no set at all, in place of one of another source */

        if (other || keys->document.len) {
            ngx_memcpy(zone->source, keys->source, sizeof(zone->source));

            (void) ngx_http_pgw_zone_put(zone, &keys->document,
                                         ngx_current_msec,
                                         keys->document.len ? ngx_time() : 0);
        }

        zone->refresh = 1;
        zone->complaint = 0;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);
}


ngx_http_pgw_copy_t *
ngx_http_pgw_zone_copy(ngx_http_pgw_keys_t *keys)
{
    ngx_uint_t            slot;
    ngx_http_pgw_zone_t  *zone;

    static ngx_http_pgw_copy_t  copy;

    zone = keys->zone;
    copy.document.data = copy.disk.document;
    copy.document.len = 0;

    ngx_shmtx_lock(&keys->shpool->mutex);

    copy.version = zone->version;
    copy.fetched = zone->fetched;
    copy.fetched_at = zone->fetched_at;

    /* a worker of an older configuration gets none of another source either */

    if (ngx_memcmp(zone->source, keys->source, sizeof(zone->source)) == 0) {
        slot = zone->version & 1;
        copy.document.len = zone->len[slot];
        ngx_memcpy(copy.document.data, zone->document[slot],
                   copy.document.len);
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);

    return &copy;
}


ngx_int_t
ngx_http_pgw_keys_fetch(ngx_http_pgw_keys_t *keys)
{
    ngx_int_t             rc;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    rc = NGX_DECLINED;

    ngx_shmtx_lock(&keys->shpool->mutex);

    if (ngx_http_pgw_keys_left(zone->lease_until)) {
        rc = NGX_AGAIN;

    } else if (zone->generation == keys->generation
               && ngx_http_pgw_keys_left(zone->next_try) == 0
               && !keys->fetching && !ngx_exiting)
    {
        zone->lease++;
        zone->began = ngx_current_msec;
        zone->began_at = ngx_time();
        zone->lease_until = ngx_current_msec + keys->timeout
                            + NGX_HTTP_PGW_KEYS_SLACK;
        zone->next_try = ngx_current_msec + keys->conf->key_cooldown;

        keys->lease = zone->lease;
        keys->fetching = 1;
        rc = NGX_OK;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);

    if (rc == NGX_OK) {

        /* not at once: the caller may be a request that holds the old set */

        ngx_post_event(&keys->begin, &ngx_posted_events);
    }

    return rc;
}


ngx_http_pgw_fetch_e
ngx_http_pgw_keys_release(ngx_http_pgw_keys_t *keys, const ngx_str_t *document)
{
    ngx_http_pgw_zone_t   *zone;
    ngx_http_pgw_fetch_e   outcome;

    zone = keys->zone;
    outcome = NGX_HTTP_PGW_FETCH_SUPERSEDED;
    keys->fetching = 0;

    ngx_shmtx_lock(&keys->shpool->mutex);

    if (zone->lease == keys->lease) {
        outcome = NGX_HTTP_PGW_FETCH_FAILED;

        if (document) {
            outcome = ngx_http_pgw_zone_put(zone, document, zone->began,
                                            zone->began_at);
            zone->brought = zone->lease;
        }

        zone->lease_until = ngx_current_msec;
        zone->ended++;
    }

    ngx_shmtx_unlock(&keys->shpool->mutex);

    return outcome;
}


/*
 * The one way in which a worker comes by a set, the worker that has fetched it
 * too: what is parsed, its version and its time are of one instant, however
 * long anything takes.
 */

static ngx_int_t
ngx_http_pgw_keys_load(ngx_http_pgw_keys_t *keys)
{
    const char           *err;
    pj_keyset_t          *set;
    ngx_http_pgw_copy_t  *copy;

    copy = ngx_http_pgw_zone_copy(keys);

    set = NULL;
    err = copy->document.len ? ngx_http_pgw_keys_parse(&copy->document, &set)
                             : NULL;

    if (err) {

        /* It parsed once, so memory is short: the next request retries. */

        ngx_log_error(NGX_LOG_ERR, keys->log, 0,
                      "platform gateway: key set not loaded: %s", err);
        return NGX_ERROR;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, keys->log, 0,
                   "http platform gateway: key set version %ui adopted, "
                   "%uz keys", copy->version, set ? set->count : 0);

    ngx_http_pgw_keys_free(keys->set);

    keys->set = set;
    keys->version = copy->version;
    keys->fetched = copy->fetched;

    return NGX_OK;
}


const pj_keyset_t *
ngx_http_pgw_keys_get(ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t  fetched;

    if (!keys->working) {
        return NULL;
    }

    /* before the version: a later set's time is not for this one */

    fetched = keys->zone->fetched;
    ngx_memory_barrier();

    if (keys->version == keys->zone->version) {
        keys->fetched = fetched;

    } else if (ngx_http_pgw_keys_load(keys) != NGX_OK) {
        return NULL;
    }

    return ngx_http_pgw_keys_left(keys->fetched + keys->conf->key_hard_age)
           ? keys->set : NULL;
}


time_t
ngx_http_pgw_keys_retry_after(const ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t                  left;
    const ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    left = ngx_http_pgw_keys_left(zone->lease_until) == 0
           ? ngx_http_pgw_keys_left(zone->next_try) : 0;

    return ngx_max((time_t) (left + 999) / 1000, 1);
}


static void
ngx_http_pgw_wait_leave(void *data)
{
    ngx_http_pgw_wait_t  *wait = data;

    if (wait->timer.timer_set) {
        ngx_del_timer(&wait->timer);
        wait->keys->waiting--;
    }
}


static void
ngx_http_pgw_wait_poll(ngx_event_t *ev)
{
    ngx_msec_t            left;
    ngx_connection_t     *c;
    ngx_http_request_t   *r;
    ngx_http_pgw_wait_t  *wait;
    ngx_http_pgw_zone_t  *zone;

    wait = ev->data;
    zone = wait->keys->zone;
    left = ngx_http_pgw_keys_left(wait->until);

    if (left
        && zone->version == wait->version && zone->ended == wait->ended)
    {
        ngx_add_timer(ev, ngx_min(left, NGX_HTTP_PGW_KEYS_POLL));
        return;
    }

    wait->keys->waiting--;

    r = wait->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "http platform gateway: waited for keys, %s",
                   left ? "a fetch ended" : "time is over");

    if (r == r->main) {
        r->read_event_handler = ngx_http_block_reading;
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


/* What r has waited for; a subrequest shares the pool of its parent. */

static ngx_http_pgw_wait_t *
ngx_http_pgw_wait_get(ngx_http_request_t *r, ngx_http_pgw_keys_t *keys)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_pgw_wait_t  *wait;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        wait = cln->data;

        if (cln->handler == ngx_http_pgw_wait_leave && wait->request == r) {
            return wait;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_wait_t));
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_pgw_wait_leave;

    wait = cln->data;
    ngx_memzero(wait, sizeof(ngx_http_pgw_wait_t));

    wait->request = r;
    wait->keys = keys;
    wait->lease = keys->zone->lease;
    wait->until = ngx_current_msec + keys->conf->key_wait;

    wait->timer.handler = ngx_http_pgw_wait_poll;
    wait->timer.data = wait;
    wait->timer.log = r->connection->log;

    return wait;
}


ngx_int_t
ngx_http_pgw_keys_wait(ngx_http_request_t *r, ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t            left;
    ngx_http_pgw_wait_t  *wait;

    wait = keys->working ? ngx_http_pgw_wait_get(r, keys) : NULL;

    if (wait == NULL) {
        return NGX_DECLINED;
    }

    if (wait->timer.timer_set) {
        return NGX_AGAIN;
    }

    if ((ngx_atomic_int_t) (keys->zone->brought - wait->lease) > 0) {
        return NGX_OK;
    }

    /* Before asking, or an end in between would be waited for in vain. */

    wait->version = keys->version;
    wait->ended = keys->zone->ended;

    left = ngx_http_pgw_keys_left(wait->until);

    /* Asked for even where there is no time or room to wait for it. */

    if (ngx_http_pgw_keys_fetch(keys) == NGX_DECLINED || left == 0
        || keys->waiting >= (ngx_uint_t) keys->conf->key_waiters)
    {
        return NGX_DECLINED;
    }

    if (r == r->main) {

        /* meanwhile it looks for its client going away */

        ngx_post_event(r->connection->read, &ngx_posted_events);
        r->read_event_handler = ngx_http_test_reading;
    }

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: waits for keys, %M ms left, "
                   "lease %ui", left, wait->lease);

    /* Not cancelable: a worker must not exit while a request is parked. */

    ngx_add_timer(&wait->timer, ngx_min(left, NGX_HTTP_PGW_KEYS_POLL));
    keys->waiting++;

    return NGX_AGAIN;
}
