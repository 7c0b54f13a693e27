/*
 * The FastCGI server: one poller, many workers; the only user of libfcgi.
 *
 * libfcgi ties a thread to a connection for as long as it is open, so a few
 * idle kept-alive connections starve everyone else.  Here one thread owns the
 * listener and every connection that waits.  It peeks at what arrived, and
 * only when a whole request lies in the kernel does the connection go to a
 * worker, which lets libfcgi read it without ever waiting for the peer.
 *
 *     WAITING --whole request--> QUEUED --taken--> BUSY --kept alive--+
 *        ^                                          |                 |
 *        +------------------------------------------|-----------------+
 *        +--timeout, end of file, garbage--> FREE <-+
 *
 * Only the poller touches a WAITING connection, only its worker a BUSY one;
 * changes of state are made under the lock.
 */

#include "fcgi.h"

#include "fcgi_scan.h"
#include "log.h"

#include <errno.h>
#include <fcgiapp.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 250      /* how late a timeout may be noticed */
#define DRAIN_TICK_MS 10 /* the same while shutting down */
#define DRAIN_GRACE_MS 1000
#define EVENTS_MAX 128
#define DRAIN_MAX_BYTES (1024 * 1024) /* of a body too large to be served */

/* epoll's user data: these two, or a connection's slot and generation. */
#define EVENT_LISTENER UINT64_MAX
#define EVENT_SIGNAL (UINT64_MAX - 1)

enum conn_state { CONN_FREE, CONN_WAITING, CONN_QUEUED, CONN_BUSY };

struct conn {
    int fd;
    enum conn_state state;
    bool served; /* kept alive after a request: may be closed when idle */
    bool arriving;
    uint32_t generation; /* tells events of an earlier user of the slot */
    uint32_t next;       /* in the free list or the queue */
    int64_t deadline_ms; /* WAITING: closed then; else the request's own */
    /* BUSY: when the worker's reading or writing has to be over; 0 while it
     * does neither.  The poller then shuts the socket down under it. */
    _Atomic int64_t io_deadline_ms;
};

#define NO_CONN UINT32_MAX

struct server {
    struct listener *listener;
    const struct fcgi_limits *limits;
    const struct fcgi_service *service;
    int epoll_fd;
    int signal_fd;
    bool accepting;
    int64_t drain_until_ms; /* 0 while serving */
    int64_t next_sweep_ms;
    int64_t next_complaint_ms; /* about accept() */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t queued;
    struct conn *conns;
    uint32_t free_head;
    uint32_t queue_head, queue_tail;
    int open_count;
    bool draining; /* connections are not kept any more */
    bool stopping; /* workers end */
};

struct worker_thread {
    struct server *server;
    void *worker;
    unsigned char *body;
    pthread_t thread;
};

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* -- connections: slots, queue --------------------------------------------
 */

static uint64_t event_of(const struct server *s, uint32_t slot)
{
    return (uint64_t) s->conns[slot].generation << 32 | slot;
}

/* Arms, or after a request re-arms, the wait for input.  Edge-triggered: a
 * request half arrived does not spin, and re-arming reports what is there. */
static bool watch(struct server *s, uint32_t slot, int op)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                             .data.u64 = event_of(s, slot)};

    return epoll_ctl(s->epoll_fd, op, s->conns[slot].fd, &ev) == 0;
}

/* With the lock held. */
static void conn_close(struct server *s, uint32_t slot)
{
    struct conn *c = &s->conns[slot];

    (void) epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
    c->state = CONN_FREE;
    c->generation++;
    c->next = s->free_head;
    s->free_head = slot;
    s->open_count--;
}

static void conn_close_locked(struct server *s, uint32_t slot)
{
    pthread_mutex_lock(&s->lock);
    conn_close(s, slot);
    pthread_mutex_unlock(&s->lock);
}

static void conn_enqueue(struct server *s, uint32_t slot)
{
    struct conn *c = &s->conns[slot];

    pthread_mutex_lock(&s->lock);
    c->state = CONN_QUEUED;
    c->next = NO_CONN;
    if (s->queue_tail == NO_CONN) {
        s->queue_head = slot;
    } else {
        s->conns[s->queue_tail].next = slot;
    }
    s->queue_tail = slot;
    pthread_cond_signal(&s->queued);
    pthread_mutex_unlock(&s->lock);
}

/* Waits for a connection with a request; NO_CONN when the server stops. */
static uint32_t conn_dequeue(struct server *s)
{
    uint32_t slot;

    pthread_mutex_lock(&s->lock);
    while (s->queue_head == NO_CONN && !s->stopping) {
        pthread_cond_wait(&s->queued, &s->lock);
    }
    slot = s->queue_head;
    if (slot != NO_CONN) {
        s->queue_head = s->conns[slot].next;
        if (s->queue_head == NO_CONN) {
            s->queue_tail = NO_CONN;
        }
        s->conns[slot].state = CONN_BUSY;
    }
    pthread_mutex_unlock(&s->lock);
    return slot;
}

