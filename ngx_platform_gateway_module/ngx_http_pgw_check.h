
#ifndef _NGX_HTTP_PGW_CHECK_H_INCLUDED_
#define _NGX_HTTP_PGW_CHECK_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Checks a merged location where the gateway is on; notes in the main conf that
   keys are needed, and sets conf->one_record. */
char *ngx_http_pgw_check_location(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


#endif /* _NGX_HTTP_PGW_CHECK_H_INCLUDED_ */
