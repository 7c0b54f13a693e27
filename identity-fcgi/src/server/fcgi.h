/* FastCGI: one request of a connection. */

#pragma once

#include "base/buf.h"

#include <pj.h>

/* One request, as a worker gets it; all of it lives until the answer. */
struct fcgi_call {
    char *const *params; /* NAME=value, NULL-terminated */
    pj_str_t body;
    bool body_too_large;
    /* CLOCK_MONOTONIC; these and what follows are the caller's to fill. */
    int64_t arrived_us;
    int64_t deadline_ms; /* that plus the request timeout */
    bool late;           /* it waited too long for a thread */
    bool left;           /* its peer has gone: nobody reads an answer */
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

/* Reads a request from fd, which stays the caller's, until deadline_us of
 * metrics_now_us(); what has arrived is read even after that.  The end of a
 * body that is too large is drained after the answer.  FCGI_KEEP_CONN is
 * ignored: a connection serves one request. */
PJ_MUST_CHECK enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd,
                                      int64_t deadline_us,
                                      struct fcgi_call *call);

/* Answers the request just read, which is wiped; the reply stays. */
PJ_MUST_CHECK enum fcgi_end fcgi_answer(struct fcgi_exchange *ex,
                                        int64_t deadline_us,
                                        const struct fcgi_reply *reply);
