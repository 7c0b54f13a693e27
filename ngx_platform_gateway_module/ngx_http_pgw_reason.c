
/*
 * The reasons by name.  The names are stable: they are in logs, dashboards and
 * docs/troubleshooting.md, which says of each where it comes from.
 */


#include "ngx_http_pgw_reason.h"


static ngx_uint_t ngx_http_pgw_reason_of_nginx(const ngx_http_request_t *r);


#define ngx_http_pgw_admits(reason, name)                                     \
    [NGX_HTTP_PGW_REASON_##reason] = { name, 0 }

#define ngx_http_pgw_refuses(reason, name)                                    \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES }

#define ngx_http_pgw_token(reason, name)                                      \
    [NGX_HTTP_PGW_REASON_##reason] =                                          \
        { name, NGX_HTTP_PGW_REASON_REFUSES                                   \
                |NGX_HTTP_PGW_REASON_VERIFIES }


const ngx_http_pgw_reason_t
    ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS] =
{
    [NGX_HTTP_PGW_REASON_NONE] = { NULL, 0 },

    ngx_http_pgw_admits(PUBLIC, "public"),
    [NGX_HTTP_PGW_REASON_VERIFIED] =
        { "verified", NGX_HTTP_PGW_REASON_VERIFIES },
    ngx_http_pgw_admits(PREFLIGHT, "preflight"),
    ngx_http_pgw_admits(OPTIONS, "options"),
    ngx_http_pgw_admits(SATISFIED, "satisfied"),

    ngx_http_pgw_refuses(TOKEN_MISSING, "token_missing"),
    ngx_http_pgw_token(TOKEN_SHAPE, "token_shape"),
    ngx_http_pgw_token(TOKEN_SIZE, "token_size"),
    ngx_http_pgw_token(TOKEN_ENCODING, "token_encoding"),
    ngx_http_pgw_token(TOKEN_JSON, "token_json"),
    ngx_http_pgw_token(TOKEN_HEADER, "token_header"),
    ngx_http_pgw_token(TOKEN_ALG, "token_alg"),
    ngx_http_pgw_token(TOKEN_TYP, "token_typ"),
    ngx_http_pgw_token(TOKEN_CRIT, "token_crit"),
    ngx_http_pgw_token(TOKEN_KID, "token_kid"),
    ngx_http_pgw_token(TOKEN_KIND, "token_kind"),
    ngx_http_pgw_token(TOKEN_CLAIMS, "token_claims"),
    ngx_http_pgw_token(TOKEN_ISSUER, "token_issuer"),
    ngx_http_pgw_token(TOKEN_AUDIENCE, "token_audience"),
    ngx_http_pgw_token(TOKEN_BOUND, "token_bound"),
    ngx_http_pgw_token(TOKEN_NOT_YET, "token_not_yet"),
    ngx_http_pgw_token(TOKEN_EXPIRED, "token_expired"),
    ngx_http_pgw_token(KID_UNKNOWN, "kid_unknown"),
    ngx_http_pgw_token(TOKEN_SIGNATURE, "token_signature"),
    ngx_http_pgw_token(TOKEN_INVALID, "token_invalid"),
    ngx_http_pgw_refuses(CONTEXT_FORBIDDEN, "context_forbidden"),
    ngx_http_pgw_refuses(KEYS_UNAVAILABLE, "keys_unavailable"),
    ngx_http_pgw_refuses(KID_PENDING, "kid_pending"),

    ngx_http_pgw_refuses(ORIGIN_FORBIDDEN, "origin_forbidden"),
    ngx_http_pgw_refuses(PREFLIGHT_FORBIDDEN, "preflight_forbidden"),
    ngx_http_pgw_refuses(METHOD_FORBIDDEN, "method_forbidden"),
    ngx_http_pgw_refuses(ROUTE_NOT_FOUND, "route_not_found"),
    ngx_http_pgw_refuses(BAD_REQUEST, "bad_request"),
    ngx_http_pgw_refuses(REQUEST_TOO_LARGE, "request_too_large"),
    ngx_http_pgw_refuses(URI_TOO_LONG, "uri_too_long"),
    ngx_http_pgw_refuses(RATE_LIMITED, "rate_limited")
};


ngx_uint_t
ngx_http_pgw_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    switch (gr->reason) {

    case NGX_HTTP_PGW_REASON_NONE:
        return ngx_http_pgw_reason_of_nginx(r);

    case NGX_HTTP_PGW_REASON_TOKEN_INVALID:
        return ngx_http_pgw_reason_of_token(gr->token_error);

    default:
        return gr->reason;
    }
}


