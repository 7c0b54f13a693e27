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

#include "base/log.h"
#include "base/metrics.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
#define ACCEPT_PAUSE_MS 250 /* after an error that does not pass by itself */

struct arrival {
    int fd;
    int64_t at_us;
};

struct server {
    struct listener *listener;
    const struct server_limits *limits;
    const struct server_service *service;

    /* The acceptor's own. */
    int signal_fd;
    int64_t drain_until_ms; /* 0 while serving */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t more;
    struct arrival *queue; /* a ring of max_connections */
    uint32_t head, queued;
    uint32_t busy;
    bool stopping;
};

/* Static: after an unfinished stop, threads may still look at it. */
static struct server the_server = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                   .more = PTHREAD_COND_INITIALIZER};

struct worker_thread {
    struct server *server;
    struct fcgi_exchange *exchange;
    void *worker;
    pthread_t thread;
};

static int64_t now_ms(void)
{
    return metrics_now_us() / 1000;
}

/* -- the queue ------------------------------------------------------------
 */

static void put(struct server *s, int fd)
{
    uint32_t size = (uint32_t) s->limits->max_connections;

    pthread_mutex_lock(&s->lock);
    s->queue[(s->head + s->queued) % size] =
        (struct arrival){fd, metrics_now_us()};
    s->queued++;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

/* Waits for the next connection; false when there will be none. */
static bool take(struct server *s, struct arrival *next)
{
    uint32_t size = (uint32_t) s->limits->max_connections;
    bool found;

    pthread_mutex_lock(&s->lock);
    while (s->queued == 0 && !s->stopping) {
        pthread_cond_wait(&s->more, &s->lock);
    }
    found = s->queued != 0;
    if (found) {
        *next = s->queue[s->head];
        s->head = (s->head + 1) % size;
        s->queued--;
        s->busy++;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void give_back(struct server *s, const struct arrival *served)
{
    close(served->fd);
    pthread_mutex_lock(&s->lock);
    s->busy--;
    pthread_mutex_unlock(&s->lock);
}

static uint32_t open_connections(struct server *s)
{
    uint32_t n;

    pthread_mutex_lock(&s->lock);
    n = s->queued + s->busy;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* -- workers --------------------------------------------------------------
 */

static void count_end(enum fcgi_end end)
{
    if (end == FCGI_LATE) {
        metrics_count(METRICS_CONN_TIMED_OUT);
    } else if (end == FCGI_INCOMPLETE) {
        metrics_count(METRICS_CONN_INCOMPLETE);
    } else if (end == FCGI_GARBAGE) {
        metrics_count(METRICS_CONN_GARBAGE);
        log_line(LOG_WARN_, "fcgi.bad_request",
                 "a peer sent what is no FastCGI request");
    }
}

static void serve_one(struct worker_thread *t, const struct arrival *a)
{
    const struct server *s = t->server;
    int64_t timeout_us = s->limits->request_timeout_ms * 1000;
    int64_t io_us =
        IO_TIMEOUT_MS * 1000 < timeout_us ? IO_TIMEOUT_MS * 1000 : timeout_us;
    struct fcgi_call call = {.arrived_us = a->at_us,
                             .deadline_ms = (a->at_us + timeout_us) / 1000};
    struct fcgi_reply reply = {{NULL, 0}, {NULL, 0}};
    enum fcgi_end end = fcgi_read(t->exchange, a->fd, a->at_us + io_us, &call);

    if (end == FCGI_WHOLE) {
        s->service->handle(t->worker, &call, &reply);
        end = fcgi_answer(t->exchange, metrics_now_us() + io_us, &reply);
        s->service->sent(t->worker);
    }
    count_end(end);
}

static void *worker_main(void *arg)
{
    struct worker_thread *t = arg;
    struct arrival next;

    while (take(t->server, &next)) {
        serve_one(t, &next);
        give_back(t->server, &next);
    }
    return NULL;
}

/* -- acceptor -------------------------------------------------------------
 */

static void accept_one(struct server *s)
{
    int fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0) {
        metrics_count(METRICS_CONN_ACCEPTED);
        put(s, fd);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        log_line(LOG_ERROR_, "fcgi.accept", "cannot accept: %s",
                 strerror(errno));
        (void) poll(NULL, 0, ACCEPT_PAUSE_MS);
    }
}

/* Of a socket of our own those who are connected already are served; the
 * backlog of an inherited one belongs to the next process. */
static void drain_begin(struct server *s)
{
    s->drain_until_ms =
        now_ms() + s->limits->request_timeout_ms + DRAIN_GRACE_MS;
    if (s->listener->inherited) {
        listener_close(s->listener);
    } else {
        listener_unlink(s->listener);
    }
    s->service->stopping(s->service->app);
}

static void on_signal(struct server *s)
{
    struct signalfd_siginfo info;

    if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info)) {
        return;
    }
    if (info.ssi_signo == SIGHUP) {
        s->service->reload(s->service->app);
    } else if (s->drain_until_ms != 0) {
        _exit(1); /* asked twice: at once */
    } else {
        drain_begin(s);
    }
}

/* Returns whether everything in flight was finished. */
static bool accept_all(struct server *s)
{
    uint32_t open;

    while ((open = open_connections(s)) != 0 || s->listener->fd >= 0) {
        bool draining = s->drain_until_ms != 0;
        bool room = open < (uint32_t) s->limits->max_connections &&
                    s->listener->fd >= 0;
        struct pollfd p[] = {{s->signal_fd, POLLIN, 0},
                             {room ? s->listener->fd : -1, POLLIN, 0}};

        if (draining && now_ms() >= s->drain_until_ms) {
            return false;
        }
        (void) poll(p, 2, !room ? TICK_MS : draining ? 0 : -1);
        if (p[0].revents != 0) {
            on_signal(s);
        } else if (p[1].revents != 0) {
            accept_one(s);
        } else if (draining && room) {
            listener_close(s->listener); /* its backlog is empty */
        }
    }
    return true;
}

/* -- start and stop -------------------------------------------------------
 */

static void signal_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void server_block_signals(void)
{
    sigset_t set;

    signal_set(&set);
    (void) pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
}

static bool start_workers(struct server *s, struct worker_thread *threads)
{
    for (int i = 0; i < s->limits->threads; i++) {
        struct worker_thread *t = &threads[i];

        t->server = s;
        t->worker = s->service->workers[i];
        t->exchange = fcgi_exchange_new(s->limits->body_max);
        if (t->exchange == NULL) {
            return false;
        }
        errno = pthread_create(&t->thread, NULL, worker_main, t);
        if (errno != 0) {
            return false;
        }
    }
    return true;
}

static void stop_workers(struct server *s, struct worker_thread *threads)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->limits->threads; i++) {
        pthread_join(threads[i].thread, NULL);
        fcgi_exchange_free(threads[i].exchange);
    }
}

