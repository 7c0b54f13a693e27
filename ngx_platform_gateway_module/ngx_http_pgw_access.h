
#ifndef _NGX_HTTP_PGW_ACCESS_H_INCLUDED_
#define _NGX_HTTP_PGW_ACCESS_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Answers OPTIONS, and refuses a method that the location does not take; 0 is
   one that none does.  NGX_DECLINED: r goes on. */
ngx_int_t ngx_http_pgw_access_method(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

ngx_int_t ngx_http_pgw_access_init(ngx_conf_t *cf);
ngx_int_t ngx_http_pgw_access_init_module(ngx_cycle_t *cycle);


#endif /* _NGX_HTTP_PGW_ACCESS_H_INCLUDED_ */
