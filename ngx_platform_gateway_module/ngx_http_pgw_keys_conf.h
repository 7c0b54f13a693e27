
/*
 * Directives of the key set.
 */


#ifndef _NGX_HTTP_PGW_KEYS_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_KEYS_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


ngx_http_pgw_set_t  ngx_http_pgw_keys_conf_zone;
ngx_http_pgw_set_t  ngx_http_pgw_keys_conf_source;

char *ngx_http_pgw_keys_conf_cache_file(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_pgw_keys_conf_age(ngx_conf_t *cf, void *post, void *data);

/*
 * Called at postconfiguration, when every location is merged: defaults of the
 * mcf->key_* that are unset, and the checks.
 */
char *ngx_http_pgw_keys_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_KEYS_CONF_H_INCLUDED_ */
