
#ifndef _NGX_HTTP_PGW_CHECK_H_INCLUDED_
#define _NGX_HTTP_PGW_CHECK_H_INCLUDED_


#include "ngx_http_pgw.h"


/* What a location, before it is merged, states of its own that keeps somebody
   out: a directive's name.  NULL if it states nothing, or switches the gateway
   on or off itself. */
const char *ngx_http_pgw_check_stated(const ngx_http_pgw_loc_conf_t *conf);

/* Checks a merged location where the gateway is off, of which check_stated()
   returned that. */
char *ngx_http_pgw_check_off(ngx_conf_t *cf, const char *stated);

/* Checks a merged location where the gateway is on; notes in the main conf that
   keys are needed, and sets conf->one_record. */
char *ngx_http_pgw_check_location(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


#endif /* _NGX_HTTP_PGW_CHECK_H_INCLUDED_ */
