/* Tests of conns.c: slots, queue, timeouts, draining. */

#include "conns.h"
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 4
#define IDLE_MS 1000

static struct conns cs;
static int epoll_fd;
static int peers[SIZE];

static void setup(void)
{
    epoll_fd = epoll_create1(0);
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
    close(epoll_fd);
}

/* Adds a connection whose other end is peers[i]; slots are taken in order. */
static uint32_t add_held(int i, int64_t deadline_ms)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peers[i] = pair[0];
    ck_assert(conns_make_room(&cs));
    return conns_add(&cs, pair[1], deadline_ms);
}

static void add(int i, int64_t deadline_ms)
{
    conns_wait(&cs, add_held(i, deadline_ms));
}

/* The next event; false when there is none. */
static bool event(struct epoll_event *ev)
{
    return epoll_wait(epoll_fd, ev, 1, 0) == 1;
}

/* What the next event, of a connection, makes HELD. */
static uint32_t hear(void)
{
    struct epoll_event ev;

    ck_assert(event(&ev));
    return conns_hold(&cs, ev.data.u64);
}

/* Makes a WAITING connection HELD, as its event would. */
static uint32_t hold(uint32_t slot)
{
    uint64_t generation = cs.slots[slot].generation;

    return conns_hold(&cs, generation << 32 | slot);
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
    ck_assert_uint_eq(hold(slot), slot);
    conns_serve(&cs, slot);
    conns_give_back(&cs, slot, keep);
}

static void put(uint32_t slot)
{
    ck_assert_uint_eq(hold(slot), slot);
    conns_put(&cs, slot);
}

START_TEST (test_slots_fill_and_are_used_again) {
    for (int i = 0; i < SIZE; i++) {
        add(i, later());
    }
    ck_assert(!conns_make_room(&cs));
    ck_assert_uint_eq(conns_open_count(&cs), SIZE);
    conns_close(&cs, hold(2));
    ck_assert(closed(2));
    close(peers[2]);
    add(2, later());
    ck_assert(!conns_make_room(&cs));
}
END_TEST

START_TEST (test_input_is_reported_once) {
    struct epoll_event ev;

    add(0, later());
    ck_assert(!event(&ev));
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert_uint_eq(hear(), 0);
    ck_assert(!event(&ev));
    conns_wait(&cs, 0); /* the byte is still there, and not enough */
    ck_assert(!event(&ev));
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert_uint_eq(hear(), 0);
    conns_serve(&cs, 0);
    conns_give_back(&cs, 0, true);
    ck_assert(!event(&ev));
}
END_TEST

START_TEST (test_input_for_nobody_is_reported_again) {
    add(0, later());
    for (int kept = 0; kept < 2; kept++) {
        ck_assert_int_eq(write(peers[0], "x", 1), 1);
        ck_assert_uint_eq(hear(), 0);
        ck_assert_int_eq(write(peers[0], "x", 1), 1);
        ck_assert_uint_eq(hear(), NO_CONN); /* somebody else has it */
        if (kept) {
            conns_serve(&cs, 0);
            conns_give_back(&cs, 0, true);
        } else {
            conns_wait(&cs, 0);
        }
        ck_assert_uint_eq(hear(), 0);
        conns_wait(&cs, 0);
    }
}
END_TEST

START_TEST (test_what_is_served_at_once_was_never_watched) {
    struct epoll_event ev;
    uint32_t slot = add_held(0, later());

    conns_serve(&cs, slot);
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert(!event(&ev));
    conns_give_back(&cs, slot, true); /* and watched after all */
    ck_assert(event(&ev));
    ck_assert_uint_eq(conns_hold(&cs, ev.data.u64), slot);
}
END_TEST

static bool there_is_news(void)
{
    struct epoll_event ev;

    return event(&ev) && ev.data.u64 == CONNS_EVENT_NEWS;
}

