/*
 * Tests of polling the feed of revocations: the lease, feeds that do not
 * terminate, reloads, refused cursors and the sweep of dead entries.
 */

#include "feed.h"

/* A new worker takes over, with the same feed or (NGX_DONE) another. */
static void reload(ngx_int_t activated)
{
    posted = NULL;
    rev.from.fetching = 0;
    zone.lease.next_try = ngx_current_msec;
    source = activated;
    ngx_http_pgw_poll_init_process(&rev);
}

static void pass(unsigned ms)
{
    ngx_current_msec += ms;
    clock_now.sec = 1000000 + (time_t) (ngx_current_msec / 1000);
}

/* A page of n entries that are numbered from first on. */
static const char *page_of(unsigned first, unsigned n, unsigned cursor,
                           int more)
{
    FILE *to = fmemopen(text, sizeof(text), "w");

    ck_assert_ptr_nonnull(to);
    fprintf(to, "{\"cursor\":\"c%u\",\"more\":%s,\"revocations\":[", cursor,
            more ? "true" : "false");
    for (unsigned i = 0; i < n; i++)
        fprintf(to, "%s{\"id\":\"%u\",\"dies_at\":1000900}", i ? "," : "",
                first + i);
    fprintf(to, "]}");
    ck_assert_int_eq(fclose(to), 0);
    return text;
}

/* -- requests */

static const char *long_page(unsigned n)
{
    return page_of(0, 1900, 1, 0);
}

/* Another worker or configuration took the lease during the request. */
START_TEST (test_lease_lost_during_a_fetch) {
    feed = long_page;
    ck_assert_uint_eq(work(), 1); /* control */
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert(known(1899));

    setup();
    lease_lost = 1;
    ck_assert_uint_eq(work(), 1);
    ck_assert(!known(0));
    ck_assert_uint_eq(zone.complete, 0);
    ck_assert_uint_eq(zone.news.cursor_len, 0);
    ck_assert_uint_eq(zone.lease.outcomes[NGX_HTTP_PGW_FEED_SUPERSEDED], 1);
    ck_assert_uint_eq(zone.lease.outcomes[NGX_HTTP_PGW_FEED_READ], 0);
}
END_TEST

static const char *slow_pages(unsigned n)
{
    if (n == 3)
        return NULL;
    const char *page = page_of(n, 1, n, n < 2);

    ngx_current_msec += 700; /* delay of the answer */
    return page;
}

/* The age counts from the request of the last page. */
START_TEST (test_the_age_of_the_feed) {
    ngx_msec_t began = ngx_current_msec;

    feed = slow_pages;
    ck_assert_uint_eq(work(), 3);
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert_uint_eq(zone.as_of, began + 1400);
    ck_assert_uint_eq(ngx_current_msec, began + 2100);
    pass(500);
    ck_assert_uint_eq(work(), 1);
    ck_assert_uint_eq(zone.as_of, began + 1400); /* not by a failure */
}
END_TEST

static unsigned period, entries_of, before_loop;

static ngx_uint_t endless(void)
{
    return ngx_http_pgw_poll_endless(&zone, &zone.news);
}

static const char *loop_of(unsigned n)
{
    n = n < before_loop ? n : before_loop + (n - before_loop) % period;
    return page_of(n, entries_of, n, 1);
}

/* A feed that repeats its pages for ever, all or from some page on. */
START_TEST (test_a_feed_that_loops) {
    static const unsigned periods[] = {2, 3, 5, 7, 19, 20, 21, 64, 300, 1000};
    static const unsigned before[] = {0, 1, 10, 100};

    entries_of = 1;
    for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
        for (size_t j = 0; j < sizeof(before) / sizeof(before[0]); j++) {
            setup();
            feed = loop_of;
            period = periods[i];
            before_loop = before[j];
            /* 1,000 known entries more than twice the table */
            unsigned most = 1000 + 3 * (period + before_loop);

            ck_assert_uint_le(work(), 20 + most);
            ck_assert_uint_eq(zone.table.live, period + before_loop);
            for (int n = 0; n < 20; n++) {
                ck_assert_uint_eq(work(), 0);
                pass(500);
                ck_assert_uint_eq(work(), 20);
            }
            ck_assert_uint_eq(zone.complete, 0);
            ck_assert_uint_eq(complaints,
                              2); /* does not terminate, and stale */
        }
    }

    /* control: an end */
    feed = long_page;
    pass(500);
    ck_assert_uint_eq(work(), 1);
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert_uint_eq(endless(), 0);
    ck_assert_str_eq((char *) zone.error, "");
}
END_TEST

static const char *fails_at_times(unsigned n)
{
    return n % 10 == 9 ? NULL : page_of(n % 3, 500, n % 3, 1);
}

