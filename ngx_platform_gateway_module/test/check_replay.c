/*
 * Tests of the table of used proofs: none is accepted twice, whatever clocks
 * and windows do and wherever a worker is killed; how many fit in.
 */

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <ngx_config.h>
#include <ngx_core.h>

/* The worker dies before this store, or not if 0. */
static unsigned long stores, dies_before;
static jmp_buf death;

#define ngx_http_pgw_replay_store(p, value)                                    \
    do {                                                                       \
        if (++stores == dies_before) {                                         \
            longjmp(death, 1);                                                 \
        }                                                                      \
        __atomic_store_n(p, value, __ATOMIC_RELEASE);                          \
    } while (0)

#include "../token/ngx_http_pgw_replay.c"
#include "unit.h"

#define BORN INT64_C(1000)
#define MANY 64 /* buckets */

static ngx_http_pgw_replay_t replay;
static ngx_http_pgw_replay_bucket_t mem[MANY];

static void make(size_t buckets)
{
    memset(&replay, 0, sizeof(replay));
    memset(mem, 0, sizeof(mem));
    ck_assert_int_eq(
        ngx_http_pgw_replay_init(&replay, mem, buckets * sizeof(mem[0]), BORN),
        NGX_OK);
    stores = dies_before = 0;
}

static void setup(void)
{
    make(1);
}

static ngx_int_t put(uint64_t n, int64_t iat, int64_t dies_at, int64_t now)
{
    unsigned char id[PJ_SHA256_BYTES] = {0};

    memcpy(id, &n, sizeof(n));
    return ngx_http_pgw_replay_put(&replay, id, iat, dies_at, now);
}

/* As put(), but the worker dies before the store, and NGX_AGAIN is returned. */
static ngx_int_t put_until(unsigned long store, uint64_t n, int64_t iat,
                           int64_t dies_at, int64_t now)
{
    ngx_int_t rc = NGX_AGAIN;

    stores = 0;
    dies_before = store;
    if (setjmp(death) == 0)
        rc = put(n, iat, dies_at, now);
    dies_before = 0;
    return rc;
}

START_TEST (test_a_proof_takes_24_bytes) {
    make(MANY);
    ck_assert_uint_eq(sizeof(ngx_http_pgw_replay_slot_t), 16);
    ck_assert_uint_le(sizeof(mem) / ngx_http_pgw_replay_max(&replay), 24);
}
END_TEST

START_TEST (test_once) {
    ck_assert_int_eq(put(1, 1010, 1071, 1010), NGX_OK);
    ck_assert_int_eq(put(1, 1010, 1071, 1010), NGX_DONE);
    ck_assert_int_eq(put(2, 1010, 1071, 1010), NGX_OK);
    ck_assert_int_eq(put(1, 1060, 1121, 1060), NGX_DONE); /* of another time */
    ck_assert_int_eq(put(1, 1010, 1071, 5000), NGX_DONE); /* after its end */
}
END_TEST

START_TEST (test_not_from_before_the_zone) {
    ck_assert_int_eq(put(1, BORN, BORN + 61, BORN + 1), NGX_ABORT);
    ck_assert_int_eq(put(1, BORN - 30, BORN + 31, BORN), NGX_ABORT);
    ck_assert_int_eq(put(1, BORN + 1, BORN + 62, BORN), NGX_OK);
}
END_TEST

START_TEST (test_times_that_do_not_fit) {
    ck_assert_int_eq(put(1, INT64_C(1) << 40, (INT64_C(1) << 40) + 61,
                         INT64_C(1) << 40),
                     NGX_ABORT);
    ck_assert_int_eq(put(1, UINT32_MAX - 61L, UINT32_MAX, 2000),
                     NGX_OK);
}
END_TEST

START_TEST (test_full_refuses_and_has_room_again) {
    for (uint64_t n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++)
        ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_OK);
    ck_assert_int_eq(put(100, 1010, 1071, 1070), NGX_DECLINED);
    for (uint64_t n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++)
        ck_assert_int_eq(put(n, 1010, 1071, 1070), NGX_DONE);
    ck_assert_uint_eq(ngx_http_pgw_replay_live(&replay, 1070),
                      NGX_HTTP_PGW_REPLAY_SLOTS);
    ck_assert_uint_eq(ngx_http_pgw_replay_live(&replay, 1071), 0);
    ck_assert_int_eq(put(100, 1071, 1132, 1071), NGX_OK);
    ck_assert_uint_eq(ngx_http_pgw_replay_live(&replay, 1071), 1);
}
END_TEST

START_TEST (test_what_was_overwritten_is_refused_with_all_of_its_age) {
    for (uint64_t n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++)
        ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_OK);
    ck_assert_int_eq(put(100, 1100, 1161, 1100), NGX_OK);

    /* the clock is set back */
    for (uint64_t n = 0; n < 2 * NGX_HTTP_PGW_REPLAY_SLOTS; n++)
        ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_ABORT);
    ck_assert_int_eq(put(200, 1011, 1072, 1010), NGX_DECLINED);
    ck_assert_int_eq(put(200, 1011, 1072, 1071), NGX_OK);
}
END_TEST

