
/*
 * CORS: what OPTIONS is answered with, the headers of all other responses, and
 * the directives that say who may ask for what.
 */


#ifndef _NGX_HTTP_PGW_CORS_H_INCLUDED_
#define _NGX_HTTP_PGW_CORS_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_cors.c: OPTIONS and the CORS response headers */

/*
 * Answers OPTIONS; NGX_DECLINED for any other method, and in shadow mode for a
 * preflight that would be refused.
 */
ngx_int_t ngx_http_pgw_cors_options(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

/*
 * Called from the header filter: takes out an upstream's CORS headers and adds
 * ours, on any response.
 */
ngx_int_t ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_cors_conf.c: the cors_* directives */

/* Directive: ORIGIN ... | off; may be given several times. */
char *ngx_http_pgw_cors_origins(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
 * among them stands for cmd->post, which holds without the directive: one of
 * these two.
 */
char *ngx_http_pgw_cors_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

extern ngx_str_t  ngx_http_pgw_cors_methods;
extern ngx_str_t  ngx_http_pgw_cors_names;

/* Merges the cors_* fields. */
void ngx_http_pgw_cors_merge(ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf);

/*
 * A token of RFC 9110, section 5.6.2, without what no name in use has: letters,
 * digits, '-' and '_'.
 */
ngx_uint_t ngx_http_pgw_cors_is_token(const ngx_str_t *name);


#endif /* _NGX_HTTP_PGW_CORS_H_INCLUDED_ */
