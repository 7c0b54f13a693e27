
#ifndef _NGX_HTTP_PGW_LOG_H_INCLUDED_
#define _NGX_HTTP_PGW_LOG_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_variable_t  ngx_http_pgw_log_variables[];

/* Counts r. */
ngx_int_t ngx_http_pgw_log_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_PGW_LOG_H_INCLUDED_ */
