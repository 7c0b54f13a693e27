
/*
 * Asks for the feed of revocations, with the lease: when, what becomes of an
 * answer, and page by page until there is no more.
 *
 * A page is read in turns of the event loop, each of them short.  The cursor
 * moves at the end of a page that is good, so nothing is skipped.
 */


#include "ngx_http_pgw_poll.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_feed.h"
#include "ngx_http_pgw_fetch.h"
#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_revocations.h"


#define NGX_HTTP_PGW_POLL_TICK   20     /* ms, between two looks at least */

#define NGX_HTTP_PGW_POLL_PIECE  16384  /* bytes read in a turn, ... */
#define NGX_HTTP_PGW_POLL_SWEEP  4096   /* ... and slots swept */
#define NGX_HTTP_PGW_POLL_PASS   60     /* s, all slots are swept in, unless the
                                           interval is longer */

/*
 * A feed may be endless if a cursor comes again, or so many entries more than
 * twice those in the table were not new.  It is then asked for so many pages in
 * an interval.
 */
#define NGX_HTTP_PGW_POLL_IDLE   1000
#define NGX_HTTP_PGW_POLL_PAGES  20


/* The next page is the first one. */

static void
ngx_http_pgw_poll_rewind(ngx_http_pgw_revoked_t *zone)
{
    zone->cursor_len = 0;
    zone->pages = 0;
}


/* Once, and not twice a second. */

static void
ngx_http_pgw_poll_complain(const ngx_http_pgw_revocations_t *rev,
    ngx_uint_t level, const char *err)
{
    ngx_uint_t  complaint;

    complaint = 1 + ngx_crc32_short((u_char *) err, ngx_strlen(err));

    if (rev->zone->complaint != complaint) {
        rev->zone->complaint = complaint;

        ngx_log_error(level, rev->from.log, 0, "platform gateway: revocations "
                      "not read: %s; those already known still count", err);
    }
}


/* The end of a fetch or of a page, other than a good one. */

static void
ngx_http_pgw_poll_failed(ngx_http_pgw_revocations_t *rev, const char *err,
    ngx_http_pgw_feed_e outcome)
{
    ngx_int_t                rc;
    ngx_msec_t               again;
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    /* what is missed is wanted as soon as it can be had */

    again = rev->from.cooldown / 4;

    ngx_shmtx_lock(&rev->from.shpool->mutex);

    rc = ngx_http_pgw_lease_release(&rev->from);

    if (rc != NGX_OK || ngx_exiting || ngx_terminate) {
        outcome = NGX_HTTP_PGW_FEED_SUPERSEDED;

    } else if (outcome == NGX_HTTP_PGW_FEED_CURSOR) {

        /* what is in the table stays there */

        ngx_http_pgw_poll_rewind(zone);
        again = 0;

    } else if (outcome == NGX_HTTP_PGW_FEED_FULL) {
        zone->full = 1;
    }

    if (outcome != NGX_HTTP_PGW_FEED_SUPERSEDED) {

        if (outcome != NGX_HTTP_PGW_FEED_FULL && !zone->endless) {
            zone->lease.next_try = ngx_current_msec + again;
        }

        ngx_http_pgw_poll_complain(rev, outcome == NGX_HTTP_PGW_FEED_FULL
                                        ? NGX_LOG_ALERT : NGX_LOG_ERR, err);
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);

    ngx_http_pgw_counters_end(&rev->from, outcome);
}


/*
 * Whether the next page has to wait for the next interval.  The loop is found
 * by Brent's method: a cursor is compared with the last one whose number was a
 * power of two.
 */

static ngx_uint_t
ngx_http_pgw_poll_pauses(const ngx_http_pgw_revocations_t *rev,
    const pj_str_t *cursor)
{
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    zone->idle += rev->page->entries - rev->page->added;

    if (zone->idle > NGX_HTTP_PGW_POLL_IDLE + 2 * zone->table.live
        || (zone->pages && cursor->len == zone->mark_len
            && ngx_memcmp(cursor->data, zone->mark, cursor->len) == 0))
    {
        zone->endless = 1;
        ngx_http_pgw_poll_complain(rev, NGX_LOG_ERR, "its pages have no end");
    }

    zone->pages++;

    if ((zone->pages & (zone->pages - 1)) == 0) {
        zone->mark_len = cursor->len;
        ngx_memcpy(zone->mark, cursor->data, cursor->len);
    }

    return rev->page->entries == 0
           || (zone->endless && rev->pages >= NGX_HTTP_PGW_POLL_PAGES);
}


/* With the mutex: the table has all of the page. */

