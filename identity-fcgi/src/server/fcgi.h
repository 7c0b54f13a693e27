/* FastCGI: reading and answering a request. */

#pragma once

#include "base/buf.h"

#include <pj.h>

/* A request.  It is valid until it is answered. */
struct fcgi_call {
    char *const *params; /* NAME=value, NULL-terminated */
    pj_str_t body;
    bool body_too_large;
    /* Set by the caller of fcgi_read(); CLOCK_MONOTONIC. */
    int64_t arrived_us;
    int64_t deadline_ms; /* arrived_us plus the request timeout */
    bool late;           /* waited too long for a thread */
    bool disconnected;   /* the peer has closed the connection */
};

#define FCGI_ANSWER_MAX (2 * 1024 * 1024)

/* An answer of at most FCGI_ANSWER_MAX bytes. */
struct fcgi_reply {
    struct buf *head; /* CGI headers and an empty line */
    struct buf *body;
};

/* The result of reading or answering a request. */
enum fcgi_end {
    FCGI_WHOLE,
    FCGI_GARBAGE,    /* not a FastCGI request for a responder */
    FCGI_INCOMPLETE, /* the peer closed during the request */
    FCGI_LEFT,       /* the peer closed before the request or its answer */
    FCGI_LATE        /* the deadline passed */
};

/* The state and memory of a thread. */
struct fcgi_exchange;

/* Bodies larger than body_max (at most 64 KiB) are not passed on.  NULL if
 * memory or descriptors are short.  For use by one thread. */
struct fcgi_exchange *fcgi_exchange_new(size_t body_max);
void fcgi_exchange_free(struct fcgi_exchange *ex);

/* Reads a request from fd until deadline_us of metrics_now_us(); data that has
 * arrived is read even after that.  The caller keeps ownership of fd.  The rest
 * of a body that is too large is drained after the answer.  FCGI_KEEP_CONN is
 * ignored: a connection serves one request. */
PJ_MUST_CHECK enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd,
                                      int64_t deadline_us,
                                      struct fcgi_call *call);

/* Answers the request and wipes it.  The caller keeps the reply. */
PJ_MUST_CHECK enum fcgi_end fcgi_answer(struct fcgi_exchange *ex,
                                        int64_t deadline_us,
                                        const struct fcgi_reply *reply);
