/* Tests of conns.c: slots, queue, timeouts, draining. */

#include "conns.h"
#include "testing.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 4
#define IDLE_MS 1000

static struct conns cs;
static struct conns_seat seat;
static int epoll_fd;
static int peers[SIZE];

static void setup(void)
{
    epoll_fd = epoll_create1(0);
    conns_seat_init(&seat);
    ck_assert(conns_init(&cs, SIZE, epoll_fd, IDLE_MS));
    for (int i = 0; i < SIZE; i++) {
        peers[i] = -1;
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < SIZE; i++) {
        if (cs.slots[i].state != CONN_FREE) {
            conns_close(&cs, i);
        }
        if (peers[i] >= 0) {
            close(peers[i]);
        }
    }
    conns_free(&cs);
    conns_seat_free(&seat);
    close(epoll_fd);
}

/* Adds a connection whose other end is peers[i]; slots are taken in order. */
static void add(int i, int64_t deadline_ms)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peers[i] = pair[0];
    conns_watch(&cs, conns_add(&cs, pair[1], deadline_ms));
}

static int64_t later(void)
{
    return conns_now_ms() + 60000;
}

static bool closed(int i)
{
    char byte;

    return recv(peers[i], &byte, 1, MSG_DONTWAIT) == 0;
}

/* Puts the slot through one request. */
static void serve(uint32_t slot, bool keep)
{
    conns_put(&cs, slot);
    ck_assert_uint_eq(conns_take(&cs, &seat), slot);
    conns_give_back(&cs, slot, keep);
}

START_TEST (test_slots_fill_and_are_used_again) {
    for (int i = 0; i < SIZE; i++) {
        ck_assert(!conns_full(&cs));
        add(i, later());
    }
    ck_assert(conns_full(&cs));
    ck_assert_uint_eq(conns_open_count(&cs), SIZE);
    conns_close(&cs, 2);
    ck_assert(closed(2));
    ck_assert(!conns_full(&cs));
    close(peers[2]);
    add(2, later());
    ck_assert(conns_full(&cs));
}
END_TEST

START_TEST (test_input_is_reported_and_reported_again) {
    struct epoll_event ev;

    add(0, later());
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 0);
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 1);
    ck_assert_uint_eq(conns_of_event(&cs, ev.data.u64), 0);
    /* Half a request does not spin. */
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 0);
    /* What came while a worker had it is not forgotten. */
    serve(0, true);
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 1);
}
END_TEST

START_TEST (test_what_is_served_at_once_was_never_watched) {
    struct epoll_event ev;
    int pair[2];
    uint32_t slot;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peers[0] = pair[0];
    slot = conns_add(&cs, pair[1], later());
    conns_put(&cs, slot);
    conns_watch(&cs, slot); /* too late: a worker's now */
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 0);
    ck_assert_uint_eq(conns_take(&cs, &seat), slot);
    conns_give_back(&cs, slot, true); /* and watched after all */
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 1);
    ck_assert_uint_eq(conns_of_event(&cs, ev.data.u64), slot);
}
END_TEST

struct sleeper {
    struct conns_seat seat;
    pthread_t thread;
    uint32_t got;
};

static void *take_one(void *arg)
{
    struct sleeper *s = arg;

    s->got = conns_take(&cs, &s->seat);
    return NULL;
}

static void wait_seated(const struct conns_seat *first)
{
    bool seated = false;

    while (!seated) {
        usleep(1000);
        pthread_mutex_lock(&cs.lock);
        seated = cs.idle == first;
        pthread_mutex_unlock(&cs.lock);
    }
}

START_TEST (test_the_last_to_sit_down_is_called_first) {
    struct sleeper sleepers[3];

    add(0, later());
    add(1, later());
    for (int i = 0; i < 3; i++) {
        conns_seat_init(&sleepers[i].seat);
        ck_assert_int_eq(
            pthread_create(&sleepers[i].thread, NULL, take_one, &sleepers[i]),
            0);
        wait_seated(&sleepers[i].seat);
    }
    conns_put(&cs, 0);
    pthread_join(sleepers[2].thread, NULL);
    conns_put(&cs, 1);
    pthread_join(sleepers[1].thread, NULL);
    conns_stop(&cs);
    pthread_join(sleepers[0].thread, NULL);
    ck_assert_uint_eq(sleepers[2].got, 0);
    ck_assert_uint_eq(sleepers[1].got, 1);
    ck_assert_uint_eq(sleepers[0].got, NO_CONN);
    for (int i = 0; i < 3; i++) {
        conns_seat_free(&sleepers[i].seat);
    }
}
END_TEST

START_TEST (test_stale_events_find_nobody) {
    struct epoll_event ev;

    add(0, later());
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert_int_eq(epoll_wait(epoll_fd, &ev, 1, 0), 1);
    conns_put(&cs, 0);
    ck_assert_uint_eq(conns_of_event(&cs, ev.data.u64), NO_CONN);
    ck_assert_uint_eq(conns_take(&cs, &seat), 0);
    conns_give_back(&cs, 0, false);
    close(peers[0]);
    add(0, later()); /* the slot's next user */
    ck_assert_uint_eq(conns_of_event(&cs, ev.data.u64), NO_CONN);
}
END_TEST

