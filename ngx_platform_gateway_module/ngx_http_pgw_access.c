
/*
 * The phases of a request: what is done to every request before its location
 * is known (POST_READ), what is answered before limits and guards (REWRITE, and
 * cors.c), and where the guard is asked (ACCESS; PREACCESS for
 * subrequests).
 */


#include "ngx_http_pgw_local.h"
#include "ngx_http_pgw_subject.h"


static ngx_int_t ngx_http_pgw_prepare(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_srv_conf_t *sscf);
static ngx_int_t ngx_http_pgw_method_check(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);
static ngx_int_t ngx_http_pgw_challenge(ngx_http_request_t *r,
    ngx_str_t *challenge);


ngx_int_t
ngx_http_pgw_post_read_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (!sscf->any_enabled) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (r->http_version < NGX_HTTP_VERSION_10) {
        return ngx_http_pgw_problem_refuse(r, gr,
                                           NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                           "HTTP/0.9 is not supported");
    }

    return ngx_http_pgw_prepare(r, gr, sscf);
}


ngx_int_t
ngx_http_pgw_rewrite_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_srv_conf_t   *sscf;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_pgw_main_conf_t  *mcf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (!sscf->any_enabled || ngx_http_pgw_fetch_owns(r)) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * A request that nginx refused while it was read comes here by way of
     * error_page alone, and may carry whatever the client had sent so far.
     */

    if (r == r->main && !gr->prepared) {
        rc = ngx_http_pgw_prepare(r, gr, sscf);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (gr->injected && ngx_http_pgw_headers_withdraw(r, sscf) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (!conf->enable) {
        return NGX_DECLINED;
    }

    if (r == r->main) {
        rc = ngx_http_pgw_cors_options(r, gr, conf);
        if (rc != NGX_DECLINED) {
            return rc;
        }

        rc = ngx_http_pgw_method_check(r, gr, conf);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    /* "set" and limits keep what they read, so the subject is known first */

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    if (mcf->subject_read && ngx_http_pgw_guard_early(r, conf) == NGX_AGAIN) {
        return NGX_DONE;
    }

    return NGX_DECLINED;
}


/* The ACCESS phase passes over subrequests, this one does not. */

ngx_int_t
ngx_http_pgw_preaccess_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf;

    /* the fetch of the keys can have no token to show */

    if (r == r->main || ngx_http_pgw_fetch_owns(r)) {
        return NGX_DECLINED;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (!conf->enable || ngx_http_pgw_fetch_owns(r)) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_guard(r, gr, conf);

    if (rc == NGX_HTTP_UNAUTHORIZED
        && ngx_http_pgw_challenge(r, &gr->challenge)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* limits of the same phase have still to see what we let through */

    return (rc == NGX_OK) ? NGX_DECLINED : rc;
}


ngx_int_t
ngx_http_pgw_access_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_core_loc_conf_t  *clcf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (!conf->enable) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_guard(r, gr, conf);

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (rc == NGX_HTTP_SERVICE_UNAVAILABLE
        && clcf->satisfy == NGX_HTTP_SATISFY_ANY)
    {
        /* nginx would end the request here: let other modules speak first */

        return NGX_DECLINED;
    }

    return rc;
}


/*
 * Under "satisfy any": nobody else let the request in, and with keys we might
 * have, so it is still 503.
 */

ngx_int_t
ngx_http_pgw_access_last_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_core_loc_conf_t  *clcf;

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (ctx == NULL
        || ctx->state != NGX_HTTP_PGW_DONE
        || ctx->verdict != NGX_HTTP_SERVICE_UNAVAILABLE)
    {
        return NGX_DECLINED;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->satisfy == NGX_HTTP_SATISFY_ANY) {
        r->access_code = NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    return NGX_DECLINED;
}


/*
 * The last look before the upstream: by now the headers are those that it will
 * get.
 *
 * A request that we refused and that still comes here was let in by another
 * module under "satisfy any": it goes on with no trusted header, and what is
 * answered is not our refusal.
 */

ngx_int_t
ngx_http_pgw_precontent_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_http_pgw_ctx_t       *ctx;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (conf->one_record) {
        rc = ngx_http_pgw_headers_fit(r);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (r != r->main
        || ctx == NULL
        || ctx->state != NGX_HTTP_PGW_DONE
        || ctx->verdict < NGX_HTTP_SPECIAL_RESPONSE)
    {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_SATISFIED);

    ctx->verdict = NGX_OK;

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_pgw_prepare(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_srv_conf_t *sscf)
{
    if (ngx_http_pgw_headers_prepare(r, gr, sscf) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->prepared = 1;

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_pgw_method_check(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    if (conf->methods == 0 || (r->method & conf->methods)) {
        return NGX_DECLINED;
    }

    gr->required = conf->access;

    return ngx_http_pgw_refuse(r, gr, conf,
                               NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN, NULL);
}


/* auth_request takes it from its subrequest to the response */

static ngx_int_t
ngx_http_pgw_challenge(ngx_http_request_t *r, ngx_str_t *challenge)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    ngx_str_set(&h->key, "WWW-Authenticate");
    h->value = *challenge;

    r->headers_out.www_authenticate = h;

    return NGX_OK;
}