static void
ngx_http_pgw_poll_done(ngx_http_pgw_revocations_t *rev, const pj_str_t *cursor,
    ngx_uint_t more)
{
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    /* a worker that is killed here leaves none, which is always right */

    zone->cursor_len = 0;
    ngx_memory_barrier();
    ngx_memcpy(zone->cursor, cursor->data, cursor->len);
    ngx_memory_barrier();
    zone->cursor_len = cursor->len;

    if (more && !ngx_http_pgw_poll_pauses(rev, cursor)) {
        ngx_post_event(&rev->from.begin, &ngx_posted_next_events);
        return;
    }

    (void) ngx_http_pgw_lease_release(&rev->from);

    if (more) {
        return;
    }

    zone->asked = rev->asked;
    ngx_memory_barrier();
    zone->complete = 1;
    zone->full = 0;
    zone->pages = 0;
    zone->idle = 0;
    zone->endless = 0;

    if (zone->complaint) {
        zone->complaint = 0;
        ngx_log_error(NGX_LOG_NOTICE, rev->from.log, 0,
                      "platform gateway: revocations are read again");
    }
}


/* How late what is new came, by the feed's clock alone. */

static void
ngx_http_pgw_poll_lag(const ngx_http_pgw_page_t *page, int64_t now)
{
    int64_t     ms;
    ngx_uint_t  i;

    for (i = 0; now && i < page->fresh; i++) {
        ms = now - page->revoked[i]
             + (int64_t) (ngx_current_msec - page->answered);

        ngx_http_pgw_counters_add(&ngx_http_pgw_counters->lag,
                                  (ngx_msec_t) ngx_max(ms, 0));
    }
}


/* The next piece, with the mutex; whether the page ends with it. */

static ngx_uint_t
ngx_http_pgw_poll_piece(ngx_http_pgw_page_t *page)
{
    page->zone->judged = ngx_max(page->zone->judged, ngx_time());

    ngx_http_pgw_feed_read(page, ngx_min(page->pos + NGX_HTTP_PGW_POLL_PIECE,
                                         page->last));
    ngx_http_pgw_table_sweep(&page->zone->table, ngx_time(),
                             NGX_HTTP_PGW_POLL_SWEEP);
    page->sweep -= ngx_min(page->sweep, NGX_HTTP_PGW_POLL_SWEEP);

    return page->pos == page->last && page->sweep == 0;
}


static void
ngx_http_pgw_poll_turn(ngx_event_t *ev)
{
    int64_t                      now = 0;
    pj_str_t                     cursor = { NULL, 0 };
    ngx_uint_t                   more = 0;
    ngx_http_pgw_page_t         *page;
    ngx_http_pgw_revocations_t  *rev = ev->data;

    page = rev->page;

    if (!ngx_shmtx_trylock(&rev->from.shpool->mutex)) {
        ngx_add_timer(ev, 1);
        return;
    }

    if (ngx_http_pgw_lease_renew(&rev->from) != NGX_OK) {
        page->err = "the lease has passed to others";

    } else if (!ngx_http_pgw_poll_piece(page)) {
        ngx_post_event(ev, &ngx_posted_next_events);
        ngx_shmtx_unlock(&rev->from.shpool->mutex);
        return;

    } else {
        ngx_http_pgw_feed_rest(page, &more, &now, &cursor);

        if (page->err == NULL) {
            ngx_http_pgw_poll_done(rev, &cursor, more);
        }
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);

    rev->page = NULL;

    if (page->err) {
        ngx_http_pgw_poll_failed(rev, page->err,
                                 page->full ? NGX_HTTP_PGW_FEED_FULL
                                            : NGX_HTTP_PGW_FEED_FAILED);

    } else {
        ngx_http_pgw_counters_end(&rev->from, NGX_HTTP_PGW_FEED_READ);
        ngx_http_pgw_poll_lag(page, now);
    }

    ngx_free(page);
}


/* Slots to sweep, for the time that went by since the last ones were. */

static uint64_t
ngx_http_pgw_poll_due(const ngx_http_pgw_revoked_t *zone)
{
    time_t  passed = zone->judged ? ngx_time() - zone->judged : 0;

    passed = ngx_min(ngx_max(passed, 0), NGX_HTTP_PGW_POLL_PASS);

    return zone->table.slots * (uint64_t) passed / NGX_HTTP_PGW_POLL_PASS;
}


