/* Unit tests of the feed of revocations: feed.c, poll.c and table.c with a
 * zone, a worker, a feed and a clock made by the test. */

#ifndef FEED_H_INCLUDED
#define FEED_H_INCLUDED

#include <string.h>

#include "../base/base.h"
#include "../issuer/issuer.h"
#include "../revoked/revoked.h"
#include "unit.h"

/* The event loop has at most one event, and timers never run. */
static ngx_event_t *posted;

#undef ngx_post_event
#undef ngx_add_timer
#undef ngx_del_timer
#undef ngx_free
#define ngx_post_event(ev, queue) (posted = (ev))
#define ngx_add_timer(ev, ms) ((void) (ev), (void) (ms))
#define ngx_del_timer(ev) ((void) (ev))
#define ngx_free(mem) ((void) (mem))
#define ngx_shmtx_trylock(mtx) 1
#define ngx_shmtx_lock(mtx) ((void) 0)
#define ngx_shmtx_unlock(mtx) ((void) 0)
#define ngx_http_pgw_counters_add(h, ms) ((void) (ms))
#define ngx_http_pgw_fetch_abort(from) ((void) (from))
#define ngx_http_pgw_lease_activate(from) source
#define ngx_http_pgw_lease_start(from)                                         \
    ((from)->timer.data = (from)->begin.data = (from)->data)
#define ngx_http_pgw_revocations_set_back(zone) set_back

static ngx_uint_t set_back, lease_lost;
static ngx_int_t source;

#include "../base/ngx_http_pgw_names.c"
#include "../revoked/ngx_http_pgw_feed.c"
#include "../revoked/ngx_http_pgw_poll.c"
#include "../revoked/ngx_http_pgw_table.c"

/* -- stubs of nginx and of other files */

static ngx_time_t clock_now;
volatile ngx_time_t *ngx_cached_time = &clock_now;
volatile ngx_msec_t ngx_current_msec;
ngx_queue_t ngx_posted_next_events;
ngx_uint_t ngx_exiting;
sig_atomic_t ngx_terminate;

static unsigned complaints;

#pragma weak ngx_strncasecmp

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
                        const char *fmt, ...)
{
    complaints++;
}

u_char *ngx_cpystrn(u_char *dst, u_char *src, size_t n)
{
    return dst + snprintf((char *) dst, n, "%s", (char *) src);
}

u_char *ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    return buf;
}

/* There is one page at a time. */
void *ngx_alloc(size_t size, ngx_log_t *log)
{
    static _Alignas(16) char mem[8 * 1024 * 1024];

    ck_assert_uint_le(size, sizeof(mem));
    return mem;
}

ngx_int_t ngx_http_pgw_lease_acquire(ngx_http_pgw_source_t *from)
{
    if (from->fetching || ngx_http_pgw_lease_left(from->lease->next_try))
        return NGX_DECLINED;
    from->lease->next_try = ngx_current_msec + from->cooldown;
    from->fetching = 1;
    ngx_post_event(&from->begin, NULL);
    return NGX_OK;
}

ngx_int_t ngx_http_pgw_lease_renew(const ngx_http_pgw_source_t *from)
{
    return lease_lost ? NGX_DECLINED : NGX_OK;
}

ngx_int_t ngx_http_pgw_lease_release(ngx_http_pgw_source_t *from)
{
    from->fetching = 0;
    return lease_lost ? NGX_DECLINED : NGX_OK;
}

/* -- a zone, a worker, a feed */

#define SLOTS (128 * 1024)

static ngx_http_pgw_table_slot_t slots[SLOTS];
static ngx_http_pgw_revoked_t zone;
static ngx_http_pgw_revocations_t rev;
static ngx_http_pgw_name_t names[] = {{.iss = {(const u_char *) "a", 1}},
                                      {.iss = {(const u_char *) "bc", 2}}};
static ngx_array_t accepted = {.elts = names, .nelts = 1};
static ngx_slab_pool_t shpool;
static ngx_log_t nginx_log;

/* Returns the text of page n, NULL for an answer of 503, or "" for 400. */
static const char *(*feed)(unsigned n);
static unsigned asked;       /* number of pages that were requested */
static unsigned asked_again; /* pages of rereads */
static char text[2 * 1024 * 1024];

ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from, ngx_str_t *args)
{
    ngx_str_t document = ngx_null_string;

    asked_again += rev.reading == &zone.reread;
    const char *page = feed(asked++);

    document.data = (u_char *) page;
    document.len = page ? strlen(page) : 0;
    ngx_http_pgw_poll_fetched(&rev, &document, document.len ? NULL : "no page",
                              document.len ? 200
                              : page       ? 400
                                           : 503);
    return NGX_OK;
}

static void setup(void)
{
    memset(slots, 0, sizeof(slots));
    memset(&zone, 0, sizeof(zone));
    memset(&rev, 0, sizeof(rev));
    ngx_http_pgw_table_init(&zone.table, slots, sizeof(slots));
    zone.secret[0] = 1;
    accepted.nelts = 1;
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(ngx_http_pgw_feed_seed(&zone, &names[i]), NGX_OK);
    rev.from = ngx_http_pgw_poll_source;
    rev.from.data = &rev;
    rev.zone = &zone;
    rev.names = &accepted;
    rev.after = 10000;
    rev.from.shpool = &shpool;
    rev.from.lease = &zone.lease;
    rev.from.log = &nginx_log;
    nginx_log.log_level = NGX_LOG_ERR;
    clock_now.sec = 1000000;
    ngx_current_msec = 5000;
    set_back = lease_lost = 0;
    asked = asked_again = complaints = 0;
    posted = NULL;
    source = NGX_DONE;
    ngx_http_pgw_poll_init_process(&rev);
}

/* Runs the event.  Returns 0 if there is none. */
static int turn(void)
{
    ngx_event_t *ev = posted;

    posted = NULL;
    if (ev != NULL)
        ev->handler(ev);
    return ev != NULL;
}

/* Runs the worker until it waits, and returns the number of pages. */
static unsigned work(void)
{
    unsigned before = asked;

    rev.from.timer.handler(&rev.from.timer);
    while (turn())
        ;
    return asked - before;
}

static int known_of(const ngx_http_pgw_name_t *name, unsigned id)
{
    char buf[16];
    ngx_http_pgw_table_key_t key;
    pj_json_t node = {.type = PJ_JSON_STRING, .text.data = (u_char *) buf};

    node.text.len = (size_t) snprintf(buf, sizeof(buf), "%u", id);
    ck_assert_int_eq(ngx_http_pgw_feed_key(name, 'i', &node, &key), NGX_OK);
    return ngx_http_pgw_table_has(&zone.table, &key, 0) != 0;
}

static int known(unsigned id)
{
    return known_of(&names[0], id);
}

#endif
