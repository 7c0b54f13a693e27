
#ifndef _NGX_HTTP_PGW_DISK_H_INCLUDED_
#define _NGX_HTTP_PGW_DISK_H_INCLUDED_


#include "ngx_http_pgw.h"


/* A zone that nobody uses yet gets the set that was kept, if there is one. */
void ngx_http_pgw_disk_load(ngx_http_pgw_issuer_t *issuer);

/* Keeps what the zone holds by now: it may be newer than what we fetched. */
void ngx_http_pgw_disk_write(ngx_http_pgw_issuer_t *issuer);


#endif /* _NGX_HTTP_PGW_DISK_H_INCLUDED_ */