/* The worker is done with slot. */
static void conn_give_back(struct server *s, uint32_t slot, bool keep)
{
    struct conn *c = &s->conns[slot];

    pthread_mutex_lock(&s->lock);
    if (keep && !s->draining) {
        c->state = CONN_WAITING;
        c->served = true;
        c->arriving = false;
        c->deadline_ms = now_ms() + s->limits->idle_timeout_ms;
        keep = watch(s, slot, EPOLL_CTL_MOD);
    } else {
        keep = false;
    }
    if (!keep) {
        conn_close(s, slot);
    }
    pthread_mutex_unlock(&s->lock);
}

/* -- workers --------------------------------------------------------------
 */

/*
 * Gives libfcgi a descriptor of its own to the connection.  libfcgi closes
 * its descriptor on any error, inside its calls; ours stays valid, so that
 * the poller can shut the connection down at a deadline without a race.
 * "Detached" makes that close a plain one: otherwise libfcgi waits up to two
 * seconds, and again for each byte, for the peer to close first.
 */
static bool lend(FCGX_Request *req, int fd)
{
    req->ipcFd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (req->ipcFd < 0) {
        return false;
    }
    /* FCGX_Accept_r() first finishes "the last request": it must not close
     * the connection that it is about to read. */
    req->keepConnection = 1;
    /* Where it would accept another connection it must fail instead. */
    req->listen_sock = -1;
    return FCGX_Detach(req) == 0;
}

static void take_back(FCGX_Request *req)
{
    if (req->ipcFd >= 0) {
        close(req->ipcFd);
        req->ipcFd = -1;
    }
}

/* Whether less came than CONTENT_LENGTH says: the client went away. */
static bool is_cut_off(const FCGX_Request *req, size_t len)
{
    const char *text = FCGX_GetParam("CONTENT_LENGTH", req->envp);

    return text != NULL && strtoull(text, NULL, 10) > len;
}

/* Reads the body to its end; false when it does not arrive whole. */
static bool read_body(FCGX_Request *req, unsigned char *mem, size_t max,
                      struct fcgi_call *call)
{
    char scrap[4096];
    size_t drained = 0;
    int n = FCGX_GetStr((char *) mem, (int) max + 1, req->in);

    call->body_too_large = (size_t) n > max;
    call->body.data = mem;
    call->body.len = call->body_too_large ? max : (size_t) n;
    while (n > 0 && !FCGX_HasSeenEOF(req->in)) {
        n = FCGX_GetStr(scrap, sizeof(scrap), req->in);
        drained += (size_t) n;
        if (drained > DRAIN_MAX_BYTES) {
            return false;
        }
    }
    return FCGX_GetError(req->in) == 0 &&
           (call->body_too_large || !is_cut_off(req, call->body.len));
}

static void write_reply(FCGX_Request *req, const struct fcgi_reply *reply)
{
    if (reply->head.len != 0) {
        (void) FCGX_PutStr((const char *) reply->head.data,
                           (int) reply->head.len, req->out);
    }
    if (reply->body.len != 0) {
        (void) FCGX_PutStr((const char *) reply->body.data,
                           (int) reply->body.len, req->out);
    }
}

/* One request; whether the connection may be kept. */
static bool serve_one(struct worker_thread *t, FCGX_Request *req,
                      uint32_t slot)
{
    const struct server *s = t->server;
    struct conn *c = &s->conns[slot];
    struct fcgi_call call = {.deadline_ms = c->deadline_ms};
    struct fcgi_reply reply = {{NULL, 0}, {NULL, 0}};
    bool keep;

    if (!lend(req, c->fd)) {
        log_line(LOG_ERROR_, "fcgi.error", "descriptor: %s", strerror(errno));
        take_back(req);
        return false;
    }
    atomic_store(&c->io_deadline_ms, c->deadline_ms);
    if (FCGX_Accept_r(req) != 0) {
        atomic_store(&c->io_deadline_ms, 0);
        return false;
    }
    if (read_body(req, t->body, s->limits->body_max, &call)) {
        atomic_store(&c->io_deadline_ms, 0);
        call.params = req->envp;
        s->service->handle(t->worker, &call, &reply);
        atomic_store(&c->io_deadline_ms,
                     now_ms() + s->limits->request_timeout_ms);
        write_reply(req, &reply);
    } else {
        req->keepConnection = 0;
    }
    FCGX_Finish_r(req);
    /* libfcgi has closed its descriptor if anything went wrong. */
    keep = req->keepConnection && req->ipcFd >= 0;
    take_back(req);
    atomic_store(&c->io_deadline_ms, 0);
    return keep;
}

