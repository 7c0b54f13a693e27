
#ifndef _NGX_HTTP_PGW_CONTENT_H_INCLUDED_
#define _NGX_HTTP_PGW_CONTENT_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Directives: set the content handler that cmd->post points to. */
ngx_http_pgw_set_t  ngx_http_pgw_content_directive;

/* Completes conf.  Refuses a location that explains unless it is closed to
   clients, and its server is exactly one. */
char *ngx_http_pgw_content_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


#endif /* _NGX_HTTP_PGW_CONTENT_H_INCLUDED_ */
