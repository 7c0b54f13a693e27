
#ifndef _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* mcf->limits unset, and the issuer without a block. */
char *ngx_http_pgw_issuer_conf_create(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);

ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_zone;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_source;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_revocations;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_stale;

char *ngx_http_pgw_issuer_conf_cache_file(ngx_conf_t *cf, void *post,
    void *data);
char *ngx_http_pgw_issuer_conf_age(ngx_conf_t *cf, void *post, void *data);

/*
 * Called at postconfiguration, when every location is merged: defaults of what
 * is unset, zones, and the checks.
 */
char *ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_ISSUER_CONF_H_INCLUDED_ */
