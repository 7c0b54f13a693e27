
/*
 * The one table of why a request is let through or refused, and what that
 * means.  Names are stable: they are in logs, dashboards and
 * docs/troubleshooting.md.
 */


#ifndef _NGX_HTTP_PGW_REASON_H_INCLUDED_
#define _NGX_HTTP_PGW_REASON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <pj.h>


/* What a reason can be. */

#define NGX_HTTP_PGW_REASON_REFUSES   0x0001  /* else it lets through */
#define NGX_HTTP_PGW_REASON_VERIFIES  0x0002  /* it is the result of a token */
#define NGX_HTTP_PGW_REASON_NGINX     0x0004  /* nginx itself refuses with this
                                                 status for it */

typedef struct {
    const char                  *name;         /* NULL: the reason is none */
    ngx_uint_t                   flags;
    ngx_uint_t                   status;       /* 0: for others to say */
    const char                  *code;         /* of a refusal, as ... */
    const char                  *detail;       /* ... is its detail */
    const char                  *error;        /* RFC 6750, or NULL */
    uint64_t                     errors;       /* PJ_FAULT()s that give it */
} ngx_http_pgw_reason_t;


/* The reasons, each with its row; no string needs escaping in JSON or in a
   header.  PGW_ERROR() is the row of an error of pj that is called the same. */

