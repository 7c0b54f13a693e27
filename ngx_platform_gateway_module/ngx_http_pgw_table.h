
/*
 * A table of what has been revoked, in shared memory: one process writes at a
 * time, any number reads without a lock.  It knows no clock and no nginx.
 */


#ifndef _NGX_HTTP_PGW_TABLE_H_INCLUDED_
#define _NGX_HTTP_PGW_TABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* 128 bits of a keyed hash; the first word is none of the two below. */

typedef struct {
    uint64_t                  word[2];
} ngx_http_pgw_table_key_t;

#define NGX_HTTP_PGW_TABLE_EMPTY    0  /* the slot was never used */
#define NGX_HTTP_PGW_TABLE_DELETED  1  /* the slot is not in use any more */
#define NGX_HTTP_PGW_TABLE_KEYS     2  /* the least first word of a key */


/* What is looked up for a token: the keys by which it may be revoked, and when
   it was issued (ms). */

typedef struct {
    ngx_http_pgw_table_key_t    id;           /* all zeroes: it has none */
    ngx_http_pgw_table_key_t    subject;
    int64_t                     issued;
} ngx_http_pgw_mark_t;


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


#endif /* _NGX_HTTP_PGW_TABLE_H_INCLUDED_ */
