
#ifndef _NGX_HTTP_PGW_CACHE_H_INCLUDED_
#define _NGX_HTTP_PGW_CACHE_H_INCLUDED_


#include "ngx_http_pgw.h"


ngx_http_pgw_cache_t *ngx_http_pgw_cache_create(ngx_conf_t *cf);

/* platform_gateway_token_cache off | entries=N [size=S]; */
ngx_http_pgw_set_t  ngx_http_pgw_cache_directive;

/*
 * NGX_OK: ctx->err is what token_verify() would return for ctx->token now, by
 * the policy of conf and its issuer's keys, ctx->by (with PJ_OK, ctx->grant is
 * filled from pool), or PJ_ERR_NO_SPACE.  NGX_DECLINED: not in the cache.
 */
ngx_int_t ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache,
    ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx);

/* Keeps a verified token that find() declined. */
void ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx,
    const pj_claims_t *claims);


#endif /* _NGX_HTTP_PGW_CACHE_H_INCLUDED_ */
