
/*
 * Which location a path leads to, and whether it takes the method.
 */


#include "ngx_http_pgw_explain.h"


#define ngx_http_pgw_explain_is(e, name)                                      \
    ((e)->method.len == sizeof(name) - 1                                      \
     && ngx_strncmp((e)->method.data, name, sizeof(name) - 1) == 0)


static ngx_int_t ngx_http_pgw_explain_uri(ngx_http_pgw_explain_t *e);
static ngx_int_t ngx_http_pgw_explain_find(ngx_http_pgw_explain_t *e,
    ngx_http_core_loc_conf_t *in);
static ngx_int_t ngx_http_pgw_explain_static(ngx_http_pgw_explain_t *e,
    ngx_http_location_tree_node_t *node);
static void ngx_http_pgw_explain_location(ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_method(ngx_http_pgw_explain_t *e);


ngx_int_t
ngx_http_pgw_explain_route(ngx_http_pgw_explain_t *e)
{
    ngx_int_t             rc;
    ngx_http_conf_ctx_t  *ctx;

    rc = ngx_http_pgw_explain_uri(e);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_PATH,
                                  NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                  "nginx does not accept this path");
        return NGX_OK;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_PATH);

    /* what serves where nothing matches */

    ctx = e->server->ctx;
    e->clcf = ctx->loc_conf[ngx_http_core_module.ctx_index];

    rc = ngx_http_pgw_explain_find(e, e->clcf);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    e->redirect = (rc == NGX_DONE);
    e->conf = e->clcf->loc_conf[ngx_http_platform_gateway_module.ctx_index];

    ngx_http_pgw_explain_location(e);

    return NGX_OK;
}


/*
 * As nginx reads a request line, with its own functions; they write into a
 * copy of the request that asks.  NGX_DECLINED: it is not accepted.
 */

