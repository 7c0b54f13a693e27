
/*
 * Revocations: the feed, the table in shared memory, the poll.
 */


#ifndef _NGX_HTTP_PGW_REVOKED_H_INCLUDED_
#define _NGX_HTTP_PGW_REVOKED_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "issuer/issuer.h"
#include "base/base.h"


/*
 * The table of revocations, in shared memory.  One process writes at a time;
 * readers need no lock.
 */


/* At most three slots in four are used. */

typedef struct {
    ngx_http_pgw_table_key_t    key;
    int64_t                   before;   /* ms; earlier tokens are revoked */
    int64_t                   dies_at;  /* s; its tokens have expired by then */
} ngx_http_pgw_table_slot_t;


typedef struct {
    uint64_t                  slots;
    uint64_t                  max;      /* limit of used */
    uint64_t                  used;     /* live and deleted slots */
    uint64_t                  live;
    uint64_t                  swept;    /* the slot that was swept last */
    ngx_http_pgw_table_slot_t  *slot;
} ngx_http_pgw_table_t;


/* mem is zeroed. */
void ngx_http_pgw_table_init(ngx_http_pgw_table_t *table, void *mem,
    size_t size);

/* Returns 1 if a token with the key, issued at that time (ms), is revoked.
   Needs no lock. */
ngx_uint_t ngx_http_pgw_table_has(const ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t issued);

/* Returns NGX_OK if the key is new, NGX_DONE if the key is known and has the
   later times now, or NGX_DECLINED if the table is full. */
ngx_int_t ngx_http_pgw_table_put(ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t before, int64_t dies_at);

/* Deletes dead entries in the next n slots. */
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


/* The progress of reading the feed. */

typedef struct {
    size_t                     cursor_len;  /* 0 at the beginning */
    u_char                     cursor[NGX_HTTP_PGW_CURSOR_MAX];

    ngx_uint_t                 idle;        /* known entries since the
                                               beginning or the last end */
} ngx_http_pgw_reading_t;


/* In shared memory.  Writers hold the mutex; atomics are read without it. */

typedef struct {
    ngx_http_pgw_zone_part_t   part;
    ngx_http_pgw_lease_t       lease;
    u_char                     secret[16];  /* of the keys */

    ngx_atomic_t               complete;   /* the feed was read to its end */
    ngx_atomic_t               as_of;      /* ms; time of the last request of
                                              the latest complete reading */
    ngx_atomic_t               full;       /* some entries did not fit */
    ngx_uint_t                 stale;      /* logged as stale */
    u_char                     error[64];  /* last logged error, or "" */
    time_t                     swept_at;   /* latest time of a sweep */

    /*
     * A reload keeps the cursor of the news.  It may also bring another feed,
     * so the feed is then reread from the beginning, between the news.
     */

    ngx_http_pgw_reading_t     news;
    ngx_http_pgw_reading_t     reread;
    ngx_uint_t                 rereads;    /* pending: 2 after a reload during a
                                              reread */

    ngx_http_pgw_table_t       table;
} ngx_http_pgw_revoked_t;


typedef struct {
    ngx_http_pgw_revoked_t  *zone;
    const ngx_http_pgw_reading_t  *reading;
    const ngx_http_pgw_name_t  *name;   /* issuers of the entries: the page's,
                                           or all accepted issuers */
    ngx_uint_t               names;
    ngx_uint_t               follows;   /* unknown entries are new */

    const char              *err;       /* the first error, or NULL */
    ngx_uint_t               full;      /* some entries did not fit */
    ngx_uint_t               more;
    int64_t                  now;       /* ms, or 0 */
    pj_str_t                 cursor;
    ngx_uint_t               entries;
    ngx_uint_t               added;     /* unknown entries */
    u_char                   mem[];     /* ngx_http_pgw_feed_mem() bytes */
} ngx_http_pgw_page_t;


/* Converts a time to milliseconds.  Returns NGX_ERROR if the number is NULL or
   not a valid time. */
ngx_int_t ngx_http_pgw_feed_time(const pj_json_t *number, pj_round_t round,
    int64_t *ms);

