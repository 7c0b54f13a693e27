/*
 * The server: one poller that owns connections, many workers.
 *
 * libfcgi ties a thread to a connection for as long as it is open, so a few
 * idle kept-alive connections starve everyone else.  Here one thread owns the
 * listener and every connection that waits.  It peeks at what arrived, and
 * only when a whole request lies in the kernel does the connection go to a
 * worker, which lets libfcgi read it without ever waiting for the peer.
 */

#include "server.h"

#include "conns.h"
#include "fcgi_scan.h"
#include "log.h"
#include "metrics.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 250      /* how late a timeout may be noticed */
#define DRAIN_TICK_MS 10 /* the same while shutting down */
#define DRAIN_GRACE_MS 1000
#define EVENTS_MAX 128

/* epoll's user data: these two, or a connection's. */
#define EVENT_LISTENER UINT64_MAX
#define EVENT_SIGNAL (UINT64_MAX - 1)

/* The poller's own; what workers share with it is in conns. */
struct server {
    struct listener *listener;
    const struct server_limits *limits;
    const struct server_service *service;
    int epoll_fd;
    int signal_fd;
    bool accepting;
    int64_t drain_until_ms; /* 0 while serving */
    int64_t next_sweep_ms;
    int64_t next_complaint_ms; /* about accept() */
    struct conns conns;
};

/* Static: after an unfinished stop, threads may still look at it. */
static struct server the_server = {.epoll_fd = -1, .signal_fd = -1};

struct worker_thread {
    struct server *server;
    struct fcgi_exchange *exchange;
    void *worker;
    struct conns_seat seat;
    pthread_t thread;
};

/* -- workers --------------------------------------------------------------
 */

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
    atomic_store(&c->io_deadline_ms, 0);
    return ok;
}

static void *worker_main(void *arg)
{
    struct worker_thread *t = arg;
    struct conns *cs = &t->server->conns;
    uint32_t slot;

    while ((slot = conns_take(cs, &t->seat)) != NO_CONN) {
        conns_give_back(cs, slot, serve_one(t, &cs->slots[slot]));
    }
    return NULL;
}

/* -- poller: what arrives -------------------------------------------------
 */

/* Judges what has arrived on a WAITING connection. */
static void conn_look(struct server *s, uint32_t slot, bool hung_up)
{
    static unsigned char peeked[FCGI_SCAN_MAX]; /* the poller's alone */
    struct conn *c = &s->conns.slots[slot];
    ssize_t n = recv(c->fd, peeked, sizeof(peeked), MSG_PEEK | MSG_DONTWAIT);
    enum fcgi_scan verdict = FCGI_SCAN_BAD;

    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !hung_up) {
        return;
    }
    if (n > 0) {
        if (!c->arriving) {
            conns_begin(&s->conns, slot,
                        conns_now_ms() + s->limits->request_timeout_ms);
        }
        verdict = fcgi_scan(peeked, (size_t) n, n == sizeof(peeked));
        if (verdict == FCGI_SCAN_BAD) {
            metrics_count(METRICS_CONN_GARBAGE);
            log_line(LOG_WARN_, "fcgi.bad_request",
                     "a peer sent what is no FastCGI request");
        }
    }
    if (verdict == FCGI_SCAN_READY) {
        conns_put(&s->conns, slot);
    } else if (verdict == FCGI_SCAN_BAD || hung_up) {
        conns_close(&s->conns, slot);
    }
}

static void on_conn_event(struct server *s, const struct epoll_event *ev)
{
    uint32_t slot = conns_of_event(&s->conns, ev->data.u64);

    if (slot != NO_CONN) {
        conn_look(s, slot,
                  (ev->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    }
}

/* -- poller: accepting ----------------------------------------------------
 */

static void accept_pause(struct server *s)
{
    if (s->accepting) {
        (void) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listener->fd, NULL);
        s->accepting = false;
    }
}

static bool accept_resume(struct server *s)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EVENT_LISTENER};

    s->accepting =
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listener->fd, &ev) == 0;
    return s->accepting;
}

