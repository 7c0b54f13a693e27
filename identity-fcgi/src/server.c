/*
 * The server: workers that wait for connections themselves, and a keeper.
 *
 * libfcgi ties a thread to a connection for as long as it is open, so a few
 * idle kept-alive connections starve everyone else.  Here every idle worker
 * waits in one epoll instance for the listener and for all connections that
 * wait.  Who hears of one peeks at what arrived, and only when a whole request
 * lies in the kernel lets libfcgi read it, which then never waits for the
 * peer.  No other thread stands between nginx and the worker.
 *
 * The keeper, the main thread, takes signals and ends what is over its
 * deadline.  While all workers are busy it accepts and looks in their place,
 * so that each request's time runs from its arrival.
 */

#include "server.h"

#include "conns.h"
#include "fcgi_scan.h"
#include "log.h"
#include "metrics.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* How late the keeper may notice a timeout, or that no worker is idle, */
#define TICK_MS 250
/* then a timeout or an arrival, and while shutting down, the end. */
#define BUSY_TICK_MS 10
#define DRAIN_TICK_MS 10
#define DRAIN_GRACE_MS 1000
#define EVENTS_MAX 128

/* epoll's user data: this, CONNS_EVENT_NEWS, or a connection's. */
#define EVENT_LISTENER UINT64_MAX

struct server {
    struct listener *listener;
    const struct server_limits *limits;
    const struct server_service *service;
    int epoll_fd;
    struct conns conns;

    pthread_mutex_t accepting; /* guards what follows */
    bool open;                 /* epoll watches the listener */
    bool paused;               /* and shall not tell of it before a tick */
    int64_t next_complaint_ms; /* about accept() */

    /* The keeper's own. */
    int signal_fd;
    int64_t drain_until_ms; /* 0 while serving */
    unsigned char peeked[FCGI_SCAN_MAX];
};

/* Static: after an unfinished stop, threads may still look at it. */
static struct server the_server = {
    .epoll_fd = -1, .signal_fd = -1, .accepting = PTHREAD_MUTEX_INITIALIZER};

struct worker_thread {
    struct server *server;
    struct fcgi_exchange *exchange;
    void *worker;
    unsigned char *peeked; /* FCGI_SCAN_MAX bytes */
    pthread_t thread;
};

/* -- what arrives ---------------------------------------------------------
 */

/*
 * Looks at what has arrived on a HELD connection, with room for it in peeked.
 * True when it is a whole request: the connection is the caller's then.
 */
static bool look(struct server *s, uint32_t slot, bool hung_up,
                 unsigned char *peeked)
{
    struct conn *c = &s->conns.slots[slot];
    ssize_t n = recv(c->fd, peeked, FCGI_SCAN_MAX, MSG_PEEK | MSG_DONTWAIT);
    bool nothing = n < 0 && errno == EAGAIN;
    enum fcgi_scan verdict = nothing ? FCGI_SCAN_MORE : FCGI_SCAN_BAD;

    if (n > 0) {
        if (!c->arriving) {
            conns_begin(&s->conns, slot,
                        conns_now_ms() + s->limits->request_timeout_ms);
        }
        verdict = fcgi_scan(peeked, (size_t) n, n == FCGI_SCAN_MAX);
        OPENSSL_cleanse(peeked, (size_t) n); /* tokens, credentials */
        if (verdict == FCGI_SCAN_BAD) {
            metrics_count(METRICS_CONN_GARBAGE);
            log_line(LOG_WARN_, "fcgi.bad_request",
                     "a peer sent what is no FastCGI request");
        }
    }
    if (verdict == FCGI_SCAN_READY) {
        return true;
    }
    if (verdict == FCGI_SCAN_BAD || hung_up) {
        conns_close(&s->conns, slot);
    } else {
        conns_wait(&s->conns, slot);
    }
    return false;
}

/* The connection of an event, if it is a whole request; else NO_CONN. */
static uint32_t on_conn_event(struct server *s, const struct epoll_event *ev,
                              unsigned char *peeked)
{
    uint32_t slot = conns_hold(&s->conns, ev->data.u64);
    bool hung_up = (ev->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;

    return slot != NO_CONN && look(s, slot, hung_up, peeked) ? slot : NO_CONN;
}

/* -- accepting ------------------------------------------------------------
 */

/* One-shot: of those who wait one is told, and tells epoll when it has
 * accepted, so that another one hears of the next. */
static bool watch_listener(struct server *s, int op)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT,
                             .data.u64 = EVENT_LISTENER};

    return epoll_ctl(s->epoll_fd, op, s->listener->fd, &ev) == 0;
}

