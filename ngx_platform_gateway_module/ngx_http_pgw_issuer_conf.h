
#ifndef _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* One with nothing set; NULL: out of memory. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_conf_new(ngx_conf_t *cf);

ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_zone;

/* These set an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_file;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_location;

char *ngx_http_pgw_issuer_conf_cache_file(ngx_conf_t *cf, void *post,
    void *data);

/*
 * Called at postconfiguration, when every location is merged: defaults of what
 * is unset, zones, and the checks.
 */
char *ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_ */
