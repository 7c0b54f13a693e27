
/*
 * Text as the inside of a JSON string.
 */


#ifndef _NGX_HTTP_PGW_JSON_H_INCLUDED_
#define _NGX_HTTP_PGW_JSON_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Whether s is itself the inside of a JSON string: visible ASCII and spaces
   without quotes and backslashes. */
ngx_uint_t ngx_http_pgw_json_plain(const ngx_str_t *s);

/*
 * Writes src as the inside of a JSON string and returns how long that is; with
 * a NULL dst only measures.  What is no UTF-8 becomes U+FFFD.
 */
size_t ngx_http_pgw_json_escape(u_char *dst, const ngx_str_t *src);

/*
 * Bytes of the UTF-8 sequence at p; an ill-formed one (*valid is 0 then) ends
 * before the first byte that cannot continue it.
 */
size_t ngx_http_pgw_json_utf8(const u_char *p, const u_char *last,
    ngx_uint_t *valid);


#endif /* _NGX_HTTP_PGW_JSON_H_INCLUDED_ */
