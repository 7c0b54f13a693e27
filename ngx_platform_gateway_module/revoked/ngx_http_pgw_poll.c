
/*
 * Polls the feed of revocations, page by page, in the worker with the lease.
 *
 * Each page is read in a turn of the event loop of its own, and is limited to
 * keep the turn short.  The cursor moves only after a good page, so nothing is
 * skipped.
 */


#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"


#define NGX_HTTP_PGW_POLL_TICK   20     /* ms; shortest timer */

/* All slots are swept within PASS seconds, or an interval if that is longer. */

#define NGX_HTTP_PGW_POLL_PASS   60
#define NGX_HTTP_PGW_POLL_LEAST  4096     /* fewest slots in a turn */
#define NGX_HTTP_PGW_POLL_SWEEP  1048576  /* most slots in a turn */

/* A reading is endless after IDLE known entries more than twice the entries in
   the table.  It then gets PAGES pages an interval. */

#define NGX_HTTP_PGW_POLL_IDLE   1000
#define NGX_HTTP_PGW_POLL_PAGES  20


/* Returns 1 if the worker exits and either watches nothing or has newer workers
   polling for the same zone. */

static ngx_uint_t
ngx_http_pgw_poll_stops(const ngx_http_pgw_revocations_t *rev)
{
    return ngx_terminate
           || (ngx_exiting
               && (rev->from.watched == 0
                   || rev->zone->lease.generation != rev->from.generation));
}


/* An exiting worker waits for the timers of a fetch, but not for ours.  So ours
   runs at once to abort the fetch. */

void
ngx_http_pgw_poll_watch(ngx_http_pgw_revocations_t *rev, ngx_int_t n)
{
    rev->from.watched += n;

    if (ngx_exiting) {
        ngx_add_timer(&rev->from.timer, 1);
    }
}


/* Makes the reading begin again.  News from the beginning are the whole feed,
   so rereads are not needed then. */

static void
ngx_http_pgw_poll_rewind(ngx_http_pgw_revoked_t *zone,
    ngx_http_pgw_reading_t *reading)
{
    reading->cursor_len = 0;
    reading->idle = 0;

    if (reading == &zone->news) {
        ngx_http_pgw_poll_rewind(zone, &zone->reread);
        zone->rereads = 0;
    }
}


/* Logs an error once, not at every try. */

static void
ngx_http_pgw_poll_error(const ngx_http_pgw_revocations_t *rev,
    ngx_uint_t level, const char *err)
{
    u_char  *last = rev->zone->error;

    if (ngx_strncmp(last, err, sizeof(rev->zone->error) - 1) != 0) {
        ngx_cpystrn(last, (u_char *) err, sizeof(rev->zone->error));

        ngx_log_error(level, rev->from.log, 0, "platform gateway: revocations "
                      "not read: %s; those already known still count", err);
    }
}


static ngx_uint_t
ngx_http_pgw_poll_endless(const ngx_http_pgw_revoked_t *zone,
    const ngx_http_pgw_reading_t *reading)
{
    return reading->idle > NGX_HTTP_PGW_POLL_IDLE + 2 * zone->table.live;
}


/* Handles a failed fetch or a bad page. */

static void
ngx_http_pgw_poll_failed(ngx_http_pgw_revocations_t *rev, const char *err,
    ngx_http_pgw_feed_e outcome)
{
    ngx_int_t                rc;
    ngx_msec_t               delay;
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    /* retry early */

    delay = rev->from.cooldown / 4;

    ngx_shmtx_lock(&rev->from.shpool->mutex);

    rc = ngx_http_pgw_lease_release(&rev->from);

    if (rc != NGX_OK || ngx_http_pgw_poll_stops(rev)) {
        outcome = NGX_HTTP_PGW_FEED_SUPERSEDED;

    } else if (outcome == NGX_HTTP_PGW_FEED_CURSOR) {

        /* the table keeps its entries */

        ngx_http_pgw_poll_rewind(zone, rev->reading);
        delay = 0;

    } else if (outcome == NGX_HTTP_PGW_FEED_FULL) {
        zone->full = 1;
    }

    if (outcome != NGX_HTTP_PGW_FEED_SUPERSEDED) {

        if (outcome != NGX_HTTP_PGW_FEED_FULL
            && !ngx_http_pgw_poll_endless(zone, rev->reading))
        {
            zone->lease.next_try = ngx_current_msec + delay;
        }

        ngx_http_pgw_poll_error(rev, outcome == NGX_HTTP_PGW_FEED_FULL
                                     ? NGX_LOG_ALERT : NGX_LOG_ERR, err);
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);

    ngx_http_pgw_lease_count(&rev->from, outcome);
}


