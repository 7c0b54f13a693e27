
/*
 * The key set over time: the timer that keeps it fresh, what becomes of a
 * fetch, and the requests that wait for one, parked with a timer each, bounded
 * in number and in time.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_metrics.h"


#define NGX_HTTP_PGW_KEYS_TICK  250  /* ms, while fetching */
#define NGX_HTTP_PGW_KEYS_REST  100  /* ms, between two looks */
#define NGX_HTTP_PGW_KEYS_POLL  25   /* ms, of one that waits */


typedef struct {
    ngx_http_request_t   *request;
    ngx_http_pgw_keys_t  *keys;
    ngx_event_t           timer;
    ngx_msec_t            until;
    ngx_uint_t            version;  /* of the set it saw */
    ngx_uint_t            ended;    /* fetches, likewise */
    ngx_uint_t            lease;    /* the last, as it came */
    ngx_uint_t            parked;
} ngx_http_pgw_wait_t;


static ngx_http_pgw_keys_t *ngx_http_pgw_keys_of(ngx_cycle_t *cycle);
static void ngx_http_pgw_keys_timer(ngx_event_t *ev);
static void ngx_http_pgw_keys_leave(ngx_http_pgw_keys_t *keys);
static ngx_int_t ngx_http_pgw_keys_fetch(ngx_http_pgw_keys_t *keys);
static void ngx_http_pgw_keys_file_event(ngx_event_t *ev);
static void ngx_http_pgw_keys_fetched(ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, const char *err);
static void ngx_http_pgw_keys_log_failure(ngx_http_pgw_keys_t *keys,
    const char *err);
static ngx_http_pgw_wait_t *ngx_http_pgw_wait_find(ngx_http_request_t *r);
static ngx_http_pgw_wait_t *ngx_http_pgw_wait_create(ngx_http_request_t *r,
    ngx_http_pgw_keys_t *keys, ngx_uint_t lease);
static ngx_int_t ngx_http_pgw_wait_park(ngx_http_pgw_wait_t *wait,
    ngx_uint_t ended);
static void ngx_http_pgw_wait_poll(ngx_event_t *ev);
static void ngx_http_pgw_wait_leave(void *data);


/* NULL in processes that serve no requests, and without a source of keys. */

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
        ngx_http_pgw_disk_check(keys);
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


/* Starts a fetch if one is permitted; answers like zone_lease(). */