/* A failure is retried early, but not of a feed that does not terminate. */
START_TEST (test_a_loop_that_fails) {
    feed = fails_at_times;
    work();
    for (int n = 0; n < 20; n++) {
        unsigned count = 0;

        for (int ms = 0; ms < 500; ms += 20) {
            pass(20);
            count += work();
        }
        ck_assert_uint_le(count, 20);
    }
    ck_assert_uint_eq(endless(), 1);
}
END_TEST

static const char *ever_known(unsigned n)
{
    return page_of(0, entries_of, n, 1);
}

START_TEST (test_cursors_that_never_end) {
    feed = ever_known;
    for (entries_of = 1; entries_of <= 100; entries_of *= 10) {
        setup();
        ck_assert_uint_le(work(), 1 + 1 + 20 + (1000 / entries_of) + 2);
        for (int n = 0; n < 20; n++) {
            pass(500);
            ck_assert_uint_eq(work(), 20);
        }
    }
}
END_TEST

static const char *ever_empty(unsigned n)
{
    return page_of(0, 0, n, 1);
}

/* They are read once an interval, and logged once. */
START_TEST (test_empty_pages_that_never_end) {
    feed = ever_empty;
    for (unsigned n = 0; n < 3000; n++) {
        ck_assert_uint_eq(work(), 1);
        pass(500);
        ck_assert_uint_eq(endless(), n >= 1000);
    }
    ck_assert_uint_eq(complaints, 2); /* does not terminate, and stale */
}
END_TEST

static unsigned pages = 600, each = 100;

static const char *many(unsigned n)
{
    n %= pages;
    return page_of(n * each, each, n, n < pages - 1);
}

/* A feed that is reread from the beginning terminates, with any number and size
 * of pages. */
START_TEST (test_whole_feed_reread) {
    static const unsigned rows[] = {2, 3, 600, 5000};

    feed = many;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup();
        pages = rows[i];
        each = pages > 1000 ? 1 : 100;
        for (int n = 0; n < 4; n++) {
            set_back = n > 2;
            ck_assert_uint_eq(work(), pages);
            ck_assert_uint_eq(zone.table.live, pages * each);
            ck_assert_uint_eq(zone.complete, 1);
            ck_assert_uint_eq(endless(), 0);
            set_back = 0;
            pass(500);
        }
        ck_assert_uint_eq(complaints, 0);
    }
}
END_TEST

/* -- over reloads */

static unsigned page_ms,
    refuses; /* the cursor of that number from now on, 0 for none */

static unsigned cursor_of(const ngx_http_pgw_reading_t *reading)
{
    char cursor[NGX_HTTP_PGW_CURSOR_MAX + 1] = "c0";
    unsigned at;

    memcpy(cursor, reading->cursor, reading->cursor_len);
    ck_assert_int_eq(sscanf(cursor, "c%u", &at), 1);
    return at;
}

/* Continues at the cursor: 100 pages of 10 entries, then 1 new entry each. */
static const char *by_cursor(unsigned n)
{
    unsigned at = cursor_of(rev.reading);

    pass(page_ms);
    if (at && refuses && --refuses == 0)
        return "";
    return at < 100 ? page_of(at * 10, 10, at + 1, 1)
                    : page_of(2000 + at, 1, at + 1, 0);
}

/* Runs the timer, and requests n pages at most. */
static void pages_of(unsigned n)
{
    unsigned before = asked;

    rev.from.timer.handler(&rev.from.timer);
    while (asked - before < n && turn())
        ;
}

static void forget(void)
{
    memset(slots, 0, sizeof(slots));
    zone.table.used = zone.table.live = 0;
}

static int knows_all(void)
{
    for (unsigned id = 0; id < 1000; id++)
        if (!known(id))
            return 0;
    return 1;
}

static void setup_by_cursor(unsigned ms)
{
    setup();
    feed = by_cursor;
    page_ms = ms;
    refuses = 0;
    pages_of(1000);
    ck_assert(zone.complete && knows_all() && known(2100) && !known(2101));
    ck_assert_uint_eq(asked, 101);
    ck_assert_uint_eq(asked_again, 0); /* control: no reread at a start */
}

/* News come first and every interval, even if the feed is slow. */
START_TEST (test_news_before_a_reread) {
    static const unsigned took[] = {0, 25, 499, 501, 2000};

    for (size_t i = 0; i < sizeof(took) / sizeof(took[0]); i++) {
        setup_by_cursor(took[i]);
        reload(NGX_OK);
        forget(); /* as if it were another feed */
        pages_of(1);
        ck_assert(known(2101) && zone.complete && asked_again == 0);
        while (zone.rereads) {
            rev.from.timer.handler(&rev.from.timer);
            ck_assert(turn());
            ck_assert_uint_le(ngx_current_msec - zone.as_of, 500 + 3 * took[i]);
        }
        ck_assert(knows_all() && zone.complete && complaints == 0);
        ck_assert_uint_eq(asked_again, 101);
    }
}
END_TEST

