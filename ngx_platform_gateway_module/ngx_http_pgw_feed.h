
#ifndef _NGX_HTTP_PGW_FEED_H_INCLUDED_
#define _NGX_HTTP_PGW_FEED_H_INCLUDED_


#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_zone.h"


#define NGX_HTTP_PGW_FEED_MAX_BYTES    (256 * 1024)  /* of a page */
#define NGX_HTTP_PGW_FEED_MAX_ENTRIES  2000
#define NGX_HTTP_PGW_CURSOR_MAX        512
#define NGX_HTTP_PGW_ID_MAX            128

/* Most bytes of an entry, and of a page without its entries. */
#define NGX_HTTP_PGW_FEED_TEXT         4096


/* How far the feed has been read. */

typedef struct {
    size_t                     cursor_len;  /* 0: from the beginning */
    u_char                     cursor[NGX_HTTP_PGW_CURSOR_MAX];

    ngx_uint_t                 pages;      /* since the beginning, or the last
                                              end; ... */
    ngx_uint_t                 idle;       /* ... entries that were not new */
    ngx_uint_t                 endless;    /* it may be: so until an end */
    size_t                     mark_len;
    u_char                     mark[NGX_HTTP_PGW_CURSOR_MAX];  /* a cursor,
                                              looked for in later pages */
} ngx_http_pgw_reading_t;


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

    /*
     * A reload keeps the cursor of the news.  The feed may be another one since
     * then, so it is read from the beginning, too, between the news.
     */

    ngx_http_pgw_reading_t     news;
    ngx_http_pgw_reading_t     again;
    ngx_uint_t                 behind;     /* readings from the beginning that
                                              have not ended: 2 after a reload
                                              during one */

    ngx_http_pgw_table_t       table;
} ngx_http_pgw_revoked_t;


typedef struct {
    ngx_http_pgw_revoked_t  *zone;
    const ngx_http_pgw_reading_t  *reading;  /* it is the next page of that */
    const ngx_http_pgw_name_t  *name;   /* the entries are of these issuers: of
                                           all that are accepted, ... */
    ngx_uint_t               names;     /* ... or of the one that it says */
    ngx_uint_t               follows;   /* what is not known is new */
    ngx_msec_t               answered;

    const char              *err;       /* the first one */
    ngx_uint_t               full;      /* the zone is */
    ngx_uint_t               more;
    int64_t                  now;       /* ms; 0: not said */
    pj_str_t                 cursor;
    ngx_uint_t               entries;
    ngx_uint_t               added;     /* that were not known */
    ngx_uint_t               fresh;     /* those with a time, and ... */
    int64_t                  revoked[NGX_HTTP_PGW_FEED_MAX_ENTRIES];
                                        /* ... when each was revoked */
    pj_str_t                 entry[NGX_HTTP_PGW_FEED_MAX_ENTRIES];
    size_t                   len;       /* of what is no entry */
    u_char                   text[NGX_HTTP_PGW_FEED_TEXT + sizeof("{}") - 1];
    pj_arena_t               arena;     /* to parse a text */
    u_char                   mem[];
} ngx_http_pgw_page_t;

/* How much mem a page needs: for what is no entry, and for an entry. */
#define ngx_http_pgw_feed_mem()                                               \
    (2 * pj_keyset_arena_bytes(NGX_HTTP_PGW_FEED_TEXT))


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

/* Reads the page into its zone, with the mutex; page->err: it is not good, but
   what is wrong with an entry keeps no other from counting. */
void ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page,
    const ngx_str_t *document);


#endif /* _NGX_HTTP_PGW_FEED_H_INCLUDED_ */