static ngx_int_t
ngx_http_pgw_keys_fetch(ngx_http_pgw_keys_t *keys)
{
    ngx_int_t               rc;
    ngx_http_pgw_worker_t  *worker;

    worker = keys->worker;
    rc = ngx_http_pgw_zone_peek(keys);

    if (rc == NGX_OK && (worker->fetching || ngx_exiting)) {
        return NGX_DECLINED;
    }

    if (rc == NGX_OK) {
        rc = ngx_http_pgw_zone_lease(keys);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    worker->fetching = 1;

    if (keys->file.len) {

        /* not at once: the caller may be a request that holds the old set */

        ngx_post_event(&worker->file, &ngx_posted_events);
        return NGX_OK;
    }

    if (ngx_http_pgw_fetch_start(keys, ngx_http_pgw_keys_fetched) != NGX_OK) {
        ngx_http_pgw_keys_fetched(keys, NULL, "out of memory");
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * The key file in place of a fetch.  It is read whole each time and compared
 * by content, so that no clock of a file system decides whether it has
 * changed: 64 KiB once a soft age.
 */

static void
ngx_http_pgw_keys_file_event(ngx_event_t *ev)
{
    u_char                error[NGX_HTTP_PGW_KEYS_ERROR];
    ngx_int_t             rc;
    ngx_str_t             document;
    ngx_http_pgw_keys_t  *keys;

    keys = ev->data;

    document.data = ngx_alloc(PJ_KEYSET_MAX_BYTES, keys->log);
    if (document.data == NULL) {
        ngx_http_pgw_keys_fetched(keys, NULL, "out of memory");
        return;
    }

    rc = ngx_http_pgw_keys_read(&keys->file, document.data,
                                PJ_KEYSET_MAX_BYTES, &document.len, error);

    ngx_http_pgw_keys_fetched(keys, &document,
                              rc == NGX_OK ? NULL : (const char *) error);

    ngx_free(document.data);
}


/* The end of a fetch, whatever it came from; err: there is no document. */

static void
ngx_http_pgw_keys_fetched(ngx_http_pgw_keys_t *keys, const ngx_str_t *document,
    const char *err)
{
    pj_err_t               rc;
    ngx_int_t              released;
    pj_keyset_t           *set;
    ngx_http_pgw_fetch_e   outcome;

    set = NULL;
    keys->worker->fetching = 0;

    if (err == NULL) {
        rc = ngx_http_pgw_keys_parse(document, &set, keys->log);
        err = rc ? pj_strerror(rc) : NULL;
    }

    released = ngx_http_pgw_zone_release(keys, err ? NULL : document);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, keys->log, 0,
                   "http platform gateway: key fetch of lease %ui ended, "
                   "rc:%i, %s", keys->worker->lease, released,
                   err ? err : "a key set");

    outcome = (released == NGX_OK) ? NGX_HTTP_PGW_FETCH_NEW
              : (released == NGX_ABORT) ? NGX_HTTP_PGW_FETCH_SUPERSEDED
              : err ? NGX_HTTP_PGW_FETCH_FAILED
                    : NGX_HTTP_PGW_FETCH_UNCHANGED;

    ngx_http_pgw_metrics_fetch(outcome);

    if (outcome == NGX_HTTP_PGW_FETCH_NEW) {
        ngx_log_error(NGX_LOG_NOTICE, keys->log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");
    }

    ngx_http_pgw_keys_free(set);

    if (err == NULL && released != NGX_ABORT && keys->cache_file.len) {
        ngx_http_pgw_disk_store(keys);
    }

    if (outcome == NGX_HTTP_PGW_FETCH_FAILED && !ngx_exiting && !ngx_terminate)
    {
        ngx_http_pgw_keys_log_failure(keys, err);
    }
}


/*
 * One line a fetch, and there is one fetch a cooldown at most.  Of a bad key
 * file one line is enough until it is bad in another way.
 */

static void
ngx_http_pgw_keys_log_failure(ngx_http_pgw_keys_t *keys, const char *err)
{
    ngx_msec_t            age;
    ngx_uint_t            complaint, past;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    age = ngx_current_msec - zone->fetched;
    past = age >= keys->hard_age;

    if (keys->file.len) {
        complaint = 1 + 2 * ngx_crc32_short((u_char *) err, ngx_strlen(err))
                    + past;

        if (zone->complaint == complaint) {
            return;
        }

        zone->complaint = complaint;
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
                  past ? "which is past the hard age" : "and kept");
}


ngx_int_t
ngx_http_pgw_keys_wait(ngx_http_request_t *r, ngx_http_pgw_keys_t *keys)
{
    ngx_uint_t            ended, lease;
    ngx_http_pgw_wait_t  *wait;

    if (keys->worker == NULL) {
        return NGX_DECLINED;
    }

    wait = ngx_http_pgw_wait_find(r);

    if (wait && wait->parked) {
        return NGX_AGAIN;
    }

    if (wait && (ngx_atomic_int_t) (keys->zone->brought - wait->lease) > 0) {
        return NGX_OK;
    }

    /* Before asking, or an end in between would be waited for in vain. */

    ended = keys->zone->ended;
    lease = keys->zone->lease;

    /* Asked for even where there is no room to wait for it. */

    if (ngx_http_pgw_keys_fetch(keys) == NGX_DECLINED
        || keys->wait == 0 || keys->worker->waiting >= keys->waiters)
    {
        return NGX_DECLINED;
    }

    if (wait == NULL) {
        wait = ngx_http_pgw_wait_create(r, keys, lease);
        if (wait == NULL) {
            return NGX_DECLINED;
        }
    }

    return ngx_http_pgw_wait_park(wait, ended);
}


time_t
ngx_http_pgw_keys_retry_after(const ngx_http_pgw_keys_t *keys)
{
    ngx_msec_int_t  left;

    if (keys->zone == NULL || keys->zone->leased) {
        return 1;
    }

    left = (ngx_msec_int_t) (keys->zone->next_try - ngx_current_msec);

    return left > 1000 ? (time_t) (left + 999) / 1000 : 1;
}


/* A subrequest shares the pool of its parent. */

static ngx_http_pgw_wait_t *
ngx_http_pgw_wait_find(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_pgw_wait_t  *wait;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        wait = cln->data;

        if (cln->handler == ngx_http_pgw_wait_leave && wait->request == r) {
            return wait;
        }
    }

    return NULL;
}


static ngx_http_pgw_wait_t *
ngx_http_pgw_wait_create(ngx_http_request_t *r, ngx_http_pgw_keys_t *keys,
    ngx_uint_t lease)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_pgw_wait_t  *wait;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_wait_t));
    if (cln == NULL) {
        return NULL;
    }

    wait = cln->data;
    ngx_memzero(wait, sizeof(ngx_http_pgw_wait_t));

    cln->handler = ngx_http_pgw_wait_leave;

    wait->request = r;
    wait->keys = keys;
    wait->lease = lease;
    wait->until = ngx_current_msec + keys->wait;

    wait->timer.handler = ngx_http_pgw_wait_poll;
    wait->timer.data = wait;
    wait->timer.log = r->connection->log;

    return wait;
}