START_TEST (test_who_is_idle_hears_of_the_queue) {
    add(0, later());
    add(1, later());
    ck_assert_uint_eq(conns_take(&cs), NO_CONN); /* one is idle now */
    ck_assert(!there_is_news());
    put(0);
    put(1);
    ck_assert(there_is_news());
    conns_back(&cs);
    ck_assert_uint_eq(conns_take(&cs), 0);
    ck_assert(there_is_news()); /* for another one */
    ck_assert_uint_eq(conns_take(&cs), 1);
    ck_assert(!there_is_news());
    conns_give_back(&cs, 0, false);
    conns_give_back(&cs, 1, false);
}
END_TEST

START_TEST (test_without_idle_ones_there_is_no_news) {
    add(0, later());
    put(0);
    ck_assert(!there_is_news());
    ck_assert_uint_eq(conns_take(&cs), 0);
    conns_give_back(&cs, 0, false);
}
END_TEST

struct sleeper {
    pthread_t thread;
    uint32_t got;
};

static void *take_one(void *arg)
{
    struct sleeper *s = arg;
    struct epoll_event ev;

    while ((s->got = conns_take(&cs)) == NO_CONN) {
        (void) epoll_wait(epoll_fd, &ev, 1, -1);
        conns_back(&cs);
    }
    return NULL;
}

START_TEST (test_sleepers_wake_up) {
    struct sleeper sleepers[3];
    uint32_t sum = 0;

    add(0, later());
    add(1, later());
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(
            pthread_create(&sleepers[i].thread, NULL, take_one, &sleepers[i]),
            0);
    }
    while (atomic_load(&cs.idle) < 3) {
        usleep(1000);
    }
    put(0);
    put(1);
    conns_stop(&cs);
    for (int i = 0; i < 3; i++) {
        pthread_join(sleepers[i].thread, NULL);
        sum += sleepers[i].got == CONNS_END ? 100 : 1 + sleepers[i].got;
    }
    ck_assert_uint_eq(sum, 1 + 2 + 100);
    conns_give_back(&cs, 0, false);
    conns_give_back(&cs, 1, false);
}
END_TEST

START_TEST (test_stale_events_find_nobody) {
    struct epoll_event ev;

    add(0, later());
    ck_assert_int_eq(write(peers[0], "x", 1), 1);
    ck_assert(event(&ev));
    ck_assert_uint_eq(conns_hold(&cs, ev.data.u64), 0);
    conns_serve(&cs, 0);
    ck_assert_uint_eq(conns_hold(&cs, ev.data.u64), NO_CONN);
    conns_give_back(&cs, 0, false);
    ck_assert_uint_eq(conns_hold(&cs, ev.data.u64), NO_CONN);
    close(peers[0]);
    add(0, later()); /* the slot's next user */
    ck_assert_uint_eq(conns_hold(&cs, ev.data.u64), NO_CONN);
}
END_TEST

START_TEST (test_queue_is_first_in_first_out) {
    for (int i = 0; i < SIZE; i++) {
        add(i, later());
    }
    put(2);
    put(0);
    put(3);
    ck_assert_uint_eq(conns_take(&cs), 2);
    ck_assert_uint_eq(conns_take(&cs), 0);
    put(1);
    ck_assert_uint_eq(conns_take(&cs), 3);
    ck_assert_uint_eq(conns_take(&cs), 1);
    for (uint32_t i = 0; i < SIZE; i++) {
        conns_give_back(&cs, i, false);
        ck_assert(closed((int) i));
    }
    ck_assert_uint_eq(conns_open_count(&cs), 0);
}
END_TEST

START_TEST (test_eviction_takes_the_longest_idle) {
    for (int i = 0; i < SIZE; i++) {
        add(i, later());
    }
    ck_assert(!conns_make_room(&cs)); /* none has been served yet */
    serve(1, true);
    usleep(5000);
    serve(0, true);
    ck_assert(conns_make_room(&cs));
    ck_assert(closed(1));
    ck_assert(!closed(0));
    close(peers[1]);
    add(1, later());
    cs.slots[0].arriving = true;
    ck_assert(!conns_make_room(&cs)); /* one that sends is not idle */
    cs.slots[0].arriving = false;
    ck_assert(conns_make_room(&cs));
    ck_assert(closed(0));
    ck_assert(conns_make_room(&cs)); /* and nobody else goes for it */
    ck_assert(!closed(1) && !closed(2) && !closed(3));
}
END_TEST

