
/*
 * One header of a request or a response.  The only file that tests
 * nginx_version.
 */


#ifndef _NGX_HTTP_PGW_HEADER_H_INCLUDED_
#define _NGX_HTTP_PGW_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


#if (nginx_version < 1022000)
#error nginx 1.22 or newer is needed
#endif


/* Whether h, of a request or a response, has that name, a literal. */

#define ngx_http_pgw_header_is(h, literal)                                    \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_strncasecmp((h)->key.data, (u_char *) (literal),                  \
                        sizeof(literal) - 1) == 0)


/*
 * Walks a list of headers: start with *part = &list->part and *i = 0.  NULL at
 * the end, and at once for a list that was never set up (HTTP/0.9).
 */

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_next(const ngx_list_part_t **part, ngx_uint_t *i)
{
    while (*part && *i >= (*part)->nelts) {
        *part = (*part)->next;
        *i = 0;
    }

    return *part ? (ngx_table_elt_t *) (*part)->elts + (*i)++ : NULL;
}


/* Adds a response header; name is a literal.  NULL when memory is short. */

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_add(ngx_http_request_t *r, const char *name,
    const ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.len = ngx_strlen(name);
    h->key.data = (u_char *) name;
    h->value = *value;

    return h;
}


#endif /* _NGX_HTTP_PGW_HEADER_H_INCLUDED_ */