/* Returns 1 if the next page has to wait for the next interval. */

static ngx_uint_t
ngx_http_pgw_poll_pauses(const ngx_http_pgw_revocations_t *rev,
    const ngx_http_pgw_page_t *page)
{
    ngx_uint_t  endless;

    rev->reading->idle += page->entries ? page->entries - page->added : 1;

    endless = ngx_http_pgw_poll_endless(rev->zone, rev->reading);

    if (endless) {
        ngx_http_pgw_poll_error(rev, NGX_LOG_ERR,
                                "the feed does not terminate");
    }

    return page->entries == 0
           || (endless && rev->pages >= NGX_HTTP_PGW_POLL_PAGES);
}


/* Ends the current reading.  Returns 1 if the whole feed has been read. */

static ngx_uint_t
ngx_http_pgw_poll_ended(ngx_http_pgw_revocations_t *rev)
{
    ngx_http_pgw_revoked_t  *zone = rev->zone;
    ngx_http_pgw_reading_t  *reading = rev->reading;

    reading->idle = 0;

    if (reading == &zone->reread) {
        reading->cursor_len = 0;
        zone->rereads--;
        return 1;
    }

    zone->as_of = rev->requested;
    ngx_memory_barrier();

    return zone->rereads == 0;
}


/* Returns the reading of the next page.  The news come first, once an interval
   and to their end.  At least one page of a reread follows, even if the feed
   is slow. */

static ngx_http_pgw_reading_t *
ngx_http_pgw_poll_next(const ngx_http_pgw_revocations_t *rev,
    const ngx_http_pgw_page_t *page)
{
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    return rev->reading == &zone->news
           ? (page->more || zone->rereads == 0 ? &zone->news : &zone->reread)
           : (ngx_http_pgw_lease_left(zone->as_of + rev->from.cooldown)
              ? &zone->reread : &zone->news);
}


/* Moves the cursor after a good page.  The caller holds the mutex. */

static void
ngx_http_pgw_poll_advance(ngx_http_pgw_revocations_t *rev,
    const ngx_http_pgw_page_t *page)
{
    ngx_uint_t               whole;
    ngx_http_pgw_revoked_t  *zone = rev->zone;
    ngx_http_pgw_reading_t  *reading = rev->reading;

    /* a worker killed here leaves no cursor, so the feed is read again */

    reading->cursor_len = 0;
    ngx_memory_barrier();
    ngx_memcpy(reading->cursor, page->cursor.data, page->cursor.len);
    ngx_memory_barrier();
    reading->cursor_len = page->cursor.len;

    whole = !page->more && ngx_http_pgw_poll_ended(rev);

    if (!whole && !(page->more && ngx_http_pgw_poll_pauses(rev, page))) {
        rev->reading = ngx_http_pgw_poll_next(rev, page);
        ngx_post_event(&rev->from.begin, &ngx_posted_next_events);
        return;
    }

    (void) ngx_http_pgw_lease_release(&rev->from);

    if (!whole) {
        return;
    }

    zone->complete = 1;
    zone->full = 0;

    if (zone->error[0]) {
        zone->error[0] = '\0';
        ngx_log_error(NGX_LOG_NOTICE, rev->from.log, 0,
                      "platform gateway: revocations are read again");
    }
}


