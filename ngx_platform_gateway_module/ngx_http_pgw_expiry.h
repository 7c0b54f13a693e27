
/*
 * The end of a response whose token comes to its end.
 */


#ifndef _NGX_HTTP_PGW_EXPIRY_H_INCLUDED_
#define _NGX_HTTP_PGW_EXPIRY_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * With platform_gateway_close_at_expiry: closes the connection of r, that ctx
 * lets in, once its token is refused for its age or its session's end and r is
 * being answered.  Not of a subrequest, nor in shadow mode.  NGX_ERROR: no
 * memory.
 */
ngx_int_t ngx_http_pgw_expiry_watch(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx);


#endif /* _NGX_HTTP_PGW_EXPIRY_H_INCLUDED_ */
