
/*
 * Requests that wait for a key set: parked with a timer each, bounded in
 * number and in time.
 */


#include "ngx_http_pgw_keys.h"


#define NGX_HTTP_PGW_WAIT_POLL  25  /* ms */


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


static ngx_http_pgw_wait_t *ngx_http_pgw_wait_find(ngx_http_request_t *r);
static ngx_http_pgw_wait_t *ngx_http_pgw_wait_create(ngx_http_request_t *r,
    ngx_http_pgw_keys_t *keys, ngx_uint_t lease);
static ngx_int_t ngx_http_pgw_wait_park(ngx_http_pgw_wait_t *wait,
    ngx_uint_t ended);
static ngx_int_t ngx_http_pgw_wait_watch(ngx_http_request_t *r);
static void ngx_http_pgw_wait_poll(ngx_event_t *ev);
static void ngx_http_pgw_wait_leave(ngx_http_pgw_wait_t *wait);
static void ngx_http_pgw_wait_cleanup(void *data);


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

    if (ngx_http_pgw_keys_fetch(keys) == NGX_DECLINED) {
        return NGX_DECLINED;
    }

    if (keys->wait == 0 || keys->worker->waiting >= keys->waiters) {
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


static ngx_http_pgw_wait_t *
ngx_http_pgw_wait_find(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_pgw_wait_t  *wait;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_pgw_wait_cleanup) {
            continue;
        }

        /* A subrequest shares the pool of its parent. */

        wait = cln->data;

        if (wait->request == r) {
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

    cln->handler = ngx_http_pgw_wait_cleanup;

    wait->request = r;
    wait->keys = keys;
    wait->lease = lease;
    wait->until = ngx_current_msec + keys->wait;

    wait->timer.handler = ngx_http_pgw_wait_poll;
    wait->timer.data = wait;
    wait->timer.log = r->connection->log;

    return wait;
}


/* Again for the next fetch, where there was time left after the last. */

static ngx_int_t
ngx_http_pgw_wait_park(ngx_http_pgw_wait_t *wait, ngx_uint_t ended)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (wait->until - ngx_current_msec);

    if (left <= 0 || ngx_http_pgw_wait_watch(wait->request) != NGX_OK) {
        return NGX_DECLINED;
    }

    wait->version = wait->keys->worker->version;
    wait->ended = ended;
    wait->parked = 1;
    wait->keys->worker->waiting++;

    /* Not cancelable: a worker must not exit while a request is parked. */

    ngx_add_timer(&wait->timer,
                  ngx_min((ngx_msec_t) left, NGX_HTTP_PGW_WAIT_POLL));

    return NGX_AGAIN;
}


/* While parked a main request looks for its client going away. */

static ngx_int_t
ngx_http_pgw_wait_watch(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    if (r == r->main) {
        rev = r->connection->read;

        if (rev->ready) {
            ngx_post_event(rev, &ngx_posted_events);

        } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            return NGX_ERROR;
        }

        r->read_event_handler = ngx_http_test_reading;
    }

    r->write_event_handler = ngx_http_request_empty_handler;

    return NGX_OK;
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
        ngx_add_timer(ev, ngx_min((ngx_msec_t) left, NGX_HTTP_PGW_WAIT_POLL));
        return;
    }

    ngx_http_pgw_wait_leave(wait);

    r = wait->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (r == r->main) {
        r->read_event_handler = ngx_http_block_reading;
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_pgw_wait_leave(ngx_http_pgw_wait_t *wait)
{
    if (wait->parked) {
        wait->parked = 0;
        wait->keys->worker->waiting--;
    }

    if (wait->timer.timer_set) {
        ngx_del_timer(&wait->timer);
    }
}


static void
ngx_http_pgw_wait_cleanup(void *data)
{
    ngx_http_pgw_wait_leave(data);
}
