/*
 * Tests of the feed of revocations, page by page, against a feed and a clock of
 * the test's own: what is read as an entry, what becomes of a page whose lease
 * has gone, how often a feed without an end is asked, and how soon dead entries
 * are swept.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../ngx_http_pgw_counters.h"
#include "../ngx_http_pgw_fetch.h"
#include "../ngx_http_pgw_poll.h"
#include "../ngx_http_pgw_revocations.h"

/* Of the event loop there is one event, and no timer runs. */
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
#define ngx_http_pgw_fetch_reserve(from) ((void) (from))
#define ngx_http_pgw_lease_activate(from) NGX_OK
#define ngx_http_pgw_revocations_misjudged(zone) set_back

static ngx_uint_t set_back, lease_lost;

#include "../ngx_http_pgw_feed.c"
#include "../ngx_http_pgw_poll.c"
#include "../ngx_http_pgw_table.c"

/* -- what they need of nginx and of the other files */

static ngx_time_t clock_now;
volatile ngx_time_t *ngx_cached_time = &clock_now;
volatile ngx_msec_t ngx_current_msec;
ngx_queue_t ngx_posted_next_events;
ngx_uint_t ngx_exiting;
sig_atomic_t ngx_terminate;
static uint32_t crc_table[16];
uint32_t *ngx_crc32_table_short = crc_table;

static ngx_uint_t outcomes[NGX_HTTP_PGW_FEED_OUTCOMES];
static unsigned complaints;

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
                        const char *fmt, ...)
{
    complaints++;
}

u_char *ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    return buf;
}

/* There is one page at a time. */
void *ngx_alloc(size_t size, ngx_log_t *log)
{
    static _Alignas(16) char mem[4 * 1024 * 1024];

    ck_assert_uint_le(size, sizeof(mem));
    return mem;
}

void ngx_http_pgw_counters_end(const ngx_http_pgw_source_t *from,
                               ngx_uint_t outcome)
{
    outcomes[outcome]++;
}

ngx_int_t ngx_http_pgw_lease_take(ngx_http_pgw_source_t *from)
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

/* The page of that number, since the beginning: its text, or NULL: 503. */
static const char *(*feed)(unsigned n);
static unsigned asked; /* pages */
static char text[1024 * 1024];

ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from, ngx_str_t *args)
{
    const char *page = feed(asked++);
    ngx_str_t document = ngx_null_string;

    document.data = (u_char *) page;
    document.len = page ? strlen(page) : 0;
    ngx_http_pgw_poll_fetched(&rev, &document, page ? NULL : "status 503",
                              page ? 200 : 503);
    return NGX_OK;
}

static void setup(void)
{
    memset(slots, 0, sizeof(slots));
    memset(&zone, 0, sizeof(zone));
    memset(&rev, 0, sizeof(rev));
    memset(outcomes, 0, sizeof(outcomes));
    ngx_http_pgw_table_init(&zone.table, slots, sizeof(slots));
    zone.secret[0] = 1;
    accepted.nelts = 1;
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(ngx_http_pgw_feed_seed(&zone, &names[i]), NGX_OK);
    rev.zone = &zone;
    rev.names = &accepted;
    rev.after = 10000;
    rev.from.shpool = &shpool;
    rev.from.lease = &zone.lease;
    rev.from.cooldown = 500;
    rev.from.log = &nginx_log;
    nginx_log.log_level = NGX_LOG_ERR;
    for (uint32_t i = 0; i < 16; i++)
        crc_table[i] = i * 0x1db71064 + 1;
    clock_now.sec = 1000000;
    ngx_current_msec = 5000;
    set_back = lease_lost = 0;
    asked = complaints = 0;
    posted = NULL;
    ngx_http_pgw_poll_init_process(&rev);
}

/* One event; 0: there was none. */
static int turn(void)
{
    ngx_event_t *ev = posted;

    posted = NULL;
    if (ev != NULL)
        ev->handler(ev);
    return ev != NULL;
}

/* What the worker does until it waits; the number of pages that it asked. */
static unsigned work(void)
{
    unsigned before = asked;

    rev.timer.handler(&rev.timer);
    while (turn())
        ;
    return asked - before;
}

static void pass(unsigned ms)
{
    ngx_current_msec += ms;
    clock_now.sec = 1000000 + (time_t) (ngx_current_msec / 1000);
}

/* A page of n entries, the first of that number. */
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

/* -- what is read */

static const char *given;

static const char *gives(unsigned n)
{
    return given;
}

