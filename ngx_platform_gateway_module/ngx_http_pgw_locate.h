
#ifndef _NGX_HTTP_PGW_LOCATE_H_INCLUDED_
#define _NGX_HTTP_PGW_LOCATE_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * Sets *loc_conf, where the search begins (that of a server), to what serves
 * uri, as nginx finds it.  NGX_OK; NGX_DONE: nginx redirects to the path and
 * "/", which *loc_conf serves; NGX_DECLINED: no location matches, *loc_conf is
 * what it was; NGX_ERROR.  Captures go to r, NULL: nowhere.
 */
ngx_int_t ngx_http_pgw_locate(ngx_http_request_t *r, ngx_str_t *uri,
    void ***loc_conf);

/* Reads a path as nginx reads that of a request line to server, into memory of
   r: decoded, without arguments.  NGX_DECLINED: it is not accepted. */
ngx_int_t ngx_http_pgw_locate_uri(const ngx_http_request_t *r,
    const ngx_http_core_srv_conf_t *server, const ngx_str_t *path,
    ngx_str_t *uri);


#endif /* _NGX_HTTP_PGW_LOCATE_H_INCLUDED_ */
