/* Credentials: what matches, what is refused, and how many at once. */

#include "auth/password.h"
#include "base/metrics.h"
#include "memory_limit.h"
#include "metric.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDENTIAL PJ_STR("Demo-passw0rd!")

static int64_t wait_ms = PASSWORD_WAIT_MS;

/* The cheapest that Argon2id allows, so that tests are quick. */
static void setup(int slots, int workers, int64_t memory_kib)
{
    struct config cfg = {.hash_concurrency = slots,
                         .worker_threads = workers,
                         .argon2_memory_kib = memory_kib,
                         .argon2_iterations = 1};

    ck_assert(password_setup(&cfg));
    hasher_stop();
    ck_assert(password_start(&cfg, wait_ms));
}

START_TEST (test_right_and_wrong) {
    char phc[PASSWORD_PHC_MAX];

    setup(1, 2, 8);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    ck_assert_int_eq(strncmp(phc, "$argon2id$v=19$m=8,t=1,p=1$", 27), 0);
    ck_assert_int_eq(password_verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_int_eq(password_verify(phc, PJ_STR("demo-passw0rd!"), 0),
                     PASSWORD_WRONG);
    ck_assert_int_eq(password_verify(phc, PJ_STR("Demo-passw0rd!!"), 0),
                     PASSWORD_WRONG);
}
END_TEST

START_TEST (test_bytes_are_taken_as_sent) {
    pj_str_t odd = PJ_STR("a\xff\x01z");
    char phc[PASSWORD_PHC_MAX];

    setup(1, 2, 8);
    ck_assert(password_hash(odd, 0, phc));
    ck_assert_int_eq(password_verify(phc, odd, 0), PASSWORD_OK);
    ck_assert_int_eq(password_verify(phc, PJ_STR("a"), 0), PASSWORD_WRONG);
}
END_TEST

START_TEST (test_unknown_account_costs_one_hash) {
    char phc[PASSWORD_PHC_MAX];
    uint64_t before;

    setup(1, 2, 8);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    before = metric("identity_hash_duration_seconds_count");
    ck_assert_int_eq(password_verify(NULL, CREDENTIAL, 0), PASSWORD_WRONG);
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 1);
    ck_assert_int_eq(password_verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 2);
}
END_TEST

#define SALT "AAAAAAAAAAAAAAAAAAAAAA"
#define HASH "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

/* Each is told apart, and costs what any credential does: one hash. */
START_TEST (test_stored_strings_that_are_none) {
    static const char *const unusable[] = {
        "$argon2id$v=19$m=262145,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=19456,t=11,p=1$" SALT "$" HASH,
        "$argon2i$v=19$m=19456,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=16$m=19456,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=99999999999999999999,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=-1,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=008,t=2,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=8,t=0,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=8,t=1,p=0$" SALT "$" HASH,
        "$argon2id$v=19$m=7,t=1,p=1$" SALT "$" HASH,
        "$argon2id$v=19$m=15,t=1,p=2$" SALT "$" HASH,
        "$argon2id$v=19$m=8,t=1,p=1$$" HASH,
        "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAA$" HASH,
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "=$" HASH,
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "-$" HASH,
        "$argon2id$v=19$m=8,t=1,p=1$" SALT,
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "$",
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "$AAAA",
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH "=",
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH " ",
        "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH "$x",
        "$argon2id$v=19$m=8,t=1,p=1",
        "$argon2id$",
        "$2b$12$abcdefghijklmnopqrstuv",
        "plain",
        ""};
    uint64_t hashes, cost;

    setup(1, 2, 16);
    for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
        hashes = metric("identity_hash_duration_seconds_count");
        cost = metric("identity_hash_work_total");
        ck_assert_msg(password_verify(unusable[i], CREDENTIAL, 0) ==
                          PASSWORD_UNUSABLE,
                      "%s", unusable[i]);
        ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                          hashes + 1);
        ck_assert_uint_eq(metric("identity_hash_work_total"), cost + 16);
    }
    ck_assert_int_eq(password_verify("$argon2id$v=19$m=262144,t=1,p=1$" SALT
                                     "$" HASH,
                                     CREDENTIAL, 0),
                     PASSWORD_WRONG);
    ck_assert_int_eq(password_verify("$argon2id$v=19$m=8,t=10,p=1$" SALT
                                     "$" HASH,
                                     CREDENTIAL, 0),
                     PASSWORD_WRONG);
}
END_TEST

