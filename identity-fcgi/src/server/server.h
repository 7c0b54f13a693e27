/* The server: an acceptor and worker threads. */

#pragma once

#include "base/config.h"
#include "server/fcgi.h"
#include "server/listener.h"

struct server_service {
    /* Makes the reply in the thread's memory (threads are numbered from 0).
     * The server wipes it afterwards. */
    void (*handle)(size_t thread, const struct fcgi_call *call,
                   struct fcgi_reply *reply);
    /* Called on the main thread for SIGHUP. */
    void (*reload)(void);
    /* Called about every two seconds. */
    void (*periodic)(void);
    /* Called once when shutdown begins. */
    void (*stopping)(void);
};

/* Blocks the signals that server_run() handles.  Call before creating
 * threads. */
void server_block_signals(void);

/* Serves until SIGTERM or SIGINT, then finishes current requests and returns
 * true; a second signal ends the process immediately.  More than
 * max_connections peers wait in the backlog.  False if the server could not
 * start, or if finishing took longer than the request timeout and one second.
 * Then threads may still be running and the process must end by _exit(). */
PJ_MUST_CHECK bool server_run(struct listener *listener,
                              const struct config *cfg, int max_connections,
                              const struct server_service *service);

/* The load of the server; zeros if it is not running. */
struct server_use {
    int threads;
    int max_connections;
    unsigned queued; /* connections waiting for a thread */
    unsigned busy;   /* connections being served */
};

struct server_use server_use(void);
