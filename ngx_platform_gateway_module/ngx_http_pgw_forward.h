
#ifndef _NGX_HTTP_PGW_FORWARD_H_INCLUDED_
#define _NGX_HTTP_PGW_FORWARD_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_pgw_content_t  ngx_http_pgw_forward_content;

/* Directive: forwarded|original [SERVER_NAME]; cmd->post is that content. */
ngx_http_pgw_set_t  ngx_http_pgw_forward_auth;


#endif /* _NGX_HTTP_PGW_FORWARD_H_INCLUDED_ */
