
#ifndef _NGX_HTTP_PGW_RESOURCE_H_INCLUDED_
#define _NGX_HTTP_PGW_RESOURCE_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Refuses what is no URL of a resource's metadata. */
char *ngx_http_pgw_resource_url(ngx_conf_t *cf, void *post, void *data);

/* platform_gateway_protected_resource URL [SCOPE ...]; its content handler. */
ngx_http_pgw_set_t  ngx_http_pgw_resource_directive;

/* Refuses a document that would name no issuer. */
char *ngx_http_pgw_resource_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

extern ngx_http_pgw_content_t  ngx_http_pgw_resource_content;


#endif /* _NGX_HTTP_PGW_RESOURCE_H_INCLUDED_ */
