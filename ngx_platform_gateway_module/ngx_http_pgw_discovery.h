
/*
 * OpenID Connect Discovery 1.0: where an issuer says that its keys are.
 */


#ifndef _NGX_HTTP_PGW_DISCOVERY_H_INCLUDED_
#define _NGX_HTTP_PGW_DISCOVERY_H_INCLUDED_


#include "ngx_http_pgw_keys.h"


/* Sets issuer->discovery, the address of its metadata (section 4 there), once
   its names are known: NGX_CONF_ERROR, or what is wrong with the first. */
char *ngx_http_pgw_discovery_init(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer);

/* Chooses from->url for a fetch: the metadata, until they have said where the
   keys are.  With the lease. */
void ngx_http_pgw_discovery_begin(ngx_http_pgw_issuer_t *issuer);

/*
 * The end of a fetch.  NGX_OK: it was of the metadata, and the keys are to be
 * fetched now.  NGX_DECLINED: it was of the keys, or *err says why it failed.
 */
ngx_int_t ngx_http_pgw_discovery_end(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, const char **err);

/* $platform_fetch_url: what a fetch of ours is to get; no other request has
   it. */
extern ngx_http_variable_t  ngx_http_pgw_discovery_variables[];


#endif /* _NGX_HTTP_PGW_DISCOVERY_H_INCLUDED_ */
