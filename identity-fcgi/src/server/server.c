/*
 * The server: one acceptor, a queue with arrival times, workers.
 *
 * The main thread takes signals and accepts.  It notes when a connection came
 * and queues it; a worker reads the one request that it is good for, answers
 * and closes.  A peer that does not send its request costs a worker, but not
 * for longer than IO_TIMEOUT_MS after it came, in the queue or out of it: any
 * number of them, come together, hold up the others for that time once.
 */

#include "server/server.h"

#include "base/http.h"
#include "base/log.h"
#include "base/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* For a request to come whole, and for its answer to be taken; the request
 * timeout where that is shorter. */
#define IO_TIMEOUT_MS 2000
#define DRAIN_GRACE_MS 1000
#define TICK_MS 10          /* until a full queue, or a drain, is looked at */
#define LOOK_MS 2000        /* between two looks at what may have changed */
#define ACCEPT_PAUSE_MS 250 /* after an error that will not pass by itself */

struct arrival {
    int fd;
    int zero; /* in place of padding: all of it goes through a pipe */
    int64_t at_us;
};

struct thread {
    struct fcgi_exchange *exchange;
    pthread_t id;
};

/* Static: after an unfinished stop, threads may still look at it. */
static struct {
    struct listener *listener;
    const struct config *cfg;
    const struct server_service *service;
    struct thread *threads; /* NULL: none runs */
    int max_connections;
    sigset_t signals; /* that signal_fd takes */
    int signal_fd;
    int queue[2];           /* a pipe of arrivals; workers end with it */
    int64_t drain_until_us; /* 0 while serving */
    atomic_uint queued, busy;
} server;

/* -- workers -- */

static void count_end(enum fcgi_end end)
{
    if (end == FCGI_LATE) {
        metrics_count(METRICS_CONN_TIMED_OUT);
    } else if (end == FCGI_INCOMPLETE) {
        metrics_count(METRICS_CONN_INCOMPLETE);
    } else if (end == FCGI_GARBAGE) {
        metrics_count(METRICS_CONN_GARBAGE);
        log_line(LOG_WARN_, "fcgi.bad_request",
                 "a peer sent something that is not a FastCGI request");
    }
}

static void serve_one(const struct thread *t, const struct arrival *a)
{
    int64_t timeout_us = server.cfg->request_timeout_ms * 1000;
    int64_t io_us =
        IO_TIMEOUT_MS * 1000 < timeout_us ? IO_TIMEOUT_MS * 1000 : timeout_us;
    struct fcgi_call call = {.arrived_us = a->at_us,
                             .deadline_ms = (a->at_us + timeout_us) / 1000};
    struct fcgi_reply reply;
    enum fcgi_end end = fcgi_read(t->exchange, a->fd, a->at_us + io_us, &call);

    if (end == FCGI_WHOLE) {
        server.service->handle((size_t) (t - server.threads), &call, &reply);
        end = fcgi_answer(t->exchange, metrics_now_us() + io_us, &reply);
        buf_reset(reply.head);
        buf_reset(reply.body);
    }
    count_end(end);
}

/* A connection may be counted twice for a moment, but never missed. */
static void *worker_main(void *arg)
{
    struct arrival a;
    ssize_t n;

    while ((n = read(server.queue[0], &a, sizeof(a))) != 0) {
        if (n != sizeof(a)) {
            continue; /* interrupted */
        }
        atomic_fetch_add(&server.busy, 1);
        atomic_fetch_sub(&server.queued, 1);
        serve_one(arg, &a);
        close(a.fd);
        atomic_fetch_sub(&server.busy, 1);
    }
    return NULL;
}

/* -- acceptor -- */

static void accept_one(void)
{
    struct arrival a = {
        .fd = accept4(server.listener->fd, NULL, NULL, SOCK_CLOEXEC),
        .at_us = metrics_now_us()};

    if (a.fd >= 0) {
        metrics_count(METRICS_CONN_ACCEPTED);
        atomic_fetch_add(&server.queued, 1);
        if (write(server.queue[1], &a, sizeof(a)) != sizeof(a)) {
            atomic_fetch_sub(&server.queued, 1);
            close(a.fd);
        }
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        log_line(LOG_ERROR_, "fcgi.accept", "cannot accept: %s",
                 strerror(errno));
        (void) poll(NULL, 0, ACCEPT_PAUSE_MS);
    }
}

