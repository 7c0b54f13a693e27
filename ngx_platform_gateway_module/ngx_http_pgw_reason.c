
/*
 * What reasons mean, and refusing for one of them.
 */


#include "ngx_http_pgw_local.h"


#define PGW_REFUSES   NGX_HTTP_PGW_REASON_REFUSES
#define PGW_VERIFIES  NGX_HTTP_PGW_REASON_VERIFIES
#define PGW_NGINX     NGX_HTTP_PGW_REASON_REFUSES|NGX_HTTP_PGW_REASON_NGINX

#define PGW_TOKEN(name, detail, errors)                                       \
    name, PGW_REFUSES|PGW_VERIFIES, 401, "GATEWAY_TOKEN_INVALID", detail,     \
    "invalid_token", errors

#define PGW_ERROR(error)                                                      \
    PGW_TOKEN(ngx_http_pgw_name_##error, ngx_http_pgw_detail_##error,         \
              PJ_FAULT(PJ_ERR_##error))

/* What pj calls its errors, and says of them. */

#define PGW_TEXTS(error, name, detail)                                        \
    __attribute__ ((unused)) static const char                                \
        ngx_http_pgw_name_##error[] = name,                                   \
        ngx_http_pgw_detail_##error[] = detail;

PJ_ERRORS(PGW_TEXTS)


#define PGW_ROW(reason, ...)  [NGX_HTTP_PGW_REASON_##reason] = { __VA_ARGS__ },

const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS] = {
    NGX_HTTP_PGW_REASON_LIST(PGW_ROW)
};


const ngx_str_t  ngx_http_pgw_decisions[NGX_HTTP_PGW_DECISIONS] = {
    ngx_string("none"), ngx_string("allow"), ngx_string("deny"),
    ngx_string("shadow")
};


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_token(pj_err_t err)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {
        if (ngx_http_pgw_reasons[i].errors & PJ_FAULT(err)) {
            return (ngx_http_pgw_reason_e) i;
        }
    }

    return NGX_HTTP_PGW_REASON_TOKEN_INVALID;    /* a failure of ours */
}


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_status(ngx_uint_t status)
{
    ngx_uint_t  i;

    for (i = 0; status && i < NGX_HTTP_PGW_REASONS; i++) {

        if ((ngx_http_pgw_reasons[i].flags & NGX_HTTP_PGW_REASON_NGINX)
            && ngx_http_pgw_reasons[i].status == status)
        {
            return (ngx_http_pgw_reason_e) i;
        }
    }

    return NGX_HTTP_PGW_REASON_NONE;
}


ngx_uint_t
ngx_http_pgw_reason(const ngx_http_request_t *r,
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

    reason = ngx_http_pgw_reason(r, gr);

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
ngx_http_pgw_refusal(const ngx_http_pgw_request_t *gr)
{
    const ngx_http_pgw_reason_t  *reason;

    reason = &ngx_http_pgw_reasons[gr->reason];

    return (reason->flags & NGX_HTTP_PGW_REASON_REFUSES) && !gr->shadowed
           ? reason : NULL;
}


ngx_int_t
ngx_http_pgw_reason_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
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
