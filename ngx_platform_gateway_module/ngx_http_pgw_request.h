
/*
 * What is known of a request as a whole.
 */


#ifndef _NGX_HTTP_PGW_REQUEST_H_INCLUDED_
#define _NGX_HTTP_PGW_REQUEST_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * Makes the request-wide state of r's main request, unless it is there: strips
 * its headers, and chooses its ids.  NULL when memory is short.  Works at any
 * point in the life of r, a request line that did not parse included.
 */
ngx_http_pgw_request_t *ngx_http_pgw_request_begin(ngx_http_request_t *r);

/* That state, for whoever comes after POST_READ; NULL: it was not made. */
ngx_http_pgw_request_t *ngx_http_pgw_request_get(const ngx_http_request_t *r);

/*
 * Where r notes what it decides and answers: that state, or for a subrequest a
 * copy that is nobody else's.
 */
ngx_http_pgw_request_t *ngx_http_pgw_request_own(ngx_http_request_t *r);

/* The context of this pass of r, made at first use; NULL: no memory. */
ngx_http_pgw_ctx_t *ngx_http_pgw_request_ctx(ngx_http_request_t *r);

/* Finds $request_id, to set it, and puts in the filter of responses' ids. */
ngx_int_t ngx_http_pgw_request_init(ngx_conf_t *cf);


#endif /* _NGX_HTTP_PGW_REQUEST_H_INCLUDED_ */