/* Those already connected to a socket of our own are served; the backlog of an
 * inherited one is left to the next process. */
static void drain_begin(void)
{
    server.drain_until_us =
        metrics_now_us() +
        (server.cfg->request_timeout_ms + DRAIN_GRACE_MS) * 1000;
    if (server.listener->inherited) {
        listener_close(server.listener);
    } else {
        listener_unlink(server.listener);
    }
    server.service->stopping();
}

static void on_signal(void)
{
    struct signalfd_siginfo info;

    if (read(server.signal_fd, &info, sizeof(info)) != sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGHUP) {
        server.service->reload();
    } else if (server.drain_until_us != 0) {
        _exit(1); /* asked twice: at once */
    } else {
        drain_begin();
    }
}

/* Returns whether everything in flight was finished. */
static bool accept_all(void)
{
    int64_t look_us = metrics_now_us() + LOOK_MS * 1000;
    unsigned open;

    while ((open = server.queued + server.busy) != 0 ||
           server.listener->fd >= 0) {
        bool draining = server.drain_until_us != 0;
        bool room = open < (unsigned) server.max_connections &&
                    server.listener->fd >= 0;
        struct pollfd p[] = {{server.signal_fd, POLLIN, 0},
                             {room ? server.listener->fd : -1, POLLIN, 0}};

        if (draining && metrics_now_us() >= server.drain_until_us) {
            return false;
        }
        (void) poll(p, 2, !room ? TICK_MS : draining ? 0 : LOOK_MS);
        if (metrics_now_us() >= look_us) {
            server.service->look();
            look_us = metrics_now_us() + LOOK_MS * 1000;
        }
        if (p[0].revents != 0) {
            on_signal();
        } else if (p[1].revents != 0) {
            accept_one();
        } else if (draining && room) {
            listener_close(server.listener); /* its backlog is empty */
        }
    }
    return true;
}

/* -- start and stop -- */

void server_block_signals(void)
{
    sigemptyset(&server.signals);
    sigaddset(&server.signals, SIGTERM);
    sigaddset(&server.signals, SIGINT);
    sigaddset(&server.signals, SIGHUP);
    (void) pthread_sigmask(SIG_BLOCK, &server.signals, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
}

static bool start(void)
{
    /* So that the acceptor never waits: pages are freed as wholes. */
    int room =
        (2 * server.max_connections + 512) * (int) sizeof(struct arrival);

    server.signal_fd =
        signalfd(-1, &server.signals, SFD_CLOEXEC | SFD_NONBLOCK);
    server.threads =
        calloc((size_t) server.cfg->worker_threads, sizeof(*server.threads));
    if (server.signal_fd < 0 || server.threads == NULL ||
        pipe2(server.queue, O_CLOEXEC) != 0) {
        return false;
    }
    (void) fcntl(server.queue[1], F_SETPIPE_SZ, room);
    for (int i = 0; i < server.cfg->worker_threads; i++) {
        struct thread *t = &server.threads[i];

        t->exchange = fcgi_exchange_new(HTTP_BODY_MAX);
        if (t->exchange == NULL ||
            (errno = pthread_create(&t->id, NULL, worker_main, t)) != 0) {
            return false;
        }
    }
    return true;
}

static void stop(void)
{
    close(server.queue[1]);
    for (int i = 0; i < server.cfg->worker_threads; i++) {
        pthread_join(server.threads[i].id, NULL);
        fcgi_exchange_free(server.threads[i].exchange);
    }
    close(server.queue[0]);
    close(server.signal_fd);
    free(server.threads);
    server.threads = NULL;
}

bool server_run(struct listener *listener, const struct config *cfg,
                int max_connections, const struct server_service *service)
{
    server.listener = listener;
    server.cfg = cfg;
    server.max_connections = max_connections;
    server.service = service;
    server.drain_until_us = 0;
    if (!start()) {
        log_line(LOG_ERROR_, "service.start", "cannot start: %s",
                 strerror(errno));
        return false;
    }
    if (!accept_all()) {
        return false;
    }
    stop();
    return true;
}

struct server_use server_use(void)
{
    if (server.threads == NULL) {
        return (struct server_use){0};
    }
    return (struct server_use){server.cfg->worker_threads,
                               server.max_connections, server.queued,
                               server.busy};
}
