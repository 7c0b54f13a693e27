
/*
 * Types that many files share.
 */


#ifndef _NGX_HTTP_PGW_H_INCLUDED_
#define _NGX_HTTP_PGW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <pj.h>


/*
 * The one table of why a request is let through or refused, and what that
 * means.  Names are stable: they are in logs, dashboards and
 * docs/troubleshooting.md.
 */


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


/* 128 bits of a keyed hash; the first word is none of the two below. */

typedef struct {
    uint64_t                  word[2];
} ngx_http_pgw_table_key_t;

#define NGX_HTTP_PGW_TABLE_EMPTY    0  /* the slot was never used */
#define NGX_HTTP_PGW_TABLE_DELETED  1  /* the slot is not in use any more */
#define NGX_HTTP_PGW_TABLE_KEYS     2  /* the least first word of a key */


/* What is looked up for a token: the keys by which it may be revoked, and when
   it was issued (ms). */

typedef struct {
    ngx_http_pgw_table_key_t    id;           /* all zeroes: it has none */
    ngx_http_pgw_table_key_t    subject;
    int64_t                     issued;
} ngx_http_pgw_mark_t;


/* Access levels of a location; a location may list several. */

#define NGX_HTTP_PGW_PUBLIC   0x0002
#define NGX_HTTP_PGW_ACCOUNT  0x0004
#define NGX_HTTP_PGW_BRANCH   0x0008
#define NGX_HTTP_PGW_SYSTEM   0x0010
#define NGX_HTTP_PGW_TOKEN    0x0020

#define NGX_HTTP_PGW_OURS                                                     \
    (NGX_HTTP_PGW_ACCOUNT|NGX_HTTP_PGW_BRANCH|NGX_HTTP_PGW_SYSTEM)
#define NGX_HTTP_PGW_GUARDED  (NGX_HTTP_PGW_OURS|NGX_HTTP_PGW_TOKEN)


#define NGX_HTTP_PGW_IDS         2    /* the first names to strip */
#define NGX_HTTP_PGW_LEEWAY_MAX  300  /* s, of all locations */


typedef struct ngx_http_pgw_issuer_s ngx_http_pgw_issuer_t;
typedef struct ngx_http_pgw_loc_conf_s ngx_http_pgw_loc_conf_t;
typedef struct ngx_http_pgw_cache_s ngx_http_pgw_cache_t;
typedef struct ngx_http_pgw_route_s ngx_http_pgw_route_t;
typedef struct ngx_http_pgw_revocations_s ngx_http_pgw_revocations_t;
typedef struct ngx_http_pgw_shared_s ngx_http_pgw_shared_t;
typedef struct ngx_http_pgw_zone_s ngx_http_pgw_zone_t;
typedef struct ngx_http_pgw_source_s ngx_http_pgw_source_t;


/* Where a claim is: members within members. */

#define NGX_HTTP_PGW_CLAIM_DEPTH  8

typedef struct {
    ngx_str_t                    text;         /* as the configuration says */
    ngx_uint_t                   depth;
    const char                  *names[NGX_HTTP_PGW_CLAIM_DEPTH];
} ngx_http_pgw_claim_t;


/* Values of which a claim has to have one. */

typedef struct {
    ngx_http_pgw_claim_t         claim;
    ngx_array_t                  values;       /* ngx_str_t */
    ngx_str_t                    scope;        /* all of them, where the claim
                                                  is the scope */
} ngx_http_pgw_rule_t;


/* A header name of ours, and the claim that becomes its value. */

typedef struct {
    ngx_http_pgw_claim_t         claim;
    ngx_str_t                    name;         /* X-Account-Id */
    ngx_str_t                    lowcase;      /* x-account-id */
    ngx_uint_t                   hash;
    ngx_uint_t                   builtin;      /* from the default map; not set
                                                  for tokens of other issuers */
} ngx_http_pgw_claim_header_t;


/* A name of the issuer's: "iss", exactly. */

typedef struct {
    pj_str_t                     iss;
    u_char                       seed[32];     /* of the keys by which what is
                                                  revoked of it is found */
} ngx_http_pgw_name_t;


/* Where something was said in the configuration; line 0: nowhere. */

typedef struct {
    ngx_str_t                    file;
    ngx_uint_t                   line;
} ngx_http_pgw_place_t;


