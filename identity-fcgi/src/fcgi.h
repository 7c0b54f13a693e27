/* One FastCGI request through libfcgi: read it, answer it. */

#ifndef FCGI_H_INCLUDED
#define FCGI_H_INCLUDED

#include <pj.h>
#include <stdbool.h>
#include <stdint.h>

/* One request, as a worker gets it; all of it lives until the reply. */
struct fcgi_call {
    char *const *params; /* NAME=value, NULL-terminated */
    pj_str_t body;
    bool body_too_large;
    /* CLOCK_MONOTONIC, both the caller's to fill. */
    int64_t arrived_us;  /* its first byte */
    int64_t deadline_ms; /* that, and the request timeout */
};

/* Its answer. */
struct fcgi_reply {
    pj_str_t head; /* CGI headers and an empty line */
    pj_str_t body;
};

/* What a thread keeps from request to request. */
struct fcgi_exchange;

/*
 * Prepares libfcgi and takes its signal handlers back out.  Once, before
 * threads start.
 */
bool fcgi_init(void) __attribute__((warn_unused_result));

/* Bodies up to body_max bytes are handed on; NULL when memory is short. */
struct fcgi_exchange *fcgi_exchange_new(size_t body_max);
void fcgi_exchange_free(struct fcgi_exchange *ex);

/*
 * Reads a request from fd, which stays the caller's.  false when what came is
 * none, or not whole: the connection is then to be closed.
 */
bool fcgi_read(struct fcgi_exchange *ex, int fd, struct fcgi_call *call)
    __attribute__((warn_unused_result));

/* Sends the answer to the request just read and lets go of it; whether the
 * connection may be used again. */
bool fcgi_answer(struct fcgi_exchange *ex, const struct fcgi_reply *reply)
    __attribute__((warn_unused_result));

#endif
