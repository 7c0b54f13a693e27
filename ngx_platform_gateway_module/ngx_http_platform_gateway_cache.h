
/*
 * The tables of the verified-token cache, as _cache.c and _cache_conf.c see
 * them.
 */


#ifndef _NGX_HTTP_PLATFORM_GATEWAY_CACHE_H_INCLUDED_
#define _NGX_HTTP_PLATFORM_GATEWAY_CACHE_H_INCLUDED_


#include "ngx_http_platform_gateway.h"


typedef struct ngx_http_platform_gateway_entry_s
    ngx_http_platform_gateway_entry_t;


typedef struct {
    ngx_http_platform_gateway_entry_t **chains;  /* NULL: none made yet */
    ngx_uint_t                          mask;
    ngx_queue_t                         queue;   /* the latest used first */
    ngx_uint_t                          entries;
    size_t                              size;
    ngx_uint_t                          max_entries;
    size_t                              max_size;
} ngx_http_platform_gateway_table_t;


struct ngx_http_platform_gateway_cache_s {
    ngx_http_platform_gateway_table_t   good;
    ngx_http_platform_gateway_table_t   forged;
    uint64_t                            key[2];
    ngx_uint_t                          set;     /* by the directive */
    ngx_uint_t                          off;
    ngx_log_t                          *log;
};


/* Empties it; with the pool of a configuration, in any process that has one. */
void ngx_http_platform_gateway_cache_cleanup(void *data);


#endif /* _NGX_HTTP_PLATFORM_GATEWAY_CACHE_H_INCLUDED_ */
