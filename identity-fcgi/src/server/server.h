/* One acceptor and its workers. */

#pragma once

#include "base/config.h"
#include "server/fcgi.h"
#include "server/listener.h"

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

/* Blocks the signals that server_run() takes, before any thread is made. */
void server_block_signals(void);

/* Serves with the threads and the request timeout of cfg until SIGTERM or
 * SIGINT, then finishes what is in flight and returns true; a second signal
 * ends the process at once.  Beyond max_connections peers wait in the backlog.
 * False when it could not start, or when finishing took longer than the
 * request timeout and one second: then threads may still run, and the process
 * has to end by _exit(). */
PJ_MUST_CHECK bool server_run(struct listener *listener,
                              const struct config *cfg, int max_connections,
                              const struct server_service *service);

/* The state of the server; zeros while none runs. */
struct server_use {
    int threads;
    int max_connections;
    unsigned queued; /* connections that wait for a thread */
    unsigned busy;   /* and those that have one */
};

struct server_use server_use(void);
