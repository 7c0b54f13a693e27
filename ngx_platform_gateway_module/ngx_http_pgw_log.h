
#ifndef _NGX_HTTP_PGW_LOG_H_INCLUDED_
#define _NGX_HTTP_PGW_LOG_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_variable_t  ngx_http_pgw_log_variables[];

/* How long the request has taken by now, and the last attempt at an upstream;
   NULL: there was none. */
ngx_msec_t ngx_http_pgw_log_duration(const ngx_http_request_t *r);
const ngx_http_upstream_state_t *ngx_http_pgw_log_upstream(
    const ngx_http_request_t *r);


#endif /* _NGX_HTTP_PGW_LOG_H_INCLUDED_ */
