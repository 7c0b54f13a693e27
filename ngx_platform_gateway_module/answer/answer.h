
/*
 * Answers and reports of the gateway itself: health, metrics, the access log.
 */


#ifndef _NGX_HTTP_PGW_ANSWER_H_INCLUDED_
#define _NGX_HTTP_PGW_ANSWER_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "conf/conf.h"


/* ngx_http_pgw_local.c */

extern ngx_http_pgw_content_t  ngx_http_pgw_local_health;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_ready;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found;
extern ngx_http_pgw_content_t  ngx_http_pgw_metrics_content;

/* Refuses from a content handler.  If code is NULL, the reason's code is
   used. */
ngx_int_t ngx_http_pgw_local_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *code, const char *detail,
    time_t retry_after);


/* ngx_http_pgw_log.c */

extern ngx_http_variable_t  ngx_http_pgw_log_variables[];

/* Counts r: a handler of the LOG phase. */
ngx_int_t ngx_http_pgw_log_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_PGW_ANSWER_H_INCLUDED_ */
