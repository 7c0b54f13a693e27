/* The listening socket. */

#pragma once

#include "base/error.h"
#include <pj.h>

#include <sys/types.h>

struct listener {
    int fd;
    bool inherited; /* descriptor 0: others may share its queue */
    char path[108]; /* of a Unix socket made here, else "" */
    dev_t dev;      /* of that path, so that only our own is removed */
    ino_t ino;
    char name[280]; /* for messages */
};

/* Opens address, which parse_listen() accepted; NULL: descriptor 0 where that
 * is a listening socket, else the default path.  A Unix socket gets mode 0660
 * and replaces one that nobody listens on.  On failure one line in *e. */
PJ_MUST_CHECK bool listener_open(struct listener *l, const char *address,
                                 struct error *e);

/* Removes the path, if it is still ours, so that no new client comes. */
void listener_unlink(struct listener *l);

/* That, and closes the descriptor. */
void listener_close(struct listener *l);
