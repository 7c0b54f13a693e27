
/*
 * The table of reasons.  Its names are stable: they are in logs, dashboards and
 * docs/troubleshooting.md, which says of each where it comes from.
 */


#include "ngx_http_pgw_reason.h"


#define ngx_http_pgw_admits(reason, name, flags, status)                      \
    [NGX_HTTP_PGW_REASON_##reason] = { name, flags, status, NULL, NULL, NULL }

#define ngx_http_pgw_refuses(reason, name, status, code, detail)              \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES, status, code, detail, NULL }

#define ngx_http_pgw_nginx(reason, name, status, code, detail)                \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES|NGX_HTTP_PGW_REASON_NGINX,        \
          status, code, detail, NULL }

#define ngx_http_pgw_token(reason, name, detail)                              \
    ngx_http_pgw_coded(reason, name, "GATEWAY_TOKEN_INVALID", detail)

#define ngx_http_pgw_coded(reason, name, code, detail)                        \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES|NGX_HTTP_PGW_REASON_VERIFIES,     \
          NGX_HTTP_UNAUTHORIZED, code, detail, "invalid_token" }


/* No string needs escaping in JSON or in a header. */

const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS] =
{
    ngx_http_pgw_admits(PUBLIC, "public", 0, 0),
    ngx_http_pgw_admits(VERIFIED, "verified", NGX_HTTP_PGW_REASON_VERIFIES, 0),
    ngx_http_pgw_admits(PREFLIGHT, "preflight", 0, NGX_HTTP_NO_CONTENT),
    ngx_http_pgw_admits(OPTIONS, "options", 0, NGX_HTTP_NO_CONTENT),
    ngx_http_pgw_admits(SATISFIED, "satisfied", 0, 0),

    ngx_http_pgw_refuses(TOKEN_MISSING, "token_missing",
                         NGX_HTTP_UNAUTHORIZED, "GATEWAY_TOKEN_MISSING",
                         "a bearer token is required"),

    ngx_http_pgw_token(TOKEN_SHAPE, "token_shape", "the token is malformed"),
    ngx_http_pgw_token(TOKEN_SIZE, "token_size", "the token is too large"),
    ngx_http_pgw_token(TOKEN_ENCODING, "token_encoding",
                       "the token is not well-formed base64url"),
    ngx_http_pgw_token(TOKEN_JSON, "token_json",
                       "the token does not hold acceptable JSON"),
    ngx_http_pgw_token(TOKEN_HEADER, "token_header",
                       "the token header is malformed"),
    ngx_http_pgw_token(TOKEN_ALG, "token_alg",
                       "the token algorithm is not accepted"),
    ngx_http_pgw_token(TOKEN_TYP, "token_typ",
                       "the token header type is not accepted"),
    ngx_http_pgw_token(TOKEN_CRIT, "token_crit",
                       "the token needs an unsupported extension"),
    ngx_http_pgw_token(TOKEN_KID, "token_kid",
                       "the key id is missing or malformed"),
    ngx_http_pgw_token(TOKEN_KIND, "token_kind",
                       "the token is of an unknown kind"),
    ngx_http_pgw_token(TOKEN_CLAIMS, "token_claims",
                       "a token claim is missing or malformed"),
    ngx_http_pgw_token(TOKEN_ISSUER, "token_issuer",
                       "the token issuer is not accepted"),
    ngx_http_pgw_token(TOKEN_AUDIENCE, "token_audience",
                       "the token is for another audience"),
    ngx_http_pgw_token(TOKEN_BOUND, "token_bound",
                       "the token is bound to a key, a bearer may not use it"),
    ngx_http_pgw_token(TOKEN_NOT_YET, "token_not_yet",
                       "the token is not valid yet"),
    ngx_http_pgw_coded(TOKEN_EXPIRED, "token_expired", "GATEWAY_TOKEN_EXPIRED",
                       "the token has expired"),
    ngx_http_pgw_token(KID_UNKNOWN, "kid_unknown",
                       "the token was signed by an unknown key"),
    ngx_http_pgw_token(TOKEN_SIGNATURE, "token_signature",
                       "the token signature is not valid"),
    ngx_http_pgw_token(TOKEN_INVALID, "token_invalid",
                       "the token could not be verified"),

    [NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN] =
        { "context_forbidden", NGX_HTTP_PGW_REASON_REFUSES, NGX_HTTP_FORBIDDEN,
          "GATEWAY_CONTEXT_FORBIDDEN",
          "the token is valid for another context", "insufficient_scope" },

    ngx_http_pgw_refuses(KEYS_UNAVAILABLE, "keys_unavailable",
                         NGX_HTTP_SERVICE_UNAVAILABLE,
                         "GATEWAY_KEYS_UNAVAILABLE",
                         "the key of the token is not available yet"),
    ngx_http_pgw_refuses(KID_PENDING, "kid_pending",
                         NGX_HTTP_SERVICE_UNAVAILABLE,
                         "GATEWAY_KEYS_UNAVAILABLE",
                         "the key of the token is not available yet"),

    ngx_http_pgw_refuses(ORIGIN_FORBIDDEN, "origin_forbidden",
                         NGX_HTTP_FORBIDDEN, "GATEWAY_ORIGIN_NOT_ALLOWED",
                         "the origin is not allowed"),
    ngx_http_pgw_refuses(PREFLIGHT_FORBIDDEN, "preflight_forbidden",
                         NGX_HTTP_FORBIDDEN, "GATEWAY_PREFLIGHT_NOT_ALLOWED",
                         "this is not allowed for other origins"),

    ngx_http_pgw_nginx(METHOD_FORBIDDEN, "method_forbidden",
                       NGX_HTTP_NOT_ALLOWED, "METHOD_NOT_ALLOWED",
                       "the method is not allowed for this resource"),
    ngx_http_pgw_nginx(ROUTE_NOT_FOUND, "route_not_found",
                       NGX_HTTP_NOT_FOUND, "GATEWAY_ROUTE_NOT_FOUND",
                       "no route serves this path"),
    ngx_http_pgw_nginx(BAD_REQUEST, "bad_request",
                       NGX_HTTP_BAD_REQUEST, "GATEWAY_BAD_REQUEST",
                       "the request is malformed"),
    ngx_http_pgw_nginx(REQUEST_TOO_LARGE, "request_too_large",
                       NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                       "GATEWAY_REQUEST_TOO_LARGE",
                       "the request body is larger than this path allows"),
    ngx_http_pgw_nginx(URI_TOO_LONG, "uri_too_long",
                       NGX_HTTP_REQUEST_URI_TOO_LARGE, "GATEWAY_URI_TOO_LONG",
                       "the request line is too long"),
    ngx_http_pgw_nginx(RATE_LIMITED, "rate_limited",
                       NGX_HTTP_TOO_MANY_REQUESTS, "GATEWAY_RATE_LIMITED",
                       "too many requests, try again later")
};


