
/*
 * How a request was decided, and refusing it.
 */


#include "ngx_http_pgw_decision.h"


const ngx_str_t  ngx_http_pgw_decisions[NGX_HTTP_PGW_DECISIONS] = {
    ngx_string("none"), ngx_string("allow"), ngx_string("deny"),
    ngx_string("shadow")
};


ngx_uint_t
ngx_http_pgw_decision_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    return gr->reason ? gr->reason
                      : ngx_http_pgw_reason_of_status(r->err_status);
}


ngx_http_pgw_decision_e
ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    ngx_uint_t  reason;

    reason = ngx_http_pgw_decision_reason(r, gr);

    if (reason == NGX_HTTP_PGW_REASON_NONE) {
        return NGX_HTTP_PGW_DECISION_NONE;
    }

    if (!(ngx_http_pgw_reasons[reason].flags & NGX_HTTP_PGW_REASON_REFUSES)) {
        return NGX_HTTP_PGW_DECISION_ALLOW;
    }

    return gr->shadowed ? NGX_HTTP_PGW_DECISION_SHADOW
                        : NGX_HTTP_PGW_DECISION_DENY;
}


const ngx_http_pgw_reason_t *
ngx_http_pgw_decision_refusal(const ngx_http_pgw_request_t *gr)
{
    const ngx_http_pgw_reason_t  *reason;

    reason = &ngx_http_pgw_reasons[gr->reason];

    return (reason->flags & NGX_HTTP_PGW_REASON_REFUSES) && !gr->shadowed
           ? reason : NULL;
}


ngx_int_t
ngx_http_pgw_decision_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e code, const char *detail)
{
    u_char                       *p;
    ngx_http_pgw_loc_conf_t      *conf;
    const ngx_http_pgw_reason_t  *reason;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);
    reason = &ngx_http_pgw_reasons[code];

    gr->reason = code;
    gr->shadowed = 0;
    gr->code = NULL;
    gr->detail = detail;
    gr->allow = conf->allow;

    detail = detail ? detail : reason->detail;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: deny %s: %s", reason->name, detail);

    /* WWW-Authenticate (RFC 6750, section 3) */

    ngx_str_null(&gr->challenge);

    if (reason->error == NULL) {

        if (reason->status == NGX_HTTP_UNAUTHORIZED) {
            gr->challenge = conf->challenge;
        }

        return (ngx_int_t) reason->status;
    }

    p = ngx_pnalloc(r->pool, conf->challenge.len + ngx_strlen(detail)
                             + sizeof(", error=\"insufficient_scope\", "
                                      "error_description=\"\", "
                                      "scope=\"ACCOUNT BRANCH SYSTEM\""));
    if (p == NULL) {
        return NGX_ERROR;
    }

    gr->challenge.data = p;

    p = ngx_sprintf(p, "%V, error=\"%s\"", &conf->challenge, reason->error);

    if (code == NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN) {
        p = ngx_sprintf(p, ", scope=\"%s%s%s",
                        gr->required & NGX_HTTP_PGW_ACCOUNT ? "ACCOUNT " : "",
                        gr->required & NGX_HTTP_PGW_BRANCH ? "BRANCH " : "",
                        gr->required & NGX_HTTP_PGW_SYSTEM ? "SYSTEM " : "");
        p[-1] = '"';

    } else {
        p = ngx_sprintf(p, ", error_description=\"%s\"", detail);
    }

    gr->challenge.len = (size_t) (p - gr->challenge.data);

    return (ngx_int_t) reason->status;
}
