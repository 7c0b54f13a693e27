
/*
 * Which location serves a path.  nginx's own search can only be had with what
 * it answers on the way (redirects, 404 for internal locations, bodies that
 * are too large), so it is made again here: once, for whoever asks.
 */


#include "ngx_http_pgw_locate.h"


/* NGX_OK: an exact match; NGX_DONE: all but the final slash; NGX_AGAIN: the
   longest prefix; NGX_DECLINED: none of them. */

static ngx_int_t
ngx_http_pgw_locate_static(const ngx_str_t *uri,
    const ngx_http_location_tree_node_t *node, void ***loc_conf)
{
    size_t                     len, n;
    u_char                    *p;
    ngx_int_t                  rc, found;
    ngx_http_core_loc_conf_t  *clcf;

    p = uri->data;
    len = uri->len;
    found = NGX_DECLINED;

    while (node) {

        clcf = node->exact ? node->exact : node->inclusive;
        n = ngx_min(len, (size_t) node->len);
        rc = ngx_filename_cmp(p, (u_char *) node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;

        } else if (len > n && node->inclusive) {
            *loc_conf = node->inclusive->loc_conf;
            found = NGX_AGAIN;
            node = node->tree;
            p += n;
            len -= n;

        } else if (len > n) {
            node = node->right;

        } else if (len == (size_t) node->len) {
            *loc_conf = clcf->loc_conf;
            return node->exact ? NGX_OK : NGX_AGAIN;

        } else {
            if (len + 1 == (size_t) node->len && node->auto_redirect) {
                *loc_conf = clcf->loc_conf;
                found = NGX_DONE;
            }

            node = node->left;
        }
    }

    return found;
}


/* NGX_DECLINED: by a prefix or not at all, so that a regex may know better. */

static ngx_int_t
ngx_http_pgw_locate_in(ngx_http_request_t *r, ngx_str_t *uri,
    void ***loc_conf)
{
    ngx_int_t                   rc;
    ngx_http_core_loc_conf_t   *in, *prefix;
#if (NGX_PCRE)
    ngx_int_t                   n;
    ngx_http_core_loc_conf_t  **clcfp;
#endif

    in = (*loc_conf)[ngx_http_core_module.ctx_index];
    prefix = NULL;

    rc = ngx_http_pgw_locate_static(uri, in->static_locations, loc_conf);

    if (rc == NGX_AGAIN) {
        prefix = (*loc_conf)[ngx_http_core_module.ctx_index];

        /* nested locations may know more */

        rc = ngx_http_pgw_locate_in(r, uri, loc_conf);
    }

#if (NGX_PCRE)

    clcfp = (prefix && prefix->noregex) ? NULL : in->regex_locations;

    for ( /* void */ ; rc == NGX_DECLINED && clcfp && *clcfp; clcfp++) {

        if (r) {
            rc = ngx_http_regex_exec(r, (*clcfp)->regex, uri);

        } else {
            n = ngx_regex_exec((*clcfp)->regex->regex, uri, NULL, 0);
            rc = n >= 0 ? NGX_OK
                 : n == NGX_REGEX_NO_MATCHED ? NGX_DECLINED : NGX_ERROR;
        }

        if (rc == NGX_OK) {
            *loc_conf = (*clcfp)->loc_conf;
            rc = ngx_http_pgw_locate_in(r, uri, loc_conf);

            return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
        }
    }

#else
    (void) prefix;
#endif

    return rc;
}


ngx_int_t
ngx_http_pgw_locate(ngx_http_request_t *r, ngx_str_t *uri, void ***loc_conf)
{
    void       **in;
    ngx_int_t    rc;

    in = *loc_conf;
    rc = ngx_http_pgw_locate_in(r, uri, loc_conf);

    return (rc == NGX_DECLINED && *loc_conf != in) ? NGX_OK : rc;
}


ngx_int_t
ngx_http_pgw_locate_uri(const ngx_http_request_t *asks,
    const ngx_http_core_srv_conf_t *server, const ngx_str_t *path,
    ngx_str_t *uri)
{
    u_char              *p;
    ngx_http_request_t   r;

    p = ngx_pnalloc(asks->pool, 2 * path->len + 1);     /* as is, and decoded */
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* nginx's own functions read from a request and write into it */

    ngx_memzero(&r, sizeof(ngx_http_request_t));

    r.connection = asks->connection;
    r.uri_start = p;
    r.uri_end = ngx_cpymem(p, path->data, path->len);
    r.uri.data = r.uri_end + 1;

    *r.uri_end = ' ';        /* the parser looks one byte further */

    if (path->len == 0
        || ngx_http_parse_uri(&r) != NGX_OK
        || ngx_http_parse_complex_uri(&r, (ngx_uint_t) server->merge_slashes)
           != NGX_OK)
    {
        return NGX_DECLINED;
    }

    *uri = r.uri;

    return NGX_OK;
}
