
#ifndef _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_
#define _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_variable_t  ngx_http_pgw_subject_variables[];

/*
 * Keeps requests for which a variable named nobody off the caches of the
 * location in cf, and refuses a configuration that would use an empty one.
 */
char *ngx_http_pgw_subject_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes whether any of these variables is read. */
void ngx_http_pgw_subject_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_ */
