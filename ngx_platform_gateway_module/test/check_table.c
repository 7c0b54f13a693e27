/*
 * Tests of the table of revocations: what it holds, how it goes full and empty,
 * what a writer leaves behind that is killed before any one of its stores, what
 * a reader sees between any two of them, and what of a writer between any two
 * of its own loads.
 */

#include <check.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <ngx_config.h>
#include <ngx_core.h>

/* The store before which the writer dies; 0: it lives. */
static unsigned long stores, dies_before;
static jmp_buf death;

/* What happens after each store, and before one of the loads; NULL: nothing. */
static void (*after_store)(void), (*before_load)(void);
static unsigned long loads, at_load;

static int load_tick(void)
{
    if (before_load != NULL && ++loads == at_load)
        before_load();
    return 0;
}

#define ngx_http_pgw_table_load(p, order)                                     \
    (load_tick(), __atomic_load_n(p, __ATOMIC_##order))

#define ngx_http_pgw_table_store(p, value, order)                             \
    do {                                                                      \
        if (++stores == dies_before) {                                        \
            longjmp(death, 1);                                                \
        }                                                                     \
        __atomic_store_n(p, value, __ATOMIC_##order);                         \
        if (after_store != NULL) {                                            \
            after_store();                                                    \
        }                                                                     \
    } while (0)

#include "../ngx_http_pgw_table.c"

#define SLOTS 64

static ngx_http_pgw_table_slot_t mem[SLOTS];
static ngx_http_pgw_table_t table;

static void setup(void)
{
    memset(mem, 0, sizeof(mem));
    memset(&table, 0, sizeof(table));
    ngx_http_pgw_table_init(&table, mem, sizeof(mem));
    stores = dies_before = 0;
    after_store = before_load = NULL;
}

/* Keys of which many meet: four homes for all, one of them the last slot. */
static ngx_http_pgw_table_key_t key_of(uint64_t n)
{
    return (ngx_http_pgw_table_key_t){
        {(n % 4) << 62 | 0xfull << 58 | (n + NGX_HTTP_PGW_TABLE_KEYS), ~n}};
}

static ngx_uint_t has(uint64_t n)
{
    ngx_http_pgw_table_key_t key = key_of(n);

    return ngx_http_pgw_table_has(&table, &key, 0);
}

static ngx_int_t put(uint64_t n, int64_t dies_at)
{
    ngx_http_pgw_table_key_t key = key_of(n);

    return ngx_http_pgw_table_put(&table, &key, INT64_MAX, dies_at);
}

static void sweep(int64_t now)
{
    ngx_http_pgw_table_sweep(&table, now, SLOTS);
}

START_TEST (test_an_entry_takes_32_bytes) {
    ck_assert_uint_eq(sizeof(ngx_http_pgw_table_slot_t), 32);
    ck_assert_uint_eq(table.slots, SLOTS);
    /* with the room that stays free: fewer than 43 */
    ck_assert_uint_le(sizeof(mem) / table.max, 42);
}
END_TEST

START_TEST (test_holds_what_was_put) {
    ck_assert(!has(1));
    ck_assert_int_eq(put(1, 10), NGX_OK);
    ck_assert(has(1));
    ck_assert(!has(5)); /* of the same home */
    ck_assert_int_eq(put(1, 10), NGX_DONE);
    ck_assert_uint_eq(table.live, 1);
}
END_TEST

START_TEST (test_keys_that_differ_in_the_second_word) {
    ngx_http_pgw_table_key_t key = key_of(1), other = key;

    other.word[1]++;
    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &key, 100, 10), NGX_OK);
    ck_assert(!ngx_http_pgw_table_has(&table, &other, 0));
    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &other, 200, 10), NGX_OK);
    ck_assert(ngx_http_pgw_table_has(&table, &other, 199));
    ck_assert(!ngx_http_pgw_table_has(&table, &key, 199));
}
END_TEST

START_TEST (test_the_later_times_hold) {
    ngx_http_pgw_table_key_t key = key_of(1);

    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &key, 100, 20), NGX_OK);
    ck_assert(ngx_http_pgw_table_has(&table, &key, 99));
    ck_assert(!ngx_http_pgw_table_has(&table, &key, 100));
    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &key, 50, 10), NGX_DONE);
    ck_assert(ngx_http_pgw_table_has(&table, &key, 99));
    sweep(19);
    ck_assert(ngx_http_pgw_table_has(&table, &key, 99));
    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &key, 200, 30), NGX_DONE);
    ck_assert(ngx_http_pgw_table_has(&table, &key, 199));
    sweep(29);
    ck_assert(ngx_http_pgw_table_has(&table, &key, 0));
    sweep(30);
    ck_assert(!ngx_http_pgw_table_has(&table, &key, 0));
}
END_TEST

START_TEST (test_full_says_so_and_has_room_again) {
    for (uint64_t n = 0; n < table.max; n++)
        ck_assert_int_eq(put(n, n % 2 ? 10 : 20), NGX_OK);
    ck_assert_int_eq(put(1000, 20), NGX_DECLINED);
    ck_assert(!has(1000));
    ck_assert_int_eq(put(0, 20), NGX_DONE); /* what is there may come again */
    sweep(10);
    ck_assert_uint_eq(table.live, table.max / 2);
    for (uint64_t n = 0; n < table.max; n++)
        ck_assert_uint_eq(has(n), n % 2 == 0);
    ck_assert_int_eq(put(1000, 20), NGX_OK);
    ck_assert(has(1000));
    sweep(20);
    ck_assert_uint_eq(table.live, 0);
    sweep(20);
    ck_assert_uint_eq(table.used, 0);
    for (size_t i = 0; i < SLOTS; i++)
        ck_assert_uint_eq(mem[i].key.word[0], NGX_HTTP_PGW_TABLE_EMPTY);
}
END_TEST