/* Those that are not listed are failures of ours. */

static const ngx_http_pgw_reason_e  ngx_http_pgw_reason_errors[PJ_ERR_COUNT] =
{
    [PJ_OK] = NGX_HTTP_PGW_REASON_VERIFIED,
    [PJ_ERR_BASE64] = NGX_HTTP_PGW_REASON_TOKEN_ENCODING,
    [PJ_ERR_JSON_SYNTAX] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_JSON_DUPLICATE] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_JSON_DEPTH] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_JSON_NUL] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_JSON_LIMIT] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_JSON_TYPE] = NGX_HTTP_PGW_REASON_TOKEN_JSON,
    [PJ_ERR_KID_UNKNOWN] = NGX_HTTP_PGW_REASON_KID_UNKNOWN,
    [PJ_ERR_TOKEN_SIZE] = NGX_HTTP_PGW_REASON_TOKEN_SIZE,
    [PJ_ERR_TOKEN_SHAPE] = NGX_HTTP_PGW_REASON_TOKEN_SHAPE,
    [PJ_ERR_TOKEN_HEADER] = NGX_HTTP_PGW_REASON_TOKEN_HEADER,
    [PJ_ERR_TOKEN_ALG] = NGX_HTTP_PGW_REASON_TOKEN_ALG,
    [PJ_ERR_TOKEN_TYP] = NGX_HTTP_PGW_REASON_TOKEN_TYP,
    [PJ_ERR_TOKEN_CRIT] = NGX_HTTP_PGW_REASON_TOKEN_CRIT,
    [PJ_ERR_TOKEN_KID] = NGX_HTTP_PGW_REASON_TOKEN_KID,
    [PJ_ERR_TOKEN_SIGNATURE] = NGX_HTTP_PGW_REASON_TOKEN_SIGNATURE,
    [PJ_ERR_TOKEN_CLAIMS] = NGX_HTTP_PGW_REASON_TOKEN_CLAIMS,
    [PJ_ERR_TOKEN_ISSUER] = NGX_HTTP_PGW_REASON_TOKEN_ISSUER,
    [PJ_ERR_TOKEN_AUDIENCE] = NGX_HTTP_PGW_REASON_TOKEN_AUDIENCE,
    [PJ_ERR_TOKEN_BOUND] = NGX_HTTP_PGW_REASON_TOKEN_BOUND,
    [PJ_ERR_TOKEN_EXPIRED] = NGX_HTTP_PGW_REASON_TOKEN_EXPIRED,
    [PJ_ERR_TOKEN_NOT_YET] = NGX_HTTP_PGW_REASON_TOKEN_NOT_YET,
    [PJ_ERR_TOKEN_KIND] = NGX_HTTP_PGW_REASON_TOKEN_KIND
};


ngx_uint_t
ngx_http_pgw_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    return gr->reason ? gr->reason
                      : ngx_http_pgw_reason_of_status(r->err_status);
}


const char *
ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    ngx_uint_t  reason;

    reason = ngx_http_pgw_reason(r, gr);

    if (reason == NGX_HTTP_PGW_REASON_NONE) {
        return NULL;
    }

    if (!(ngx_http_pgw_reasons[reason].flags & NGX_HTTP_PGW_REASON_REFUSES)) {
        return "allow";
    }

    return gr->shadowed ? "shadow" : "deny";
}


const ngx_http_pgw_reason_t *
ngx_http_pgw_refusal(const ngx_http_pgw_request_t *gr)
{
    const ngx_http_pgw_reason_t  *reason;

    reason = &ngx_http_pgw_reasons[gr->reason];

    return (reason->flags & NGX_HTTP_PGW_REASON_REFUSES) && !gr->shadowed
           ? reason : NULL;
}


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_token(pj_err_t err)
{
    ngx_http_pgw_reason_e  reason;

    reason = ngx_http_pgw_reason_errors[err];

    return reason ? reason : NGX_HTTP_PGW_REASON_TOKEN_INVALID;
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