/* Ages of a key set, each not below the one before. */

enum {
    NGX_HTTP_PGW_AGE_COOLDOWN = 0,
    NGX_HTTP_PGW_AGE_SOFT,
    NGX_HTTP_PGW_AGE_HARD,
    NGX_HTTP_PGW_AGES
};


/* Context: http. */

typedef struct {
    ngx_http_pgw_issuer_t          *issuers;     /* a list; the first is that of
                                                    the directives outside of a
                                                    block, and never NULL */
    ngx_http_pgw_source_t          *sources;     /* a list: all that is fetched
                                                    for them */
    ngx_msec_t                      key_wait;    /* of one request */
    ngx_int_t                       key_waiters; /* per worker and issuer */
    ngx_msec_t                      revocations_after;  /* 0: not said */
    ngx_uint_t                      revocations_refuse;

    ngx_http_pgw_cache_t           *cache;       /* never NULL */
    ngx_array_t                     locations;   /* pointers, of the core */
    ngx_http_pgw_route_t           *routes;
    ngx_str_t                       zone_name;
    size_t                          zone_size;
    const ngx_cycle_t              *cycle;
    ngx_shm_zone_t                 *keys_zone;   /* NULL: there are no keys */
    ngx_http_pgw_place_t            metrics_place;  /* line 0: no counting */
    ngx_shm_zone_t                 *counters_zone;
    ngx_http_pgw_shared_t          *counters;    /* in it */
    const ngx_http_pgw_loc_conf_t  *guarded;     /* needs keys; or NULL */
    ngx_http_pgw_loc_conf_t        *policies;    /* one for each; or NULL */
    ngx_uint_t                      subject_read;  /* by some variable */
    ngx_array_t                     claims_read;   /* ngx_str_t: the names that
                                                      variables have */
} ngx_http_pgw_main_conf_t;


/* An issuer that platform_gateway_trusted names. */

typedef struct {
    pj_str_t                     name;
    ngx_http_pgw_issuer_t       *issuer;
} ngx_http_pgw_trusted_t;


/* Context: server.  What is needed before the location is known. */

typedef struct {
    ngx_array_t                 *strip;        /* claim_header_t, ids first */
    uint64_t                     strip_lengths;  /* a bit for each length */
    ngx_uint_t                   any_enabled;  /* on here or in a location */
    ngx_uint_t                   trace;        /* ngx_http_pgw_trace_e */
} ngx_http_pgw_srv_conf_t;


/* Where a token may be beside Authorization, and what it stands behind. */

enum {
    NGX_HTTP_PGW_SOURCE_COOKIE = 0,
    NGX_HTTP_PGW_SOURCE_PROTOCOL,
    NGX_HTTP_PGW_SOURCES
};


typedef struct {
    ngx_str_t                    mark[NGX_HTTP_PGW_SOURCES];  /* len 0: not
                                                                 there */
} ngx_http_pgw_from_t;


/* Context: http, server, location; merged.  Const in request handlers. */

struct ngx_http_pgw_loc_conf_s {
    ngx_flag_t                    enable;
    ngx_uint_t                    access;        /* bit mask, 0: not set */
    ngx_str_t                     levels;        /* "account branch" */
    ngx_str_t                     scopes;        /* "ACCOUNT BRANCH" */
    ngx_uint_t                    methods;       /* NGX_HTTP_GET ..., 0: any */
    ngx_str_t                     allow;         /* "GET, HEAD, OPTIONS" */
    ngx_str_t                     route_id;
    ngx_str_t                     service_name;
    ngx_http_pgw_route_t         *route;         /* what counts by route_id */
    ngx_array_t                  *issuers;       /* pj_str_t */
    ngx_array_t                  *trusted;       /* trusted_t; NULL: all */
    ngx_array_t                  *audiences;     /* pj_str_t */
    time_t                        leeway;
    size_t                        token_max_size;
    ngx_array_t                  *claim_headers;
    const ngx_array_t            *claims_read;   /* that of main_conf_t */
    ngx_array_t                  *required;      /* rule_t; NULL: none */
    ngx_http_pgw_from_t          *from;          /* NULL: Authorization alone */
    ngx_flag_t                    forward_authorization;
    ngx_flag_t                    close_at_expiry;
    ngx_flag_t                    allow_confirmation;  /* "cnf" may stand */
    ngx_flag_t                    shadow;
    ngx_flag_t                    strict_path;   /* as the client sent it */
    ngx_flag_t                    allow_return;  /* before the guard */
    ngx_flag_t                    allow_cache;   /* shared by clients */
    ngx_str_t                     challenge;     /* "Bearer realm=..." */
    ngx_str_t                     metadata;      /* a URL; len 0: none */
    ngx_array_t                  *resource;      /* pj_str_t: its URL, scopes */
    ngx_str_t                     document;      /* its metadata, in JSON */
    ngx_uint_t                    policy;        /* what tokens mean; 0: no
                                                    token is needed */
    ngx_http_pgw_loc_conf_t      *policy_next;   /* in mcf->policies */