START_TEST (test_what_is_the_list) {
    static const struct {
        const char *page;
        int ok;
        ngx_uint_t entries;
    } rows[] = {
#define ENTRY "{\"id\":\"1\",\"dies_at\":1000900}"
#define REST ",\"cursor\":\"a\",\"more\":false}"
        {"{\"revocations\":[" ENTRY "]" REST, 1, 1},
        {"{\"a\":1,\"revocations\":[" ENTRY "]" REST, 1, 1},
        {"{\"x\\\"revocations\":[" ENTRY "],\"revocations\":[]" REST, 1, 0},
        {"{\"x,\\\"revocations\":[" ENTRY "]" REST, 0, 0},
        {"{\"revocations\":[],\"b\":{\"revocations\":[],\"c\":" ENTRY "}" REST,
         1, 0},
        {"{\"b\":{\"revocations\":[" ENTRY "]},\"revocations\":[]" REST, 1, 0},
        {"[\"revocations\",[" ENTRY "]]", 0, 0},
        {"[{\"revocations\":[" ENTRY "]}]", 0, 0},
    };

    feed = gives;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup();
        given = rows[i].page;
        work();
        ck_assert_msg(zone.complete == (ngx_atomic_t) rows[i].ok, "%s", given);
        ck_assert_msg(zone.table.live == rows[i].entries, "%s", given);
        ck_assert_int_eq(known(1), rows[i].entries == 1);
    }
}
END_TEST

/* Whoever chooses ids must not choose slots. */
START_TEST (test_the_secret_is_in_the_keys) {
    feed = gives;
    given = "{\"revocations\":[" ENTRY "]" REST;
    work();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ngx_http_pgw_feed_seed(&zone, &names[0]), NGX_OK);
        ck_assert_int_eq(known(1), i != 1);
        zone.secret[15] ^= 1;
    }
}
END_TEST

/* What one issuer says of an id is nothing to another's. */
START_TEST (test_whose_entries_they_are) {
#define LIST "\"revocations\":[" ENTRY "]"
#define ISSUER(of) "\"issuer\":" of
    static const struct {
        const char *page;
        int ok, of[2];
    } rows[] = {
        {ISSUER("\"a\"") "," LIST, 1, {1, 0}},
        {ISSUER("\"bc\"") "," LIST, 1, {0, 1}},
        {ISSUER("\"\\u0061\"") "," LIST, 1, {1, 0}},
        {LIST, 1, {1, 1}},
        {"\"b\":{" ISSUER("\"a\"") "}," LIST, 1, {1, 1}},
        {ISSUER("\"b\"") "," LIST, 0, {0, 0}},
        {ISSUER("\"\"") "," LIST, 0, {0, 0}},
        {ISSUER("1") "," LIST, 0, {0, 0}},
        {LIST "," ISSUER("\"a\""), 1, {1, 0}},
        {ISSUER("\"bc\"") "," ISSUER("\"a\"") "," LIST, 0, {0, 0}},
        {ISSUER("\"a\"") ",\"revocations\":[]," ISSUER("\"a\""), 0, {0, 0}},
    };

    feed = gives;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setup();
        accepted.nelts = 2;
        snprintf(text, sizeof(text), "{%s" REST, rows[i].page);
        given = text;
        work();
        ck_assert_msg(zone.complete == (ngx_atomic_t) rows[i].ok, "%s", given);
        for (int n = 0; n < 2; n++)
            ck_assert_msg(known_of(&names[n], 1) == rows[i].of[n], "%s", given);
    }
}
END_TEST

START_TEST (test_times_are_rounded) {
    static const struct {
        const char *seconds;
        int64_t down, up;
    } rows[] = {
        {"1000", 1000000, 1000000},
        {"1000.001", 1000001, 1000001},
        {"1000.0004", 1000000, 1000001},
        {"1000.0006", 1000000, 1000001},
        {"0", 0, 0},
        {"253402300800", 253402300800000, 253402300800000},
        {"253402300800.001", -1, -1},
        {"-0.001", -1, -1},
        {"1e3", -1, -1},
        {"1E3", -1, -1},
    };
    pj_json_t node = {.type = PJ_JSON_NUMBER};
    pj_round_t both[] = {PJ_ROUND_DOWN, PJ_ROUND_UP};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int up = 0; up < 2; up++) {
            int64_t ms = -2, want = up ? rows[i].up : rows[i].down;

            node.text.data = (const u_char *) rows[i].seconds;
            node.text.len = strlen(rows[i].seconds);
            if (want < 0) {
                ck_assert_int_eq(ngx_http_pgw_feed_time(&node, both[up], &ms),
                                 NGX_ERROR);
                continue;
            }
            ck_assert_int_eq(ngx_http_pgw_feed_time(&node, both[up], &ms),
                             NGX_OK);
            ck_assert_int_eq(ms, want);
        }
    }
}
END_TEST

/* -- when it is asked */

static const char *long_page(unsigned n)
{
    return page_of(0, 1900, 1, 0);
}

