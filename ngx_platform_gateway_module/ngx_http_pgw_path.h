
#ifndef _NGX_HTTP_PGW_PATH_H_INCLUDED_
#define _NGX_HTTP_PGW_PATH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns 0 if servers may read this path, as the client sent it, in different
 * ways: it has ";", "\", "#", an empty segment, "." or "..", or an escape of
 * one of these, of "/", of a control character or of another escape.  A query
 * after the path is not read.
 */
ngx_uint_t ngx_http_pgw_path_plain(const ngx_str_t *path);


#endif /* _NGX_HTTP_PGW_PATH_H_INCLUDED_ */
