
/*
 * Documents that one worker at a time fetches, through an internal location,
 * on behalf of all, and the right to do so.
 *
 * The right is a lease in shared memory, with a deadline and the number of the
 * process, so that a worker that dies while it holds the lease blocks nobody.
 */


#ifndef _NGX_HTTP_PGW_LEASE_H_INCLUDED_
#define _NGX_HTTP_PGW_LEASE_H_INCLUDED_


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_DIGEST     64    /* in hex */

/* A fetch may take as long as the time between two, and at least this. */
#define NGX_HTTP_PGW_TIMEOUT    5000  /* ms */

/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  Times in milliseconds are ngx_current_msec, a clock that
 * all processes of a host share.
 */

typedef struct {
    ngx_uint_t      given;        /* the last generation, a failed reload's
                                     too; the master process alone counts */
    ngx_uint_t      generation;   /* of the configuration whose workers may
                                     fetch */
    u_char          source[NGX_HTTP_PGW_DIGEST];  /* of that */

    ngx_atomic_t    number;       /* of the last fetch: one each */
    ngx_atomic_t    until;        /* ms; past: no fetch is in progress */
    ngx_pid_t       pid;          /* whose it is */
    ngx_msec_t      began;        /* that fetch, ... */
    time_t          began_at;     /* ... wall clock */
    ngx_atomic_t    next_try;     /* ms, no fetch before */
} ngx_http_pgw_lease_t;


/* The end of a fetch: document is what it brought, unless err says in a few
   words why there is none; status 0: there was no answer. */

typedef void (*ngx_http_pgw_fetched_pt)(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* What is fetched, and from where. */

typedef struct ngx_http_pgw_fetch_s  ngx_http_pgw_fetch_t;

struct ngx_http_pgw_source_s {
    ngx_http_pgw_source_t           *next;       /* in mcf->sources */
    const char                      *name;       /* in messages, ... */
    const char                      *directive;  /* ... of nginx -t */
    size_t                           max;        /* bytes of a document */
    const char                      *too_small;  /* a location that holds less:
                                                    what it says */
    ngx_http_pgw_fetched_pt          handler;
    void                            *data;

    ngx_str_t                        location;   /* its URI; len 0: none */
    ngx_http_pgw_place_t             place;      /* where that was said */
    ngx_http_conf_ctx_t             *ctx;        /* the location's server */
    const ngx_http_core_loc_conf_t  *clcf;       /* the location */
    ngx_log_t                       *log;        /* that server's */
    ngx_msec_t                       timeout;    /* of a fetch */
    ngx_msec_t                       cooldown;   /* from one to the next */

    /* what the documents are good for and where they are, as a digest */
    u_char                           source[NGX_HTTP_PGW_DIGEST];

    ngx_atomic_t                    *counted;    /* shared: fetches by outcome;
                                                    NULL: nowhere */
    ngx_slab_pool_t                 *shpool;
    ngx_http_pgw_lease_t            *lease;
    ngx_uint_t                       generation;

    /* of one worker process */

    ngx_event_t                      begin;      /* posted: a fetch */
    ngx_uint_t                       number;     /* of our own fetch */
    ngx_str_t                        url;        /* what it is to get; len 0:
                                                    the location says it */
    ngx_uint_t                       fetching;   /* it is in progress */
    ngx_uint_t                       quiet;      /* the failure was logged */
    ngx_int_t                        watched;    /* responses that may end with
                                                    what it brings: if any, an
                                                    exiting worker fetches */
    ngx_http_pgw_fetch_t            *fetch;      /* made at its first */

    /* what a fetch needs and clients could take all of, held while there is
       none: one of worker_connections (NULL: it is not), and a descriptor */
    ngx_connection_t                *spare;
    ngx_fd_t                         spare_fd;
};


/* Milliseconds from now to then; 0 when then has passed. */

static ngx_inline ngx_msec_t
ngx_http_pgw_lease_left(ngx_msec_t then)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (then - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


/* Replaces hex, which has no NUL, by a digest (HMAC-SHA-256) of it and a text,
   n times. */
ngx_int_t ngx_http_pgw_lease_digest(u_char *hex, const ngx_str_t *text,
    ngx_uint_t n);

/* Whether a source is fetched through the location.  By the address of its
   name: its "if"s and its limit_except share it, no other location does. */
ngx_uint_t ngx_http_pgw_lease_fetches(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf);

/*
 * These are called with the mutex.
 *
 * activate: a worker's configuration is in force now.  NGX_DECLINED: this or a
 * newer one is already; NGX_DONE: it has another source.
 *
 * take: begins a fetch, by from->begin.  NGX_AGAIN: one is in progress;
 * NGX_DECLINED: not before the cooldown is over, or not by this worker.
 *
 * renew: it takes longer; release: it has ended.  NGX_DECLINED: the lease had
 * passed to others, or to a newer configuration.
 */
ngx_int_t ngx_http_pgw_lease_activate(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_take(ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_renew(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_release(ngx_http_pgw_source_t *from);


#endif /* _NGX_HTTP_PGW_LEASE_H_INCLUDED_ */
