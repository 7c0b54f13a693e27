
#ifndef _NGX_HTTP_PGW_NAMES_H_INCLUDED_
#define _NGX_HTTP_PGW_NAMES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Lower case for letters, digits as they are, '-' for any other byte. */

static ngx_inline u_char
ngx_http_pgw_names_fold(u_char c)
{
    c = ngx_tolower(c);

    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

/* Takes the next name off a list that commas separate, or whatever does; false
   at its end. */
#define ngx_http_pgw_names_next(rest, name)                                   \
    ngx_http_pgw_names_split(rest, ',', name)

ngx_uint_t ngx_http_pgw_names_split(ngx_str_t *rest, u_char separator,
    ngx_str_t *name);

/* Whether two names are the same but for their case. */
ngx_uint_t ngx_http_pgw_names_same(const ngx_str_t *a, const ngx_str_t *b);

/* Whether such a list has the name. */
ngx_uint_t ngx_http_pgw_names_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);

/* Whether name is not empty, and all letters, digits and these others. */
ngx_uint_t ngx_http_pgw_names_plain(const ngx_str_t *name, const char *others);


#endif /* _NGX_HTTP_PGW_NAMES_H_INCLUDED_ */
