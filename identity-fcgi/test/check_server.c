/* Tests of server.c: order, bounds, stalled peers, stopping. */

#include "base/metrics.h"
#include "server/server.h"
#include "testing.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_MS 500
#define QUEUE_MS 400
#define PEERS 16
#define THREADS 8

static char path[] = "/tmp/check_server.XXXXXX/socket";
static struct listener listener;
static struct config cfg;
static int connections_max;
static pthread_t runner;
static bool finished; /* what server_run() returned */
static int peers[PEERS];

/* The calls of the service, and a switch to let it continue. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static bool gate_open, stopping;
static char order[PEERS + 1], marks[PEERS + 1]; /* L: late, G: has gone */
static unsigned served[THREADS];
static int64_t waited_us, allowed_us;

static void handle(size_t thread, const struct fcgi_call *call,
                   struct fcgi_reply *reply)
{
    static char text[] = "Status: 200 OK\r\n\r\n";
    static _Thread_local char mem[sizeof(text)];
    static _Thread_local struct buf head, body;

    pthread_mutex_lock(&lock);
    served[thread]++;
    marks[strlen(order)] = call->late ? 'L' : call->disconnected ? 'G' : '-';
    order[strlen(order)] = call->params[1][2]; /* N=x */
    waited_us = metrics_now_us() - call->arrived_us;
    allowed_us = call->deadline_ms * 1000 - call->arrived_us;
    pthread_cond_broadcast(&change);
    while (!gate_open) {
        pthread_cond_wait(&change, &lock);
    }
    pthread_mutex_unlock(&lock);
    buf_init(&head, mem, sizeof(mem));
    buf_addz(&head, text);
    *reply = (struct fcgi_reply){&head, &body};
}

static void nothing(void)
{
}

static void note_stopping(void)
{
    pthread_mutex_lock(&lock);
    stopping = true;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static void *run(void *arg)
{
    const struct server_service service = {handle, nothing, nothing,
                                           note_stopping};

    finished = server_run(&listener, &cfg, connections_max, &service);
    return arg;
}

static void start_threads(int threads, int max_connections)
{
    cfg.worker_threads = threads;
    cfg.request_timeout_ms = TIMEOUT_MS;
    cfg.queue_timeout_ms = QUEUE_MS;
    connections_max = max_connections;
    ck_assert_int_eq(pthread_create(&runner, NULL, run, NULL), 0);
}

static void start(int max_connections)
{
    start_threads(1, max_connections);
}

static void setup(void)
{
    struct error err;

    memcpy(strrchr(path, '/') - 6, "XXXXXX", 6);
    *strrchr(path, '/') = '\0';
    ck_assert_ptr_nonnull(mkdtemp(path));
    path[strlen(path)] = '/';
    server_block_signals();
    ck_assert_msg(listener_open(&listener, path, &err), "%s", err.text);
    memset(order, 0, sizeof(order));
    memset(marks, 0, sizeof(marks));
    memset(served, 0, sizeof(served));
    gate_open = stopping = finished = false;
    for (int i = 0; i < PEERS; i++) {
        peers[i] = -1;
    }
}

static void teardown(void)
{
    for (int i = 0; i < PEERS; i++) {
        if (peers[i] >= 0) {
            close(peers[i]);
        }
    }
    listener_close(&listener);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    path[strlen(path)] = '/';
}

/* -- peers ----------------------------------------------------------------
 */

static bool can_connect(int i)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    memcpy(addr.sun_path, path, sizeof(path));
    peers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(peers[i], (const struct sockaddr *) &addr, sizeof(addr)) ==
           0;
}

/* The i-th peer asks for what is recorded as the letter. */
static void ask(int i, char letter)
{
    char request[] = "\1\1\0\1\0\x8\0\0\0\1\0\0\0\0\0\0"
                     "\1\4\0\1\0\4\0\0\1\1N?"
                     "\1\4\0\1\0\0\0\0"
                     "\1\5\0\1\0\0\0";

    ck_assert(can_connect(i));
    request[27] = letter;
    ck_assert_int_eq(send(peers[i], request, sizeof(request), 0),
                     sizeof(request));
}

static bool is_answered(int i)
{
    char text[100];
    ssize_t n = recv(peers[i], text, sizeof(text), MSG_WAITALL);

    return n > 8 && memmem(text, (size_t) n, "200 OK", 6) != NULL;
}