/* When the page comes another worker, or configuration, has it. */
START_TEST (test_a_lease_that_goes) {
    feed = long_page;
    ck_assert_uint_eq(work(), 1); /* control */
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert(known(1899));

    setup();
    lease_lost = 1;
    ck_assert_uint_eq(work(), 1);
    ck_assert(!known(0));
    ck_assert_uint_eq(zone.complete, 0);
    ck_assert_uint_eq(zone.cursor_len, 0);
    ck_assert_uint_eq(outcomes[NGX_HTTP_PGW_FEED_SUPERSEDED], 1);
    ck_assert_uint_eq(outcomes[NGX_HTTP_PGW_FEED_READ], 0);
}
END_TEST

static const char *slow_pages(unsigned n)
{
    if (n == 3)
        return NULL;
    const char *page = page_of(n, 1, n, n < 2);

    ngx_current_msec += 700; /* until it answers */
    return page;
}

/* Its age is that of the question, and of the last one. */
START_TEST (test_the_age_of_the_feed) {
    ngx_msec_t began = ngx_current_msec;

    feed = slow_pages;
    ck_assert_uint_eq(work(), 3);
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert_uint_eq(zone.asked, began + 1400);
    ck_assert_uint_eq(ngx_current_msec, began + 2100);
    pass(500);
    ck_assert_uint_eq(work(), 1);
    ck_assert_uint_eq(zone.asked, began + 1400); /* a failure is none */
}
END_TEST

static unsigned period, entries_of, before_loop;

static const char *loop_of(unsigned n)
{
    n = n < before_loop ? n : before_loop + (n - before_loop) % period;
    return page_of(n, entries_of, n, 1);
}

/* A feed that gives the same pages again, after some others or none. */
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
            /* as soon as that can be known */
            unsigned most = 4 * (period > before_loop ? period : before_loop);

            ck_assert_uint_le(work(), 20 + most);
            for (int n = 0; n < 20; n++) {
                ck_assert_uint_eq(work(), 0);
                pass(500);
                ck_assert_uint_eq(work(), 20);
            }
            ck_assert_uint_eq(zone.complete, 0);
            ck_assert_uint_eq(complaints, 2); /* that, and that it is stale */
        }
    }

    /* until it ends */
    feed = long_page;
    pass(500);
    ck_assert_uint_eq(work(), 1);
    ck_assert_uint_eq(zone.complete, 1);
    ck_assert_uint_eq(zone.endless, 0);
    ck_assert_uint_eq(zone.complaint, 0);
}
END_TEST

static const char *fails_at_times(unsigned n)
{
    return n % 10 == 9 ? NULL : page_of(n % 3, 1, n % 3, 1);
}

/* What fails is asked again soon, but not where that is without an end. */
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
    ck_assert_uint_eq(zone.endless, 1);
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

static unsigned pages = 600, each = 100;

static const char *many(unsigned n)
{
    n %= pages;
    return page_of(n * each, each, n, n < pages - 1);
}

/* A feed that is read again from its beginning is no such one, however many
 * pages it has, and however small they are. */
START_TEST (test_all_of_it_again) {
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
            ck_assert_uint_eq(zone.endless, 0);
            set_back = 0;
            pass(500);
        }
        ck_assert_uint_eq(complaints, 0);
    }
}
END_TEST

/* -- clocks and room */

/* What died by a clock that was wrong is missing until all is read again. */
START_TEST (test_a_clock_that_was_set_back) {
    feed = long_page;
    work();
    ck_assert_uint_eq(zone.complete, 1);
    feed = slow_pages; /* of which one fails */
    asked = 3;
    set_back = 1;
    ck_assert_uint_eq(work(), 1); /* not only in the next interval */
    set_back = 0;
    ck_assert_uint_eq(zone.complete, 0);
    ck_assert_uint_eq(zone.cursor_len, 0);
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

/* Dead entries go within a minute or an interval, however large the zone. */
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

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *tc = tcase_create("feed");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_what_is_the_list);
    tcase_add_test(tc, test_the_secret_is_in_the_keys);
    tcase_add_test(tc, test_whose_entries_they_are);
    tcase_add_test(tc, test_times_are_rounded);
    tcase_add_test(tc, test_a_lease_that_goes);
    tcase_add_test(tc, test_the_age_of_the_feed);
    tcase_add_test(tc, test_a_feed_that_loops);
    tcase_add_test(tc, test_a_loop_that_fails);
    tcase_add_test(tc, test_cursors_that_never_end);
    tcase_add_test(tc, test_all_of_it_again);
    tcase_add_test(tc, test_a_clock_that_was_set_back);
    tcase_add_test(tc, test_dead_entries_are_swept);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
