/* The FastCGI server: one poller, many workers. */

#ifndef FCGI_H_INCLUDED
#define FCGI_H_INCLUDED

#include "listener.h"

#include <pj.h>
#include <stdbool.h>
#include <stdint.h>

/* One request, as a worker gets it; all of it lives until handle() returns. */
struct fcgi_call {
    char *const *params; /* NAME=value, NULL-terminated */
    pj_str_t body;
    bool body_too_large;
    int64_t deadline_ms; /* CLOCK_MONOTONIC: arrival and the timeout */
};

/* Its answer, in memory of the worker that stays until its next request. */
struct fcgi_reply {
    pj_str_t head; /* CGI headers and an empty line */
    pj_str_t body;
};

struct fcgi_service {
    void **workers; /* one opaque state per thread */
    void (*handle)(void *worker, const struct fcgi_call *call,
                   struct fcgi_reply *reply);
    /* SIGHUP arrived; called on the poller's thread. */
    void (*reload)(void *app);
    /* Told once, when shutdown begins. */
    void (*stopping)(void *app);
    void *app;
};

struct fcgi_limits {
    int threads;
    int max_connections;        /* open at once; more wait in the backlog */
    int64_t request_timeout_ms; /* for a whole request to arrive */
    int64_t idle_timeout_ms;    /* for a kept-alive connection */
    size_t body_max;            /* bytes handed on; the rest is drained */
};

/*
 * Blocks the signals that fcgi_serve() takes.  Call it before any thread is
 * made, so that every thread inherits the mask.
 */
void fcgi_block_signals(void);

/*
 * Serves until SIGTERM or SIGINT, then stops accepting, finishes what is in
 * flight and returns true; false when that took longer than the request
 * timeout and one second, with threads possibly still running.  A second
 * signal ends the process at once.  SIGHUP calls reload().
 */
bool fcgi_serve(struct listener *listener, const struct fcgi_limits *limits,
                const struct fcgi_service *service)
    __attribute__((warn_unused_result));

#endif
