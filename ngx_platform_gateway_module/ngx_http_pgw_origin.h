
#ifndef _NGX_HTTP_PGW_ORIGIN_H_INCLUDED_
#define _NGX_HTTP_PGW_ORIGIN_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Whether these bytes are one or more labels with single dots between them. */
ngx_uint_t ngx_http_pgw_origin_is_labels(const u_char *p, const u_char *last);

/* Whether it is one of platform_gateway_cors_origins. */
ngx_uint_t ngx_http_pgw_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_str_t *origin);

/*
 * Whether it is that of r itself: its host and port are those of Host.  Without
 * TLS here, a balancer may have ended it, so https will do as well as http.
 */
ngx_uint_t ngx_http_pgw_origin_own(const ngx_http_request_t *r,
    const ngx_str_t *origin);


#endif /* _NGX_HTTP_PGW_ORIGIN_H_INCLUDED_ */