START_TEST (test_queue_is_first_in_first_out) {
    for (int i = 0; i < SIZE; i++) {
        add(i, later());
    }
    conns_put(&cs, 2);
    conns_put(&cs, 0);
    conns_put(&cs, 3);
    ck_assert_uint_eq(conns_take(&cs, &seat), 2);
    ck_assert_uint_eq(conns_take(&cs, &seat), 0);
    conns_put(&cs, 1);
    ck_assert_uint_eq(conns_take(&cs, &seat), 3);
    ck_assert_uint_eq(conns_take(&cs, &seat), 1);
    for (uint32_t i = 0; i < SIZE; i++) {
        conns_give_back(&cs, i, false);
        ck_assert(closed((int) i));
    }
    ck_assert_uint_eq(conns_open_count(&cs), 0);
}
END_TEST

START_TEST (test_eviction_takes_the_longest_idle) {
    for (int i = 0; i < 3; i++) {
        add(i, later());
    }
    ck_assert(!conns_evict_idle(&cs)); /* none has been served yet */
    serve(1, true);
    usleep(5000);
    serve(0, true);
    ck_assert(conns_evict_idle(&cs));
    ck_assert(closed(1));
    cs.slots[0].arriving = true;
    ck_assert(!conns_evict_idle(&cs)); /* one that sends is not idle */
    cs.slots[0].arriving = false;
    ck_assert(conns_evict_idle(&cs));
    ck_assert(closed(0));
    ck_assert(!closed(2));
}
END_TEST

START_TEST (test_sweep_ends_what_is_over_its_deadline) {
    char byte;

    add(0, conns_now_ms() - 1);
    add(1, later());
    add(2, conns_now_ms() - 1);
    conns_put(&cs, 2);
    ck_assert_uint_eq(conns_take(&cs, &seat), 2);
    conns_sweep(&cs);
    ck_assert(closed(0));
    ck_assert(!closed(1));
    ck_assert(!closed(2)); /* its worker is at work, not waiting */

    atomic_store(&cs.slots[2].io_deadline_ms, conns_now_ms() - 1);
    conns_sweep(&cs);
    ck_assert(closed(2));
    ck_assert_int_eq(cs.slots[2].state, CONN_BUSY);
    ck_assert_int_eq(recv(cs.slots[2].fd, &byte, 1, MSG_DONTWAIT), 0);
    conns_give_back(&cs, 2, false);
    ck_assert_uint_eq(conns_open_count(&cs), 1);
}
END_TEST

START_TEST (test_kept_connection_gets_the_idle_timeout) {
    int64_t before = conns_now_ms();

    add(0, before + 1);
    serve(0, true);
    ck_assert_int_ge(cs.slots[0].deadline_ms, before + IDLE_MS);
    ck_assert(cs.slots[0].served);
}
END_TEST

START_TEST (test_drain) {
    for (int i = 0; i < SIZE; i++) {
        add(i, later());
    }
    serve(0, true); /* idle */
    serve(1, true); /* a request has just come */
    ck_assert_int_eq(write(peers[1], "x", 1), 1);
    conns_put(&cs, 2); /* in flight */
    ck_assert_uint_eq(conns_take(&cs, &seat), 2);
    conns_drain(&cs, 100);
    ck_assert(closed(0));
    ck_assert(!closed(1));
    ck_assert(!closed(2));
    ck_assert(!closed(3)); /* may still send its first, but soon */
    ck_assert_int_le(cs.slots[3].deadline_ms, conns_now_ms() + 100);
    conns_give_back(&cs, 2, true);
    ck_assert(closed(2)); /* none is kept any more */
}
END_TEST

START_TEST (test_stop_lets_the_queue_run_dry_first) {
    add(0, later());
    conns_put(&cs, 0);
    conns_stop(&cs);
    ck_assert_uint_eq(conns_take(&cs, &seat), 0);
    ck_assert_uint_eq(conns_take(&cs, &seat), NO_CONN);
    conns_give_back(&cs, 0, false);
}
END_TEST

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_slots_fill_and_are_used_again);
    tcase_add_test(t, test_input_is_reported_and_reported_again);
    tcase_add_test(t, test_what_is_served_at_once_was_never_watched);
    tcase_add_test(t, test_the_last_to_sit_down_is_called_first);
    tcase_add_test(t, test_stale_events_find_nobody);
    tcase_add_test(t, test_queue_is_first_in_first_out);
    tcase_add_test(t, test_eviction_takes_the_longest_idle);
    tcase_add_test(t, test_sweep_ends_what_is_over_its_deadline);
    tcase_add_test(t, test_kept_connection_gets_the_idle_timeout);
    tcase_add_test(t, test_drain);
    tcase_add_test(t, test_stop_lets_the_queue_run_dry_first);
}

int main(void)
{
    return run_case("conns", fill);
}