static void prepare_socket(const struct server *s, int fd)
{
    int64_t ms = s->limits->request_timeout_ms;
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    int on = 1;

    (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    if (s->listener->tcp) {
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

static void on_accept_error(struct server *s, int error)
{
    int64_t now = conns_now_ms();

    if (error == EMFILE || error == ENFILE || error == ENOBUFS ||
        error == ENOMEM) {
        accept_pause(s); /* until the next tick */
    }
    if (now >= s->next_complaint_ms) {
        log_line(LOG_ERROR_, "fcgi.accept", "cannot accept: %s",
                 strerror(error));
        s->next_complaint_ms = now + 1000;
    }
}

/* Often the request is there already, and epoll need not hear of it. */
static void conn_meet(struct server *s, int fd)
{
    uint32_t slot = conns_add(&s->conns, fd,
                              conns_now_ms() + s->limits->request_timeout_ms);

    conn_look(s, slot, false);
    conns_watch(&s->conns, slot);
}

static void accept_all(struct server *s)
{
    for (;;) {
        int fd;

        if (conns_full(&s->conns) && !conns_evict_idle(&s->conns)) {
            accept_pause(s);
            return;
        }
        fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            metrics_count(METRICS_CONN_ACCEPTED);
            prepare_socket(s, fd);
            conn_meet(s, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            on_accept_error(s, errno);
            return;
        }
    }
}

/* -- poller: time ---------------------------------------------------------
 */

static void sweep(struct server *s)
{
    int64_t now = conns_now_ms();

    if (now < s->next_sweep_ms) {
        return;
    }
    s->next_sweep_ms = now + TICK_MS;
    conns_sweep(&s->conns);
    if (!s->accepting && s->drain_until_ms == 0) {
        (void) accept_resume(s);
    }
}

/* -- poller: shutdown -----------------------------------------------------
 */

static void drain_begin(struct server *s)
{
    int64_t now = conns_now_ms();

    s->drain_until_ms = now + s->limits->request_timeout_ms + DRAIN_GRACE_MS;
    s->service->stopping(s->service->app);
    if (!s->listener->inherited) {
        /* Who is connected already is served; the queue of an inherited
         * socket belongs to the next process. */
        listener_unlink(s->listener);
        accept_all(s);
    }
    accept_pause(s);
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

static int wait_ms(struct server *s)
{
    if (s->drain_until_ms != 0) {
        return DRAIN_TICK_MS;
    }
    /* With no connection there is nothing to time out. */
    return conns_open_count(&s->conns) == 0 && s->accepting ? -1 : TICK_MS;
}

/* Returns whether everything in flight was finished. */
static bool poll_loop(struct server *s)
{
    struct epoll_event events[EVENTS_MAX];

    while (s->drain_until_ms == 0 || conns_open_count(&s->conns) != 0) {
        int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, wait_ms(s));

        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == EVENT_SIGNAL) {
                on_signal(s);
            } else if (events[i].data.u64 != EVENT_LISTENER) {
                on_conn_event(s, &events[i]);
            } else if (s->accepting) {
                accept_all(s);
            }
        }
        sweep(s);
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
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = EVENT_SIGNAL};
    sigset_t set;

    signal_set(&set);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->epoll_fd >= 0 && s->signal_fd >= 0 &&
           epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->signal_fd, &ev) == 0 &&
           accept_resume(s);
}

static bool start_worker(struct server *s, struct worker_thread *t, int i)
{
    t->server = s;
    t->worker = s->service->workers[i];
    t->exchange = fcgi_exchange_new(s->limits->body_max);
    conns_seat_init(&t->seat);
    if (t->exchange == NULL ||
        pthread_create(&t->thread, NULL, worker_main, t) != 0) {
        conns_seat_free(&t->seat);
        fcgi_exchange_free(t->exchange);
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
        conns_seat_free(&threads[i].seat);
        fcgi_exchange_free(threads[i].exchange);
    }
}

/* Runs workers and the poller; false when the process has to end. */
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
    if (!poll_loop(s)) {
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
