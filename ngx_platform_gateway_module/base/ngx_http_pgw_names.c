
/*
 * Names of headers and of methods, and lists of them.
 */


#include "base/base.h"


ngx_uint_t
ngx_http_pgw_names_split(ngx_str_t *rest, u_char separator, ngx_str_t *name)
{
    u_char  *p, *last;

    p = rest->data;
    last = p + rest->len;

    while (p < last && (*p == ' ' || *p == '\t' || *p == separator)) {
        p++;
    }

    name->data = p;

    while (p < last && *p != separator) {
        p++;
    }

    rest->data = p;
    rest->len = (size_t) (last - p);

    while (p > name->data && (p[-1] == ' ' || p[-1] == '\t')) {
        p--;
    }

    name->len = (size_t) (p - name->data);

    return name->len != 0;
}


ngx_uint_t
ngx_http_pgw_names_same(const ngx_str_t *a, const ngx_str_t *b)
{
    return a->len == b->len
           && ngx_strncasecmp(a->data, b->data, a->len) == 0;
}


ngx_uint_t
ngx_http_pgw_names_has(const ngx_str_t *list, const ngx_str_t *name,
    ngx_uint_t any_case)
{
    ngx_str_t  rest, elt;

    rest = *list;

    while (ngx_http_pgw_names_next(&rest, &elt)) {

        if (elt.len == name->len
            && (any_case ? ngx_strncasecmp(elt.data, name->data, elt.len)
                         : ngx_memcmp(elt.data, name->data, elt.len)) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_names_find(const ngx_list_part_t *list, const char *name,
    ngx_str_t *value)
{
    size_t                  len = ngx_strlen(name);
    ngx_uint_t              i, n = 0;
    const ngx_table_elt_t  *h;

    for ( /* void */ ; list; list = list->next) {
        for (h = list->elts, i = list->nelts; i; h++, i--) {

            if (h->key.len == len && ngx_memcmp(h->lowcase_key, name, len) == 0)
            {
                *value = h->value;
                n++;
            }
        }
    }

    return n;
}
