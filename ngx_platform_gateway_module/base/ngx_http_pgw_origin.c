
/*
 * The origin of the page that has sent a request (RFC 6454).
 */


#include "base/base.h"


ngx_uint_t
ngx_http_pgw_origin_is_labels(const u_char *p, const u_char *last)
{
    u_char  prev;

    for (prev = '.'; p < last; prev = *p++) {

        if ((*p < 'a' || *p > 'z') && (*p < '0' || *p > '9')
            && *p != '-' && *p != '_' && (*p != '.' || prev == '.'))
        {
            return 0;
        }
    }

    return prev != '.';
}


ngx_uint_t
ngx_http_pgw_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_str_t *origin)
{
    u_char                       *first, *last;
    ngx_uint_t                    i;
    const ngx_http_pgw_origin_t  *pattern;

    if (conf->cors_origins == NULL) {
        return 0;
    }

    pattern = conf->cors_origins->elts;

    for (i = 0; i < conf->cors_origins->nelts; i++, pattern++) {

        if (origin->len < pattern->prefix + pattern->suffix.len) {
            continue;
        }

        /* the part between prefix and suffix */

        first = origin->data + pattern->prefix;
        last = origin->data + origin->len - pattern->suffix.len;

        if (ngx_memcmp(origin->data, pattern->text.data, pattern->prefix)
            == 0
            && ngx_memcmp(last, pattern->suffix.data, pattern->suffix.len) == 0
            && (pattern->suffix.len
                ? ngx_http_pgw_origin_is_labels(first, last) : first == last))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_origin_same(const ngx_http_request_t *r,
    const ngx_str_t *origin)
{
    size_t     scheme;
    ngx_str_t  host = *origin;

    if (r->headers_in.host == NULL) {
        return 0;
    }

    scheme = ngx_strncmp(host.data, "https://", sizeof("https://") - 1) == 0
             ? sizeof("https://") - 1
             :
#if (NGX_HTTP_SSL)
               r->connection->ssl == NULL &&
#endif
               ngx_strncmp(host.data, "http://", sizeof("http://") - 1) == 0
             ? sizeof("http://") - 1 : host.len;

    host.data += scheme;
    host.len -= scheme;

    return host.len
           && ngx_http_pgw_names_same(&host, &r->headers_in.host->value);
}