void
ngx_http_pgw_poll_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status)
{
    ngx_http_pgw_revocations_t  *rev = data;

    size_t                size;
    ngx_http_pgw_page_t  *page;

    if (err) {
        ngx_http_pgw_poll_failed(rev, err,
                                 status == NGX_HTTP_BAD_REQUEST
                                 && rev->zone->cursor_len
                                 ? NGX_HTTP_PGW_FEED_CURSOR
                                 : NGX_HTTP_PGW_FEED_FAILED);
        return;
    }

    /* the document goes with the request that brought it */

    size = sizeof(ngx_http_pgw_page_t) + document->len;

    page = ngx_alloc(size + pj_keyset_arena_bytes(NGX_HTTP_PGW_FEED_TEXT),
                     rev->from.log);
    if (page == NULL) {
        ngx_http_pgw_poll_failed(rev, "out of memory",
                                 NGX_HTTP_PGW_FEED_FAILED);
        return;
    }

    ngx_memzero(page, sizeof(ngx_http_pgw_page_t));

    page->zone = rev->zone;
    page->name = rev->names->elts;
    page->names = rev->names->nelts;
    page->pos = page->body;
    page->last = ngx_cpymem(page->body, document->data, document->len);
    page->mem = (u_char *) page + size;
    page->answered = ngx_current_msec;
    page->sweep = ngx_http_pgw_poll_due(rev->zone);
    page->follows = rev->zone->complete && rev->zone->cursor_len;

    rev->page = page;
    rev->turn.handler = ngx_http_pgw_poll_turn;
    rev->turn.data = rev;
    rev->turn.log = rev->from.log;

    ngx_post_event(&rev->turn, &ngx_posted_next_events);
}


static void
ngx_http_pgw_poll_begin(ngx_event_t *ev)
{
    ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_revocations_t  *rev = ev->data;

    zone = rev->zone;

    rev->pages++;
    rev->asked = ngx_current_msec;
    rev->from.quiet = (zone->complaint != 0);
    rev->args.data = rev->args_data;
    rev->args.len = (size_t) (ngx_sprintf(rev->args_data, "after=%*s",
                                          zone->cursor_len, zone->cursor)
                              - rev->args_data);

    if (ngx_http_pgw_fetch_start(&rev->from,
                                 zone->cursor_len ? &rev->args : NULL)
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

    if (rev->turn.posted) {
        ngx_delete_posted_event(&rev->turn);
    }

    if (rev->turn.timer_set) {
        ngx_del_timer(&rev->turn);
    }

    if (rev->page) {
        ngx_free(rev->page);
        rev->page = NULL;
    }

    if (rev->from.fetching) {
        ngx_http_pgw_poll_failed(rev, "the worker process is exiting",
                                 NGX_HTTP_PGW_FEED_SUPERSEDED);
    }
}


/* Says once that the feed becomes stale: from then on revoked clients may pass
   or, with "refuse", nobody does. */

static void
ngx_http_pgw_poll_stale(const ngx_http_pgw_revocations_t *rev)
{
    ngx_uint_t               stale, level;
    ngx_http_pgw_revoked_t  *zone = rev->zone;

    stale = zone->full
            || ngx_http_pgw_lease_left(zone->asked + rev->after) == 0;

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


/* Looks for the next fetch. */

static void
ngx_http_pgw_poll_timer(ngx_event_t *ev)
{
    ngx_msec_t                   left;
    ngx_uint_t                   misjudged;
    ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_revocations_t  *rev = ev->data;

    zone = rev->zone;

    if (ngx_exiting) {
        ngx_http_pgw_poll_abort(rev);
        return;
    }

    /* never waits for a writer */

    if (ngx_shmtx_trylock(&rev->from.shpool->mutex)) {

        ngx_http_pgw_poll_stale(rev);

        /* what was dead by a clock that was set back may live: all again */

        misjudged = ngx_http_pgw_revocations_misjudged(zone);

        if (misjudged) {
            zone->lease.next_try = ngx_current_msec;
        }

        if (ngx_http_pgw_lease_take(&rev->from) == NGX_OK) {
            rev->pages = 0;

            if (misjudged) {
                zone->complete = 0;
                zone->judged = 0;
                ngx_http_pgw_poll_rewind(zone);
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

        /* what another feed has said holds until it dies, but is not all */

        zone->complete = 0;
        ngx_http_pgw_poll_rewind(zone);
    }

    ngx_shmtx_unlock(&rev->from.shpool->mutex);

    rev->timer.handler = ngx_http_pgw_poll_timer;
    rev->timer.data = rev;
    rev->timer.log = rev->from.log;
    rev->timer.cancelable = 1;

    rev->from.begin.handler = ngx_http_pgw_poll_begin;
    rev->from.begin.data = rev;
    rev->from.begin.log = rev->from.log;

    ngx_http_pgw_fetch_reserve(&rev->from);

    ngx_add_timer(&rev->timer, 1);
}