START_TEST (test_churn_keeps_room) {
    for (int64_t now = 0; now < 20000; now++) {
        ck_assert_int_eq(put((uint64_t) now, now + 24), NGX_OK);
        ngx_http_pgw_table_sweep(&table, now, 8);
        for (int64_t n = now < 23 ? 0 : now - 23; n <= now; n++)
            ck_assert(has((uint64_t) n));
    }
}
END_TEST

/* Puts and sweeps; all that is put is told to the caller before. */
static void story(uint64_t *began, uint64_t *ended)
{
    for (uint64_t n = 0; n < 60; n++) {
        *began = n + 1;
        ck_assert_int_eq(put(n, (int64_t) n + 20), NGX_OK);
        *ended = n + 1;
        ngx_http_pgw_table_sweep(&table, (int64_t) n, 16);
    }
}

/*
 * A writer dies before each one of the stores in turn: what was put is there,
 * what was not is not, no search runs for ever, the next writer can go on, and
 * when all is dead there is room for all but what the dead one held.
 */
START_TEST (test_a_writer_may_die_before_any_store) {
    volatile uint64_t began = 0, ended = 0;
    unsigned long all, at;

    story((uint64_t *) &began, (uint64_t *) &ended);
    all = stores;
    ck_assert_uint_gt(all, 300);

    for (at = 1; at <= all; at++) {
        setup();
        began = ended = 0;
        dies_before = at;
        if (setjmp(death) == 0) {
            story((uint64_t *) &began, (uint64_t *) &ended);
            ck_abort_msg("it did not die");
        }
        dies_before = 0;

        for (uint64_t n = 0; n < 200; n++) {
            if (n >= began) {
                ck_assert(!has(n));
            }
            if (n < ended && n + 20 > ended) {
                ck_assert(has(n));
            }
        }
        ck_assert_uint_le(table.used, table.max);

        for (uint64_t n = 100; n < 110; n++)
            ck_assert_int_eq(put(n, 1000), NGX_OK);
        for (uint64_t n = 100; n < 110; n++)
            ck_assert(has(n));
        sweep(1000);
        sweep(1000);
        ck_assert_uint_le(table.live, 1);
        ck_assert_uint_le(table.used, 1);
        for (uint64_t n = 0; n < table.max - 1; n++)
            ck_assert_int_eq(put(n, 2000), NGX_OK);
        for (uint64_t n = 0; n < table.max - 1; n++)
            ck_assert(has(n));
    }
}
END_TEST

/* What readers must see whenever they look. */
static void look(void)
{
    ck_assert(has(7));
    ck_assert(!has(3));
    for (uint64_t n = 100; n < 110; n++) {
        ngx_http_pgw_table_key_t key = key_of(n);

        ck_assert(!ngx_http_pgw_table_has(&table, &key, 1000));
    }
}

/*
 * After each store of a writer: an entry that stays is found, one that was
 * never put is not, and one for old tokens says nothing of a new one, though
 * its slot had an entry for all tokens before.
 */
START_TEST (test_readers_between_any_two_stores) {
    put(7, INT64_MAX);
    after_store = look;
    for (int64_t now = 0; now < 2000; now++) {
        ngx_http_pgw_table_key_t key =
            key_of((uint64_t) (now % 2 ? 100 : 201) + (uint64_t) now % 10);

        ck_assert_int_ne(
            ngx_http_pgw_table_put(&table, &key, now % 2 ? 1000 : INT64_MAX,
                                   now + 3),
            NGX_DECLINED);
        ngx_http_pgw_table_sweep(&table, now, 16);
    }
    after_store = NULL;
    ck_assert_uint_gt(stores, 5000);
}
END_TEST

/* The entry dies, and another one gets its slot. */
static void replaced(void)
{
    before_load = NULL;
    sweep(10);
    put(100, 20);
}

START_TEST (test_a_writer_between_any_two_loads) {
    ngx_http_pgw_table_key_t old = key_of(4);
    int done = 0;

    for (at_load = 1; !done; at_load++) {
        setup();
        ngx_http_pgw_table_put(&table, &old, 1000, 10);
        loads = 0;
        before_load = replaced;
        ck_assert(!ngx_http_pgw_table_has(&table, &old, 1000));
        done = before_load != NULL;
        before_load = NULL;
        ck_assert(done || has(100));
    }
    ck_assert_uint_ge(at_load, 5); /* there were some */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table");
    TCase *tc = tcase_create("table");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_an_entry_takes_32_bytes);
    tcase_add_test(tc, test_holds_what_was_put);
    tcase_add_test(tc, test_keys_that_differ_in_the_second_word);
    tcase_add_test(tc, test_the_later_times_hold);
    tcase_add_test(tc, test_full_says_so_and_has_room_again);
    tcase_add_test(tc, test_churn_keeps_room);
    tcase_add_test(tc, test_a_writer_may_die_before_any_store);
    tcase_add_test(tc, test_readers_between_any_two_stores);
    tcase_add_test(tc, test_a_writer_between_any_two_loads);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
