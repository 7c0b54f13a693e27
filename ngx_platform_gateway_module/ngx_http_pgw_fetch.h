
#ifndef _NGX_HTTP_PGW_FETCH_H_INCLUDED_
#define _NGX_HTTP_PGW_FETCH_H_INCLUDED_


#include "ngx_http_pgw_lease.h"


/* Whether r is a fetch's own request, in the fetch's own location: then no
   guard may refuse it. */
ngx_uint_t ngx_http_pgw_fetch_strayed(ngx_http_request_t *r);
ngx_uint_t ngx_http_pgw_fetch_owns(ngx_http_request_t *r);

/*
 * GETs from->location in its server, and calls the handler once with the
 * result; an answer of any other location does not count.  args NULL: none.
 * NGX_ERROR: out of memory, or this worker fetches that already: no call.
 */
ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from,
    ngx_str_t *args);

/* $platform_fetch_url: from->url, for a request of that fetch alone. */
extern ngx_http_variable_t  ngx_http_pgw_fetch_variables[];

/* Ends the worker's fetch of it, if there is one. */
void ngx_http_pgw_fetch_abort(const ngx_http_pgw_source_t *from);

/* Reserves a connection for the next fetch of it, unless one is reserved. */
void ngx_http_pgw_fetch_reserve(ngx_http_pgw_source_t *from);


#endif /* _NGX_HTTP_PGW_FETCH_H_INCLUDED_ */
