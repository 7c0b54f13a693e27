/*
 * The server: an acceptor, a queue with arrival times, and workers.
 *
 * The main thread handles signals and accepts connections into the queue with
 * their arrival time.  A worker reads a single request from a connection,
 * answers and closes.  The idle worker that was busy last is woken first,
 * because its memory is in the processor's caches.  A peer that sends no
 * request blocks a worker until IO_TIMEOUT_MS after it connected, including its
 * time in the queue.  So even many such peers at once delay others by that time
 * only once.
 */

#include "server/server.h"

#include "base/http.h"
#include "base/log.h"
#include "base/metrics.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Limit for receiving a request, and for sending an answer.  The request
 * timeout is used instead if it is shorter. */
#define IO_TIMEOUT_MS 2000
#define DRAIN_GRACE_MS 1000
#define TICK_MS 10          /* interval of checks while full or draining */
#define PERIODIC_MS 2000    /* interval of service->periodic() */
#define ACCEPT_PAUSE_MS 250 /* after a persistent error */

struct arrival {
    int fd; /* -1 to end the worker */
    int64_t at_us;
    bool late; /* too old, or too many connections are waiting */
};

struct thread {
    struct fcgi_exchange *exchange;
    pthread_t id;
    sem_t wake;
    struct thread *next_idle; /* next in the stack of idle threads */
};

/* Static, because threads may still use it after an unfinished stop. */
static struct {
    struct listener *listener;
    const struct config *cfg;
    const struct server_service *service;
    struct thread *threads; /* NULL if not running */
    unsigned max_connections;
    sigset_t signals; /* handled by signal_fd */
    int signal_fd;
    int64_t drain_until_us; /* 0 while serving */
    pthread_mutex_t lock;   /* guards the members below */
    struct arrival *queue;  /* ring buffer */
    unsigned room, first, queued, busy;
    struct thread *idle; /* the thread that was busy last */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- queue -- */

static void enqueue(struct arrival a)
{
    struct thread *t;

    pthread_mutex_lock(&server.lock);
    server.queue[(server.first + server.queued) % server.room] = a;
    server.queued++;
    t = server.idle;
    if (t != NULL) {
        server.idle = t->next_idle;
    }
    pthread_mutex_unlock(&server.lock);
    if (t != NULL) {
        sem_post(&t->wake);
    }
}

/* Takes the oldest connection, waiting if necessary.  It is also late if more
 * than half of max_connections are queued: if all were, further peers would
 * wait in the backlog, where their age is unknown. */
static struct arrival dequeue(struct thread *t)
{
    struct arrival a;

    pthread_mutex_lock(&server.lock);
    while (server.queued == 0) {
        t->next_idle = server.idle;
        server.idle = t;
        pthread_mutex_unlock(&server.lock);
        while (sem_wait(&t->wake) != 0) {
            /* interrupted */
        }
        pthread_mutex_lock(&server.lock);
    }
    a = server.queue[server.first];
    server.first = (server.first + 1) % server.room;
    server.queued--;
    server.busy++;
    a.late = server.queued > server.max_connections / 2;
    pthread_mutex_unlock(&server.lock);
    a.late |= metrics_now_us() - a.at_us > server.cfg->queue_timeout_ms * 1000;
    return a;
}

static void release(struct arrival a)
{
    close(a.fd);
    pthread_mutex_lock(&server.lock);
    server.busy--;
    pthread_mutex_unlock(&server.lock);
}

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

static bool has_left(int fd)
{
    struct pollfd p = {fd, POLLRDHUP, 0};

    return poll(&p, 1, 0) > 0;
}

static void serve_connection(const struct thread *t, const struct arrival *a)
{
    int64_t timeout_us = server.cfg->request_timeout_ms * 1000;
    int64_t io_us =
        IO_TIMEOUT_MS * 1000 < timeout_us ? IO_TIMEOUT_MS * 1000 : timeout_us;
    struct fcgi_call call = {.arrived_us = a->at_us,
                             .deadline_ms = (a->at_us + timeout_us) / 1000,
                             .late = a->late};
    struct fcgi_reply reply;
    enum fcgi_end end = fcgi_read(t->exchange, a->fd, a->at_us + io_us, &call);

    if (end == FCGI_WHOLE) {
        call.disconnected = has_left(a->fd);
        server.service->handle((size_t) (t - server.threads), &call, &reply);
        end = fcgi_answer(t->exchange, metrics_now_us() + io_us, &reply);
        buf_reset(reply.head);
        buf_reset(reply.body);
    }
    count_end(end);
}

static void *worker_main(void *arg)
{
    struct arrival a;

    while ((a = dequeue(arg)).fd >= 0) {
        serve_connection(arg, &a);
        release(a);
    }
    return NULL;
}

/* -- acceptor -- */

static void accept_connection(void)
{
    struct arrival a = {
        .fd = accept4(server.listener->fd, NULL, NULL, SOCK_CLOEXEC),
        .at_us = metrics_now_us()};

    if (a.fd >= 0) {
        metrics_count(METRICS_CONN_ACCEPTED);
        enqueue(a);
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        log_line(LOG_ERROR_, "fcgi.accept", "cannot accept: %s",
                 strerror(errno));
        (void) poll(NULL, 0, ACCEPT_PAUSE_MS);
    }
}

/* Serves peers that are connected to our own socket.  The backlog of an
 * inherited socket is left to the next process. */
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
        _exit(1); /* second signal */
    } else {
        drain_begin();
    }
}

