
/*
 * The table of reasons, and refusing for one of them.  Their names are stable:
 * they are in logs, dashboards and docs/troubleshooting.md, which says of each
 * where it comes from.
 */


#include "ngx_http_pgw.h"


/* Names and phrases of errors of pj: most reasons of tokens are called so. */

#define ngx_http_pgw_texts(error, name, detail)                               \
    __attribute__ ((unused)) static const char                                \
        ngx_http_pgw_name_##error[] = name,                                   \
        ngx_http_pgw_detail_##error[] = detail;

PJ_ERRORS(ngx_http_pgw_texts)


#define ngx_http_pgw_row(reason, name, flags, status, code, detail)           \
    [NGX_HTTP_PGW_REASON_##reason] = { name, flags, status, code, detail,     \
                                       NULL, 0 }

#define ngx_http_pgw_refuses(reason, name, status, code, detail)              \
    ngx_http_pgw_row(reason, name, NGX_HTTP_PGW_REASON_REFUSES, status, code, \
                     detail)

#define ngx_http_pgw_nginx(reason, name, status, code, detail)                \
    ngx_http_pgw_row(reason, name, NGX_HTTP_PGW_REASON_REFUSES                \
                     |NGX_HTTP_PGW_REASON_NGINX, status, code, detail)

#define ngx_http_pgw_token(reason, name, code, detail, errors)                \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES|NGX_HTTP_PGW_REASON_VERIFIES,     \
          401, code, detail, "invalid_token", errors }