static void *worker_main(void *arg)
{
    struct worker_thread *t = arg;
    FCGX_Request req;
    uint32_t slot;

    FCGX_InitRequest(&req, -1, 0);
    while ((slot = conn_dequeue(t->server)) != NO_CONN) {
        conn_give_back(t->server, slot, serve_one(t, &req, slot));
    }
    FCGX_Free(&req, 0);
    return NULL;
}

/* -- poller: what arrives -------------------------------------------------
 */

/* Judges what has arrived on a WAITING connection. */
static void conn_look(struct server *s, uint32_t slot, bool hung_up)
{
    static unsigned char peeked[FCGI_SCAN_MAX]; /* the poller's alone */
    struct conn *c = &s->conns[slot];
    ssize_t n = recv(c->fd, peeked, sizeof(peeked), MSG_PEEK | MSG_DONTWAIT);
    enum fcgi_scan verdict = FCGI_SCAN_BAD;

    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !hung_up) {
        return;
    }
    if (n > 0) {
        if (!c->arriving) {
            c->arriving = true;
            c->deadline_ms = now_ms() + s->limits->request_timeout_ms;
        }
        verdict = fcgi_scan(peeked, (size_t) n, n == sizeof(peeked));
        if (verdict == FCGI_SCAN_BAD) {
            log_line(LOG_WARN_, "fcgi.bad_request",
                     "a peer sent what is no FastCGI request");
        }
    }
    if (verdict == FCGI_SCAN_READY) {
        conn_enqueue(s, slot);
    } else if (verdict == FCGI_SCAN_BAD || hung_up) {
        conn_close_locked(s, slot);
    }
}

