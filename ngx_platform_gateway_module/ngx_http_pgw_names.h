
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

/* Whether h has that name, a literal. */

#define ngx_http_pgw_header_is(h, literal)                                    \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_strncasecmp((h)->key.data, (u_char *) (literal),                  \
                        sizeof(literal) - 1) == 0)

/* The same of a request's h, with a lower-case literal: cheaper. */

#define ngx_http_pgw_header_in_is(h, literal)                                 \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_memcmp((h)->lowcase_key, literal, sizeof(literal) - 1) == 0)

/* How many of a request's headers have that name, in lower case; *value is the
   last one's. */
ngx_uint_t ngx_http_pgw_names_find(const ngx_list_part_t *list,
    const char *name, ngx_str_t *value);

/* Walks a list of headers from { &list->part, 0 } on.  NULL at the end, and at
   once for a list that was never set up (HTTP/0.9). */

typedef struct {
    const ngx_list_part_t       *part;
    ngx_uint_t                   i;
} ngx_http_pgw_walk_t;

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_next(ngx_http_pgw_walk_t *walk)
{
    while (walk->part && walk->i >= walk->part->nelts) {
        walk->part = walk->part->next;
        walk->i = 0;
    }

    return walk->part ? (ngx_table_elt_t *) walk->part->elts + walk->i++ : NULL;
}


#endif /* _NGX_HTTP_PGW_NAMES_H_INCLUDED_ */
