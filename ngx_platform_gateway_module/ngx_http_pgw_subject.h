
/*
 * The variables that name the subject of a token, and what is kept from the
 * caches of other modules.
 */


#ifndef _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_
#define _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_guard.c */

/*
 * The token of r, before the guard is asked: NGX_AGAIN, its key is waited for;
 * NGX_DECLINED: what can be known is.  Nothing is decided.
 */
ngx_int_t ngx_http_pgw_guard_early(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);

/*
 * Whom the token of r names, where conf guards and it is good, else NULL.
 * Waits for nothing, and changes no more than the context.
 */
const ngx_http_pgw_subject_t *ngx_http_pgw_guard_subject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_subject.c */

ngx_int_t ngx_http_pgw_subject_add_variables(ngx_conf_t *cf);

/*
 * Keeps the caches of the location in cf from requests for which a variable
 * named nobody.
 */
char *ngx_http_pgw_subject_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes whether a variable is read, and refuses one that never could be. */
char *ngx_http_pgw_subject_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_SUBJECT_H_INCLUDED_ */