static ngx_int_t
ngx_http_pgw_explain_uri(ngx_http_pgw_explain_t *e)
{
    size_t               len;
    u_char              *p, *path;
    ngx_http_request_t  *r;

    r = ngx_palloc(e->request->pool, sizeof(ngx_http_request_t));
    p = ngx_pnalloc(e->request->pool, e->path.len + 1);

    if (r == NULL || p == NULL) {
        return NGX_ERROR;
    }

    path = p;
    p = ngx_cpymem(p, e->path.data, e->path.len);
    *p = ' ';       /* the parser looks one byte further */

    *r = *e->request;

    r->uri_start = path;
    r->uri_end = p;
    r->uri_ext = NULL;
    r->args_start = NULL;
    r->complex_uri = 0;
    r->quoted_uri = 0;
    r->plus_in_uri = 0;
    r->empty_path_in_uri = 0;

    if (path == p || ngx_http_parse_uri(r) != NGX_OK) {
        return NGX_DECLINED;
    }

    len = (size_t) ((r->args_start ? r->args_start - 1 : p) - path);

    e->uri.data = path;
    e->uri.len = len;

    if (!r->complex_uri && !r->quoted_uri) {
        return NGX_OK;
    }

    r->uri.data = ngx_pnalloc(e->request->pool, len);
    r->uri.len = len;

    if (r->uri.data == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_parse_complex_uri(r, (ngx_uint_t) e->server->merge_slashes)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    e->uri = r->uri;

    return NGX_OK;
}


/*
 * Sets e->clcf to the location inside of in that serves e->uri, with the
 * answers of nginx's own search: NGX_OK (for good), NGX_DONE (a redirect to
 * the path and "/"), NGX_AGAIN (by prefix), NGX_DECLINED (none).
 */

static ngx_int_t
ngx_http_pgw_explain_find(ngx_http_pgw_explain_t *e,
    ngx_http_core_loc_conf_t *in)
{
    ngx_int_t                   rc;
#if (NGX_PCRE)
    ngx_int_t                   n;
    ngx_uint_t                  regex;
    ngx_http_core_loc_conf_t  **clcfp;

    regex = 1;
#endif

    rc = ngx_http_pgw_explain_static(e, in->static_locations);

    if (rc == NGX_AGAIN) {
#if (NGX_PCRE)
        regex = !e->clcf->noregex;
#endif
        rc = ngx_http_pgw_explain_find(e, e->clcf);
    }

    if (rc == NGX_OK || rc == NGX_DONE || rc == NGX_ERROR) {
        return rc;
    }

#if (NGX_PCRE)

    if (!regex || in->regex_locations == NULL) {
        return rc;
    }

    for (clcfp = in->regex_locations; *clcfp; clcfp++) {

        n = ngx_regex_exec((*clcfp)->regex->regex, &e->uri, NULL, 0);

        if (n == NGX_REGEX_NO_MATCHED) {
            continue;
        }

        if (n < 0) {
            return NGX_ERROR;
        }

        e->clcf = *clcfp;

        rc = ngx_http_pgw_explain_find(e, e->clcf);

        return (rc == NGX_ERROR) ? rc : NGX_OK;
    }

#endif

    return rc;
}


static ngx_int_t
ngx_http_pgw_explain_static(ngx_http_pgw_explain_t *e,
    ngx_http_location_tree_node_t *node)
{
    size_t     len, n;
    u_char    *uri;
    ngx_int_t  rc, found;

    uri = e->uri.data;
    len = e->uri.len;
    found = NGX_DECLINED;

    while (node) {

        n = ngx_min(len, (size_t) node->len);
        rc = ngx_filename_cmp(uri, node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;

        } else if (len > (size_t) node->len && node->inclusive) {
            e->clcf = node->inclusive;
            found = NGX_AGAIN;
            node = node->tree;
            uri += n;
            len -= n;

        } else if (len > (size_t) node->len) {
            node = node->right;

        } else if (len == (size_t) node->len) {
            e->clcf = node->exact ? node->exact : node->inclusive;
            return node->exact ? NGX_OK : NGX_AGAIN;

        } else {
            if (len + 1 == (size_t) node->len && node->auto_redirect) {
                e->clcf = node->exact ? node->exact : node->inclusive;
                found = NGX_DONE;
            }

            node = node->left;
        }
    }

    return found;
}


static void
ngx_http_pgw_explain_location(ngx_http_pgw_explain_t *e)
{
    const char  *detail;

    if (e->clcf->internal) {
        detail = "the location is internal";

    } else if (e->conf->enable && e->conf->access == 0) {
        detail = "the location states no platform_gateway_access";

    } else if ((e->conf->access & NGX_HTTP_PGW_PUBLIC)
               && ngx_http_pgw_local_is_route_not_found(e->clcf))
    {
        detail = "no other location serves the path";

    } else {
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_LOCATION);

        if (e->conf->enable && !e->redirect) {
            ngx_http_pgw_explain_method(e);
        }

        return;
    }

    ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_LOCATION,
                              NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND, detail);
}


static void
ngx_http_pgw_explain_method(ngx_http_pgw_explain_t *e)
{
    ngx_uint_t           method;
    ngx_conf_bitmask_t  *m;

    if (ngx_http_pgw_explain_is(e, "OPTIONS")) {
        e->options = 1;
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_METHOD);
        return;
    }

    method = 0;

    for (m = ngx_http_pgw_methods; m->name.len; m++) {
        if (m->name.len == e->method.len
            && ngx_memcmp(m->name.data, e->method.data, e->method.len) == 0)
        {
            method = m->mask;
        }
    }

    if ((e->conf->methods && !(e->conf->methods & method))
        || ngx_http_pgw_explain_is(e, "TRACE")
        || ngx_http_pgw_explain_is(e, "CONNECT"))
    {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_METHOD,
                                  NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN,
                                  "the location does not take the method");
        return;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_METHOD);
}
