/* The server: a listening socket, one acceptor, a queue, workers. */

#ifndef SERVER_H_INCLUDED
#define SERVER_H_INCLUDED

#include "base/config.h"
#include "server/fcgi.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* -- listener.c -- */

struct listener {
    int fd;
    bool inherited; /* descriptor 0: others may share its queue */
    char path[108]; /* of a Unix socket made here, else "" */
    dev_t dev;      /* of that path, so that only our own is removed */
    ino_t ino;
    char name[280]; /* for messages */
};

/*
 * Opens address (a path, unix:path, host:port or [v6]:port).  NULL takes
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

/* -- server.c -- */

struct server_service {
    /* Makes the reply in memory of the thread (counted from 0); the server
     * empties it when it was sent, or could not be. */
    void (*handle)(size_t thread, const struct fcgi_call *call,
                   struct fcgi_reply *reply);
    /* Called on the main thread at a SIGHUP, */
    void (*reload)(void);
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

/* What the server is doing; zeros while none runs. */
struct server_use {
    int threads;
    int max_connections;
    unsigned queued; /* connections that wait for a thread */
    unsigned busy;   /* and those that have one */
};

struct server_use server_use(void);

#endif
