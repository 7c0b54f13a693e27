
/*
 * Revocations: sessions that have ended and accounts whose older tokens are
 * void, read from the issuer's feed into shared memory by one worker, looked up
 * by all for each request with a verified token.
 */


#ifndef _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_
#define _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_table.h"


#define NGX_HTTP_PGW_FEED_MAX_BYTES    (1024 * 1024)  /* of a page */
#define NGX_HTTP_PGW_FEED_MAX_ENTRIES  10000
#define NGX_HTTP_PGW_CURSOR_MAX        512
#define NGX_HTTP_PGW_ID_MAX            128

/* Most bytes of an entry, and of a page without its entries. */
#define NGX_HTTP_PGW_FEED_TEXT         4096


/* In shared memory; written under the mutex, the atomics are read without. */

typedef struct {
    ngx_uint_t                 layout;     /* always the first field */
    ngx_http_pgw_lease_t       lease;
    u_char                     secret[16];  /* of the keys */

    ngx_atomic_t               complete;   /* the feed was read to its end */
    ngx_atomic_t               asked;      /* ms: the last request of the latest
                                              reading to the end */
    ngx_atomic_t               full;       /* an entry found no room */
    ngx_uint_t                 stale;      /* that it is stale was logged */
    ngx_uint_t                 complaint;  /* the last one, 0: none */
    time_t                     judged;     /* the latest time at which it was
                                              judged which entries are dead */

    size_t                     cursor_len;  /* 0: from the beginning */
    u_char                     cursor[NGX_HTTP_PGW_CURSOR_MAX];

    ngx_uint_t                 pages;      /* since the beginning, or the last
                                              end; ... */
    ngx_uint_t                 idle;       /* ... with nothing new, since an
                                              end */
    ngx_uint_t                 endless;    /* it may be: so until an end */
    size_t                     mark_len;
    u_char                     mark[NGX_HTTP_PGW_CURSOR_MAX];  /* a cursor,
                                              looked for in later pages */

    ngx_http_pgw_table_t       table;
} ngx_http_pgw_revoked_t;


/* A page, which is read piece by piece. */

typedef struct {
    ngx_http_pgw_revoked_t  *zone;
    u_char                  *pos;       /* of the body */
    u_char                  *last;
    u_char                  *entry;     /* begins there; NULL: in none */
    const char              *err;       /* the first one */
    ngx_msec_t               answered;

    ngx_uint_t               depth;
    unsigned                 quoted:1;
    unsigned                 escaped:1;
    unsigned                 listed:1;  /* inside the list of revocations */
    unsigned                 follows:1; /* another page came before */
    unsigned                 full:1;

    uint64_t                 sweep;     /* slots to sweep, at least */
    ngx_uint_t               entries;
    ngx_uint_t               added;     /* that were not known */
    ngx_uint_t               fresh;     /* those with a time, and ... */
    int64_t                  revoked[NGX_HTTP_PGW_FEED_MAX_ENTRIES];
                                        /* ... when each was revoked */
    size_t                   len;       /* of what is no entry */
    u_char                   text[NGX_HTTP_PGW_FEED_TEXT];
    u_char                  *mem;       /* to parse a text */
    u_char                   body[];
} ngx_http_pgw_page_t;

struct ngx_http_pgw_revocations_s {
    ngx_http_pgw_source_t      from;
    ngx_str_t                  claim;      /* the id of a token is there */
    ngx_str_t                  zone_name;
    size_t                     zone_size;  /* 0: not said */
    ngx_shm_zone_t            *shm_zone;
    ngx_http_pgw_revoked_t    *zone;
    ngx_msec_t                 after;      /* an older feed is stale */
    ngx_uint_t                 refuse;     /* while it is */

    /* of one worker process */

    ngx_event_t                timer;
    ngx_event_t                turn;       /* the next piece of the page */
    ngx_http_pgw_page_t       *page;       /* NULL: none */
    ngx_msec_t                 asked;      /* for it */
    ngx_uint_t                 pages;      /* asked for, of this interval */
    ngx_str_t                  args;
    u_char                     args_data[sizeof("after=")
                                         + NGX_HTTP_PGW_CURSOR_MAX];
};


/* ngx_http_pgw_revocations.c: directives, the zone, what a token meets */

ngx_http_pgw_set_t  ngx_http_pgw_revocations_directive;
ngx_http_pgw_set_t  ngx_http_pgw_revocations_stale_directive;

/* Called at postconfiguration. */
char *ngx_http_pgw_revocations_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);

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

/* The member "revocations" of an explanation. */
void ngx_http_pgw_revocations_explain(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_revocations_t *rev);


/* ngx_http_pgw_feed.c: pages, from the answer into the table */

/* A time (NULL: none) in milliseconds, a fraction of one rounded. */
ngx_int_t ngx_http_pgw_feed_time(const pj_json_t *number, pj_round_t round,
    int64_t *ms);

/* The key of an id ('i') or of a subject ('s'); NGX_DECLINED: it is no string
   of 1 to ID_MAX bytes; NGX_ERROR: out of memory. */
ngx_int_t ngx_http_pgw_feed_key(const ngx_http_pgw_revoked_t *zone,
    u_char kind, const pj_json_t *id, ngx_http_pgw_table_key_t *key);

/* Reads the page up to end; with the mutex. */
void ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page, u_char *end);

/* What a page that was read says besides its entries, unless page->err; now is
   in ms, 0: not said. */
void ngx_http_pgw_feed_rest(ngx_http_pgw_page_t *page, ngx_uint_t *more,
    int64_t *now, pj_str_t *cursor);


/* ngx_http_pgw_poll.c: asking for the feed */

/* Starts the worker's timer. */
void ngx_http_pgw_poll_init_process(ngx_http_pgw_revocations_t *rev);

/* The end of a fetch. */
void ngx_http_pgw_poll_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* Ends this worker's part in it, and gives the lease back. */
void ngx_http_pgw_poll_abort(ngx_http_pgw_revocations_t *rev);


#endif /* _NGX_HTTP_PGW_REVOCATIONS_H_INCLUDED_ */