/* Returns the number of slots to sweep, from the time since the last sweep. */

static uint64_t
ngx_http_pgw_poll_slots(const ngx_http_pgw_revoked_t *zone)
{
    time_t  passed = zone->swept_at ? ngx_time() - zone->swept_at : 0;

    passed = ngx_min(ngx_max(passed, 0), NGX_HTTP_PGW_POLL_PASS);

    return ngx_min(zone->table.slots * (uint64_t) passed
                   / NGX_HTTP_PGW_POLL_PASS + NGX_HTTP_PGW_POLL_LEAST,
                   NGX_HTTP_PGW_POLL_SWEEP);
}


/* Reads a page into the table. */

static void
ngx_http_pgw_poll_read(ngx_http_pgw_revocations_t *rev,
    ngx_http_pgw_page_t *page, const ngx_str_t *document)
{
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    ngx_memzero(page, sizeof(ngx_http_pgw_page_t));

    page->zone = zone;
    page->reading = rev->reading;
    page->name = rev->names->elts;
    page->names = rev->names->nelts;
    page->follows = zone->complete && rev->reading == &zone->news
                    && rev->reading->cursor_len;

    ngx_shmtx_lock(&rev->from.shpool->mutex);

    if (ngx_http_pgw_lease_renew(&rev->from) != NGX_OK) {
        page->err = "the lease has passed to another worker";

    } else {
        ngx_http_pgw_table_sweep(&zone->table, ngx_time(),
                                 ngx_http_pgw_poll_slots(zone));
        zone->swept_at = ngx_max(zone->swept_at, ngx_time());

        ngx_http_pgw_feed_read(page, document);

        if (page->err == NULL) {
            ngx_http_pgw_poll_advance(rev, page);
        }
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);
}


static void
ngx_http_pgw_poll_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status)
{
    ngx_http_pgw_page_t         *page = NULL;
    ngx_http_pgw_feed_e          outcome = NGX_HTTP_PGW_FEED_FAILED;
    ngx_http_pgw_revocations_t  *rev = data;

    if (err) {
        if (status == NGX_HTTP_BAD_REQUEST && rev->reading->cursor_len) {
            outcome = NGX_HTTP_PGW_FEED_CURSOR;
        }

    } else {
        page = ngx_alloc(sizeof(ngx_http_pgw_page_t) + ngx_http_pgw_feed_mem(),
                         rev->from.log);
        err = "out of memory";
    }

    if (page) {
        ngx_http_pgw_poll_read(rev, page, document);

        err = page->err;
        outcome = page->full ? NGX_HTTP_PGW_FEED_FULL : outcome;
    }

    if (err) {
        ngx_http_pgw_poll_failed(rev, err, outcome);

    } else {
        ngx_http_pgw_lease_count(&rev->from, NGX_HTTP_PGW_FEED_READ);
    }

    ngx_free(page);
}


static void
ngx_http_pgw_poll_begin(ngx_event_t *ev)
{
    ngx_http_pgw_reading_t      *reading;
    ngx_http_pgw_revocations_t  *rev = ev->data;

    reading = rev->reading;

    rev->pages++;
    rev->requested = ngx_current_msec;
    rev->from.quiet = (rev->zone->error[0] != '\0');
    rev->args.data = rev->args_data;
    rev->args.len = (size_t) (ngx_sprintf(rev->args_data, "after=%*s",
                                          reading->cursor_len, reading->cursor)
                              - rev->args_data);

    if (ngx_http_pgw_fetch_start(&rev->from,
                                 reading->cursor_len ? &rev->args : NULL)
        != NGX_OK)
    {
        ngx_http_pgw_poll_failed(rev, "out of memory",
                                 NGX_HTTP_PGW_FEED_FAILED);
    }
}


void
ngx_http_pgw_poll_abort(ngx_http_pgw_revocations_t *rev)
{
    ngx_http_pgw_fetch_abort(&rev->from);

    if (rev->from.begin.posted) {
        ngx_delete_posted_event(&rev->from.begin);
    }

    if (rev->from.fetching) {
        ngx_http_pgw_poll_failed(rev, "the worker process is exiting",
                                 NGX_HTTP_PGW_FEED_SUPERSEDED);
    }
}


