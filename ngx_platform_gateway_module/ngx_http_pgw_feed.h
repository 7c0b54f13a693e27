
#ifndef _NGX_HTTP_PGW_FEED_H_INCLUDED_
#define _NGX_HTTP_PGW_FEED_H_INCLUDED_


#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_zone.h"


#define NGX_HTTP_PGW_FEED_MAX_BYTES    (1024 * 1024)  /* of a page */
#define NGX_HTTP_PGW_FEED_MAX_ENTRIES  10000
#define NGX_HTTP_PGW_CURSOR_MAX        512
#define NGX_HTTP_PGW_ID_MAX            128

/* Most bytes of an entry, and of a page without its entries. */
#define NGX_HTTP_PGW_FEED_TEXT         4096


/* In shared memory; written under the mutex, the atomics are read without. */

typedef struct {
    ngx_http_pgw_zone_part_t   part;
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
    ngx_uint_t                 idle;       /* ... entries that were not new */
    ngx_uint_t                 endless;    /* it may be: so until an end */
    size_t                     mark_len;
    u_char                     mark[NGX_HTTP_PGW_CURSOR_MAX];  /* a cursor,
                                              looked for in later pages */

    ngx_http_pgw_table_t       table;
} ngx_http_pgw_revoked_t;


/* A page, which is read piece by piece. */

typedef struct {
    ngx_http_pgw_revoked_t  *zone;
    const ngx_http_pgw_name_t  *name;   /* the entries are of these issuers: of
                                           all that are accepted, ... */
    ngx_uint_t               names;     /* ... or of the one that it says */
    u_char                  *pos;       /* of the body */
    u_char                  *last;
    u_char                  *entry;     /* begins there; NULL: in none */
    const char              *err;       /* the first one */
    ngx_msec_t               answered;

    ngx_uint_t               depth;
    unsigned                 quoted:1;
    unsigned                 escaped:1;
    unsigned                 listed:1;  /* inside the list of revocations */
    unsigned                 owned:1;   /* it says whose they are */
    unsigned                 follows:1; /* another page came before */
    unsigned                 full:1;

    uint64_t                 sweep;     /* slots to sweep, at least */
    ngx_uint_t               entries;
    ngx_uint_t               added;     /* that were not known */
    ngx_uint_t               fresh;     /* those with a time, and ... */
    int64_t                  revoked[NGX_HTTP_PGW_FEED_MAX_ENTRIES];
                                        /* ... when each was revoked */
    size_t                   len;       /* of what is no entry */
    u_char                   text[NGX_HTTP_PGW_FEED_TEXT + 3];
    u_char                  *mem;       /* to parse a text */
    u_char                   body[];
} ngx_http_pgw_page_t;


/* A time (NULL: none) in milliseconds, a fraction of one rounded. */
ngx_int_t ngx_http_pgw_feed_time(const pj_json_t *number, pj_round_t round,
    int64_t *ms);

/* Sets the seed of a name, for that zone. */
ngx_int_t ngx_http_pgw_feed_seed(const ngx_http_pgw_revoked_t *zone,
    ngx_http_pgw_name_t *name);

/* The key of an issuer's id ('i') or subject ('s'); NGX_DECLINED: it is no
   string of 1 to ID_MAX bytes; NGX_ERROR: out of memory. */
ngx_int_t ngx_http_pgw_feed_key(const ngx_http_pgw_name_t *name, u_char kind,
    const pj_json_t *id, ngx_http_pgw_table_key_t *key);

/* Reads the page up to end; with the mutex. */
void ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page, u_char *end);

/* What a page that was read says besides its entries, unless page->err; now is
   in ms, 0: not said. */
void ngx_http_pgw_feed_rest(ngx_http_pgw_page_t *page, ngx_uint_t *more,
    int64_t *now, pj_str_t *cursor);


#endif /* _NGX_HTTP_PGW_FEED_H_INCLUDED_ */