    /* these four are not inherited */
    ngx_http_core_srv_conf_t     *explain;       /* of which server, ... */
    ngx_str_t                     explain_name;
    ngx_uint_t                    forward;       /* ... to another proxy, which
                                                    says so; see _forward.c */
    ngx_uint_t                    route_not_found;

    ngx_uint_t                    one_record;    /* of FastCGI or uwsgi */
    ngx_http_handler_pt           handler;
    ngx_uint_t                    other_handler;  /* an "if" has a different
                                                     content handler */

    ngx_http_pgw_place_t          place;         /* where the block begins */

    ngx_array_t                  *cors_origins;  /* origin_t; NULL: none */
    ngx_str_t                     cors_methods;  /* "GET, HEAD" */
    ngx_str_t                     cors_headers;
    ngx_str_t                     cors_exposed;  /* of responses */
    time_t                        cors_max_age;
};


/* Whom a verified token names. */

typedef struct {
    ngx_str_t                    account_id;   /* data NULL: none */
    ngx_str_t                    session_id;
    ngx_str_t                    workspace_id;
} ngx_http_pgw_subject_t;


/* What a verified token gives to a request under a policy.  All of it lives as
   long as the request's pool. */

typedef struct {
    ngx_uint_t               access;   /* the level that it opens */
    ngx_http_pgw_subject_t  *subject;  /* the first three of the ... */
    ngx_str_t               *strings;  /* then the claims that variables read,
                                          and the policy's headers in the order
                                          of the map; data NULL: none */
    ngx_uint_t               nstrings;
    size_t                   size;     /* of a copy of strings */
    ngx_http_pgw_mark_t      mark;
    int64_t                  exp;      /* seconds */
    uint64_t                 missing;  /* a bit for each rule of required that
                                          does not hold */
} ngx_http_pgw_grant_t;

#define NGX_HTTP_PGW_GRANT_IDS  3      /* of the strings */

/* Those of the headers, which are the last. */
#define ngx_http_pgw_grant_headers(grant, conf)                               \
    ((grant)->strings + (grant)->nstrings - (conf)->claim_headers->nelts)


/* Whose a token is, and the keys that it was judged by. */

typedef struct {
    ngx_http_pgw_issuer_t  *issuer;
    const pj_keyset_t      *set;       /* compared, never followed; NULL: it had
                                          none */
    ngx_uint_t              version;
} ngx_http_pgw_keys_t;


/* One pass through the phases; an internal redirect starts with a new one.
   ngx_http_pgw_request_t has what must outlive a redirect. */

typedef struct {
    ngx_int_t             verdict;      /* NGX_OK or a status, once decided */
    ngx_uint_t            problem;      /* see _problem.c */

    /* What the token was found to be by who asked first: the guard or a
       variable.  It holds for these bytes, policy and key set alone, since a
       "rewrite" changes the location and keeps the context. */
    pj_str_t              token;
    ngx_uint_t            policy;       /* 0: nothing is known */
    ngx_http_pgw_keys_t   keys;
    pj_err_t              err;
    int64_t               iat;          /* unverified: with KID_UNKNOWN */
    ngx_http_pgw_grant_t  grant;        /* with PJ_OK */
    ngx_http_pgw_reason_e  reason;      /* of err, or that there is no token, or
                                           that it is revoked */

    unsigned              settled:1;    /* by the guard: the token is good */
    unsigned              looked_up:1;  /* unshared is decided */
    unsigned              unshared:1;   /* no cache answers it or keeps it */
} ngx_http_pgw_ctx_t;


