
/*
 * OPTIONS before the location is chosen.  nginx refuses a body that is too
 * large, redirects to the path with a slash and hides internal locations as
 * soon as it has found a location, and no handler runs before that but those
 * of the SERVER_REWRITE phase.  So a preflight is answered there, as the
 * location says that would have served it.
 */


#include "ngx_http_pgw_cors.h"
#include "ngx_http_pgw_compat.h"


static ngx_int_t ngx_http_pgw_options_answer(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_options_locate(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_options_locate_static(ngx_http_request_t *r,
    const ngx_http_location_tree_node_t *node);
static ngx_int_t ngx_http_pgw_options_locate_regex(ngx_http_request_t *r,
    const ngx_http_core_loc_conf_t *parent);


void
ngx_http_pgw_options_merge(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (cscf->ctx->loc_conf[ngx_http_core_module.ctx_index] == clcf) {
        conf->answers = ngx_http_pgw_rewrite_answers(cf);
    }
}


/*
 * Runs before the directives of server{} where one of those may answer by
 * itself: with "return" in a server the path is taken as the client sent it.
 */

ngx_int_t
ngx_http_pgw_options_first_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_srv_conf_t  *sscf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    return sscf->answers ? ngx_http_pgw_options_answer(r) : NGX_DECLINED;
}


/* Runs after them elsewhere, for the path that they may have rewritten. */

ngx_int_t
ngx_http_pgw_options_last_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_srv_conf_t  *sscf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    return sscf->answers ? NGX_DECLINED : ngx_http_pgw_options_answer(r);
}


static ngx_int_t
ngx_http_pgw_options_answer(ngx_http_request_t *r)
{
    void                     **server;
    ngx_int_t                  rc;
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_srv_conf_t   *sscf;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_core_loc_conf_t  *clcf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (r->method != NGX_HTTP_OPTIONS || r != r->main || !sscf->any_enabled) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    server = r->loc_conf;

    if (ngx_http_pgw_options_locate(r) == NGX_ERROR) {
        r->loc_conf = server;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->internal && !r->internal) {

        /* to a client it is a path that does not exist */

        r->loc_conf = server;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (conf->enable) {
        gr->required = conf->access;
        rc = ngx_http_pgw_cors_options(r, gr, conf);

    } else {
        rc = NGX_DECLINED;
    }

    if (rc == NGX_DECLINED) {

        /* nginx looks for the location itself, and begins at the server */

        r->loc_conf = server;
        return NGX_DECLINED;
    }

    ngx_http_update_location_config(r);

    return rc;
}


/*
 * Sets r->loc_conf to the location that serves r->uri: what nginx does in the
 * phase that follows, but for the answers that it gives there itself.
 */

static ngx_int_t
ngx_http_pgw_options_locate(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_uint_t                       regex;
    const ngx_http_core_loc_conf_t  *parent, *clcf;

    parent = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    regex = 1;

    rc = ngx_http_pgw_options_locate_static(r, parent->static_locations);
    if (rc == NGX_AGAIN) {

        /* a prefix: nested locations may know more */

        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        regex = !clcf->noregex;

        rc = ngx_http_pgw_options_locate(r);
    }

    if (rc != NGX_DECLINED || !regex) {
        return rc;
    }

    return ngx_http_pgw_options_locate_regex(r, parent);
}


/*
 * NGX_OK: an exact match, or all but the final slash; NGX_AGAIN: the longest
 * prefix; NGX_DECLINED: neither.
 */

static ngx_int_t
ngx_http_pgw_options_locate_static(ngx_http_request_t *r,
    const ngx_http_location_tree_node_t *node)
{
    size_t     n, len;
    u_char    *p;
    ngx_int_t  rc, found;

    p = r->uri.data;
    len = r->uri.len;
    found = NGX_DECLINED;

    while (node) {

        n = ngx_min(len, (size_t) node->len);
        rc = ngx_filename_cmp(p, (u_char *) node->name, n);

        if (rc != 0) {
            node = (rc < 0) ? node->left : node->right;

        } else if (len < (size_t) node->len) {

            if (len + 1 == (size_t) node->len && node->auto_redirect) {
                r->loc_conf = node->exact ? node->exact->loc_conf
                                          : node->inclusive->loc_conf;
                found = NGX_OK;
            }

            node = node->left;

        } else if (len == (size_t) node->len && node->exact) {
            r->loc_conf = node->exact->loc_conf;
            return NGX_OK;

        } else if (node->inclusive == NULL) {
            node = node->right;

        } else {
            r->loc_conf = node->inclusive->loc_conf;
            found = NGX_AGAIN;

            if (len == (size_t) node->len) {
                break;
            }

            p += n;
            len -= n;
            node = node->tree;
        }
    }

    return found;
}


static ngx_int_t
ngx_http_pgw_options_locate_regex(ngx_http_request_t *r,
    const ngx_http_core_loc_conf_t *parent)
{
#if (NGX_PCRE)
    ngx_int_t                   rc;
    ngx_http_core_loc_conf_t  **clcf;

    if (parent->regex_locations == NULL) {
        return NGX_DECLINED;
    }

    for (clcf = parent->regex_locations; *clcf; clcf++) {

        rc = ngx_http_regex_exec(r, (*clcf)->regex, &r->uri);

        if (rc == NGX_OK) {
            r->loc_conf = (*clcf)->loc_conf;

            rc = ngx_http_pgw_options_locate(r);

            return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
        }

        if (rc != NGX_DECLINED) {
            return NGX_ERROR;
        }
    }
#else
    (void) r;
    (void) parent;
#endif

    return NGX_DECLINED;
}