#define NGX_HTTP_PGW_REASON_LIST(X)                                           \
    X(PUBLIC, "public", 0, 0, NULL, NULL, NULL, 0)                            \
    X(VERIFIED, "verified", PGW_VERIFIES, 0, NULL, NULL, NULL,                \
      PJ_FAULT(PJ_OK))                                                        \
    X(PREFLIGHT, "preflight", 0, 204, NULL, NULL, NULL, 0)                    \
    X(OPTIONS, "options", 0, 204, NULL, NULL, NULL, 0)                        \
    /* let in, and ended while it was answered: its token was at its end */   \
    X(CLOSED_EXPIRED, "closed_expired", 0, 0, NULL, NULL, NULL, 0)            \
    X(CLOSED_REVOKED, "closed_revoked", 0, 0, NULL, NULL, NULL, 0)            \
    /* "satisfy any": another module let the request in */                    \
    X(SATISFIED, "satisfied", 0, 0, NULL, NULL, NULL, 0)                      \
    X(TOKEN_MISSING, "token_missing", PGW_REFUSES, 401,                       \
      "GATEWAY_TOKEN_MISSING", "a bearer token is required", NULL, 0)         \
    X(TOKEN_SHAPE, PGW_ERROR(TOKEN_SHAPE))                                    \
    X(TOKEN_SIZE, PGW_TOKEN("token_size", "the token is too large",           \
                        PJ_FAULT(PJ_ERR_TOKEN_SIZE)))                         \
    X(TOKEN_ENCODING, PGW_TOKEN("token_encoding",                             \
                            "the token is not well-formed base64url",         \
                            PJ_FAULT(PJ_ERR_BASE64)))                         \
    X(TOKEN_JSON, PGW_TOKEN("token_json",                                     \
                        "the token does not hold acceptable JSON",            \
                        PJ_FAULT(PJ_ERR_JSON_SYNTAX)                          \
                        | PJ_FAULT(PJ_ERR_JSON_DUPLICATE)                     \
                        | PJ_FAULT(PJ_ERR_JSON_DEPTH)                         \
                        | PJ_FAULT(PJ_ERR_JSON_NUL)                           \
                        | PJ_FAULT(PJ_ERR_JSON_LIMIT)                         \
                        | PJ_FAULT(PJ_ERR_JSON_TYPE)))                        \
    X(TOKEN_HEADER, PGW_ERROR(TOKEN_HEADER))                                  \
    X(TOKEN_ALG, PGW_ERROR(TOKEN_ALG))                                        \
    X(TOKEN_TYP, PGW_ERROR(TOKEN_TYP))                                        \
    X(TOKEN_CRIT, PGW_ERROR(TOKEN_CRIT))                                      \
    X(TOKEN_KID, PGW_ERROR(TOKEN_KID))                                        \
    X(TOKEN_KIND, PGW_ERROR(TOKEN_KIND))                                      \
    X(TOKEN_CLAIMS, PGW_ERROR(TOKEN_CLAIMS))                                  \
    X(TOKEN_ISSUER, PGW_ERROR(TOKEN_ISSUER))                                  \
    X(TOKEN_AUDIENCE, PGW_ERROR(TOKEN_AUDIENCE))                              \
    X(TOKEN_BOUND, PGW_ERROR(TOKEN_BOUND))                                    \
    X(TOKEN_NOT_YET, PGW_ERROR(TOKEN_NOT_YET))                                \
    X(TOKEN_EXPIRED, "token_expired", PGW_REFUSES|PGW_VERIFIES, 401,          \
      "GATEWAY_TOKEN_EXPIRED", "the token has expired", "invalid_token",      \
      PJ_FAULT(PJ_ERR_TOKEN_EXPIRED))                                         \
    X(KID_UNKNOWN, PGW_ERROR(KID_UNKNOWN))                                    \
    X(TOKEN_SIGNATURE, PGW_ERROR(TOKEN_SIGNATURE))                            \
    X(SESSION_REVOKED, PGW_TOKEN("session_revoked",                           \
                             "the session of the token has ended", 0))        \
    X(TOKEN_CONFLICT, "token_conflict", PGW_REFUSES, 400,                     \
      "GATEWAY_BAD_REQUEST", "the request has two tokens that differ",        \
      "invalid_request", 0)                                                   \
    /* the gateway failed, not the token */                                   \
    X(TOKEN_INVALID, PGW_TOKEN("token_invalid",                               \
                           "the token could not be verified", 0))             \
    X(CONTEXT_FORBIDDEN, "context_forbidden", PGW_REFUSES, 403,               \
      "GATEWAY_CONTEXT_FORBIDDEN", "the token is valid for another context",  \
      "insufficient_scope", 0)                                                \
    X(CLAIM_REQUIRED, "claim_required", PGW_REFUSES, 403,                     \
      "GATEWAY_CLAIM_REQUIRED",                                               \
      "the token does not have a claim that is required here",                \
      "insufficient_scope", 0)                                                \
    X(KEYS_UNAVAILABLE, "keys_unavailable", PGW_REFUSES, 503,                 \
      "GATEWAY_KEYS_UNAVAILABLE",                                             \
      "the key of the token is not available yet", NULL, 0)                   \
    X(KID_PENDING, "kid_pending", PGW_REFUSES, 503,                           \
      "GATEWAY_KEYS_UNAVAILABLE",                                             \
      "the key of the token is not available yet", NULL, 0)                   \
    X(REVOCATIONS_STALE, "revocations_stale", PGW_REFUSES, 503,               \
      "GATEWAY_REVOCATIONS_STALE",                                            \
      "it is not known at the moment whether the session has ended", NULL, 0) \
    X(ORIGIN_FORBIDDEN, "origin_forbidden", PGW_REFUSES, 403,                 \
      "GATEWAY_ORIGIN_NOT_ALLOWED", "the origin is not allowed", NULL, 0)     \
    X(PREFLIGHT_METHOD_FORBIDDEN, "preflight_method_forbidden",               \
      PGW_REFUSES, 403, "GATEWAY_PREFLIGHT_NOT_ALLOWED",                      \
      "the method is not allowed for other origins", NULL, 0)                 \
    X(PREFLIGHT_HEADER_FORBIDDEN, "preflight_header_forbidden",               \
      PGW_REFUSES, 403, "GATEWAY_PREFLIGHT_NOT_ALLOWED",                      \
      "the header is not allowed for other origins", NULL, 0)                 \
    X(METHOD_FORBIDDEN, "method_forbidden", PGW_NGINX, 405,                   \
      "METHOD_NOT_ALLOWED",                                                   \
      "the method is not allowed for this resource", NULL, 0)                 \
    X(ROUTE_NOT_FOUND, "route_not_found", PGW_NGINX, 404,                     \
      "GATEWAY_ROUTE_NOT_FOUND", "no route serves this path", NULL, 0)        \
    X(BAD_REQUEST, "bad_request", PGW_NGINX, 400, "GATEWAY_BAD_REQUEST",      \
      "the request is malformed", NULL, 0)                                    \
    X(PATH_AMBIGUOUS, "path_ambiguous", PGW_REFUSES, 400,                     \
      "GATEWAY_PATH_AMBIGUOUS", "the path can be read in two ways", NULL, 0)  \
    X(REQUEST_TOO_LARGE, "request_too_large", PGW_NGINX, 413,                 \
      "GATEWAY_REQUEST_TOO_LARGE",                                            \
      "the request body is larger than this path allows", NULL, 0)            \
    X(URI_TOO_LONG, "uri_too_long", PGW_NGINX, 414, "GATEWAY_URI_TOO_LONG",   \
      "the request line is too long", NULL, 0)                                \
    X(RATE_LIMITED, "rate_limited", PGW_NGINX, 429, "GATEWAY_RATE_LIMITED",   \
      "too many requests, try again later", NULL, 0)


#define NGX_HTTP_PGW_REASON_CODE(reason, ...)  NGX_HTTP_PGW_REASON_##reason,

typedef enum {
    NGX_HTTP_PGW_REASON_NONE = 0,
    NGX_HTTP_PGW_REASON_LIST(NGX_HTTP_PGW_REASON_CODE)
    NGX_HTTP_PGW_REASONS                 /* how many */
} ngx_http_pgw_reason_e;


extern const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS];

/* The reason that this result of a token's checks gives, and that for which
   nginx itself refuses with a status; 0: none. */
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_token(pj_err_t err);
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_status(ngx_uint_t status);


#endif /* _NGX_HTTP_PGW_REASON_H_INCLUDED_ */
