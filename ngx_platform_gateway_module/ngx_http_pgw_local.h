
/*
 * What the gateway answers by itself: its content handlers, explanations,
 * OPTIONS, and the CORS headers of all other responses.
 */


#ifndef _NGX_HTTP_PGW_LOCAL_H_INCLUDED_
#define _NGX_HTTP_PGW_LOCAL_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_local.c: content handlers of our own */

typedef struct {
    ngx_http_handler_pt          handler;
    ngx_uint_t                   methods;      /* that it takes, 0: any */
} ngx_http_pgw_content_t;

extern ngx_http_pgw_content_t  ngx_http_pgw_local_health;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_ready;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_explain;

/* Refuses from a content handler; code NULL: that of the reason. */
ngx_int_t ngx_http_pgw_local_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *code, const char *detail,
    time_t retry_after);

/* Directives: set the content handler that cmd->post points to. */
char *ngx_http_pgw_local_content(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* A location that explains must say who may ask, and of which server. */
char *ngx_http_pgw_local_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_explain.c: what the gateway would do with a request */

typedef struct {
    ngx_http_core_srv_conf_t    *server;       /* that would be asked */
    ngx_str_t                    token;        /* data NULL: none */
    ngx_str_t                    method;
    ngx_str_t                    path;
    int64_t                      at;           /* seconds */
} ngx_http_pgw_question_t;

ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_http_pgw_question_t *question);


/* ngx_http_pgw_cors.c: OPTIONS, and the headers of all other responses */

ngx_int_t ngx_http_pgw_options_first_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_pgw_options_last_handler(ngx_http_request_t *r);

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

/* Whether a comma-separated list has the name. */
ngx_uint_t ngx_http_pgw_cors_list_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);


/* ngx_http_pgw_cors_conf.c: the cors_* directives */

/* Directive: ORIGIN ... | off; may be given several times. */
char *ngx_http_pgw_cors_origins(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
 * among them stands for cmd->post, what holds without the directive.
 */
char *ngx_http_pgw_cors_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

extern ngx_str_t  ngx_http_pgw_cors_methods;
extern ngx_str_t  ngx_http_pgw_cors_names;

void ngx_http_pgw_cors_merge(ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf);

/* Whether name has one byte or more, all letters, digits, '-' or '_'. */
ngx_uint_t ngx_http_pgw_cors_is_token(const ngx_str_t *name);


#endif /* _NGX_HTTP_PGW_LOCAL_H_INCLUDED_ */
