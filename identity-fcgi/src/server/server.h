/* The server: one acceptor, a queue with arrival times, workers. */

#ifndef SERVER_H_INCLUDED
#define SERVER_H_INCLUDED

#include "server/fcgi.h"
#include "server/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_service {
    void **workers; /* one opaque state per thread */
    /* Fills reply from memory of the worker that stays until it is told that
     * the reply was sent, or could not be. */
    void (*handle)(void *worker, const struct fcgi_call *call,
                   struct fcgi_reply *reply);
    void (*sent)(void *worker);
    /* SIGHUP arrived; called on the main thread. */
    void (*reload)(void *app);
    /* Told once, when shutdown begins. */
    void (*stopping)(void *app);
    void *app;
};

struct server_limits {
    int threads;
    int max_connections; /* open at once; more wait in the backlog */
    int64_t request_timeout_ms;
    size_t body_max; /* bytes handed on; the rest is drained */
};

/*
 * Blocks the signals that server_run() takes.  Call it before any thread is
 * made, so that every thread inherits the mask.
 */
void server_block_signals(void);

/*
 * Serves until SIGTERM or SIGINT, then stops accepting, finishes what is in
 * flight and returns true.  false when it could not start, or when finishing
 * took longer than the request timeout and one second; then threads may still
 * run and the process has to end by _exit().  A second signal ends the process
 * at once.  SIGHUP calls reload().
 */
bool server_run(struct listener *listener, const struct server_limits *limits,
                const struct server_service *service)
    __attribute__((warn_unused_result));

/* What the server is doing. */
struct server_use {
    int threads;
    int max_connections;
    uint32_t queued; /* connections that wait for a thread */
    uint32_t busy;   /* and those that have one */
};

/* Zeros while no server runs.  For its workers and for whom it has not
 * started yet. */
void server_use(struct server_use *use);

#endif
