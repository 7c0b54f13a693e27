
/*
 * Revocations: the feed, the table in shared memory, the poll.
 */


#ifndef _NGX_HTTP_PGW_REVOKED_H_INCLUDED_
#define _NGX_HTTP_PGW_REVOKED_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "issuer/issuer.h"
#include "base/base.h"


/*
 * A table of what has been revoked, in shared memory: one process writes at a
 * time, any number reads without a lock.  It knows no clock and no nginx.
 */


/* A slot: 32 bytes, of which at most three in four are used. */

typedef struct {
    ngx_http_pgw_table_key_t    key;
    int64_t                   before;   /* ms: revokes what was issued before */
    int64_t                   dies_at;  /* seconds; nothing asks for it then */
} ngx_http_pgw_table_slot_t;


typedef struct {
    uint64_t                  slots;
    uint64_t                  max;      /* of them that may be used */
    uint64_t                  used;     /* live ones, and deleted ones that keep
                                           their place */
    uint64_t                  live;
    uint64_t                  swept;    /* slots left of a sweeping pass */
    ngx_http_pgw_table_slot_t  *slot;
} ngx_http_pgw_table_t;


/* mem is zeroed. */
void ngx_http_pgw_table_init(ngx_http_pgw_table_t *table, void *mem,
    size_t size);

/* Whether it has the key, for what was issued at that time (ms).  Without a
   lock, whatever the writer does. */
ngx_uint_t ngx_http_pgw_table_has(const ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t issued);

/* NGX_OK: it is new; NGX_DONE: it was there, and the later times hold;
   NGX_DECLINED: there is no room. */
ngx_int_t ngx_http_pgw_table_put(ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t before, int64_t dies_at);

/* Deletes dead entries in the next n slots, starting over at the end. */
void ngx_http_pgw_table_sweep(ngx_http_pgw_table_t *table, int64_t now,
    uint64_t n);


/* ngx_http_pgw_feed.c */

#define NGX_HTTP_PGW_FEED_MAX_BYTES    (256 * 1024)  /* of a page */
#define NGX_HTTP_PGW_FEED_MAX_ENTRIES  2000
#define NGX_HTTP_PGW_FEED_MAX_VALUES   32768         /* JSON values of a page */
#define NGX_HTTP_PGW_CURSOR_MAX        512
#define NGX_HTTP_PGW_ID_MAX            128

/* The memory that parses any page within these limits. */
#define ngx_http_pgw_feed_mem()                                               \
    pj_json_large_arena_bytes(NGX_HTTP_PGW_FEED_MAX_BYTES,                    \
                              NGX_HTTP_PGW_FEED_MAX_VALUES)


/* How far the feed has been read. */

typedef struct {
    size_t                     cursor_len;  /* 0: from the beginning */
    u_char                     cursor[NGX_HTTP_PGW_CURSOR_MAX];

    ngx_uint_t                 idle;       /* known entries read since the
                                              beginning or the last end */
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
    u_char                     error[64];  /* the last one logged, or "" */
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
    u_char                   mem[];     /* ngx_http_pgw_feed_mem() bytes */
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

/* Reads the page into its zone, with the mutex; page->err: it is not good, but
   what is wrong with an entry keeps no other from counting. */
void ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page,
    const ngx_str_t *document);


/*
 * Revocations: sessions that have ended and accounts whose older tokens are
 * void, read from the issuer's feed into shared memory by one worker, looked up
 * by all for each request with a verified token.
 */


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


/* ngx_http_pgw_poll.c */

/* Starts the worker's timer. */
void ngx_http_pgw_poll_init_process(ngx_http_pgw_revocations_t *rev);

/* The end of a fetch. */
void ngx_http_pgw_poll_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* So many more responses of this worker end with their revoked session. */
void ngx_http_pgw_poll_watch(ngx_http_pgw_revocations_t *rev, ngx_int_t n);

/* Ends this worker's part in it, and gives the lease back. */
void ngx_http_pgw_poll_abort(ngx_http_pgw_revocations_t *rev);


#endif /* _NGX_HTTP_PGW_REVOKED_H_INCLUDED_ */
