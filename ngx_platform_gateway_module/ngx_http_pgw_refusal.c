
/*
 * Refusals: what a problem will say, and the headers that go with its status
 * (RFC 6750 section 3, RFC 9110 sections 10.2.1 and 10.2.3).
 */


#include "ngx_http_pgw_reason.h"


static ngx_int_t ngx_http_pgw_refusal_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);
static const ngx_str_t *ngx_http_pgw_refusal_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);
static ngx_int_t ngx_http_pgw_refusal_retry_after(ngx_http_request_t *r,
    time_t seconds);


/* Allow, where no platform_gateway_methods says it. */

static const ngx_str_t  ngx_http_pgw_refusal_none = ngx_string("OPTIONS");

static const ngx_str_t  ngx_http_pgw_refusal_files =
    ngx_string("GET, HEAD, OPTIONS");

static const ngx_str_t  ngx_http_pgw_refusal_any =
    ngx_string("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");


/* What every challenge of a location begins with. */

ngx_int_t
ngx_http_pgw_refusal_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    u_char  *p;

    p = ngx_pnalloc(cf->pool, sizeof("Bearer realm=\"\"") + conf->realm.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    conf->challenge.data = p;
    conf->challenge.len = (size_t)
        (ngx_sprintf(p, "Bearer realm=\"%V\"", &conf->realm) - p);

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_problem_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason, const char *detail)
{
    ngx_http_pgw_loc_conf_t  *conf;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: deny %s: %s",
                   ngx_http_pgw_reasons[reason].name,
                   detail ? detail : ngx_http_pgw_reasons[reason].detail);

    gr->reason = reason;
    gr->shadowed = 0;
    gr->code = NULL;
    gr->detail = detail;
    ngx_str_null(&gr->challenge);

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    gr->allow = conf->allow;

    if (ngx_http_pgw_refusal_challenge(r, gr, conf) != NGX_OK) {
        return NGX_ERROR;
    }

    return (ngx_int_t) ngx_http_pgw_reasons[reason].status;
}


static ngx_int_t
ngx_http_pgw_refusal_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    u_char                       *p;
    const char                   *detail;
    const ngx_http_pgw_reason_t  *reason;

    reason = &ngx_http_pgw_reasons[gr->reason];

    if (reason->error == NULL) {

        if (reason->status == NGX_HTTP_UNAUTHORIZED) {
            gr->challenge = conf->challenge;
        }

        return NGX_OK;
    }

    detail = gr->detail ? gr->detail : reason->detail;

    p = ngx_pnalloc(r->pool, conf->challenge.len + ngx_strlen(reason->error)
                             + ngx_strlen(detail)
                             + sizeof(", error=\"\", error_description=\"\", "
                                      "scope=\"ACCOUNT BRANCH SYSTEM\""));
    if (p == NULL) {
        return NGX_ERROR;
    }

    gr->challenge.data = p;

    p = ngx_sprintf(p, "%V, error=\"%s\", ", &conf->challenge, reason->error);

    if (gr->reason == NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN) {
        p = ngx_sprintf(p, "scope=\"%s%s%s",
                        gr->required & NGX_HTTP_PGW_ACCOUNT ? "ACCOUNT " : "",
                        gr->required & NGX_HTTP_PGW_BRANCH ? "BRANCH " : "",
                        gr->required & NGX_HTTP_PGW_SYSTEM ? "SYSTEM " : "");
        p[-1] = '"';

    } else {
        p = ngx_sprintf(p, "error_description=\"%s\"", detail);
    }

    gr->challenge.len = (size_t) (p - gr->challenge.data);

    return NGX_OK;
}


/* What goes with the status: Allow, Retry-After, WWW-Authenticate. */

ngx_int_t
ngx_http_pgw_refusal_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                    ours;
    const ngx_str_t              *allow;
    ngx_table_elt_t              *h;
    const ngx_http_pgw_reason_t  *reason;

    reason = ngx_http_pgw_refusal(gr);
    ours = (reason && reason->status == r->headers_out.status);

    if (r->err_status == NGX_HTTP_NOT_ALLOWED
        || (r->err_status == NGX_HTTP_NO_CONTENT
            && gr->reason == NGX_HTTP_PGW_REASON_OPTIONS))
    {
        allow = (ours && gr->allow.len)
                ? &gr->allow : ngx_http_pgw_refusal_allow(r, conf);

        if (ngx_http_pgw_header_add(r, "Allow", allow) == NULL) {
            return NGX_ERROR;
        }
    }

    if (ours && gr->retry_after) {
        if (ngx_http_pgw_refusal_retry_after(r, gr->retry_after) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (r->err_status == NGX_HTTP_TOO_MANY_REQUESTS) {

        /* limit_req and limit_conn do not tell; their unit is a second */

        if (ngx_http_pgw_refusal_retry_after(r, 1) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (!ours || gr->challenge.len == 0 || r->headers_out.www_authenticate) {
        return NGX_OK;
    }

    h = ngx_http_pgw_header_add(r, "WWW-Authenticate", &gr->challenge);
    r->headers_out.www_authenticate = h;

    return h ? NGX_OK : NGX_ERROR;
}


static const ngx_str_t *
ngx_http_pgw_refusal_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    if (r->method & (NGX_HTTP_TRACE|NGX_HTTP_CONNECT)) {

        /* nginx refuses these before it looks for a location */

        return &ngx_http_pgw_refusal_any;
    }

    /* the location of an error_page is not the one that refused */

    if (conf->allow.len && !r->internal) {
        return &conf->allow;
    }

    if (r->err_status == NGX_HTTP_NOT_ALLOWED) {

        /*
         * What an upstream said is lost where its answer is replaced; of
         * nginx's own content handlers those of files refuse methods.
         */

        return r->upstream ? &ngx_http_pgw_refusal_none
                           : &ngx_http_pgw_refusal_files;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (conf->access == 0 || conf->route_not_found) {
        return &ngx_http_pgw_refusal_none;
    }

    return clcf->handler ? &ngx_http_pgw_refusal_any
                         : &ngx_http_pgw_refusal_files;
}


static ngx_int_t
ngx_http_pgw_refusal_retry_after(ngx_http_request_t *r, time_t seconds)
{
    u_char    *p;
    ngx_str_t  value;

    p = ngx_pnalloc(r->pool, NGX_TIME_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value.data = p;
    value.len = (size_t) (ngx_sprintf(p, "%T", seconds) - p);

    return ngx_http_pgw_header_add(r, "Retry-After", &value)
           ? NGX_OK : NGX_ERROR;
}