/* Made by others: of several lanes, or with another length of salt. */
START_TEST (test_strings_of_other_makers) {
    static const char *const others[] = {
        "$argon2id$v=19$m=64,t=3,p=4$c2FsdHNhbHRzYWx0c2FsdA$"
        "4LJ3w+CrtOcn8xK/C31sO+fTu7YoOkt+fABdOMIO6PI",
        "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$"
        "k4tcpTySmeIwY3dFOgjO2s7he+SlC2gZbQPcX7U4bIY"};
    uint64_t cost;

    setup(1, 2, 8);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cost = metric("identity_hash_work_total");
        ck_assert_int_eq(password_verify(others[i], CREDENTIAL, 0),
                         PASSWORD_OK);
        ck_assert_uint_eq(metric("identity_hash_work_total"),
                          cost + (i == 0 ? 64 * 3 : 64 * 2));
        ck_assert_int_eq(password_verify(others[i], PJ_STR("x"), 0),
                         PASSWORD_WRONG);
    }
}
END_TEST

/* Nobody has been asked then, so nobody was wrong. */
START_TEST (test_no_memory_is_no_verdict) {
    char phc[PASSWORD_PHC_MAX], other[PASSWORD_PHC_MAX];
    struct hasher_use use;

    setup(1, 2, 256 * 1024);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    memory_limit(64);
    ck_assert_int_eq(password_verify(phc, CREDENTIAL, 0), PASSWORD_BUSY);
    /* Of other makers, too. */
    ck_assert_int_eq(password_verify("$argon2id$v=19$m=262144,t=1,p=4$" SALT
                                     "$" HASH,
                                     CREDENTIAL, 0),
                     PASSWORD_BUSY);
    ck_assert_int_eq(password_verify(phc, PJ_STR("x"), 0), PASSWORD_BUSY);
    ck_assert_int_eq(password_verify(NULL, CREDENTIAL, 0), PASSWORD_BUSY);
    /* What is no hash, or is one cut off, costs as much as any. */
    ck_assert_int_eq(password_verify("plain", CREDENTIAL, 0), PASSWORD_BUSY);
    phc[strlen(phc) - 30] = '\0';
    ck_assert_int_eq(password_verify(phc, CREDENTIAL, 0), PASSWORD_BUSY);
    ck_assert_int_eq(
        password_verify("$argon2id$v=19$m=8,t=1,p=1$" SALT, CREDENTIAL, 0),
        PASSWORD_BUSY);
    ck_assert(!password_hash(CREDENTIAL, 0, other));
    memory_limit(0);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    ck_assert_int_eq(password_verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_int_eq(password_verify(phc, PJ_STR("x"), 0), PASSWORD_WRONG);
    use = hasher_use(HASHER_HASH);
    ck_assert_int_eq(use.running, 0);
}
END_TEST

START_TEST (test_rehash_only_when_weaker) {
    setup(1, 2, 16);
    ck_assert(
        password_needs_rehash("$argon2id$v=19$m=15,t=1,p=1$" SALT "$" HASH));
    ck_assert(
        !password_needs_rehash("$argon2id$v=19$m=16,t=1,p=1$" SALT "$" HASH));
    ck_assert(
        !password_needs_rehash("$argon2id$v=19$m=17,t=1,p=1$" SALT "$" HASH));
    ck_assert(
        !password_needs_rehash("$argon2id$v=19$m=16,t=2,p=1$" SALT "$" HASH));
    ck_assert(
        password_needs_rehash("$argon2i$v=19$m=16,t=1,p=1$" SALT "$" HASH));
}
END_TEST

struct caller {
    pthread_t thread;
    enum password_result result;
};

static void *verify(void *arg)
{
    struct caller *c = arg;

    c->result = password_verify(NULL, CREDENTIAL, 0);
    return NULL;
}

static int count(const struct caller *callers, int n,
                 enum password_result result)
{
    int found = 0;

    for (int i = 0; i < n; i++) {
        found += callers[i].result == result;
    }
    return found;
}

static void run_at_once(struct caller *callers, int n)
{
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(
            pthread_create(&callers[i].thread, NULL, verify, &callers[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(callers[i].thread, NULL);
    }
}

/* Of 8 workers, 4 may hash or wait; one more is told so at once, since it has
 * refreshes to serve. */
START_TEST (test_never_more_than_half_of_the_workers) {
    struct caller callers[8];

    wait_ms = 60000;
    setup(1, 8, 128 * 1024); /* long enough that they overlap */
    run_at_once(callers, 8);
    ck_assert_int_ge(count(callers, 8, PASSWORD_WRONG), 4);
    ck_assert_int_ge(count(callers, 8, PASSWORD_BUSY), 1);

    run_at_once(callers, 4); /* and all places were given back */
    ck_assert_int_eq(count(callers, 4, PASSWORD_WRONG), 4);
}
END_TEST

START_TEST (test_waiting_ends) {
    struct caller callers[3];

    /* One slot, and each hash takes many times longer than a wait may. */
    wait_ms = 5;
    setup(1, 6, 128 * 1024);
    run_at_once(callers, 3);
    ck_assert_int_ge(count(callers, 3, PASSWORD_WRONG), 1);
    ck_assert_int_ge(count(callers, 3, PASSWORD_BUSY), 1);

    wait_ms = 60000;
    setup(1, 6, 128 * 1024);
    run_at_once(callers, 3);
    ck_assert_int_eq(count(callers, 3, PASSWORD_WRONG), 3);
}
END_TEST

START_TEST (test_deadline_ends_the_wait) {
    struct caller first;
    int64_t now_ms = metrics_now_us() / 1000;

    /* One slot, held for long; the wait for it would be two seconds. */
    setup(1, 4, 256 * 1024);
    pthread_create(&first.thread, NULL, verify, &first);
    while (1) {
        struct hasher_use use;

        use = hasher_use(HASHER_HASH);
        if (use.running == 1) {
            break;
        }
        sched_yield();
    }
    ck_assert_int_eq(password_verify(NULL, CREDENTIAL, now_ms + 1),
                     PASSWORD_BUSY);
    pthread_join(first.thread, NULL);
    ck_assert_int_eq(first.result, PASSWORD_WRONG);
    /* A deadline in the past is no hindrance where no wait is needed. */
    ck_assert_int_eq(password_verify(NULL, CREDENTIAL, now_ms),
                     PASSWORD_WRONG);
}
END_TEST

static void await_use(int running, int waiting)
{
    struct hasher_use use;

    do {
        sched_yield();
        use = hasher_use(HASHER_HASH);
    } while (use.running != running || use.waiting != waiting);
}

static atomic_int verified;

/* Verifies; which of all that was, or -1 if there was no slot. */
static int verify_in_turn(void)
{
    return password_verify(NULL, CREDENTIAL, 0) == PASSWORD_WRONG
               ? atomic_fetch_add(&verified, 1)
               : -1;
}

static void *verify_once(void *arg)
{
    int *place = arg;

    *place = verify_in_turn();
    return NULL;
}

/* Without a pause. */
static void *verify_twice(void *arg)
{
    int *second = arg;

    return verify_in_turn() == 0 ? verify_once(second) : NULL;
}

START_TEST (test_who_waits_longest_is_next) {
    pthread_t greedy, patient[2];
    int second = -1, place[2];

    wait_ms = 60000;
    setup(1, 8, 128 * 1024);
    atomic_store(&verified, 0);
    pthread_create(&greedy, NULL, verify_twice, &second);
    await_use(1, 0);
    pthread_create(&patient[0], NULL, verify_once, &place[0]);
    await_use(1, 1);
    pthread_create(&patient[1], NULL, verify_once, &place[1]);
    await_use(1, 2);
    pthread_join(greedy, NULL);
    pthread_join(patient[0], NULL);
    pthread_join(patient[1], NULL);
    ck_assert_int_eq(place[0], 1);
    ck_assert_int_eq(place[1], 2);
    ck_assert_int_eq(second, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("password");
    TCase *tc = tcase_create("credentials");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_right_and_wrong);
    tcase_add_test(tc, test_bytes_are_taken_as_sent);
    tcase_add_test(tc, test_unknown_account_costs_one_hash);
    tcase_add_test(tc, test_stored_strings_that_are_none);
    tcase_add_test(tc, test_strings_of_other_makers);
    tcase_add_test(tc, test_no_memory_is_no_verdict);
    tcase_add_test(tc, test_rehash_only_when_weaker);
    tcase_add_test(tc, test_never_more_than_half_of_the_workers);
    tcase_add_test(tc, test_waiting_ends);
    tcase_add_test(tc, test_deadline_ends_the_wait);
    tcase_add_test(tc, test_who_waits_longest_is_next);

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
