
#ifndef _NGX_HTTP_PGW_CORS_H_INCLUDED_
#define _NGX_HTTP_PGW_CORS_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Directive: ORIGIN ... | off; may be given several times. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_origins;

/* Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
   among them stands for cmd->post, text that holds without the directive. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_list;

/* Why the preflight for such a request would be refused, or NONE; *detail as
   request_refuse() takes it. */
ngx_http_pgw_reason_e ngx_http_pgw_cors_ask(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail);

/* Answers OPTIONS; NGX_DECLINED in shadow mode for a preflight that would be
   refused. */
ngx_int_t ngx_http_pgw_cors_options(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

/* Called from the header filter: takes out an upstream's CORS headers and adds
   ours, on any response. */
ngx_int_t ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);


#endif /* _NGX_HTTP_PGW_CORS_H_INCLUDED_ */
