
#ifndef _NGX_HTTP_PGW_GUARD_H_INCLUDED_
#define _NGX_HTTP_PGW_GUARD_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * NGX_OK: guarded and verified; NGX_DECLINED: nothing to say (public);
 * NGX_AGAIN: waits for keys, comes again; else the status of the refusal.
 */
ngx_int_t ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf);

/*
 * What the token of r is, as the guard finds it, in the context's err, reason
 * and grant; NULL: conf asks for none, or memory is short.  Decides nothing,
 * waits for nothing.
 */
ngx_http_pgw_ctx_t *ngx_http_pgw_guard_look(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes in gr that r goes on, and forgets a refusal of an earlier location. */
void ngx_http_pgw_guard_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);

/*
 * Adds the trusted headers of grant (NULL: none, r stays anonymous) and removes
 * Authorization where conf says so.  NGX_DECLINED: done, the phase goes on.
 */
ngx_int_t ngx_http_pgw_guard_inject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant);

/*
 * Refuses r as request_refuse() does, or notes in shadow mode that it would
 * have been: then NGX_DECLINED.
 */
ngx_int_t ngx_http_pgw_guard_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, const char *detail);


#endif /* _NGX_HTTP_PGW_GUARD_H_INCLUDED_ */
