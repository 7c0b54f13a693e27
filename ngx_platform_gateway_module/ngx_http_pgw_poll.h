
#ifndef _NGX_HTTP_PGW_POLL_H_INCLUDED_
#define _NGX_HTTP_PGW_POLL_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Starts the worker's timer. */
void ngx_http_pgw_poll_init_process(ngx_http_pgw_revocations_t *rev);

/* The end of a fetch. */
void ngx_http_pgw_poll_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* So many more responses of this worker end with their revoked session. */
void ngx_http_pgw_poll_watch(ngx_http_pgw_revocations_t *rev, ngx_int_t n);

/* Ends this worker's part in it, and gives the lease back. */
void ngx_http_pgw_poll_abort(ngx_http_pgw_revocations_t *rev);


#endif /* _NGX_HTTP_PGW_POLL_H_INCLUDED_ */
