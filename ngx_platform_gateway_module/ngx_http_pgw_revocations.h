
/*
 * Revocations: sessions that have ended and accounts whose older tokens are
 * void, read from the issuer's feed into shared memory by one worker, looked up
 * by all for each request with a verified token.
 */


#ifndef _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_
#define _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_


#include "ngx_http_pgw_feed.h"


struct ngx_http_pgw_revocations_s {
    ngx_http_pgw_source_t      from;
    ngx_array_t               *names;      /* ngx_http_pgw_name_t: whose
                                              entries a page may have */
    ngx_str_t                  claim;      /* the id of a token is there */
    const char                *subject;    /* and there whom it names, ... */
    const char                *issued;     /* ... and there since when */
    ngx_str_t                  zone_name;
    size_t                     zone_size;  /* 0: not said */
    ngx_http_pgw_revoked_t    *zone;
    ngx_msec_t                 after;      /* an older feed is stale */
    ngx_uint_t                 refuse;     /* while it is */

    /* of one worker process */

    ngx_event_t                timer;
    ngx_http_pgw_reading_t    *reading;    /* that the page is for */
    ngx_msec_t                 asked;      /* for the page */
    ngx_uint_t                 pages;      /* asked for, of this interval */
    ngx_str_t                  args;
    u_char                     args_data[sizeof("after=")
                                         + NGX_HTTP_PGW_CURSOR_MAX];
};


ngx_int_t ngx_http_pgw_revocations_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);

/*
 * Makes the keys by which a token is looked up, from its claims.  NGX_ERROR:
 * out of memory.  With rev NULL, no token is looked up.
 */
ngx_int_t ngx_http_pgw_revocations_mark(const ngx_http_pgw_revocations_t *rev,
    const pj_claims_t *claims, ngx_http_pgw_mark_t *mark);

/* Why a verified token with that mark is refused, or REASON_VERIFIED. */
ngx_http_pgw_reason_e ngx_http_pgw_revocations_check(
    const ngx_http_pgw_revocations_t *rev, const ngx_http_pgw_mark_t *mark);

/* Whether entries were judged dead by a clock that has been set back. */
ngx_uint_t ngx_http_pgw_revocations_misjudged(
    const ngx_http_pgw_revoked_t *zone);

/* Whether the feed was read to its end, and nothing of it is lost since. */
ngx_uint_t ngx_http_pgw_revocations_whole(const ngx_http_pgw_revoked_t *zone);

/* Whether it was not, or is too old, or not all of it found room. */
ngx_uint_t ngx_http_pgw_revocations_stale(
    const ngx_http_pgw_revocations_t *rev);

/* The same for claims, verified or not: why they would be refused, or 0. */
ngx_http_pgw_reason_e ngx_http_pgw_revocations_ask(
    const ngx_http_pgw_revocations_t *rev, const pj_claims_t *claims);


#endif /* _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_ */
