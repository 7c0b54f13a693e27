/* Tests of hasher.c. */

#include "auth/hasher.h"
#include "testing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#define CALLERS 16

static void run(void (*fn)(void *arg), void *arg)
{
    ck_assert(hasher_run(HASHER_HASH, INT64_MAX, fn, arg));
}

struct seen {
    pid_t thread;
    int niceness;
};

static void look(void *arg)
{
    struct seen *seen = arg;

    seen->thread = gettid();
    seen->niceness = getpriority(PRIO_PROCESS, (id_t) gettid());
}

TEST (test_without_threads_it_is_done_here) {
    struct seen seen = {0, 0};

    run(look, &seen);
    ck_assert_int_eq(seen.thread, gettid());
}

TEST (test_threads_give_way) {
    struct seen seen = {0, 0};
    int own = getpriority(PRIO_PROCESS, (id_t) gettid());

    ck_assert(hasher_start(HASHER_HASH, 1, CALLERS));
    run(look, &seen);
    ck_assert_int_ne(seen.thread, gettid());
    ck_assert_int_eq(seen.niceness, own < 9 ? own + 10 : 19);
    ck_assert_int_eq(getpriority(PRIO_PROCESS, (id_t) gettid()), own);
    hasher_stop();
    run(look, &seen);
    ck_assert_int_eq(seen.thread, gettid());
}

/* The least there is stays the least, also where raising it is allowed. */
TEST (test_threads_of_a_process_that_gives_way) {
    struct seen seen = {0, 0};

    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, 19), 0);
    ck_assert(hasher_start(HASHER_HASH, 1, CALLERS));
    run(look, &seen);
    ck_assert_int_ne(seen.thread, gettid());
    ck_assert_int_eq(seen.niceness, 19);
    hasher_stop();
}

#define ROUNDS 500

static atomic_int running, most, done;

static void count(void *arg)
{
    int now = atomic_fetch_add(&running, 1) + 1;
    int before = atomic_load(&most);

    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
    }
    *(int *) arg += 1;
    atomic_fetch_add(&done, 1);
    atomic_fetch_sub(&running, 1);
}

static void *call(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int mine = 0;

        run(count, &mine);
        if (mine != 1) {
            return NULL;
        }
    }
    return arg;
}

TEST (test_many_callers_few_threads) {
    pthread_t threads[CALLERS];

    ck_assert(hasher_start(HASHER_HASH, 3, CALLERS));
    for (int i = 0; i < CALLERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call, threads), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        ck_assert_ptr_nonnull(result);
    }
    hasher_stop();
    ck_assert_int_eq(atomic_load(&done), CALLERS * ROUNDS);
    ck_assert_int_le(atomic_load(&most), 3);
}

int main(void)
{
    return run_case("hasher", NULL);
}