#define ngx_http_pgw_error(error)                                             \
    ngx_http_pgw_token(error, ngx_http_pgw_name_##error,                      \
                       "GATEWAY_TOKEN_INVALID", ngx_http_pgw_detail_##error,  \
                       PJ_FAULT(PJ_ERR_##error))


/* No string needs escaping in JSON or in a header. */

const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS] =
{
    ngx_http_pgw_row(PUBLIC, "public", 0, 0, NULL, NULL),
    ngx_http_pgw_row(VERIFIED, "verified", NGX_HTTP_PGW_REASON_VERIFIES, 0,
                     NULL, NULL),
    ngx_http_pgw_row(PREFLIGHT, "preflight", 0, 204, NULL, NULL),
    ngx_http_pgw_row(OPTIONS, "options", 0, 204, NULL, NULL),
    ngx_http_pgw_row(SATISFIED, "satisfied", 0, 0, NULL, NULL),

    ngx_http_pgw_refuses(TOKEN_MISSING, "token_missing", 401,
                         "GATEWAY_TOKEN_MISSING",
                         "a bearer token is required"),

    ngx_http_pgw_error(TOKEN_SHAPE),
    ngx_http_pgw_token(TOKEN_SIZE, "token_size", "GATEWAY_TOKEN_INVALID",
                       "the token is too large", PJ_FAULT(PJ_ERR_TOKEN_SIZE)),
    ngx_http_pgw_token(TOKEN_ENCODING, "token_encoding",
                       "GATEWAY_TOKEN_INVALID",
                       "the token is not well-formed base64url",
                       PJ_FAULT(PJ_ERR_BASE64)),
    ngx_http_pgw_token(TOKEN_JSON, "token_json", "GATEWAY_TOKEN_INVALID",
                       "the token does not hold acceptable JSON",
                       PJ_FAULT(PJ_ERR_JSON_SYNTAX)
                       | PJ_FAULT(PJ_ERR_JSON_DUPLICATE)
                       | PJ_FAULT(PJ_ERR_JSON_DEPTH)
                       | PJ_FAULT(PJ_ERR_JSON_NUL)
                       | PJ_FAULT(PJ_ERR_JSON_LIMIT)
                       | PJ_FAULT(PJ_ERR_JSON_TYPE)),
    ngx_http_pgw_error(TOKEN_HEADER),
    ngx_http_pgw_error(TOKEN_ALG),
    ngx_http_pgw_error(TOKEN_TYP),
    ngx_http_pgw_error(TOKEN_CRIT),
    ngx_http_pgw_error(TOKEN_KID),
    ngx_http_pgw_error(TOKEN_KIND),
    ngx_http_pgw_error(TOKEN_CLAIMS),
    ngx_http_pgw_error(TOKEN_ISSUER),
    ngx_http_pgw_error(TOKEN_AUDIENCE),
    ngx_http_pgw_error(TOKEN_BOUND),
    ngx_http_pgw_error(TOKEN_NOT_YET),
    ngx_http_pgw_token(TOKEN_EXPIRED, ngx_http_pgw_name_TOKEN_EXPIRED,
                       "GATEWAY_TOKEN_EXPIRED",
                       ngx_http_pgw_detail_TOKEN_EXPIRED,
                       PJ_FAULT(PJ_ERR_TOKEN_EXPIRED)),
    ngx_http_pgw_error(KID_UNKNOWN),
    ngx_http_pgw_error(TOKEN_SIGNATURE),
    ngx_http_pgw_token(TOKEN_INVALID, "token_invalid", "GATEWAY_TOKEN_INVALID",
                       "the token could not be verified", 0),

    [NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN] =
        { "context_forbidden", NGX_HTTP_PGW_REASON_REFUSES, NGX_HTTP_FORBIDDEN,
          "GATEWAY_CONTEXT_FORBIDDEN",
          "the token is valid for another context", "insufficient_scope", 0 },

    ngx_http_pgw_refuses(KEYS_UNAVAILABLE, "keys_unavailable", 503,
                         "GATEWAY_KEYS_UNAVAILABLE",
                         "the key of the token is not available yet"),
    ngx_http_pgw_refuses(KID_PENDING, "kid_pending", 503,
                         "GATEWAY_KEYS_UNAVAILABLE",
                         "the key of the token is not available yet"),
    ngx_http_pgw_refuses(ORIGIN_FORBIDDEN, "origin_forbidden", 403,
                         "GATEWAY_ORIGIN_NOT_ALLOWED",
                         "the origin is not allowed"),
    ngx_http_pgw_refuses(PREFLIGHT_FORBIDDEN, "preflight_forbidden", 403,
                         "GATEWAY_PREFLIGHT_NOT_ALLOWED",
                         "this is not allowed for other origins"),

    ngx_http_pgw_nginx(METHOD_FORBIDDEN, "method_forbidden", 405,
                       "METHOD_NOT_ALLOWED",
                       "the method is not allowed for this resource"),
    ngx_http_pgw_nginx(ROUTE_NOT_FOUND, "route_not_found", 404,
                       "GATEWAY_ROUTE_NOT_FOUND", "no route serves this path"),
    ngx_http_pgw_nginx(BAD_REQUEST, "bad_request", 400,
                       "GATEWAY_BAD_REQUEST", "the request is malformed"),
    ngx_http_pgw_nginx(REQUEST_TOO_LARGE, "request_too_large", 413,
                       "GATEWAY_REQUEST_TOO_LARGE",
                       "the request body is larger than this path allows"),
    ngx_http_pgw_nginx(URI_TOO_LONG, "uri_too_long", 414,
                       "GATEWAY_URI_TOO_LONG", "the request line is too long"),
    ngx_http_pgw_nginx(RATE_LIMITED, "rate_limited", 429,
                       "GATEWAY_RATE_LIMITED",
                       "too many requests, try again later")
};


const ngx_str_t  ngx_http_pgw_decisions[NGX_HTTP_PGW_DECISIONS] = {
    ngx_string("none"), ngx_string("allow"), ngx_string("deny"),
    ngx_string("shadow")
};


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_token(pj_err_t err)
{
    ngx_uint_t  i;

    if (err == PJ_OK) {
        return NGX_HTTP_PGW_REASON_VERIFIED;
    }

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


/* WWW-Authenticate (RFC 6750, section 3). */

static ngx_int_t
ngx_http_pgw_refusal_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_str_t *realm)
{
    u_char                       *p;
    const char                   *detail, *error;
    const ngx_http_pgw_reason_t  *reason;

    reason = &ngx_http_pgw_reasons[gr->reason];
    detail = gr->detail ? gr->detail : reason->detail;
    error = reason->error;

    ngx_str_null(&gr->challenge);

    if (error == NULL && reason->status != NGX_HTTP_UNAUTHORIZED) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, realm->len + ngx_strlen(detail)
                             + sizeof("Bearer realm=\"\", "
                                      "error=\"insufficient_scope\", "
                                      "error_description=\"\", "
                                      "scope=\"ACCOUNT BRANCH SYSTEM\""));
    if (p == NULL) {
        return NGX_ERROR;
    }

    gr->challenge.data = p;

    p = ngx_sprintf(p, "Bearer realm=\"%V\"", realm);

    if (gr->reason == NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN) {
        p = ngx_sprintf(p, ", error=\"%s\", scope=\"%s%s%s", error,
                        gr->required & NGX_HTTP_PGW_ACCOUNT ? "ACCOUNT " : "",
                        gr->required & NGX_HTTP_PGW_BRANCH ? "BRANCH " : "",
                        gr->required & NGX_HTTP_PGW_SYSTEM ? "SYSTEM " : "");
        p[-1] = '"';

    } else if (error) {
        p = ngx_sprintf(p, ", error=\"%s\", error_description=\"%s\"", error,
                        detail);
    }

    gr->challenge.len = (size_t) (p - gr->challenge.data);

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

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    gr->reason = reason;
    gr->shadowed = 0;
    gr->code = NULL;
    gr->detail = detail;
    gr->allow = conf->allow;

    if (ngx_http_pgw_refusal_challenge(r, gr, &conf->realm) != NGX_OK) {
        return NGX_ERROR;
    }

    return (ngx_int_t) ngx_http_pgw_reasons[reason].status;
}
