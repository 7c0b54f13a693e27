
#ifndef _NGX_HTTP_PGW_REQUEST_H_INCLUDED_
#define _NGX_HTTP_PGW_REQUEST_H_INCLUDED_


#include "ngx_http_pgw.h"


typedef enum {
    NGX_HTTP_PGW_DECISION_NONE = 0,
    NGX_HTTP_PGW_DECISION_ALLOW,
    NGX_HTTP_PGW_DECISION_DENY,
    NGX_HTTP_PGW_DECISION_SHADOW,
    NGX_HTTP_PGW_DECISIONS
} ngx_http_pgw_decision_e;

extern const ngx_str_t  ngx_http_pgw_request_decisions[NGX_HTTP_PGW_DECISIONS];

/* $platform_client_network */
extern ngx_http_variable_t  ngx_http_pgw_request_variables[];

/* Makes the request-wide state of r's main request, unless it is there: strips
   its headers, and chooses its ids.  NULL when memory is short.  Works at any
   point in the life of r, a request line that did not parse included. */
ngx_http_pgw_request_t *ngx_http_pgw_request_begin(ngx_http_request_t *r);

/* That state, for whoever comes after POST_READ; NULL: it was not made. */
ngx_http_pgw_request_t *ngx_http_pgw_request_get(const ngx_http_request_t *r);

/* Where r notes what it decides and answers: that state, or for a subrequest a
   copy that is nobody else's. */
ngx_http_pgw_request_t *ngx_http_pgw_request_own(ngx_http_request_t *r);

/* The context of this pass of r, made at first use; NULL: no memory. */
ngx_http_pgw_ctx_t *ngx_http_pgw_request_ctx(ngx_http_request_t *r);

/* How and why r, the state of which is gr, was decided; 0: it was not. */
ngx_uint_t ngx_http_pgw_request_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);
ngx_http_pgw_decision_e ngx_http_pgw_request_decision(
    const ngx_http_request_t *r, const ngx_http_pgw_request_t *gr);

/* Our refusal that is being answered, or NULL.  It holds for a response of its
   status alone, since a later location may answer with another. */
const ngx_http_pgw_reason_t *ngx_http_pgw_request_refusal(
    const ngx_http_pgw_request_t *gr);

/*
 * Marks r as refused by us for that reason.  detail lives as long as r and
 * needs no escaping in JSON; NULL: the reason's own.  WWW-Authenticate follows
 * from the reason, Allow from the location, Retry-After from gr->retry_after.
 * gr->required must be set before a 403.  Returns the status, for the phase
 * handler to return in turn; NGX_ERROR when memory is short.  gr is
 * request_own(r).
 */
ngx_int_t ngx_http_pgw_request_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason,
    const char *detail);

/* Finds $request_id, to set it, and puts in the filter of responses' ids. */
ngx_int_t ngx_http_pgw_request_init(ngx_conf_t *cf);


#endif /* _NGX_HTTP_PGW_REQUEST_H_INCLUDED_ */