/* Until the service has been asked so often. */
static void wait_asked(size_t n)
{
    pthread_mutex_lock(&lock);
    while (strlen(order) < n) {
        pthread_cond_wait(&change, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void wait_use(unsigned queued, unsigned busy)
{
    struct server_use use;

    do {
        usleep(1000);
        use = server_use();
    } while (use.queued != queued || use.busy != busy);
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static void send_sigterm(void)
{
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    pthread_mutex_lock(&lock);
    while (!stopping) {
        pthread_cond_wait(&change, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void wait_end(void)
{
    pthread_join(runner, NULL);
    ck_assert(finished);
}

/* Seven connections arrive while one is being served; all are answered. */
static void answer_eight(void)
{
    ask(0, 'a');
    wait_asked(1);
    for (int i = 1; i < 8; i++) {
        ask(i, (char) ('a' + i));
    }
    wait_use(7, 1);
    open_gate();
    for (int i = 0; i < 8; i++) {
        ck_assert(is_answered(i));
    }
}

TEST (test_first_come_first_served) {
    start(100);
    answer_eight();
    ck_assert_str_eq(order, "abcdefgh");
    send_sigterm();
    wait_end();
}

TEST (test_those_beyond_the_bound_wait_in_the_backlog) {
    start(2);
    ask(0, 'a');
    wait_asked(1);
    ask(1, 'b');
    ask(2, 'c');
    ask(3, 'd');
    wait_use(1, 1);
    usleep(50000);
    wait_use(1, 1);
    open_gate();
    for (int i = 0; i < 4; i++) {
        ck_assert(is_answered(i));
    }
    ck_assert_str_eq(order, "abcd");
    send_sigterm();
    wait_end();
}

/* While over four of eight wait, the oldest is late; and one that is old. */
TEST (test_late_by_number_and_by_age) {
    int64_t until_us;

    start(8);
    answer_eight();
    gate_open = false;
    ask(8, 'i');
    wait_asked(9);
    ask(9, 'j');
    wait_use(1, 1);
    until_us = metrics_now_us() + (QUEUE_MS + 50) * 1000;
    while (metrics_now_us() < until_us) {
        usleep(10000);
    }
    ask(10, 'k');
    wait_use(2, 1);
    open_gate();
    ck_assert(is_answered(10));
    ck_assert_str_eq(order, "abcdefghijk");
    ck_assert_str_eq(marks, "-LL------L-");
    send_sigterm();
    wait_end();
}

TEST (test_whose_peer_has_gone) {
    start(100);
    ask(0, 'a');
    wait_asked(1);
    ask(1, 'b');
    ask(2, 'c');
    wait_use(2, 1);
    close(peers[1]);
    peers[1] = -1;
    open_gate();
    ck_assert(is_answered(2));
    ck_assert_str_eq(marks, "-G-");
    send_sigterm();
    wait_end();
}

/* Each has its time from when it came: together they cost it once. */
TEST (test_silent_peers_are_over_together) {
    char byte;

    start(100);
    for (int i = 0; i < 12; i++) {
        ck_assert(can_connect(i));
    }
    ask(12, 'a');
    open_gate();
    ck_assert(is_answered(12));
    ck_assert_int_lt(waited_us, 4 * TIMEOUT_MS * 1000);
    ck_assert_int_gt(waited_us, TIMEOUT_MS * 1000);
    ck_assert_int_gt(allowed_us, (TIMEOUT_MS - 2) * 1000);
    ck_assert_int_le(allowed_us, TIMEOUT_MS * 1000);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(recv(peers[i], &byte, 1, 0), 0);
    }
    send_sigterm();
    wait_end();
}

/* The thread that was busy last may not be idle again when the next connection
 * arrives; then another warm thread serves it. */
TEST (test_a_warm_worker_goes_first) {
    unsigned warm = 0;

    start_threads(THREADS, 2);
    open_gate();
    for (int i = 0; i < PEERS; i++) {
        ask(i, 'a');
        ck_assert(is_answered(i));
        wait_use(0, 0);
        usleep(1000);
    }
    for (int i = 0; i < THREADS; i++) {
        warm += served[i] != 0;
    }
    ck_assert_uint_le(warm, THREADS / 2);
    send_sigterm();
    wait_end();
}

/* As many as there are work at once. */
TEST (test_all_workers_work) {
    start_threads(THREADS, 100);
    for (int i = 0; i < THREADS; i++) {
        ask(i, 'a');
    }
    wait_asked(THREADS);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(served[i], 1);
    }
    ask(THREADS, 'b');
    wait_use(1, THREADS);
    open_gate();
    for (int i = 0; i <= THREADS; i++) {
        ck_assert(is_answered(i));
    }
    send_sigterm();
    wait_end();
}

TEST (test_stopping_serves_who_is_connected) {
    start(2);
    ask(0, 'a');
    wait_asked(1);
    ask(1, 'b');
    ask(2, 'c'); /* in the backlog */
    wait_use(1, 1);
    send_sigterm();
    ck_assert(!can_connect(3));
    open_gate();
    for (int i = 0; i < 3; i++) {
        ck_assert(is_answered(i));
    }
    wait_end();
}

TEST (test_backlog_of_an_inherited_socket_stays) {
    int other = dup(listener.fd), fd;
    char byte;

    listener.inherited = true;
    listener.path[0] = '\0';
    start(2);
    ask(0, 'a');
    wait_asked(1);
    ask(1, 'b');
    wait_use(1, 1);
    ask(2, 'c');
    send_sigterm();
    ck_assert(can_connect(3));
    open_gate();
    ck_assert(is_answered(0));
    ck_assert(is_answered(1));
    wait_end();
    ck_assert_str_eq(order, "ab");
    fd = accept(other, NULL, NULL);
    ck_assert_int_eq(recv(fd, &byte, 1, 0), 1); /* the third's request */
    close(fd);
    close(other);
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("server", fill);
}