/*
 * The request as a whole, found through a pool cleanup of the main request,
 * since internal redirects zero every module context.  Where it is, the headers
 * are stripped and both ids are set.  A subrequest writes here nothing but what
 * holds for all (injected, anonymous): what is logged and answered is the main
 * request's.
 */

typedef struct {
    ngx_str_t                    request_id;
    ngx_str_t                    correlation_id;
    ngx_list_part_t              sent;         /* the client's headers, all */
    ngx_str_t                    trace_id;     /* len 0: none */
    ngx_str_t                    traceparent;  /* that we began; len 0: none */

    ngx_http_pgw_reason_e        reason;
    const char                  *code;         /* NULL: the reason's */
    const char                  *detail;       /* NULL: the reason's */
    const ngx_str_t             *required;     /* levels of the location, or
                                                  NULL */
    const ngx_str_t             *scope;        /* that would do, or NULL */
    const ngx_http_pgw_subject_t  *subject;    /* of the verified token, or
                                                  NULL */
    const ngx_http_pgw_subject_t  *named;      /* by a variable, or NULL */

    /* what goes with a refusal */
    ngx_str_t                    challenge;    /* WWW-Authenticate, or none */
    ngx_str_t                    allow;        /* of the location's methods */
    time_t                       retry_after;  /* seconds, 0: no header */

    /* in this request or in a subrequest */
    unsigned                     injected:1;   /* headers, for a location */
    unsigned                     anonymous:1;  /* a subject was read: nobody */

    unsigned                     shadowed:1;   /* would have been refused */
} ngx_http_pgw_request_t;


/* An allowed origin: all of it, or what stands around the labels of a "*". */

typedef struct {
    pj_str_t                     text;         /* as it is compared */
    size_t                       prefix;       /* of "https://", or of all */
    ngx_str_t                    suffix;       /* "" or ".example.com" */
} ngx_http_pgw_origin_t;


/* A question to the gateway: what it would do with a request. */

typedef struct {
    ngx_http_core_srv_conf_t    *server;       /* that would be asked */
    ngx_str_t                    token;        /* data NULL: none */
    ngx_str_t                    method;
    ngx_str_t                    path;
    ngx_str_t                    origin;       /* of a page; data NULL: none */
    ngx_str_t                    headers;      /* that it sets: a list */
    int64_t                      at;           /* seconds */
} ngx_http_pgw_question_t;


/* A content handler of our own. */

typedef struct {
    ngx_http_handler_pt          handler;
    ngx_uint_t                   methods;      /* that it takes, 0: any */
    ngx_uint_t                   server;       /* the parameter that names the
                                                  server to ask; 0: none */
    unsigned                     not_found:1;  /* no route serves the path */
    unsigned                     metrics:1;    /* the counters are read */
} ngx_http_pgw_content_t;


typedef char *ngx_http_pgw_set_t(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

extern ngx_module_t  ngx_http_platform_gateway_module;

/* Our configuration where a request, or a line of the configuration, is. */

#define ngx_http_pgw_main(r)                                                  \
    ((ngx_http_pgw_main_conf_t *)                                             \
     ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_srv(r)                                                   \
    ((ngx_http_pgw_srv_conf_t *)                                              \
     ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_loc(r)                                                   \
    ((ngx_http_pgw_loc_conf_t *)                                              \
     ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_ctx(r)                                                   \
    ((ngx_http_pgw_ctx_t *)                                                   \
     ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_core(r)                                                  \
    ((ngx_http_core_loc_conf_t *)                                             \
     ngx_http_get_module_loc_conf(r, ngx_http_core_module))

#define ngx_http_pgw_conf_core(cf)                                            \
    ((ngx_http_core_loc_conf_t *)                                             \
     ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module))

#define ngx_http_pgw_conf_server(cf)                                          \
    ((ngx_http_core_srv_conf_t *)                                             \
     ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module))

#define ngx_http_pgw_conf_main(cf)                                            \
    ((ngx_http_pgw_main_conf_t *)                                             \
     ngx_http_conf_get_module_main_conf(cf, ngx_http_platform_gateway_module))

#define ngx_http_pgw_conf_nginx(cf)                                           \
    ((ngx_http_core_main_conf_t *)                                            \
     ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module))


#endif /* _NGX_HTTP_PGW_H_INCLUDED_ */
