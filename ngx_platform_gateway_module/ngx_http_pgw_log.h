
/*
 * What the entry of the access log (log.c) and the variables
 * (log_variables.c) share.
 */


#ifndef _NGX_HTTP_PGW_LOG_H_INCLUDED_
#define _NGX_HTTP_PGW_LOG_H_INCLUDED_


#include "ngx_http_pgw.h"


typedef struct {
    ngx_http_request_t             *request;
    const ngx_http_pgw_request_t   *gr;  /* NULL: off in the
                                                         whole server */
    const ngx_http_pgw_loc_conf_t  *conf;
} ngx_http_pgw_log_ctx_t;


ngx_int_t ngx_http_pgw_log_start(ngx_http_request_t *r,
    ngx_http_pgw_log_ctx_t *lc);

/*
 * "account branch": the levels of the location that decided.  What is empty
 * is logged as null, here and below.
 */
const ngx_str_t *ngx_http_pgw_log_access(const ngx_http_pgw_log_ctx_t *lc);

/* Why, and what was decided; text that lives for ever. */
ngx_str_t ngx_http_pgw_log_decision(const ngx_http_pgw_log_ctx_t *lc);
ngx_str_t ngx_http_pgw_log_reason(const ngx_http_pgw_log_ctx_t *lc);

/* Sets v to $platform_access_json. */
ngx_int_t ngx_http_pgw_log_json(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


#endif /* _NGX_HTTP_PGW_LOG_H_INCLUDED_ */
