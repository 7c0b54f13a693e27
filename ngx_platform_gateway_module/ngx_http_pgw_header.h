
/*
 * One header of a request or a response: walking a list of them, comparing
 * names, adding one.
 */


#ifndef _NGX_HTTP_PGW_HEADER_H_INCLUDED_
#define _NGX_HTTP_PGW_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


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


/*
 * Whether name, a header's in any case, is lower: small letters, digits and
 * '-', all of which have the bit that makes letters small.
 */

static ngx_inline ngx_uint_t
ngx_http_pgw_header_same(const u_char *name, const u_char *lower, size_t len)
{
    size_t    i;
    uint64_t  a, b;

    static const uint64_t  small = 0x2020202020202020ULL;

    if (len < sizeof(a)) {

        for (i = 0; i < len; i++) {
            if ((name[i] | 0x20) != lower[i]) {
                return 0;
            }
        }

        return 1;
    }

    for (i = 0; i + sizeof(a) < len; i += sizeof(a)) {

        ngx_memcpy(&a, name + i, sizeof(a));
        ngx_memcpy(&b, lower + i, sizeof(b));

        if ((a | small) != b) {
            return 0;
        }
    }

    ngx_memcpy(&a, name + len - sizeof(a), sizeof(a));
    ngx_memcpy(&b, lower + len - sizeof(b), sizeof(b));

    return (a | small) == b;
}


/* name is a literal in lower case; for request and response headers alike. */

#define ngx_http_pgw_header_is(h, name)                                       \
    ((h)->key.len == sizeof(name) - 1                                         \
     && ngx_http_pgw_header_same((h)->key.data,                               \
                                              (const u_char *) (name),        \
                                              sizeof(name) - 1))


/* Adds a response header; name is a literal.  NULL when memory is short. */

#define ngx_http_pgw_header_add(r, name, value)                               \
    ngx_http_pgw_header_push(r, name, sizeof(name) - 1, value)

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_push(ngx_http_request_t *r, const char *name, size_t len,
    const ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.len = len;
    h->key.data = (u_char *) name;
    h->value = *value;

    return h;
}


#endif /* _NGX_HTTP_PGW_HEADER_H_INCLUDED_ */