static void on_accept_error(struct server *s, int error)
{
    int64_t now = conns_now_ms();

    if (error == EMFILE || error == ENFILE || error == ENOBUFS ||
        error == ENOMEM) {
        s->paused = true;
    }
    if (now >= s->next_complaint_ms) {
        log_line(LOG_ERROR_, "fcgi.accept", "cannot accept: %s",
                 strerror(error));
        s->next_complaint_ms = now + 1000;
    }
}

/* With the lock held: the next connection, HELD, or NO_CONN. */
static uint32_t accept_next(struct server *s)
{
    int fd;

    if (!conns_make_room(&s->conns)) {
        s->paused = true;
        return NO_CONN;
    }
    do {
        fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        if (errno != EAGAIN) {
            on_accept_error(s, errno);
        }
        return NO_CONN;
    }
    metrics_count(METRICS_CONN_ACCEPTED);
    return conns_add(&s->conns, fd,
                     conns_now_ms() + s->limits->request_timeout_ms);
}

/* After the listener's event: a connection that is a whole request, or
 * NO_CONN. */
static uint32_t on_listener_event(struct server *s, unsigned char *peeked)
{
    uint32_t slot = NO_CONN;

    pthread_mutex_lock(&s->accepting);
    if (s->open) {
        slot = accept_next(s);
        if (!s->paused) {
            (void) watch_listener(s, EPOLL_CTL_MOD);
        }
    }
    pthread_mutex_unlock(&s->accepting);
    return slot != NO_CONN && look(s, slot, false, peeked) ? slot : NO_CONN;
}

static void accept_resume(struct server *s)
{
    pthread_mutex_lock(&s->accepting);
    if (s->open && s->paused) {
        s->paused = !watch_listener(s, EPOLL_CTL_MOD);
    }
    pthread_mutex_unlock(&s->accepting);
}

/* -- workers --------------------------------------------------------------
 */

/* A connection that is a whole request, or NO_CONN. */
static uint32_t on_event(struct server *s, const struct epoll_event *ev,
                         unsigned char *peeked)
{
    switch (ev->data.u64) {
    case CONNS_EVENT_NEWS:
        return NO_CONN;
    case EVENT_LISTENER:
        return on_listener_event(s, peeked);
    default:
        return on_conn_event(s, ev, peeked);
    }
}

/* Waits for the next request: its connection, BUSY, or CONNS_END. */
static uint32_t next_request(struct worker_thread *t)
{
    struct server *s = t->server;
    struct epoll_event ev;

    for (;;) {
        uint32_t slot = conns_take(&s->conns);
        int n;

        if (slot != NO_CONN) {
            return slot;
        }
        /* epoll calls the one that came last: its memory is the warmest. */
        n = epoll_wait(s->epoll_fd, &ev, 1, -1);
        conns_back(&s->conns);
        if (n == 1 && (slot = on_event(s, &ev, t->peeked)) != NO_CONN) {
            conns_serve(&s->conns, slot);
            return slot;
        }
    }
}

/* One request; whether the connection may be kept. */
static bool serve_one(struct worker_thread *t, struct conn *c)
{
    const struct server *s = t->server;
    struct fcgi_call call = {.arrived_us = c->arrived_us,
                             .deadline_ms = c->deadline_ms};
    struct fcgi_reply reply = {{NULL, 0}, {NULL, 0}};
    bool ok;

    atomic_store(&c->io_deadline_ms, c->deadline_ms);
    ok = fcgi_read(t->exchange, c->fd, &call);
    atomic_store(&c->io_deadline_ms, 0);
    if (!ok) {
        metrics_count(METRICS_CONN_INCOMPLETE);
        return false;
    }
    s->service->handle(t->worker, &call, &reply);
    atomic_store(&c->io_deadline_ms,
                 conns_now_ms() + s->limits->request_timeout_ms);
    ok = fcgi_answer(t->exchange, &reply);
    s->service->sent(t->worker);
    atomic_store(&c->io_deadline_ms, 0);
    return ok;
}

static void *worker_main(void *arg)
{
    struct worker_thread *t = arg;
    struct conns *cs = &t->server->conns;
    uint32_t slot;

    while ((slot = next_request(t)) != CONNS_END) {
        conns_give_back(cs, slot, serve_one(t, &cs->slots[slot]));
    }
    return NULL;
}

/* -- keeper: in the workers' place ----------------------------------------
 */

/* Queues what has arrived. */
static void stand_in(struct server *s)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, 0);

    while (n > 0) {
        int listeners = 0;

        for (int i = 0; i < n; i++) {
            uint32_t slot = on_event(s, &events[i], s->peeked);

            if (slot != NO_CONN) {
                conns_put(&s->conns, slot);
            }
            listeners += events[i].data.u64 == EVENT_LISTENER;
        }
        /* One connection a look at the listener: there may be more. */
        n = listeners > 0 ? epoll_wait(s->epoll_fd, events, EVENTS_MAX, 0) : 0;
    }
}

