
#ifndef _NGX_HTTP_PGW_LOCAL_H_INCLUDED_
#define _NGX_HTTP_PGW_LOCAL_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_pgw_content_t  ngx_http_pgw_local_health;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_ready;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found;
extern ngx_http_pgw_content_t  ngx_http_pgw_metrics_content;

/* Refuses from a content handler; code NULL: that of the reason. */
ngx_int_t ngx_http_pgw_local_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *code, const char *detail,
    time_t retry_after);


#endif /* _NGX_HTTP_PGW_LOCAL_H_INCLUDED_ */