bool server_run(struct listener *listener, const struct server_limits *limits,
                const struct server_service *service)
{
    struct server *s = &the_server;
    struct worker_thread *threads =
        calloc((size_t) limits->threads, sizeof(*threads));
    sigset_t set;

    signal_set(&set);
    s->listener = listener;
    s->limits = limits;
    s->service = service;
    s->head = s->queued = s->busy = 0;
    s->drain_until_ms = 0;
    s->stopping = false;
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->queue = calloc((size_t) limits->max_connections, sizeof(*s->queue));
    if (threads == NULL || s->signal_fd < 0 || s->queue == NULL ||
        !start_workers(s, threads)) {
        log_line(LOG_ERROR_, "service.start", "cannot start: %s",
                 strerror(errno));
        return false;
    }
    if (!accept_all(s)) {
        return false;
    }
    stop_workers(s, threads);
    free(threads);
    free(s->queue);
    s->queue = NULL;
    close(s->signal_fd);
    return true;
}

void server_use(struct server_use *use)
{
    struct server *s = &the_server;

    memset(use, 0, sizeof(*use));
    if (s->queue != NULL) {
        use->threads = s->limits->threads;
        use->max_connections = s->limits->max_connections;
        pthread_mutex_lock(&s->lock);
        use->queued = s->queued;
        use->busy = s->busy;
        pthread_mutex_unlock(&s->lock);
    }
}
