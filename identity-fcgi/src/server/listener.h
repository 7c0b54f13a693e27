/* The listening socket. */

#pragma once

#include "base/error.h"
#include <pj.h>

#include <sys/types.h>

struct listener {
    int fd;
    bool inherited; /* descriptor 0, whose queue other processes may share */
    char path[108]; /* of a Unix socket created here, else "" */
    dev_t dev;      /* identify the file at path, to remove only our own */
    ino_t ino;
    char name[280]; /* for messages */
};

/* Opens address, valid for parse_listen().  If it is NULL, uses descriptor 0 if
 * that listens, else the default path.  A Unix socket has mode 0660 and
 * replaces an existing socket without a listener.  On failure *e has one
 * line. */
PJ_MUST_CHECK bool listener_open(struct listener *l, const char *address,
                                 struct error *e);

/* Removes the path if it is still ours, so that new clients cannot connect. */
void listener_unlink(struct listener *l);

void listener_close(struct listener *l);
