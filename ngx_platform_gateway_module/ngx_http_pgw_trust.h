
/*
 * platform_gateway_trust NAME { ... }: an issuer of its own.
 */


#ifndef _NGX_HTTP_PGW_TRUST_H_INCLUDED_
#define _NGX_HTTP_PGW_TRUST_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Reads a block, and adds its issuer to the end of mcf->issuers. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_block;

/* A line of it, "platform_gateway_" before its name: of the issuer without a
   block. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_own;

/* platform_gateway_trusted NAME ...; */
ngx_http_pgw_set_t  ngx_http_pgw_trust_names;

/*
 * Completes conf->trusted, the names that platform_gateway_trusted lists, by
 * their issuers; called when the location is merged, which is after all blocks.
 */
char *ngx_http_pgw_trust_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);


#endif /* _NGX_HTTP_PGW_TRUST_H_INCLUDED_ */
