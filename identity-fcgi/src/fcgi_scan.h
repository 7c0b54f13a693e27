/* Looks at FastCGI records that wait in a socket, without taking them. */

#ifndef FCGI_SCAN_H_INCLUDED
#define FCGI_SCAN_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/* How much of a request is looked at: its parameters must fit in here, and a
 * body that does not is read by the worker.  nginx sends parameters as one
 * record, 65,535 bytes at most, between two more; closing on what it may send
 * would have it take this process for dead. */
#define FCGI_SCAN_MAX (66 * 1024)

enum fcgi_scan {
    FCGI_SCAN_MORE,  /* not whole yet */
    FCGI_SCAN_READY, /* a worker can read it without waiting */
    FCGI_SCAN_BAD    /* nothing that we serve: close the connection */
};

/*
 * Judges the bytes p[0..n) at the start of a request: BEGIN_REQUEST of a
 * responder, PARAMS up to their end, STDIN up to its end.  full says that no
 * more bytes will be looked at; then a request whose parameters are complete
 * is ready although its body is not.
 *
 * Parameters whose lengths could never fit are refused here, before libfcgi
 * allocates what they claim.
 */
enum fcgi_scan fcgi_scan(const unsigned char *p, size_t n, bool full);

#endif
