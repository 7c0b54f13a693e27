/*
 * Tests of the table of revocations: entries, limits and sweeps; a writer that
 * is killed before any store; readers between any two stores of a writer, and a
 * writer between any two loads of a reader.  On weakly ordered machines such as
 * arm64: every execution that C11 allows, and threads for ThreadSanitizer.
 */

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <ngx_config.h>
#include <ngx_core.h>

/* The writer dies before this store, or not if 0. */
static unsigned long stores, dies_before;
static jmp_buf death;

/* Called after each store and before one of the loads, unless NULL. */
static void (*after_store)(void), (*before_load)(void);
static unsigned long loads, at_load;

/* Stores of the writer, in order.  A reader that has seen a store has seen all
   stores up to its view. */
static enum { MODEL_OFF, MODEL_WRITES, MODEL_READS } model;
static struct {
    const void *at;
    uint64_t value;
    size_t view;
} told[256];
static size_t tolds;

/* State of the reader in an execution: it has seen all stores up to known, and
   of each word none older than word_known.  Its choices count like an
   odometer. */
static size_t known, word_known[256];
static size_t choice[64], choices[64], choosing;

static const void *model_base, *model_first;

static void model_store(const void *at, uint64_t value, int order)
{
    tolds++;
    told[tolds].at = at;
    told[tolds].value = value;
    told[tolds].view = order == __ATOMIC_RELEASE ? tolds : 0;
}

static uint64_t model_load(const void *at, int order)
{
    size_t word =
        (size_t) ((const uint64_t *) at - (const uint64_t *) model_base);
    size_t may[256], n = 0, least = word_known[word];

    for (size_t i = least + 1; i <= known; i++)
        least = told[i].at == at ? i : least;
    may[n++] = least;
    for (size_t i = least + 1; i <= tolds; i++)
        if (told[i].at == at)
            may[n++] = i;

    choices[choosing] = n;
    n = may[choice[choosing++]];
    word_known[word] = n;
    if (order == __ATOMIC_ACQUIRE && told[n].view > known)
        known = told[n].view;
    return n ? told[n].value : ((const uint64_t *) model_first)[word];
}

/* Runs the reader in each execution and returns their number. */
static unsigned long model_each(void (*reader)(void))
{
    unsigned long n = 0;
    size_t i;

    model = MODEL_READS;
    memset(choice, 0, sizeof(choice));
    do {
        known = choosing = 0;
        memset(word_known, 0, sizeof(word_known));
        reader();
        n++;
        for (i = choosing; i && choice[i - 1] + 1 >= choices[i - 1]; i--)
            choice[i - 1] = 0;
        if (i)
            choice[i - 1]++;
    } while (i);
    return n;
}

static int load_tick(void)
{
    if (before_load != NULL && ++loads == at_load)
        before_load();
    return 0;
}

#define ngx_http_pgw_table_load(p, order)                                      \
    (load_tick(), model == MODEL_READS                                         \
                      ? (__typeof__(*(p) + 0)) model_load(p, __ATOMIC_##order) \
                      : __atomic_load_n(p, __ATOMIC_##order))

#define ngx_http_pgw_table_store(p, value, order)                              \
    do {                                                                       \
        if (++stores == dies_before) {                                         \
            longjmp(death, 1);                                                 \
        }                                                                      \
        __atomic_store_n(p, value, __ATOMIC_##order);                          \
        if (model == MODEL_WRITES) {                                           \
            model_store(p, (uint64_t) (value), __ATOMIC_##order);              \
        }                                                                      \
        if (after_store != NULL) {                                             \
            after_store();                                                     \
        }                                                                      \
    } while (0)

#include "../revoked/ngx_http_pgw_table.c"
#include "unit.h"

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
    model = MODEL_OFF;
    tolds = 0;
}

/* Makes keys that collide: all have one of four homes, also the last slot. */
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
    ck_assert_int_eq(put(0, 20), NGX_DONE); /* a known key fits */
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

/* Puts and sweeps, and keeps the caller informed of each put. */
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
 * A writer dies before each of the stores in turn.  Searches still end and find
 * what was put, the next writer goes on, and at most one slot is lost.
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

/* Checks what readers must see at any time. */
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
 * After each store of a writer: present keys are found, absent keys are not,
 * and an entry for old tokens does not revoke new tokens, although its slot had
 * an entry for all tokens before.
 */
START_TEST (test_readers_between_any_two_stores) {
    put(7, INT64_MAX);
    after_store = look;
    for (int64_t now = 0; now < 2000; now++) {
        ngx_http_pgw_table_key_t key =
            key_of((uint64_t) (now % 2 ? 100 : 201) + (uint64_t) now % 10);

        ck_assert_int_ne(ngx_http_pgw_table_put(
                             &table, &key, now % 2 ? 1000 : INT64_MAX, now + 3),
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

/* One home, and one second word; the fourth is never put. */
static const ngx_http_pgw_table_key_t was = {{2, 9}}, is = {{3, 9}},
                                      stays = {{4, 9}}, never = {{5, 9}};

static void read_was(void)
{
    ck_assert(!ngx_http_pgw_table_has(&table, &was, 500));
}

static void read_is(void)
{
    ck_assert(!ngx_http_pgw_table_has(&table, &is, 2000));
}

static void read_others(void)
{
    ck_assert(ngx_http_pgw_table_has(&table, &stays, 0));
    ck_assert(!ngx_http_pgw_table_has(&table, &never, 0));
}

/* An entry dies, and another one gets its slot, while readers look. */
static void model_replaced(int64_t before)
{
    static ngx_http_pgw_table_slot_t first[SLOTS];

    setup();
    ngx_http_pgw_table_put(&table, &was, before, 10);
    ngx_http_pgw_table_put(&table, &stays, INT64_MAX, 1000);
    memcpy(first, mem, sizeof(mem));
    model_base = mem;
    model_first = first;
    model = MODEL_WRITES;
    sweep(10);
    ck_assert_int_eq(ngx_http_pgw_table_put(&table, &is, 1000, 20), NGX_OK);
    ck_assert_uint_eq(mem[0].key.word[0], is.word[0]);
}

START_TEST (test_memory_that_is_not_in_order) {
    model_replaced(100);
    ck_assert_uint_ge(model_each(read_was), 3);
    ck_assert_uint_ge(model_each(read_others), 3);
    model_replaced(5000);
    ck_assert_uint_ge(model_each(read_is), 3);
}
END_TEST

/* Plain memory that a reader may read once it has found the entry. */
static uint64_t plain[40];

static void *read_all(void *unused)
{
    for (uint64_t n = 0; n < 40; n++) {
        while (!has(n)) {
            sched_yield();
        }
        if (plain[n] != n + 1)
            return plain;
    }
    return unused;
}

START_TEST (test_threads) {
    pthread_t reader[2];
    void *wrong;

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&reader[i], NULL, read_all, NULL), 0);
    for (uint64_t n = 0; n < 40; n++) {
        plain[n] = n + 1;
        ck_assert_int_eq(put(n, 10), NGX_OK);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(reader[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
}
END_TEST

UNIT_MAIN("table", setup,
          test_an_entry_takes_32_bytes,
          test_holds_what_was_put,
          test_keys_that_differ_in_the_second_word,
          test_the_later_times_hold,
          test_full_says_so_and_has_room_again,
          test_churn_keeps_room,
          test_a_writer_may_die_before_any_store,
          test_readers_between_any_two_stores,
          test_a_writer_between_any_two_loads,
          test_memory_that_is_not_in_order,
          test_threads)
