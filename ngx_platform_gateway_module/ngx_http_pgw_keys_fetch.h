
#ifndef _NGX_HTTP_PGW_KEYS_FETCH_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_FETCH_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Sets issuer->discovery, the address of its metadata (OpenID Connect Discovery
   1.0, section 4), once its names are known: NGX_CONF_ERROR, or what is wrong
   with the first. */
char *ngx_http_pgw_keys_fetch_discovery(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer);

ngx_int_t ngx_http_pgw_keys_fetch_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/* Starts and ends a worker's part in it. */
void ngx_http_pgw_keys_fetch_init_process(ngx_http_pgw_issuer_t *issuer);
void ngx_http_pgw_keys_fetch_exit_process(ngx_http_pgw_issuer_t *issuer);

/* The end of a fetch of the key set (data). */
void ngx_http_pgw_keys_fetch_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);


#endif /* _NGX_HTTP_PGW_KEYS_FETCH_H_INCLUDED_ */