static unsigned open_connections(void)
{
    struct server_use use = server_use();

    return use.queued + use.busy;
}

/* Returns true if all current requests were finished. */
static bool accept_all(void)
{
    int64_t periodic_us = metrics_now_us() + PERIODIC_MS * 1000;
    unsigned open;

    while ((open = open_connections()) != 0 || server.listener->fd >= 0) {
        bool draining = server.drain_until_us != 0;
        bool room = open < server.max_connections && server.listener->fd >= 0;
        struct pollfd p[] = {{server.signal_fd, POLLIN, 0},
                             {room ? server.listener->fd : -1, POLLIN, 0}};

        if (draining && metrics_now_us() >= server.drain_until_us) {
            return false;
        }
        (void) poll(p, 2, !room ? TICK_MS : draining ? 0 : PERIODIC_MS);
        if (metrics_now_us() >= periodic_us) {
            server.service->periodic();
            periodic_us = metrics_now_us() + PERIODIC_MS * 1000;
        }
        if (p[0].revents != 0) {
            on_signal();
        } else if (p[1].revents != 0) {
            accept_connection();
        } else if (draining && room) {
            listener_close(server.listener); /* the backlog is empty */
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
    server.signal_fd =
        signalfd(-1, &server.signals, SFD_CLOEXEC | SFD_NONBLOCK);
    server.threads =
        calloc((size_t) server.cfg->worker_threads, sizeof(*server.threads));
    server.room =
        server.max_connections + (unsigned) server.cfg->worker_threads;
    server.queue = calloc(server.room, sizeof(*server.queue));
    if (server.signal_fd < 0 || server.threads == NULL ||
        server.queue == NULL) {
        return false;
    }
    for (int i = 0; i < server.cfg->worker_threads; i++) {
        struct thread *t = &server.threads[i];

        t->exchange = fcgi_exchange_new(HTTP_BODY_MAX);
        if (t->exchange == NULL || sem_init(&t->wake, 0, 0) != 0 ||
            (errno = pthread_create(&t->id, NULL, worker_main, t)) != 0) {
            return false;
        }
    }
    return true;
}

static void stop(void)
{
    for (int i = 0; i < server.cfg->worker_threads; i++) {
        enqueue((struct arrival){.fd = -1});
    }
    for (int i = 0; i < server.cfg->worker_threads; i++) {
        pthread_join(server.threads[i].id, NULL);
        fcgi_exchange_free(server.threads[i].exchange);
        sem_destroy(&server.threads[i].wake);
    }
    close(server.signal_fd);
    free(server.queue);
    free(server.threads);
    server.threads = NULL;
}

bool server_run(struct listener *listener, const struct config *cfg,
                int max_connections, const struct server_service *service)
{
    server.listener = listener;
    server.cfg = cfg;
    server.max_connections = (unsigned) max_connections;
    server.service = service;
    server.drain_until_us = 0;
    server.first = server.queued = server.busy = 0;
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
    struct server_use use = {0};

    if (server.threads != NULL) {
        pthread_mutex_lock(&server.lock);
        use = (struct server_use){server.cfg->worker_threads,
                                  (int) server.max_connections, server.queued,
                                  server.busy};
        pthread_mutex_unlock(&server.lock);
    }
    return use;
}
