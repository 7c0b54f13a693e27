
#ifndef _NGX_HTTP_PGW_ACCESS_H_INCLUDED_
#define _NGX_HTTP_PGW_ACCESS_H_INCLUDED_


#include "ngx_http_pgw.h"


ngx_int_t ngx_http_pgw_access_init(ngx_conf_t *cf);
ngx_int_t ngx_http_pgw_access_init_module(ngx_cycle_t *cycle);


#endif /* _NGX_HTTP_PGW_ACCESS_H_INCLUDED_ */
