
#ifndef _NGX_HTTP_PGW_HEADERS_H_INCLUDED_
#define _NGX_HTTP_PGW_HEADERS_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "ngx_http_pgw_names.h"


/*
 * Gives r the headers that are right for a location, in one pass: drops every
 * context header and each alias of one, sets the ids, and adds those of grant
 * (NULL: none); takes out Authorization where conf says so (NULL: puts it
 * back), and for good what the location of r takes a token from elsewhere.
 * With a new gr, of a main request, it does not look at the location: it
 * chooses the ids (the client's where they are well formed and sent once, else
 * new ones) and notes gr->sent.  Does no more where the gateway is off in the
 * whole server.
 *
 * Neither elements nor list parts that another request may share are written
 * to.
 */
ngx_int_t ngx_http_pgw_headers_make(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant);

/* Adds a response header; name is a literal.  NULL when memory is short. */
#define ngx_http_pgw_header_add(r, name, value)                               \
    ngx_http_pgw_headers_push(r, name, sizeof(name) - 1, value)

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_headers_push(ngx_http_request_t *r, const char *name, size_t len,
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

/* A literal as such a value, within an expression. */
#define ngx_http_pgw_header_text(literal)                                     \
    (&(const ngx_str_t) ngx_string(literal))

/* The value of a variable; len 0: it is not found. */
ngx_int_t ngx_http_pgw_headers_value(ngx_http_variable_value_t *v, u_char *data,
    size_t len);

/* Takes names off a comma-separated list, up to one that server strips; false
   at its end.  An id is not stripped: it is checked and may be replaced. */
ngx_uint_t ngx_http_pgw_headers_stripped(
    const ngx_http_core_srv_conf_t *server, ngx_str_t *list, ngx_str_t *name);


#endif /* _NGX_HTTP_PGW_HEADERS_H_INCLUDED_ */
