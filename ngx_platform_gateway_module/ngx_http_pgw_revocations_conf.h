
/*
 * The directives of revocations, and their zone.
 */


#ifndef _NGX_HTTP_PGW_REVOCATIONS_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_REVOCATIONS_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


ngx_http_pgw_set_t  ngx_http_pgw_revocations_conf_directive;
ngx_http_pgw_set_t  ngx_http_pgw_revocations_conf_stale;

/* Called at postconfiguration. */
char *ngx_http_pgw_revocations_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_REVOCATIONS_CONF_H_INCLUDED_ */