const char *
ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    if (gr->decision) {
        return gr->decision;
    }

    return ngx_http_pgw_reason_of_nginx(r) ? "deny" : NULL;
}


ngx_uint_t
ngx_http_pgw_reason_of_token(pj_err_t err)
{
    switch (err) {

    case PJ_OK:
        return NGX_HTTP_PGW_REASON_VERIFIED;

    case PJ_ERR_BASE64:
        return NGX_HTTP_PGW_REASON_TOKEN_ENCODING;

    case PJ_ERR_JSON_SYNTAX:
    case PJ_ERR_JSON_DUPLICATE:
    case PJ_ERR_JSON_DEPTH:
    case PJ_ERR_JSON_NUL:
    case PJ_ERR_JSON_LIMIT:
    case PJ_ERR_JSON_TYPE:
        return NGX_HTTP_PGW_REASON_TOKEN_JSON;

    case PJ_ERR_KID_UNKNOWN:
        return NGX_HTTP_PGW_REASON_KID_UNKNOWN;

    case PJ_ERR_TOKEN_SIZE:
        return NGX_HTTP_PGW_REASON_TOKEN_SIZE;

    case PJ_ERR_TOKEN_SHAPE:
        return NGX_HTTP_PGW_REASON_TOKEN_SHAPE;

    case PJ_ERR_TOKEN_HEADER:
        return NGX_HTTP_PGW_REASON_TOKEN_HEADER;

    case PJ_ERR_TOKEN_ALG:
        return NGX_HTTP_PGW_REASON_TOKEN_ALG;

    case PJ_ERR_TOKEN_TYP:
        return NGX_HTTP_PGW_REASON_TOKEN_TYP;

    case PJ_ERR_TOKEN_CRIT:
        return NGX_HTTP_PGW_REASON_TOKEN_CRIT;

    case PJ_ERR_TOKEN_KID:
        return NGX_HTTP_PGW_REASON_TOKEN_KID;

    case PJ_ERR_TOKEN_SIGNATURE:
        return NGX_HTTP_PGW_REASON_TOKEN_SIGNATURE;

    case PJ_ERR_TOKEN_CLAIMS:
        return NGX_HTTP_PGW_REASON_TOKEN_CLAIMS;

    case PJ_ERR_TOKEN_ISSUER:
        return NGX_HTTP_PGW_REASON_TOKEN_ISSUER;

    case PJ_ERR_TOKEN_AUDIENCE:
        return NGX_HTTP_PGW_REASON_TOKEN_AUDIENCE;

    case PJ_ERR_TOKEN_BOUND:
        return NGX_HTTP_PGW_REASON_TOKEN_BOUND;

    case PJ_ERR_TOKEN_EXPIRED:
        return NGX_HTTP_PGW_REASON_TOKEN_EXPIRED;

    case PJ_ERR_TOKEN_NOT_YET:
        return NGX_HTTP_PGW_REASON_TOKEN_NOT_YET;

    case PJ_ERR_TOKEN_KIND:
        return NGX_HTTP_PGW_REASON_TOKEN_KIND;

    default:
        return NGX_HTTP_PGW_REASON_TOKEN_INVALID;
    }
}


/* What nginx refuses before it is our turn. */

static ngx_uint_t
ngx_http_pgw_reason_of_nginx(const ngx_http_request_t *r)
{
    switch (r->err_status) {

    case NGX_HTTP_BAD_REQUEST:
        return NGX_HTTP_PGW_REASON_BAD_REQUEST;

    case NGX_HTTP_NOT_FOUND:
        return NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND;

    case NGX_HTTP_NOT_ALLOWED:
        return NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN;

    case NGX_HTTP_REQUEST_ENTITY_TOO_LARGE:
        return NGX_HTTP_PGW_REASON_REQUEST_TOO_LARGE;

    case NGX_HTTP_REQUEST_URI_TOO_LARGE:
        return NGX_HTTP_PGW_REASON_URI_TOO_LONG;

    case NGX_HTTP_TOO_MANY_REQUESTS:
        return NGX_HTTP_PGW_REASON_RATE_LIMITED;

    default:
        return NGX_HTTP_PGW_REASON_NONE;
    }
}