/*
 * Again for the next fetch, where there was time left after the last.  While
 * parked a main request looks for its client going away.
 */

static ngx_int_t
ngx_http_pgw_wait_park(ngx_http_pgw_wait_t *wait, ngx_uint_t ended)
{
    ngx_event_t         *rev;
    ngx_msec_int_t       left;
    ngx_http_request_t  *r;

    r = wait->request;
    left = (ngx_msec_int_t) (wait->until - ngx_current_msec);

    if (left <= 0) {
        return NGX_DECLINED;
    }

    if (r == r->main) {
        rev = r->connection->read;

        if (rev->ready) {
            ngx_post_event(rev, &ngx_posted_events);

        } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            return NGX_DECLINED;
        }

        r->read_event_handler = ngx_http_test_reading;
    }

    r->write_event_handler = ngx_http_request_empty_handler;

    wait->version = wait->keys->worker->version;
    wait->ended = ended;
    wait->parked = 1;
    wait->keys->worker->waiting++;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: waits for keys, %M ms left, "
                   "lease %ui", (ngx_msec_t) left, wait->lease);

    /* Not cancelable: a worker must not exit while a request is parked. */

    ngx_add_timer(&wait->timer,
                  ngx_min((ngx_msec_t) left, NGX_HTTP_PGW_KEYS_POLL));

    return NGX_AGAIN;
}


static void
ngx_http_pgw_wait_poll(ngx_event_t *ev)
{
    ngx_msec_int_t        left;
    ngx_connection_t     *c;
    ngx_http_request_t   *r;
    ngx_http_pgw_wait_t  *wait;
    ngx_http_pgw_zone_t  *zone;

    wait = ev->data;
    zone = wait->keys->zone;

    left = (ngx_msec_int_t) (wait->until - ngx_current_msec);

    if (left > 0
        && zone->version == wait->version && zone->ended == wait->ended)
    {
        ngx_add_timer(ev, ngx_min((ngx_msec_t) left, NGX_HTTP_PGW_KEYS_POLL));
        return;
    }

    ngx_http_pgw_wait_leave(wait);

    r = wait->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "http platform gateway: waited for keys, %s",
                   left > 0 ? "a fetch ended" : "time is over");

    if (r == r->main) {
        r->read_event_handler = ngx_http_block_reading;
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_pgw_wait_leave(void *data)
{
    ngx_http_pgw_wait_t  *wait = data;

    if (wait->parked) {
        wait->parked = 0;
        wait->keys->worker->waiting--;
    }

    if (wait->timer.timer_set) {
        ngx_del_timer(&wait->timer);
    }
}
