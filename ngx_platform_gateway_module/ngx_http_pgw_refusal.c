
/*
 * Refusals: what a problem will say, and the headers that go with its status
 * (RFC 6750 section 3, RFC 9110 sections 10.2.1 and 10.2.3).
 */


#include "ngx_http_pgw.h"


static ngx_int_t ngx_http_pgw_refusal_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);
static u_char *ngx_http_pgw_refusal_scope(u_char *p, ngx_uint_t access);
static const ngx_str_t *ngx_http_pgw_refusal_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);
static ngx_int_t ngx_http_pgw_refusal_retry_after(ngx_http_request_t *r,
    time_t seconds);


#define ngx_http_pgw_refusal_copy(p, literal)                                 \
    ngx_cpymem(p, literal, sizeof(literal) - 1)


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
    ngx_int_t status, const char *code, const char *detail)
{
    ngx_http_pgw_loc_conf_t  *conf;

    gr->status = status;

    gr->code.data = (u_char *) code;
    gr->code.len = ngx_strlen(code);

    gr->detail.data = (u_char *) detail;
    gr->detail.len = ngx_strlen(detail);

    ngx_str_null(&gr->challenge);

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    gr->allow = conf->allow;

    if (ngx_http_pgw_refusal_challenge(r, gr, conf) != NGX_OK) {
        return NGX_ERROR;
    }

    return status;
}


static ngx_int_t
ngx_http_pgw_refusal_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    size_t      len;
    u_char     *p;
    ngx_uint_t  scope;

    scope = (gr->status == NGX_HTTP_FORBIDDEN
             && ngx_strcmp(gr->code.data, "GATEWAY_CONTEXT_FORBIDDEN") == 0);

    if (gr->status != NGX_HTTP_UNAUTHORIZED && !scope) {
        return NGX_OK;
    }

    if (ngx_strcmp(gr->code.data, "GATEWAY_TOKEN_MISSING") == 0) {
        gr->challenge = conf->challenge;
        return NGX_OK;
    }

    len = sizeof(", error=\"insufficient_scope\", "
                 "error_description=\"\", scope=\"ACCOUNT BRANCH SYSTEM\"") - 1
          + conf->challenge.len + gr->detail.len;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    gr->challenge.data = p;

    p = ngx_cpymem(p, conf->challenge.data, conf->challenge.len);

    if (scope) {
        p = ngx_http_pgw_refusal_copy(p,
                                ", error=\"insufficient_scope\", scope=\"");
        p = ngx_http_pgw_refusal_scope(p, gr->required);

    } else {
        p = ngx_http_pgw_refusal_copy(p,
                     ", error=\"invalid_token\", error_description=\"");
        p = ngx_cpymem(p, gr->detail.data, gr->detail.len);
    }

    *p++ = '"';

    gr->challenge.len = (size_t) (p - gr->challenge.data);

    return NGX_OK;
}


static u_char *
ngx_http_pgw_refusal_scope(u_char *p, ngx_uint_t access)
{
    u_char  *start;

    start = p;

    if (access & NGX_HTTP_PGW_ACCOUNT) {
        p = ngx_cpymem(p, "ACCOUNT", sizeof("ACCOUNT") - 1);
    }

    if (access & NGX_HTTP_PGW_BRANCH) {
        p = ngx_sprintf(p, "%sBRANCH", p == start ? "" : " ");
    }

    if (access & NGX_HTTP_PGW_SYSTEM) {
        p = ngx_sprintf(p, "%sSYSTEM", p == start ? "" : " ");
    }

    return p;
}


/* What goes with the status: Allow, Retry-After, WWW-Authenticate. */

ngx_int_t
ngx_http_pgw_refusal_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t        ours;
    const ngx_str_t  *allow;
    ngx_table_elt_t  *h;

    ours = (gr->code.len
            && gr->status == (ngx_int_t) r->headers_out.status);

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

    if (conf->access == 0 || ngx_http_pgw_local_is_route_not_found(clcf)) {
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