/* Logs when the feed becomes stale or current.  While it is stale, revoked
   tokens may pass or, with "refuse", all requests are refused. */

static void
ngx_http_pgw_poll_stale(const ngx_http_pgw_revocations_t *rev)
{
    ngx_uint_t               stale, level;
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    stale = zone->full
            || ngx_http_pgw_lease_left(zone->as_of + rev->after) == 0;

    if (stale == zone->stale) {
        return;
    }

    zone->stale = stale;

    level = stale ? NGX_LOG_ERR : NGX_LOG_NOTICE;

    ngx_log_error(level, rev->from.log, 0,
                  "platform gateway: revocations are %s",
                  !stale ? "up to date again"
                  : rev->refuse ? "stale, requests are refused"
                  : "stale, only those already known are refused");
}


/* Begins the next fetch when it is due. */

static void
ngx_http_pgw_poll_timer(ngx_event_t *ev)
{
    ngx_msec_t                   left;
    ngx_uint_t                   clock_back;
    ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_revocations_t  *rev = ev->data;

    zone = rev->zone;

    if (ngx_http_pgw_poll_stops(rev)) {
        ngx_http_pgw_poll_abort(rev);
        return;
    }

    /* a timer must not wait for a writer */

    if (ngx_shmtx_trylock(&rev->from.shpool->mutex)) {

        ngx_http_pgw_poll_stale(rev);

        /* a sweep may have deleted entries that are live by the new time */

        clock_back = ngx_http_pgw_revocations_set_back(zone);

        if (clock_back) {
            zone->lease.next_try = ngx_current_msec;
        }

        if (ngx_http_pgw_lease_acquire(&rev->from) == NGX_OK) {
            rev->pages = 0;
            rev->reading = &zone->news;

            if (clock_back) {
                zone->complete = 0;
                zone->swept_at = 0;
                ngx_http_pgw_poll_rewind(zone, &zone->news);
            }
        }

        ngx_shmtx_unlock(&rev->from.shpool->mutex);
    }

    /* a failure may bring next_try forward, so wake a few times per interval */

    left = ngx_min(ngx_http_pgw_lease_left(zone->lease.next_try),
                   rev->from.cooldown / 4);

    ngx_add_timer(ev, ngx_max(left, ngx_max(rev->from.cooldown / 8,
                                            NGX_HTTP_PGW_POLL_TICK)));
}


void
ngx_http_pgw_poll_init_process(ngx_http_pgw_revocations_t *rev)
{
    ngx_int_t                rc;
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    ngx_shmtx_lock(&rev->from.shpool->mutex);

    rc = ngx_http_pgw_lease_activate(&rev->from);

    if (rc == NGX_DONE) {

        /* entries of the old feed stay until they die */

        zone->complete = 0;
        ngx_http_pgw_poll_rewind(zone, &zone->news);

    } else if (rc == NGX_OK && zone->news.cursor_len) {

        /* "proxy_pass" may lead to another feed now, so read from the beginning
           too.  A reread in progress ends first, because frequent reloads
           could otherwise keep it from ever ending. */

        zone->rereads = zone->reread.cursor_len ? 2 : 1;
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);

    ngx_http_pgw_lease_start(&rev->from);
}


const ngx_http_pgw_source_t  ngx_http_pgw_poll_source = {
    .name = "revocations",
    .directive = "platform_gateway_revocations",
    .max = NGX_HTTP_PGW_FEED_MAX_BYTES,
    .too_small = "cannot hold a page of the feed: add "
                 "\"subrequest_output_buffer_size 256k;\"",
    .timer.handler = ngx_http_pgw_poll_timer,
    .begin.handler = ngx_http_pgw_poll_begin,
    .handler = ngx_http_pgw_poll_fetched,
    .cooldown = 500
};
