
/*
 * The cors_* directives.
 */


#ifndef _NGX_HTTP_PGW_CORS_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_CORS_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Directive: ORIGIN ... | off; may be given several times. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_conf_origins;

/*
 * Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
 * among them stands for cmd->post, what holds without the directive.
 */
ngx_http_pgw_set_t  ngx_http_pgw_cors_conf_list;


#endif /* _NGX_HTTP_PGW_CORS_CONF_H_INCLUDED_ */
