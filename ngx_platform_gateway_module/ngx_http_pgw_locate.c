
/*
 * Which location serves a path.  nginx's own search can only be had with what
 * it answers on the way (redirects, 404 for internal locations, bodies that
 * are too large), so it is made again here: once, for whoever asks.
 */


#include "ngx_http_pgw.h"


static ngx_int_t ngx_http_pgw_locate_in(ngx_http_request_t *r, ngx_str_t *uri,
    void ***loc_conf);
static ngx_int_t ngx_http_pgw_locate_static(const ngx_str_t *uri,
    const ngx_http_location_tree_node_t *node, void ***loc_conf);
#if (NGX_PCRE)
static ngx_int_t ngx_http_pgw_locate_regex(ngx_http_request_t *r,
    ngx_str_t *uri, ngx_http_core_loc_conf_t **clcf, void ***loc_conf);
#endif


ngx_int_t
ngx_http_pgw_locate(ngx_http_request_t *r, ngx_str_t *uri, void ***loc_conf)
{
    void       **in;
    ngx_int_t    rc;

    in = *loc_conf;
    rc = ngx_http_pgw_locate_in(r, uri, loc_conf);

    return (rc == NGX_DECLINED && *loc_conf != in) ? NGX_OK : rc;
}


/* NGX_DECLINED: by a prefix or not at all, so that a regex may know better. */

static ngx_int_t
ngx_http_pgw_locate_in(ngx_http_request_t *r, ngx_str_t *uri,
    void ***loc_conf)
{
    ngx_int_t                  rc;
    ngx_uint_t                 noregex;
    ngx_http_core_loc_conf_t  *in, *clcf;

    in = (*loc_conf)[ngx_http_core_module.ctx_index];
    noregex = 0;

    rc = ngx_http_pgw_locate_static(uri, in->static_locations, loc_conf);

    if (rc == NGX_AGAIN) {
        clcf = (*loc_conf)[ngx_http_core_module.ctx_index];
        noregex = clcf->noregex;

        /* a prefix: nested locations may know more */

        rc = ngx_http_pgw_locate_in(r, uri, loc_conf);
    }

#if (NGX_PCRE)
    if (rc == NGX_DECLINED && !noregex && in->regex_locations) {
        rc = ngx_http_pgw_locate_regex(r, uri, in->regex_locations, loc_conf);
    }
#else
    (void) noregex;
#endif

    return rc;
}


/*
 * NGX_OK: an exact match; NGX_DONE: all but the final slash; NGX_AGAIN: the
 * longest prefix; NGX_DECLINED: none of them.
 */

static ngx_int_t
ngx_http_pgw_locate_static(const ngx_str_t *uri,
    const ngx_http_location_tree_node_t *node, void ***loc_conf)
{
    size_t     len, n;
    u_char    *p;
    ngx_int_t  rc, found;

    p = uri->data;
    len = uri->len;
    found = NGX_DECLINED;

    while (node) {

        n = ngx_min(len, (size_t) node->len);
        rc = ngx_filename_cmp(p, (u_char *) node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;

        } else if (len > (size_t) node->len && node->inclusive) {
            *loc_conf = node->inclusive->loc_conf;
            found = NGX_AGAIN;
            node = node->tree;
            p += n;
            len -= n;

        } else if (len > (size_t) node->len) {
            node = node->right;

        } else if (len == (size_t) node->len) {
            *loc_conf = node->exact ? node->exact->loc_conf
                                    : node->inclusive->loc_conf;
            return node->exact ? NGX_OK : NGX_AGAIN;

        } else {
            if (len + 1 == (size_t) node->len && node->auto_redirect) {
                *loc_conf = node->exact ? node->exact->loc_conf
                                        : node->inclusive->loc_conf;
                found = NGX_DONE;
            }

            node = node->left;
        }
    }

    return found;
}


#if (NGX_PCRE)

static ngx_int_t
ngx_http_pgw_locate_regex(ngx_http_request_t *r, ngx_str_t *uri,
    ngx_http_core_loc_conf_t **clcf, void ***loc_conf)
{
    ngx_int_t  rc;

    for ( /* void */ ; *clcf; clcf++) {

        if (r) {
            rc = ngx_http_regex_exec(r, (*clcf)->regex, uri);

        } else {
            rc = ngx_regex_exec((*clcf)->regex->regex, uri, NULL, 0);
            rc = (rc == NGX_REGEX_NO_MATCHED) ? NGX_DECLINED
                                              : ngx_min(rc, NGX_OK);
        }

        if (rc == NGX_OK) {
            *loc_conf = (*clcf)->loc_conf;
            rc = ngx_http_pgw_locate_in(r, uri, loc_conf);

            return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
        }

        if (rc != NGX_DECLINED) {
            return NGX_ERROR;
        }
    }

    return NGX_DECLINED;
}

#endif


ngx_int_t
ngx_http_pgw_locate_uri(const ngx_http_request_t *asks,
    const ngx_http_core_srv_conf_t *server, const ngx_str_t *path,
    ngx_str_t *uri)
{
    size_t               len;
    u_char              *p, *start;
    ngx_http_request_t  *r;

    /* nginx's own functions write into a copy of the request */

    r = ngx_palloc(asks->pool, sizeof(ngx_http_request_t));
    p = ngx_pnalloc(asks->pool, path->len + 1);

    if (r == NULL || p == NULL) {
        return NGX_ERROR;
    }

    start = p;
    p = ngx_cpymem(p, path->data, path->len);
    *p = ' ';       /* the parser looks one byte further */

    *r = *asks;

    r->uri_start = start;
    r->uri_end = p;
    r->uri_ext = NULL;
    r->args_start = NULL;
    r->complex_uri = 0;
    r->quoted_uri = 0;
    r->plus_in_uri = 0;
    r->empty_path_in_uri = 0;

    if (start == p || ngx_http_parse_uri(r) != NGX_OK) {
        return NGX_DECLINED;
    }

    len = (size_t) ((r->args_start ? r->args_start - 1 : p) - start);

    uri->data = start;
    uri->len = len;

    if (!r->complex_uri && !r->quoted_uri) {
        return NGX_OK;
    }

    r->uri.data = ngx_pnalloc(r->pool, len);
    r->uri.len = len;

    if (r->uri.data == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_parse_complex_uri(r, (ngx_uint_t) server->merge_slashes)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    *uri = r->uri;

    return NGX_OK;
}
