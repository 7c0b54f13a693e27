
/*
 * The verified-token cache: what is asked of it, and its tables, as _cache.c
 * and _cache_conf.c see them.
 */


#ifndef _NGX_HTTP_PGW_CACHE_H_INCLUDED_
#define _NGX_HTTP_PGW_CACHE_H_INCLUDED_


#include "ngx_http_pgw.h"


typedef struct ngx_http_pgw_entry_s ngx_http_pgw_entry_t;


typedef struct {
    ngx_http_pgw_entry_t  **chains;  /* NULL: none made yet */
    ngx_uint_t              mask;
    ngx_queue_t             queue;   /* the latest used first */
    ngx_uint_t              entries;
    size_t                  size;
    ngx_uint_t              max_entries;
    size_t                  max_size;
} ngx_http_pgw_table_t;


struct ngx_http_pgw_cache_s {
    ngx_http_pgw_table_t  good;
    ngx_http_pgw_table_t  forged;
    uint64_t              key[2];
    ngx_uint_t            set;  /* by the directive */
    ngx_uint_t            off;
    ngx_log_t            *log;
};


/* Empties it; with the pool of a configuration, in any process that has one. */
void ngx_http_pgw_cache_cleanup(void *data);


/* ngx_http_pgw_cache_conf.c: the bounds of the token cache */

ngx_http_pgw_cache_t *ngx_http_pgw_cache_create(ngx_conf_t *cf);

/* platform_gateway_token_cache off | entries=N [size=S]; */
char *ngx_http_pgw_cache_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/* ngx_http_pgw_cache.c: verified tokens, and forged ones */

/*
 * NGX_OK: *err is what token_verify() would return for these bytes now, under
 * the policy of conf and the key set of that version; with PJ_OK *grant is
 * filled from pool.  NGX_DECLINED: not known; NGX_ERROR: out of memory.
 */
ngx_int_t ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache,
    ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    ngx_uint_t version, pj_err_t *err, ngx_http_pgw_grant_t *grant);

/* Keeps a token that find() declined; grant NULL: its signature is forged. */
void ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token, ngx_uint_t version,
    const ngx_http_pgw_times_t *times, const ngx_http_pgw_grant_t *grant);


/* ngx_http_pgw_hash.c */

uint64_t ngx_http_pgw_hash(const uint64_t key[2], const u_char *data,
    size_t len);


#endif /* _NGX_HTTP_PGW_CACHE_H_INCLUDED_ */