/* Sets the seed of the name's keys in the zone. */
ngx_int_t ngx_http_pgw_feed_seed(const ngx_http_pgw_revoked_t *zone,
    ngx_http_pgw_name_t *name);

/* Makes the key of an issuer's id ('i') or subject ('s').  Returns NGX_DECLINED
   if the id is not a string of 1 to ID_MAX bytes, or NGX_ERROR if out of
   memory. */
ngx_int_t ngx_http_pgw_feed_key(const ngx_http_pgw_name_t *name, u_char kind,
    const pj_json_t *id, ngx_http_pgw_table_key_t *key);

/* Reads the page into its zone, with the mutex held.  Sets page->err on error;
   a bad entry does not stop the others. */
void ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page,
    const ngx_str_t *document);


/*
 * Revocations: ended sessions, and accounts whose older tokens are void.  One
 * worker reads them from the issuer's feed into shared memory.  All workers
 * look them up for each request with a verified token.
 */


struct ngx_http_pgw_revocations_s {
    ngx_http_pgw_source_t      from;
    ngx_array_t               *names;      /* ngx_http_pgw_name_t; accepted
                                              issuers of the feed */
    ngx_str_t                  claim;      /* claims of a token: its id, */
    const char                *subject;    /* its account */
    const char                *issued;     /* and its time of issue */
    ngx_str_t                  zone_name;
    size_t                     zone_size;  /* 0 if not configured */
    ngx_http_pgw_revoked_t    *zone;
    ngx_msec_t                 after;      /* an older feed is stale */
    ngx_uint_t                 refuse;     /* requests, if the feed is stale */

    /* state of this worker process */

    ngx_http_pgw_reading_t    *reading;    /* the current page belongs to it */
    ngx_msec_t                 requested;  /* time of the page's request */
    ngx_uint_t                 pages;      /* requested in this interval */
    ngx_str_t                  args;
    u_char                     args_data[sizeof("after=")
                                         + NGX_HTTP_PGW_CURSOR_MAX];
};


ngx_int_t ngx_http_pgw_revocations_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);

/*
 * Makes the keys of a token from its claims, empty ones if rev is NULL.
 * Returns NGX_ERROR if out of memory.
 */
ngx_int_t ngx_http_pgw_revocations_mark(const ngx_http_pgw_revocations_t *rev,
    const pj_claims_t *claims, ngx_http_pgw_mark_t *mark);

/* Returns the reason to refuse a verified token, or REASON_VERIFIED. */
ngx_http_pgw_reason_e ngx_http_pgw_revocations_check(
    const ngx_http_pgw_revocations_t *rev, const ngx_http_pgw_mark_t *mark);

/* Returns 1 if the clock is behind the latest sweep, which may have deleted
   entries that are live by now's time. */
ngx_uint_t ngx_http_pgw_revocations_set_back(
    const ngx_http_pgw_revoked_t *zone);

/* Returns 1 if the feed was read to its end and is still all there. */
ngx_uint_t ngx_http_pgw_revocations_whole(const ngx_http_pgw_revoked_t *zone);

/* Returns 1 if the feed is incomplete, too old, or larger than the zone. */
ngx_uint_t ngx_http_pgw_revocations_stale(
    const ngx_http_pgw_revocations_t *rev);

/* Returns the reason to refuse claims, verified or not, or REASON_NONE. */
ngx_http_pgw_reason_e ngx_http_pgw_revocations_ask(
    const ngx_http_pgw_revocations_t *rev, const pj_claims_t *claims);


/* ngx_http_pgw_poll.c */

/* Starts the worker's timer. */
void ngx_http_pgw_poll_init_process(ngx_http_pgw_revocations_t *rev);

/* The source of a feed before its directive is read; its data is a
   revocations_t. */
extern const ngx_http_pgw_source_t  ngx_http_pgw_poll_source;

/* Adds n to the open responses that end when their session is revoked. */
void ngx_http_pgw_poll_watch(ngx_http_pgw_revocations_t *rev, ngx_int_t n);

/* Stops a fetch in this worker and releases the lease. */
void ngx_http_pgw_poll_abort(ngx_http_pgw_revocations_t *rev);


#endif /* _NGX_HTTP_PGW_REVOKED_H_INCLUDED_ */
