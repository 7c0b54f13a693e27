
#ifndef _NGX_HTTP_PGW_KEYS_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_H_INCLUDED_


#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_issuer.h"
#include "ngx_http_pgw_text.h"


/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  A document is written into the slot that is not current;
 * then the one store of the version makes it current, so that a worker may die
 * at any point.
 */

struct ngx_http_pgw_zone_s {
    ngx_http_pgw_zone_part_t  part;  /* its name is the issuer's */
    ngx_http_pgw_lease_t  lease;  /* its source is that of the set */

    ngx_atomic_t    version;      /* of the set */
    ngx_atomic_t    ended;        /* fetches so far */
    ngx_atomic_t    brought;      /* lease of the last good one */
    ngx_atomic_t    fetched;      /* ms, its beginning */
    time_t          fetched_at;   /* the same, wall clock; 0: no set of this
                                     source yet */

    ngx_uint_t      refresh;      /* due whatever the age */

    size_t          jwks_uri_len; /* discovered; 0: not yet */
    u_char          jwks_uri[NGX_HTTP_PGW_JWKS_URI_MAX];

    size_t          len[2];       /* slot: version & 1; 0: none */
    u_char          document[2][PJ_KEYSET_MAX_BYTES];
};


/* The set on disk. */

typedef struct {
    u_char          magic[sizeof("platform-gateway-keys 1\nfetched ") - 1];
    u_char          fetched[20];
    u_char          source_is[sizeof("\nsource ") - 1];
    u_char          source[NGX_HTTP_PGW_DIGEST];
    u_char          digest_is[sizeof("\ndigest ") - 1];
    u_char          digest[NGX_HTTP_PGW_DIGEST];
    u_char          end[2];
    u_char          document[PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_disk_t;


/* What the zone held at one instant. */

typedef struct {
    ngx_uint_t           version;
    ngx_msec_t           fetched;
    time_t               fetched_at;
    ngx_str_t            document;  /* lies in disk; len 0: no set of ours */
    ngx_http_pgw_disk_t  disk;
} ngx_http_pgw_copy_t;


/* A worker's configuration is in force now; a set of another source is gone. */
void ngx_http_pgw_keys_activate(ngx_http_pgw_issuer_t *issuer);

/*
 * A document's age counts from the beginning of its fetch: it need not have
 * what the issuer changed since.  An UNCHANGED document is as fresh as a NEW
 * one.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);

/* Document, version and times, taken under one lock; valid until the next
   call. */
ngx_http_pgw_copy_t *ngx_http_pgw_keys_copy(ngx_http_pgw_issuer_t *issuer);

/*
 * Begins a fetch.  NGX_AGAIN: one is in progress; NGX_DECLINED: not before the
 * cooldown is over, or not by this worker.
 */
ngx_int_t ngx_http_pgw_keys_fetch(ngx_http_pgw_issuer_t *issuer);

/*
 * Ends it; document is NULL where it failed.  SUPERSEDED: the lease had passed
 * to others, or to a newer configuration, and nothing was changed.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_release(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document);

/*
 * Reads a regular file of at most max bytes.  Returns why it cannot be used, as
 * a text that lasts until the next call, or NULL.
 */
const char *ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf,
    size_t max, size_t *len);

/* Warns of two keys of a set that have one "kid". */
void ngx_http_pgw_keys_twins(const ngx_http_pgw_issuer_t *issuer,
    const pj_keyset_t *set, ngx_log_t *log);

/* What is wrong with the issuer's document, or NULL; then keys_free(*set). */
const char *ngx_http_pgw_keys_parse(const ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, pj_keyset_t **set);
void ngx_http_pgw_keys_free(pj_keyset_t *set);

/*
 * Brings this worker's parsed set up to date with the zone (one atomic read
 * when nothing changed) and returns it, or NULL while there is no usable set
 * or the last good one is past the hard age.  Valid until the event loop is
 * returned to.  Then issuer->version is that of the set.
 */
const pj_keyset_t *ngx_http_pgw_keys_get(ngx_http_pgw_issuer_t *issuer);

/* By that issuer, and the set that it has now. */
void ngx_http_pgw_keys_judge(ngx_http_pgw_issuer_t *issuer,
    ngx_http_pgw_judge_t *by);

/*
 * Parks r until the key set changes, a fetch ends or the wait is over; then
 * the phases of r run again.  NGX_AGAIN: parked.  NGX_OK: a good fetch that
 * began after r came has ended: a key that it did not bring does not exist.
 * NGX_DECLINED: no fetch is in progress or permitted, the waiters are full, or
 * r has waited for as long as it may: decide now.
 */
ngx_int_t ngx_http_pgw_keys_wait(ngx_http_request_t *r,
    ngx_http_pgw_issuer_t *issuer);

/* The members "trust" and "keySet" of an explanation. */
void ngx_http_pgw_keys_explain(ngx_http_pgw_text_t *text,
    ngx_http_pgw_issuer_t *issuer);

/* Seconds until a fetch is worth asking for again; at least 1. */
time_t ngx_http_pgw_keys_retry_after(const ngx_http_pgw_issuer_t *issuer);


#endif /* _NGX_HTTP_PGW_KEYS_H_INCLUDED_ */