START_TEST (test_sweep_ends_what_is_over_its_deadline) {
    char byte;

    for (int i = 0; i < 3; i++) {
        add(i, later());
    }
    cs.slots[0].deadline_ms = cs.slots[2].deadline_ms = conns_now_ms() - 1;
    conns_serve(&cs, hold(2));
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

START_TEST (test_what_a_sweep_finds_held_ends_too) {
    add(0, later());
    ck_assert_uint_eq(hold(0), 0);
    cs.slots[0].deadline_ms = conns_now_ms() - 1;
    conns_sweep(&cs);
    ck_assert(!closed(0)); /* it is somebody's */
    conns_wait(&cs, 0);
    ck_assert(closed(0));
    ck_assert_uint_eq(conns_open_count(&cs), 0);
}
END_TEST

START_TEST (test_kept_connection_gets_the_idle_timeout) {
    int64_t before = conns_now_ms();

    add(0, later());
    cs.slots[0].deadline_ms = before + 1;
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
    conns_serve(&cs, hold(2)); /* in flight */
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

START_TEST (test_drain_finds_those_that_were_held) {
    add(0, later());
    serve(0, true);
    ck_assert_uint_eq(hold(0), 0);
    ck_assert_uint_eq(add_held(1, later()), 1);
    ck_assert_uint_eq(add_held(2, later()), 2);
    conns_begin(&cs, 2, later());
    conns_drain(&cs, 100);
    for (uint32_t i = 0; i < 3; i++) {
        conns_wait(&cs, i);
    }
    ck_assert(closed(0));  /* idle */
    ck_assert(!closed(1)); /* may still send its first, but soon */
    ck_assert_int_le(cs.slots[1].deadline_ms, conns_now_ms() + 100);
    ck_assert(!closed(2)); /* half a request: has its own time */
    ck_assert_int_gt(cs.slots[2].deadline_ms, conns_now_ms() + 1000);
}
END_TEST

START_TEST (test_stop_lets_the_queue_run_dry_first) {
    add(0, later());
    put(0);
    conns_stop(&cs);
    ck_assert_uint_eq(conns_take(&cs), 0);
    ck_assert_uint_eq(conns_take(&cs), CONNS_END);
    ck_assert_uint_eq(conns_take(&cs), CONNS_END);
    conns_give_back(&cs, 0, false);
}
END_TEST

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_slots_fill_and_are_used_again);
    tcase_add_test(t, test_input_is_reported_once);
    tcase_add_test(t, test_input_for_nobody_is_reported_again);
    tcase_add_test(t, test_what_is_served_at_once_was_never_watched);
    tcase_add_test(t, test_who_is_idle_hears_of_the_queue);
    tcase_add_test(t, test_without_idle_ones_there_is_no_news);
    tcase_add_test(t, test_sleepers_wake_up);
    tcase_add_test(t, test_stale_events_find_nobody);
    tcase_add_test(t, test_queue_is_first_in_first_out);
    tcase_add_test(t, test_eviction_takes_the_longest_idle);
    tcase_add_test(t, test_sweep_ends_what_is_over_its_deadline);
    tcase_add_test(t, test_what_a_sweep_finds_held_ends_too);
    tcase_add_test(t, test_kept_connection_gets_the_idle_timeout);
    tcase_add_test(t, test_drain);
    tcase_add_test(t, test_drain_finds_those_that_were_held);
    tcase_add_test(t, test_stop_lets_the_queue_run_dry_first);
}

int main(void)
{
    return run_case("conns", fill);
}
