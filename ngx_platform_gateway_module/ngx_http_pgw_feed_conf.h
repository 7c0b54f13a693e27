
#ifndef _NGX_HTTP_PGW_FEED_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_FEED_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Sets an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_revocations;

ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_stale;

/* Called when the names of the issuer are known: defaults, the zone, and the
   checks. */
char *ngx_http_pgw_feed_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer);


#endif /* _NGX_HTTP_PGW_FEED_CONF_H_INCLUDED_ */