static void on_conn_event(struct server *s, const struct epoll_event *ev)
{
    uint32_t slot = (uint32_t) ev->data.u64;
    struct conn *c = &s->conns[slot];
    bool mine;

    pthread_mutex_lock(&s->lock);
    mine = c->state == CONN_WAITING &&
           c->generation == (uint32_t) (ev->data.u64 >> 32);
    pthread_mutex_unlock(&s->lock);
    if (mine) {
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

/* Closes the kept-alive connection that has been idle longest, if any. */
static bool evict_idle(struct server *s)
{
    uint32_t oldest = NO_CONN;

    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < (uint32_t) s->limits->max_connections; i++) {
        const struct conn *c = &s->conns[i];

        if (c->state == CONN_WAITING && c->served && !c->arriving &&
            (oldest == NO_CONN ||
             c->deadline_ms < s->conns[oldest].deadline_ms)) {
            oldest = i;
        }
    }
    if (oldest != NO_CONN) {
        conn_close(s, oldest);
    }
    pthread_mutex_unlock(&s->lock);
    return oldest != NO_CONN;
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

static void conn_open(struct server *s, int fd)
{
    struct conn *c;
    uint32_t slot;
    bool ok;

    prepare_socket(s, fd);
    pthread_mutex_lock(&s->lock);
    slot = s->free_head;
    c = &s->conns[slot];
    s->free_head = c->next;
    s->open_count++;
    c->fd = fd;
    c->state = CONN_WAITING;
    c->served = false;
    c->arriving = false;
    c->deadline_ms = now_ms() + s->limits->request_timeout_ms;
    ok = watch(s, slot, EPOLL_CTL_ADD);
    if (!ok) {
        conn_close(s, slot);
    }
    pthread_mutex_unlock(&s->lock);
}

static bool is_full(struct server *s)
{
    bool full;

    pthread_mutex_lock(&s->lock);
    full = s->free_head == NO_CONN;
    pthread_mutex_unlock(&s->lock);
    return full;
}

static void on_accept_error(struct server *s, int error)
{
    int64_t now = now_ms();

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

static void accept_all(struct server *s)
{
    for (;;) {
        int fd;

        if (is_full(s) && !evict_idle(s)) {
            accept_pause(s);
            return;
        }
        fd = accept4(s->listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            conn_open(s, fd);
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

static void sweep_conn(struct server *s, uint32_t slot, int64_t now)
{
    struct conn *c = &s->conns[slot];
    int64_t io = atomic_load(&c->io_deadline_ms);

    if (c->state == CONN_WAITING && now >= c->deadline_ms) {
        conn_close(s, slot);
    } else if (c->state == CONN_BUSY && io != 0 && now >= io) {
        /* The worker's read() or write() returns; it closes. */
        (void) shutdown(c->fd, SHUT_RDWR);
    }
}

static void sweep(struct server *s)
{
    int64_t now = now_ms();

    if (now < s->next_sweep_ms) {
        return;
    }
    s->next_sweep_ms = now + TICK_MS;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < (uint32_t) s->limits->max_connections; i++) {
        sweep_conn(s, i, now);
    }
    pthread_mutex_unlock(&s->lock);
    if (!s->accepting && s->drain_until_ms == 0) {
        (void) accept_resume(s);
    }
}

/* -- poller: shutdown -----------------------------------------------------
 */

/* A kept-alive connection closes unless a request just came; one that has
 * not sent its first yet has a moment to. */
static void drain_conn(struct server *s, uint32_t slot, int64_t now)
{
    struct conn *c = &s->conns[slot];
    char byte;

    if (c->state != CONN_WAITING || c->arriving) {
        return;
    }
    if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        return; /* its event is on the way */
    }
    if (c->served) {
        conn_close(s, slot);
    } else if (c->deadline_ms > now + DRAIN_GRACE_MS) {
        c->deadline_ms = now + DRAIN_GRACE_MS;
    }
}

static void drain_begin(struct server *s)
{
    int64_t now = now_ms();

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
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    for (uint32_t i = 0; i < (uint32_t) s->limits->max_connections; i++) {
        drain_conn(s, i, now);
    }
    pthread_mutex_unlock(&s->lock);
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

static int open_count(struct server *s)
{
    int n;

    pthread_mutex_lock(&s->lock);
    n = s->open_count;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* -- the loop -------------------------------------------------------------
 */

static int wait_ms(struct server *s)
{
    if (s->drain_until_ms != 0) {
        return DRAIN_TICK_MS;
    }
    /* With no connection there is nothing to time out. */
    return open_count(s) == 0 && s->accepting ? -1 : TICK_MS;
}

/* Returns whether everything in flight was finished. */
static bool poll_loop(struct server *s)
{
    struct epoll_event events[EVENTS_MAX];

    while (s->drain_until_ms == 0 || open_count(s) != 0) {
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
        if (s->drain_until_ms != 0 && now_ms() >= s->drain_until_ms) {
            return open_count(s) == 0;
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

void fcgi_block_signals(void)
{
    sigset_t set;

    signal_set(&set);
    (void) pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
}

/* libfcgi puts handlers of its own on these. */
static bool init_library(void)
{
    bool ok = FCGX_Init() == 0;

    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGUSR1, SIG_IGN);
    (void) signal(SIGTERM, SIG_DFL);
    return ok;
}

static bool init_slots(struct server *s)
{
    uint32_t count = (uint32_t) s->limits->max_connections;

    s->conns = calloc(count, sizeof(*s->conns));
    if (s->conns == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        s->conns[i].fd = -1;
        s->conns[i].next = i + 1 < count ? i + 1 : NO_CONN;
    }
    s->queue_head = s->queue_tail = NO_CONN;
    return true;
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
    t->body = malloc(s->limits->body_max + 1);
    if (t->body == NULL) {
        return false;
    }
    if (pthread_create(&t->thread, NULL, worker_main, t) != 0) {
        free(t->body);
        t->body = NULL;
        return false;
    }
    return true;
}

static void stop_workers(struct server *s, struct worker_thread *threads,
                         int count)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->queued);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].thread, NULL);
        free(threads[i].body);
    }
}

bool fcgi_serve(struct listener *listener, const struct fcgi_limits *limits,
                const struct fcgi_service *service)
{
    /* Static: after an unfinished stop, threads may still look at it. */
    static struct server s = {.epoll_fd = -1,
                              .signal_fd = -1,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .queued = PTHREAD_COND_INITIALIZER};
    struct worker_thread *threads;
    bool ok, finished = true;
    int started = 0;

    s.listener = listener;
    s.limits = limits;
    s.service = service;
    threads = calloc((size_t) limits->threads, sizeof(*threads));
    ok = threads != NULL && init_library() && init_slots(&s) &&
         init_polling(&s);
    while (ok && started < limits->threads) {
        ok = start_worker(&s, &threads[started], started);
        started += ok;
    }
    if (!ok) {
        log_line(LOG_ERROR_, "fcgi.start", "cannot start: %s",
                 strerror(errno));
    } else {
        finished = poll_loop(&s);
    }
    if (!finished) {
        return false; /* the process ends, threads and all */
    }
    stop_workers(&s, threads, started);
    free(threads);
    free(s.conns);
    if (s.epoll_fd >= 0) {
        close(s.epoll_fd);
    }
    if (s.signal_fd >= 0) {
        close(s.signal_fd);
    }
    return ok;
}