/* The gateway began with a clock that was ahead. */
START_TEST (test_set_back_behind_the_start) {
    make(1);
    ck_assert_int_eq(put(1, 100, 161, 100), NGX_ABORT);
    ck_assert_int_eq(ngx_http_pgw_replay_pause(&replay, 100), 0);
    ck_assert_int_eq(put(2, 101, 162, 100), NGX_OK);
    ck_assert_int_eq(put(2, 101, 162, 101), NGX_DONE);

    /* an earlier zone may have had these, as before */
    ck_assert_int_eq(put(3, BORN, BORN + 61, BORN), NGX_ABORT);
    ck_assert_int_eq(put(4, BORN + 1, BORN + 62, BORN), NGX_OK);
}
END_TEST

static void fill(uint64_t first, int64_t iat, ngx_int_t expected)
{
    for (uint64_t n = first; n < first + NGX_HTTP_PGW_REPLAY_SLOTS; n++)
        ck_assert_int_eq(put(n, iat, iat + 61, iat), expected);
}

START_TEST (test_set_ahead_and_back) {
    fill(0, 1010, NGX_OK);
    fill(100, 5000, NGX_OK); /* in their slots */
    fill(200, 5200, NGX_OK); /* and in theirs */

    /* back, one second later: with room for new ones, and none is forgotten */
    ck_assert_int_eq(put(0, 1010, 1071, 1011), NGX_ABORT);
    ck_assert_int_eq(ngx_http_pgw_replay_pause(&replay, 1011), 0);
    ck_assert_uint_eq(ngx_http_pgw_replay_live(&replay, 1012), 0);
    fill(300, 1012, NGX_OK);
    fill(300, 1012, NGX_DONE);
    ck_assert_uint_eq(ngx_http_pgw_replay_live(&replay, 1012),
                      NGX_HTTP_PGW_REPLAY_SLOTS);

    /* nor when the clock comes there again */
    fill(100, 5000, NGX_ABORT);
    fill(200, 5200, NGX_ABORT);
    fill(400, 5201, NGX_OK);
}
END_TEST

START_TEST (test_set_ahead_and_back_further) {
    fill(0, 1060, NGX_OK);
    fill(100, 1200, NGX_OK); /* in their slots */
    ck_assert_int_eq(put(100, 1200, 1261, 5000), NGX_DONE);
    ck_assert_int_eq(put(0, 1060, 1121, 1011), NGX_ABORT);
    ck_assert_int_eq(put(100, 1200, 1261, 1200), NGX_DONE);
}
END_TEST

/* By less than the longest window: what waits, waits no longer than that. */
START_TEST (test_set_ahead_and_back_a_little) {
    fill(0, 1010, NGX_OK);
    fill(100, 1250, NGX_OK);
    fill(200, 1320, NGX_OK);
    fill(300, 1030, NGX_ABORT);
    ck_assert_int_eq(ngx_http_pgw_replay_pause(&replay, 1030), 220);
    ck_assert_int_eq(ngx_http_pgw_replay_pause(&replay, 1031), 0);
    fill(300, 1251, NGX_DECLINED); /* those of 1320 can come */
    fill(300, 1382, NGX_OK);
}
END_TEST

/* The oldest goes first, so the entry of a clock that is ahead goes last. */
START_TEST (test_the_oldest_is_overwritten) {
    fill(0, 1010, NGX_OK);
    ck_assert_int_eq(put(100, 5000, 5061, 5000), NGX_OK);
    for (uint64_t n = 1; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++) {
        ck_assert_int_eq(put(100 + n, 5100 + (int64_t) n,
                             5161 + (int64_t) n, 5100 + (int64_t) n),
                         NGX_OK);
        ck_assert_int_eq(put(100, 5000, 5061, 5000), NGX_DONE);
    }
}
END_TEST

START_TEST (test_two_thirds_fit_in) {
    for (int round = 0; round < 20; round++) {
        make(MANY);
        for (uint64_t n = 0; n < ngx_http_pgw_replay_max(&replay); n++)
            ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_OK);
        for (uint64_t n = 0; n < ngx_http_pgw_replay_max(&replay); n++)
            ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_DONE);
    }
}
END_TEST

/* A zone of the documented size, and clients whose clocks are up to a minute
 * ahead or behind; each proof is shown again in its last second. */