/* Reloads in the middle of a reread neither count as a feed that does not
 * terminate nor keep the reread from its end. */
START_TEST (test_reloads_without_end) {
    setup_by_cursor(25);
    for (int n = 0; n < 60; n++) {
        if (n == 20) {
            ck_assert_uint_gt(asked_again, 300); /* in the middle of a reread */
            forget();
        }
        reload(NGX_OK);
        unsigned next = cursor_of(&zone.news);
        pages_of(1);
        ck_assert(known(2000 + next));
        pages_of(29);
    }
    ck_assert(knows_all() && complaints == 0);

    /* a reread after the last reload, which may have brought another feed */
    pages_of(1000);
    reload(NGX_OK);
    pages_of(30);
    reload(NGX_OK);
    ck_assert_uint_gt(zone.reread.cursor_len, 0);
    forget();
    asked_again = 0;
    pages_of(1000);
    pass(500);
    pages_of(1000);
    ck_assert_uint_le(asked_again, 202);
    ck_assert(knows_all());
    ck_assert_uint_eq(zone.rereads, 0);
}
END_TEST

/* The first reading goes on, and a reread completes the feed. */
START_TEST (test_reloads_before_the_end) {
    setup();
    feed = by_cursor;
    page_ms = 25;
    refuses = 0;
    pages_of(50);
    reload(NGX_OK);
    pages_of(51);
    ck_assert(knows_all() && asked_again == 0 && !zone.complete);
    while (turn())
        ;
    ck_assert(zone.complete && asked_again == 101);

    /* another feed */
    reload(NGX_DONE);
    ck_assert(!zone.complete);
    forget();
    pages_of(101);
    ck_assert(knows_all() && zone.complete && asked_again == 101);
}
END_TEST

/* The news or the reread begin again, and the feed becomes complete. */
START_TEST (test_cursors_that_are_refused) {
    for (unsigned behind = 0; behind < 2; behind++) {
        setup_by_cursor(25);
        reload(NGX_OK);
        forget();
        refuses = behind ? 35 : 1;
        pages_of(1000);
        ck_assert_uint_eq(zone.lease.outcomes[NGX_HTTP_PGW_FEED_CURSOR], 1);
        ck_assert_uint_eq(zone.rereads, behind);
        pages_of(1000);
        ck_assert(knows_all() && zone.complete && zone.rereads == 0);
        ck_assert(behind ? asked_again > 101 : asked_again == 0);
    }
}
END_TEST

/* -- the clock */

/* The feed is incomplete until it was reread. */
START_TEST (test_a_clock_that_was_set_back) {
    feed = long_page;
    work();
    ck_assert_uint_eq(zone.complete, 1);
    feed = slow_pages; /* page 3 fails */
    asked = 3;
    set_back = 1;
    ck_assert_uint_eq(work(), 1); /* before the next interval */
    set_back = 0;
    ck_assert_uint_eq(zone.complete, 0);
    ck_assert_uint_eq(zone.news.cursor_len, 0);
    feed = long_page;
    pass(125);
    work();
    ck_assert_uint_eq(zone.complete, 1);
}
END_TEST

static const char *nothing(unsigned n)
{
    return page_of(0, 0, 1, 0);
}

/* Dead entries are swept within a minute or an interval. */
START_TEST (test_dead_entries_are_swept) {
    static const ngx_msec_t intervals[] = {500, 5000, 60000};

    for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
        setup();
        rev.from.cooldown = intervals[i];
        feed = many;
        work();
        ck_assert_uint_eq(zone.table.live, 60000);
        feed = nothing;
        pass((893 + NGX_HTTP_PGW_FEED_LEEWAY) * 1000);
        work();
        ck_assert_uint_eq(zone.table.live, 60000); /* not yet */
        pass(4000);
        for (ngx_msec_t ms = 0; ms <= 60000; ms += 500) {
            work();
            pass(500);
        }
        ck_assert_uint_eq(zone.table.live, 0);
    }
}
END_TEST

UNIT_MAIN("poll", setup, test_lease_lost_during_a_fetch,
          test_the_age_of_the_feed, test_a_feed_that_loops,
          test_a_loop_that_fails, test_cursors_that_never_end,
          test_empty_pages_that_never_end, test_whole_feed_reread,
          test_news_before_a_reread, test_reloads_without_end,
          test_reloads_before_the_end, test_cursors_that_are_refused,
          test_a_clock_that_was_set_back, test_dead_entries_are_swept)
