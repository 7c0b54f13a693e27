/* The server: FastCGI, a listening socket, one acceptor, workers, routes. */

#ifndef SERVER_H_INCLUDED
#define SERVER_H_INCLUDED

#include "auth/app.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* -- fcgi.c: FastCGI, one request of a connection -- */

/* One request, as a worker gets it; all of it lives until the answer. */
struct fcgi_call {
    char *const *params; /* NAME=value, NULL-terminated */
    pj_str_t body;
    bool body_too_large;
    /* CLOCK_MONOTONIC, both the caller's to fill. */
    int64_t arrived_us;
    int64_t deadline_ms; /* that plus the request timeout */
};

#define FCGI_ANSWER_MAX (2 * 1024 * 1024)

/* Its answer, of no more bytes than that. */
struct fcgi_reply {
    struct buf *head; /* CGI headers and an empty line */
    struct buf *body;
};

/* How reading or answering a request ended. */
enum fcgi_end {
    FCGI_WHOLE,
    FCGI_GARBAGE,    /* what came is no request for a responder */
    FCGI_INCOMPLETE, /* the peer left in the middle of it */
    FCGI_LEFT,       /* the peer left before it, or before its answer */
    FCGI_LATE        /* the deadline came first */
};

/* What a thread keeps from request to request. */
struct fcgi_exchange;

/* Bodies of up to body_max bytes (at most 64 KiB) are passed on.  NULL when
 * memory or descriptors are short.  Used by one thread only. */
struct fcgi_exchange *fcgi_exchange_new(size_t body_max);
void fcgi_exchange_free(struct fcgi_exchange *ex);

/*
 * Reads a request from fd, which stays the caller's.  All of it has to arrive
 * by deadline_us of metrics_now_us(), in any pieces; what has arrived is read
 * even after that.  The end of a body that is too large is not waited for, but
 * drained after the answer.  FCGI_KEEP_CONN is ignored: a connection serves
 * one request.
 */
enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd, int64_t deadline_us,
                        struct fcgi_call *call)
    __attribute__((warn_unused_result));

/* Answers the request just read, which is wiped; the reply stays. */
enum fcgi_end fcgi_answer(struct fcgi_exchange *ex, int64_t deadline_us,
                          const struct fcgi_reply *reply)
    __attribute__((warn_unused_result));

/* -- listener.c: the listening socket -- */

struct listener {
    int fd;
    bool inherited; /* descriptor 0: others may share its queue */
    char path[108]; /* of a Unix socket made here, else "" */
    dev_t dev;      /* of that path, so that only our own is removed */
    ino_t ino;
    char name[280]; /* for messages */
};

/*
 * Opens address, which parse_listen() accepted.  NULL takes
 * descriptor 0 where that is a listening socket, else the default path.  A
 * Unix socket gets mode 0660; one left behind by a process that is gone is
 * replaced, one that somebody listens on is not.  On failure one line in err.
 */
bool listener_open(struct listener *l, const char *address, char *err,
                   size_t err_cap) __attribute__((warn_unused_result));

/* Removes the path, if it is still ours, so that no new client comes. */
void listener_unlink(struct listener *l);

/* That, and closes the descriptor. */
void listener_close(struct listener *l);

/* -- server.c: one acceptor and its workers -- */

struct server_service {
    /* Makes the reply in the memory of the thread (numbered from 0); the
     * server empties it when it was sent, or could not be. */
    void (*handle)(size_t thread, const struct fcgi_call *call,
                   struct fcgi_reply *reply);
    /* Called on the main thread at a SIGHUP, */
    void (*reload)(void);
    /* every two seconds or so, */
    void (*look)(void);
    /* and once when shutdown begins. */
    void (*stopping)(void);
};

/*
 * Blocks the signals that server_run() takes.  Call it before any thread is
 * made, so that every thread inherits the mask.
 */
void server_block_signals(void);

/*
 * Serves with the threads and the request timeout of cfg until SIGTERM or
 * SIGINT, then stops accepting, finishes what is in flight and returns true.
 * Beyond max_connections peers wait in the backlog.  false when it could not
 * start, or when finishing took longer than the request timeout and one
 * second; then threads may still run and the process has to end by _exit().  A
 * second signal ends the process at once.
 */
bool server_run(struct listener *listener, const struct config *cfg,
                int max_connections, const struct server_service *service)
    __attribute__((warn_unused_result));

/* The state of the server; zeros while none runs. */
struct server_use {
    int threads;
    int max_connections;
    unsigned queued; /* connections that wait for a thread */
    unsigned busy;   /* and those that have one */
};

struct server_use server_use(void);

/* -- serve.c and route.c: what is served -- */

/*
 * Serves on listener with keys (whose reference is taken over) until told to
 * stop.  env_file is where SIGHUP reads new keys from, or NULL.  Returns the
 * process's exit status; one line on stderr says why it is not 0.
 */
int serve(const struct config *cfg, struct keys *keys,
          struct listener *listener, const char *env_file);

/* The number of the route that serves path; the last number, past all
 * routes, when none does. */
size_t route_find(pj_str_t path);

/*
 * Answers w->req, whose path route_find() has found: 404 where no route has
 * it, 405 with Allow where it has other methods, 413 for a body over
 * HTTP_BODY_MAX, else as the route's handler does.  HEAD is answered wherever
 * GET is.
 */
void route_handle(size_t route, struct worker *w);

/* The path of a route, "other" for the last number: a label that no client can
 * choose. */
const char *route_label(size_t route);

#endif
