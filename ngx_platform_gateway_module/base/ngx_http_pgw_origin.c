
/*
 * The origin of the page that has sent a request (RFC 6454).
 */


#include "base/base.h"


ngx_uint_t
ngx_http_pgw_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_str_t *origin)
{
    ngx_uint_t           i;
    const web_origin_t  *allowed;

    if (conf->cors_origins == NULL) {
        return 0;
    }

    allowed = conf->cors_origins->elts;

    for (i = 0; i < conf->cors_origins->nelts; i++) {
        if (web_origin_match(&allowed[i], ngx_http_pgw_span(origin))) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_origin_foreign(const ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_str_t   origin;
    ngx_uint_t  n;

    n = ngx_http_pgw_names_find(&r->headers_in.headers.part, "origin",
                                &origin);

    return n > 1 || (n == 1 && !ngx_http_pgw_origin_allowed(conf, &origin));
}


ngx_uint_t
ngx_http_pgw_origin_same(const ngx_http_request_t *r,
    const ngx_str_t *origin)
{
    ngx_uint_t  tls = 0;

#if (NGX_HTTP_SSL)
    tls = (r->connection->ssl != NULL);
#endif

    return r->headers_in.host
           && web_origin_own(ngx_http_pgw_span(origin),
                             ngx_http_pgw_span(&r->headers_in.host->value),
                             tls);
}
