
/*
 * OPTIONS before the location is chosen.  nginx refuses a body that is too
 * large, redirects to the path with a slash and hides internal locations as
 * soon as it has found a location, and no handler runs before that but those
 * of the SERVER_REWRITE phase.  So a preflight is answered there, as the
 * location says that would have served it.
 */


#include "ngx_http_pgw_cors.h"


static ngx_int_t ngx_http_pgw_options_answer(ngx_http_request_t *r);


void
ngx_http_pgw_options_merge(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (cscf->ctx->loc_conf[ngx_http_core_module.ctx_index] == clcf) {
        conf->answers = ngx_http_pgw_peek_rewrite_answers(cf);
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
    void                     **loc_conf, **server;
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
    loc_conf = server;

    if (ngx_http_pgw_locate(r, &r->uri, &loc_conf) == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    clcf = loc_conf[ngx_http_core_module.ctx_index];

    /* to a client an internal one is a path that does not exist */

    if (!clcf->internal || r->internal) {
        r->loc_conf = loc_conf;
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
