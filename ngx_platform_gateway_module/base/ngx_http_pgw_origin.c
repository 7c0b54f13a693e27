
/*
 * Origins (RFC 6454) of the configuration, and of the page that has sent a
 * request.
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



const char *
ngx_http_pgw_origin_fault(const char *origin)
{
    ngx_int_t    port;
    ngx_uint_t   wildcard, good;
    const char  *host, *end;

    host = strstr(origin, "://");

    if (strcmp(origin, "*") == 0) {
        return "answers carry credentials, so each origin must be named";
    }

    if (host == NULL || *origin < 'a' || *origin > 'z'
        || origin + strspn(origin, "abcdefghijklmnopqrstuvwxyz0123456789+-.")
           != host)
    {
        return "it must be scheme://host or scheme://host:port";
    }

    /* with a wildcard, the host begins at the dot after it */

    host += sizeof("://") - 1;
    wildcard = (host[0] == '*' && host[1] == '.');
    host += wildcard;

    if (*host == '[') {
        end = host + 1 + strspn(host + 1, "0123456789abcdef:.");
        good = (*end++ == ']' && end - host > 3 && strchr(":", *end));

    } else {
        end = host + strcspn(host, ":");
        good = web_labels((pj_str_t) { (u_char *) host + wildcard,
                                       (size_t) (end - host) - wildcard });
    }

    if (strchr(host, '*')
        || (wildcard && ngx_strlchr((u_char *) host + 1, (u_char *) end, '.')
                        == NULL))
    {
        return "\"*\" can only stand for the leftmost labels, and not right "
               "below a top-level domain, as in https://*.example.com";
    }

    if (!good) {
        return "the host is malformed, or a path follows it, if only a slash";
    }

    port = *end ? ngx_atoi((u_char *) end + 1, strlen(end + 1)) : 1;

    return port < 1 || port > 65535 || (*end && end[1] == '0')
           ? "the port must be 1 to 65535" : NULL;
}
