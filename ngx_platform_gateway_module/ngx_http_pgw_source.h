
/*
 * Where else than in Authorization a token may be.
 */


#ifndef _NGX_HTTP_PGW_SOURCE_H_INCLUDED_
#define _NGX_HTTP_PGW_SOURCE_H_INCLUDED_


#include "ngx_http_pgw.h"


/* platform_gateway_token_from off | [cookie=NAME] [subprotocol[=PREFIX]]; */
ngx_http_pgw_set_t  ngx_http_pgw_source_directive;

/*
 * Looks for the token of r where conf->from says; gr is its request's, reason
 * NONE if Authorization has it, *token, else TOKEN_MISSING.  Returns NONE with
 * *token, or why there is none to judge: that is not what its verdict depends
 * on, so it has to be asked for each request.
 */
ngx_http_pgw_reason_e ngx_http_pgw_source_find(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, pj_str_t *token);

/*
 * NGX_DECLINED: h, a header of a request, may go upstream as it is.  NGX_OK: it
 * has a token; *rest is a copy without, or as it was: nothing is left of it.
 */
ngx_int_t ngx_http_pgw_source_hide(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_table_elt_t *h,
    ngx_table_elt_t **rest);


#endif /* _NGX_HTTP_PGW_SOURCE_H_INCLUDED_ */