/* -- keeper: shutdown -----------------------------------------------------
 */

/* No worker accepts any more.  Who is connected already is served; the queue
 * of an inherited socket belongs to the next process. */
static void accept_last(struct server *s)
{
    uint32_t slot;

    pthread_mutex_lock(&s->accepting);
    s->open = false;
    (void) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listener->fd, NULL);
    pthread_mutex_unlock(&s->accepting);
    if (s->listener->inherited) {
        return;
    }
    listener_unlink(s->listener);
    while ((slot = accept_next(s)) != NO_CONN) {
        if (look(s, slot, false, s->peeked)) {
            conns_put(&s->conns, slot);
        }
    }
}

static void drain_begin(struct server *s)
{
    int64_t now = conns_now_ms();

    s->drain_until_ms = now + s->limits->request_timeout_ms + DRAIN_GRACE_MS;
    s->service->stopping(s->service->app);
    accept_last(s);
    listener_close(s->listener);
    conns_drain(&s->conns, DRAIN_GRACE_MS);
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

/* -- the loop -------------------------------------------------------------
 */

static int tick_ms(struct server *s)
{
    if (s->drain_until_ms != 0) {
        return DRAIN_TICK_MS;
    }
    return atomic_load(&s->conns.idle) == 0 ? BUSY_TICK_MS : TICK_MS;
}

/* Returns whether everything in flight was finished. */
static bool keep(struct server *s)
{
    struct pollfd p = {s->signal_fd, POLLIN, 0};

    while (s->drain_until_ms == 0 || conns_open_count(&s->conns) != 0) {
        if (poll(&p, 1, tick_ms(s)) > 0) {
            on_signal(s);
        }
        if (atomic_load(&s->conns.idle) == 0) {
            stand_in(s);
        }
        conns_sweep(&s->conns);
        accept_resume(s);
        if (s->drain_until_ms != 0 && conns_now_ms() >= s->drain_until_ms) {
            return conns_open_count(&s->conns) == 0;
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

static bool init_polling(struct server *s)
{
    sigset_t set;

    signal_set(&set);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->open = s->epoll_fd >= 0 && s->signal_fd >= 0 &&
              watch_listener(s, EPOLL_CTL_ADD);
    return s->open;
}

static void worker_free(struct worker_thread *t)
{
    fcgi_exchange_free(t->exchange);
    free(t->peeked);
}

static bool start_worker(struct server *s, struct worker_thread *t, int i)
{
    t->server = s;
    t->worker = s->service->workers[i];
    t->exchange = fcgi_exchange_new(s->limits->body_max);
    t->peeked = malloc(FCGI_SCAN_MAX);
    if (t->exchange == NULL || t->peeked == NULL ||
        pthread_create(&t->thread, NULL, worker_main, t) != 0) {
        worker_free(t);
        return false;
    }
    return true;
}

static void stop_workers(struct server *s, struct worker_thread *threads,
                         int count)
{
    conns_stop(&s->conns);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].thread, NULL);
        worker_free(&threads[i]);
    }
}

/* Runs workers and the keeper; false when the process has to end. */
static bool run_threads(struct server *s, struct worker_thread *threads)
{
    int started = 0;

    while (started < s->limits->threads) {
        if (!start_worker(s, &threads[started], started)) {
            log_line(LOG_ERROR_, "service.start", "cannot start a thread");
            stop_workers(s, threads, started);
            return false;
        }
        started++;
    }
    if (!keep(s)) {
        return false;
    }
    stop_workers(s, threads, started);
    return true;
}

bool server_run(struct listener *listener, const struct server_limits *limits,
                const struct server_service *service)
{
    struct server *s = &the_server;
    struct worker_thread *threads;

    s->listener = listener;
    s->limits = limits;
    s->service = service;
    threads = calloc((size_t) limits->threads, sizeof(*threads));
    if (threads == NULL || !fcgi_init() || !init_polling(s) ||
        !conns_init(&s->conns, (uint32_t) limits->max_connections, s->epoll_fd,
                    limits->idle_timeout_ms)) {
        log_line(LOG_ERROR_, "service.start", "cannot start: %s",
                 strerror(errno));
        free(threads);
        return false;
    }
    if (!run_threads(s, threads)) {
        return false;
    }
    free(threads);
    conns_free(&s->conns);
    close(s->epoll_fd);
    close(s->signal_fd);
    return true;
}

void server_use(struct server_use *use)
{
    struct server *s = &the_server;

    memset(use, 0, sizeof(*use));
    if (s->conns.slots == NULL) {
        return;
    }
    use->threads = s->limits->threads;
    use->max_connections = s->limits->max_connections;
    use->open = conns_open_count(&s->conns);
    conns_use(&s->conns, &use->queued, &use->busy);
}