START_TEST (test_a_hundred_thousand_a_minute) {
    enum { RATE = 100000 / 60 + 1, SECONDS = 300, LAST = SECONDS + 122 };
    static uint64_t next[RATE * SECONDS], ends[LAST];
    ngx_http_pgw_replay_bucket_t *all;
    const size_t size = 8 * 1024 * 1024 - 64 * 1024;
    uint64_t n = 0, seen = 0;
    int64_t iat, late;

    memset(&replay, 0, sizeof(replay));
    all = calloc(1, size);
    ck_assert_int_eq(ngx_http_pgw_replay_init(&replay, all, size, BORN),
                     NGX_OK);
    ck_assert_uint_ge(ngx_http_pgw_replay_max(&replay), 340000);
    for (int64_t now = 61; now < LAST; now++) {
        for (int i = 0; i < RATE && now < 61 + SECONDS; i++) {
            iat = now - 60 + (i % 10 ? 120 : rand() % 121); /* mostly ahead */
            ck_assert_int_eq(
                put(n, BORN + iat, BORN + iat + 61, BORN + now), NGX_OK);
            late = iat + 60 < LAST ? iat + 60 : LAST - 1;
            next[n] = ends[late];
            ends[late] = ++n;
        }
        for (uint64_t of = ends[now]; of > 0; of = next[of - 1], seen++)
            ck_assert_int_eq(
                put(of - 1, BORN + now - 60, BORN + now + 1, BORN + now),
                NGX_DONE);
    }
    ck_assert_uint_eq(seen, RATE * SECONDS);
    free(all);
}
END_TEST

START_TEST (test_no_client_knows_its_buckets) {
    uint64_t id[2];

    for (int round = 0; round < 2; round++) {
        make(1);
        ck_assert_int_eq(put(1, 1010, 1071, 1010), NGX_OK);
        id[round] = 0;
        for (size_t i = 0; i < NGX_HTTP_PGW_REPLAY_SLOTS; i++)
            id[round] ^= mem[0].slot[i].id;
    }
    ck_assert_uint_ne(id[0], id[1]);
}
END_TEST

START_TEST (test_a_worker_may_die_before_any_store) {
    unsigned long store = 1;
    ngx_int_t rc;

    do {
        make(1);
        for (uint64_t n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++)
            ck_assert_int_eq(put(n, 1010, 1071, 1010), NGX_OK);
        rc = put_until(store++, 100, 1100, 1161, 1100);

        /* there is room for them */
        for (uint64_t n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++)
            ck_assert_int_ne(put(n, 1010, 1071, 1080), NGX_OK);

        /* its own proof was not accepted, and may be once */
        if (put(100, 1100, 1161, 1100) == NGX_OK)
            ck_assert_int_eq(rc, NGX_AGAIN);
        ck_assert_int_eq(put(100, 1100, 1161, 1100), NGX_DONE);
    } while (rc == NGX_AGAIN);
    ck_assert_int_eq(rc, NGX_OK);
    ck_assert_uint_eq(store, 6); /* four stores */
}
END_TEST

/* Workers whose clocks differ, with windows of their own, some of which die;
 * every proof is shown again and again. */
START_TEST (test_none_is_accepted_twice) {
    enum { PROOFS = 20000 };
    static int64_t iat[PROOFS];
    static bool used[PROOFS];
    static const int wrong[8] = {0, 400, 0, -400, 4000, 4400, 0, -8000};
    size_t known = 0, accepted = 0, n;
    int64_t now, window;
    ngx_int_t rc;

    srand(1);
    make(2);
    for (size_t step = 0; step < 40 * PROOFS; step++) {
        now = BORN + 9000 + (int64_t) step / 400 + rand() % 200 - 100;
        now += wrong[step / 20000 % 8]; /* all clocks go wrong, for a time */
        window = 5 + rand() % 60;
        n = (size_t) rand() % PROOFS;
        if (known < PROOFS && rand() % 20 == 0) {
            n = known++;
            iat[n] = now + rand() % (2 * window) - window;
        } else if (known > 0 && rand() % 2) {
            n = known - 1 - (size_t) rand() % (known < 200 ? known : 200);
        }
        if (n >= known || iat[n] < now - window || iat[n] > now + window)
            continue;
        rc = put_until(rand() % 10 ? 0 : 1 + (unsigned long) rand() % 5, n,
                       iat[n], iat[n] + window + 1, now);
        if (rc != NGX_OK)
            continue;
        ck_assert(!used[n]);
        used[n] = true;
        accepted++;
    }
    ck_assert_uint_gt(accepted, 200);
}
END_TEST

UNIT_MAIN("replay", setup,
          test_a_proof_takes_24_bytes,
          test_once,
          test_not_from_before_the_zone,
          test_times_that_do_not_fit,
          test_full_refuses_and_has_room_again,
          test_what_was_overwritten_is_refused_with_all_of_its_age,
          test_set_back_behind_the_start,
          test_set_ahead_and_back,
          test_set_ahead_and_back_further,
          test_set_ahead_and_back_a_little,
          test_the_oldest_is_overwritten,
          test_two_thirds_fit_in,
          test_a_hundred_thousand_a_minute,
          test_no_client_knows_its_buckets,
          test_a_worker_may_die_before_any_store,
          test_none_is_accepted_twice)
