
/*
 * Types that many files share.
 */


#ifndef _NGX_HTTP_PGW_H_INCLUDED_
#define _NGX_HTTP_PGW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <pj.h>
#include <web.h>


/*
 * The table of reasons for which a request is allowed or refused.  Names are
 * stable: logs, dashboards and docs/troubleshooting.md contain them.
 */


/* Flags of a reason. */

#define NGX_HTTP_PGW_REASON_REFUSES   0x0001  /* refuses; allows if not set */
#define NGX_HTTP_PGW_REASON_VERIFIES  0x0002  /* result of a verification */
#define NGX_HTTP_PGW_REASON_NGINX     0x0004  /* nginx refuses by itself, with
                                                 the same status */

typedef struct {
    const char                  *name;         /* NULL for REASON_NONE */
    ngx_uint_t                   flags;
    ngx_uint_t                   status;       /* 0 if it sets no status */
    const char                  *code;         /* in the body of a refusal */
    const char                  *detail;       /* in the body of a refusal */
    const char                  *error;        /* RFC 6750, or NULL */
    uint64_t                     errors;       /* PJ_FAULT()s of the reason */
} ngx_http_pgw_reason_t;


/* The rows of the table.  The strings need no escaping in JSON or in a header.
   PGW_ERROR() is the row of the pj error with the same name. */

#define NGX_HTTP_PGW_REASON_LIST(X)                                           \
    X(PUBLIC, "public", 0, 0, NULL, NULL, NULL, 0)                            \
    X(VERIFIED, "verified", PGW_VERIFIES, 0, NULL, NULL, NULL,                \
      PJ_FAULT(PJ_OK))                                                        \
    X(PREFLIGHT, "preflight", 0, 204, NULL, NULL, NULL, 0)                    \
    X(OPTIONS, "options", 0, 204, NULL, NULL, NULL, 0)                        \
    /* the token ended during the response */                                 \
    X(CLOSED_EXPIRED, "closed_expired", 0, 0, NULL, NULL, NULL, 0)            \
    X(CLOSED_REVOKED, "closed_revoked", 0, 0, NULL, NULL, NULL, 0)            \
    /* "satisfy any": another module allowed the request */                   \
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
    X(TOKEN_CERTIFICATE, PGW_TOKEN("token_certificate",                       \
                        "the client has not shown the certificate of the "    \
                        "token", 0))                                          \
    X(TOKEN_UNBOUND, "token_unbound", PGW_REFUSES, 401,                       \
      "GATEWAY_TOKEN_INVALID", "the token is not bound to a key",             \
      "invalid_token", 0)                                                     \
    X(PROOF_MISSING, "proof_missing", PGW_REFUSES, 401,                       \
      "GATEWAY_PROOF_REQUIRED", "the token needs one DPoP header with a proof",\
      "invalid_dpop_proof", 0)                                                \
    X(PROOF_INVALID, PGW_PROOF("proof_invalid", "the proof is not valid"))    \
    X(PROOF_REPLAYED, PGW_PROOF("proof_replayed",                             \
                            "the proof was used before"))                     \
    X(PROOF_NONCE, "proof_nonce", PGW_REFUSES, 401,                           \
      "GATEWAY_PROOF_INVALID", "the proof needs the nonce of DPoP-Nonce",     \
      "use_dpop_nonce", 0)                                                    \
    X(PROOF_STORE_FULL, "proof_store_full", PGW_REFUSES, 503,                 \
      "GATEWAY_PROOF_STORE_FULL", "no further proof can be remembered",       \
      NULL, 0)                                                                \
    X(TOKEN_CONFLICT, "token_conflict", PGW_REFUSES, 400,                     \
      "GATEWAY_BAD_REQUEST", "the request has two tokens that differ",        \
      "invalid_request", 0)                                                   \
    /* an internal error of the gateway */                                    \
    X(TOKEN_INVALID, PGW_TOKEN("token_invalid",                               \
                           "the token could not be verified", 0))             \
    X(CONTEXT_FORBIDDEN, "context_forbidden", PGW_REFUSES, 403,               \
      "GATEWAY_CONTEXT_FORBIDDEN", "the token is valid for another context",  \
      "insufficient_scope", 0)                                                \
    X(CLAIM_REQUIRED, "claim_required", PGW_REFUSES, 403,                     \
      "GATEWAY_CLAIM_REQUIRED",                                               \
      "the token does not have a claim that is required here",                \
      "insufficient_scope", 0)                                                \
    X(AUTHENTICATION_REQUIRED, "authentication_required", PGW_REFUSES, 401,   \
      "GATEWAY_AUTHENTICATION_REQUIRED",                                      \
      "a stronger or more recent authentication is required here",            \
      "insufficient_user_authentication", 0)                                  \
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
    NGX_HTTP_PGW_REASONS
} ngx_http_pgw_reason_e;


extern const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS];

/* Return the reason of a verification's result, and the reason for which nginx
   itself refuses with a status, or REASON_NONE. */
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_token(pj_err_t err);
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_status(ngx_uint_t status);


/* 128 bits of a keyed hash.  The first word is at least TABLE_KEYS. */

typedef struct {
    uint64_t                  word[2];
} ngx_http_pgw_table_key_t;

#define NGX_HTTP_PGW_TABLE_EMPTY    0  /* first word of an unused slot */
#define NGX_HTTP_PGW_TABLE_DELETED  1  /* first word of a removed entry */
#define NGX_HTTP_PGW_TABLE_KEYS     2


/* The properties of a token by which it may be revoked. */

typedef struct {
    ngx_http_pgw_table_key_t    id;           /* all zeroes without an id */
    ngx_http_pgw_table_key_t    subject;
    int64_t                     issued;       /* ms */
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


#define NGX_HTTP_PGW_IDS         2    /* ids of a request */
#define NGX_HTTP_PGW_LEEWAY_MAX  300  /* s */


typedef struct ngx_http_pgw_issuer_s ngx_http_pgw_issuer_t;
typedef struct ngx_http_pgw_loc_conf_s ngx_http_pgw_loc_conf_t;
typedef struct ngx_http_pgw_cache_s ngx_http_pgw_cache_t;
typedef struct ngx_http_pgw_route_s ngx_http_pgw_route_t;
typedef struct ngx_http_pgw_revocations_s ngx_http_pgw_revocations_t;
typedef struct ngx_http_pgw_shared_s ngx_http_pgw_shared_t;
typedef struct ngx_http_pgw_authentication_s ngx_http_pgw_authentication_t;
typedef struct ngx_http_pgw_proof_s ngx_http_pgw_proof_t;
typedef struct ngx_http_pgw_shown_s ngx_http_pgw_shown_t;
typedef struct ngx_http_pgw_zone_s ngx_http_pgw_zone_t;
typedef struct ngx_http_pgw_source_s ngx_http_pgw_source_t;
typedef struct ngx_http_pgw_signer_s ngx_http_pgw_signer_t;
typedef struct ngx_http_pgw_assertion_s ngx_http_pgw_assertion_t;


/* The path of a claim in the payload of a token. */

#define NGX_HTTP_PGW_CLAIM_DEPTH  8

typedef struct {
    ngx_str_t                    text;         /* as configured */
    ngx_uint_t                   depth;
    const char                  *names[NGX_HTTP_PGW_CLAIM_DEPTH];
} ngx_http_pgw_claim_t;


/* A claim, and the values of which it has to have one. */

typedef struct {
    ngx_http_pgw_claim_t         claim;
    ngx_array_t                  values;       /* ngx_str_t: constants */
    ngx_array_t                 *variables;    /* ngx_http_complex_value_t, or
                                                  NULL */
    ngx_uint_t                   scoped;       /* the claim is the scope */
    ngx_str_t                    scope;        /* all constants, if it is */
} ngx_http_pgw_rule_t;


/* A header that the gateway sets from a claim. */

typedef struct {
    ngx_http_pgw_claim_t         claim;
    ngx_str_t                    name;         /* "X-Account-Id" */
    ngx_str_t                    lowcase;      /* "x-account-id" */
    ngx_uint_t                   hash;
    ngx_uint_t                   builtin;      /* from the default map; not set
                                                  for tokens of other issuers */
    ngx_uint_t                   asserted;     /* a member of the assertion */
} ngx_http_pgw_claim_header_t;


/* A place in the configuration; line is 0 if there is none. */

typedef struct {
    ngx_str_t                    file;
    ngx_uint_t                   line;
} ngx_http_pgw_place_t;


/* Ages of a key set, in ascending order. */

enum {
    NGX_HTTP_PGW_AGE_COOLDOWN = 0,
    NGX_HTTP_PGW_AGE_SOFT,
    NGX_HTTP_PGW_AGE_HARD,
    NGX_HTTP_PGW_AGES
};


/* Context: http. */

typedef struct {
    ngx_http_pgw_issuer_t          *issuers;     /* a list; the first, without
                                                    a block, is never NULL */
    ngx_http_pgw_source_t          *sources;     /* a list of all fetches */
    ngx_msec_t                      key_wait;    /* per request */
    ngx_int_t                       key_waiters; /* per worker and issuer */
    ngx_msec_t                      revocations_after;  /* 0 if not set */
    ngx_uint_t                      revocations_refuse;

    ngx_http_pgw_cache_t           *cache;       /* never NULL */
    ngx_http_pgw_proof_t           *proof;       /* NULL: none is accepted */
    ngx_http_pgw_route_t           *routes;
    ngx_str_t                       zone_name;
    size_t                          zone_size;
    const ngx_cycle_t              *cycle;
    ngx_shm_zone_t                 *keys_zone;   /* NULL without keys */
    ngx_http_pgw_place_t            metrics_place;  /* line 0 if not counted */
    ngx_shm_zone_t                 *counters_zone;
    ngx_http_pgw_shared_t          *counters;    /* in counters_zone */
    const ngx_http_pgw_loc_conf_t  *guarded;     /* a location that needs keys,
                                                    or NULL */
    ngx_http_pgw_loc_conf_t        *policies;    /* a location of each policy */
    ngx_http_pgw_signer_t          *signer;      /* never NULL */
    ngx_uint_t                      subject_read;  /* a variable reads it */
    ngx_array_t                     claims_read;   /* ngx_str_t: names of claims
                                                      that variables read */
} ngx_http_pgw_main_conf_t;


/* Context: server.  Settings that apply before the location is known. */

typedef struct {
    ngx_array_t                 *strip;        /* claim_header_t: the ids, then
                                                  other names to strip */
    uint64_t                     strip_lengths;  /* bit mask of their lengths */
    ngx_uint_t                   any_enabled;  /* on in the server or in one of
                                                   its locations */
    ngx_uint_t                   trace;        /* ngx_http_pgw_trace_e */
    ngx_uint_t                   certificate;  /* ngx_http_pgw_certificate_e */
    ngx_array_t                 *certificate_peers;  /* ngx_cidr_t, or NULL */
} ngx_http_pgw_srv_conf_t;


/* Places of a token other than Authorization. */

enum {
    NGX_HTTP_PGW_SOURCE_COOKIE = 0,
    NGX_HTTP_PGW_SOURCE_PROTOCOL,
    NGX_HTTP_PGW_SOURCES
};


typedef struct {
    ngx_str_t                    prefix[NGX_HTTP_PGW_SOURCES];
                                               /* of the token, or name of
                                                  the cookie; len 0 if the
                                                  place is not used */
} ngx_http_pgw_token_from_t;


/* How forward-auth reads the request that it decides on. */

enum {
    NGX_HTTP_PGW_FORWARD_OFF = 0,
    NGX_HTTP_PGW_FORWARD_FORWARDED,    /* headers of Traefik and Caddy */
    NGX_HTTP_PGW_FORWARD_ORIGINAL,     /* headers of nginx */
    NGX_HTTP_PGW_FORWARD_REQUEST       /* it is the request itself: Envoy */
};


/* Context: http, server, location; merged.  Const in request handlers. */

struct ngx_http_pgw_loc_conf_s {
    ngx_flag_t                    enable;
    ngx_uint_t                    access;        /* bit mask, 0 if not set */
    ngx_str_t                     levels;        /* "account branch" */
    ngx_str_t                     scopes;        /* "ACCOUNT BRANCH" */
    ngx_uint_t                    methods;       /* bit mask, 0 for any */
    ngx_str_t                     allow;         /* "GET, HEAD, OPTIONS" */
    ngx_str_t                     route_id;
    ngx_str_t                     service_name;
    ngx_http_pgw_route_t         *route;         /* counters of route_id */
    ngx_array_t                  *issuers;       /* pj_str_t */
    ngx_array_t                  *trusted;       /* trusted_t; NULL for all */
    ngx_array_t                  *audiences;     /* pj_str_t */
    time_t                        leeway;
    size_t                        token_max_size;
    ngx_array_t                  *claim_map;     /* claim_header_t */
    ngx_http_pgw_assertion_t     *assertion;     /* or NULL */
    ngx_array_t                  *claim_headers; /* claim_map and, without
                                                    a claim, the assertion */
    const ngx_array_t            *claims_read;   /* of main_conf_t */
    ngx_array_t                  *required;      /* rule_t, or NULL */
    ngx_http_pgw_authentication_t  *authentication;  /* or NULL */
    ngx_array_t                  *single_headers;  /* ngx_str_t in lower case,
                                                      or NULL */
    ngx_http_pgw_token_from_t    *token_from;    /* NULL for only
                                                    Authorization */
    ngx_flag_t                    forward_authorization;
    ngx_flag_t                    close_at_expiry;
    ngx_flag_t                    allow_confirmation;  /* accept "cnf" */
    ngx_array_t                  *proof_origins; /* pj_str_t: scheme and
                                                    authority of "htu", or
                                                    NULL */
    ngx_uint_t                    bound;         /* ngx_http_pgw_bound_e */
    ngx_flag_t                    forward_proof;
    ngx_uint_t                    proof;         /* bound tokens are accepted
                                                    with a proof */
    ngx_uint_t                    certificate;   /* and with a certificate */
    ngx_flag_t                    shadow;
    ngx_flag_t                    strict_path;   /* refuse ambiguous paths */
    ngx_flag_t                    strict_origin;   /* refuse other pages */
    ngx_flag_t                    allow_return;  /* accept "return", which runs
                                                    before the guard */
    ngx_flag_t                    allow_cache;   /* accept a cache that clients
                                                    share */
    ngx_str_t                     challenge;     /* "Bearer realm=..." */
    ngx_str_t                     metadata;      /* URL; len 0 if not set */
    ngx_array_t                  *resource;      /* pj_str_t: URL and scopes */
    ngx_str_t                     document;      /* its metadata, in JSON */
    ngx_uint_t                    policy;        /* number of the rules for
                                                    tokens; 0 without a token */
    ngx_http_pgw_loc_conf_t      *policy_next;   /* in mcf->policies */

    /* these four are not inherited */
    ngx_http_core_srv_conf_t     *explain;       /* server that is explained or
                                                    asked by forward-auth */
    ngx_str_t                     explain_name;  /* its name, as configured */
    ngx_uint_t                    forward;       /* NGX_HTTP_PGW_FORWARD_... */
    ngx_uint_t                    route_not_found;

    ngx_uint_t                    one_record;    /* parameters are sent in one
                                                    record: FastCGI or uwsgi */
    ngx_http_handler_pt           handler;
    ngx_uint_t                    other_handler;  /* an "if" has a different
                                                     content handler */

    ngx_http_pgw_place_t          place;         /* of the block */

    ngx_array_t                  *cors_origins;  /* web_origin_t in lower
                                                  case, or NULL */
    ngx_str_t                     cors_methods;  /* "GET, HEAD" */
    ngx_str_t                     cors_headers;
    ngx_str_t                     cors_exposed;  /* headers of responses */
    time_t                        cors_max_age;
};


/* platform_gateway_bound */

typedef enum {
    NGX_HTTP_PGW_BOUND_ACCEPT = 0,
    NGX_HTTP_PGW_BOUND_REQUIRE
} ngx_http_pgw_bound_e;


/* The ids in a verified token. */

typedef struct {
    ngx_str_t                    account_id;   /* data is NULL if absent */
    ngx_str_t                    session_id;
    ngx_str_t                    workspace_id;
} ngx_http_pgw_subject_t;


/* The result of a good token under a policy, in the pool of the request. */

typedef struct {
    ngx_uint_t               access;   /* access levels */
    ngx_http_pgw_subject_t  *subject;  /* the first three strings */
    ngx_str_t               *strings;  /* ids, claims that variables read,
                                          texts of rules with variables, and
                                          headers in the order of the map; data
                                          is NULL if absent */
    ngx_uint_t               nstrings;
    size_t                   size;     /* bytes of a copy of strings */
    ngx_http_pgw_mark_t      mark;
    int64_t                  exp;      /* seconds */
    uint64_t                 missing;  /* bit mask of conf->required: rules that
                                          do not hold, or only by a variable */
    int64_t                  auth_time;  /* result of authentication_time(), if
                                            the location requires it */
    int64_t                  asserted;   /* time of the assertion, seconds */
    ngx_uint_t               bound;    /* ngx_http_pgw_binding_e: to what has
                                          the thumbprint */
    u_char                   thumbprint[PJ_SHA256_BYTES];
} ngx_http_pgw_grant_t;

#define NGX_HTTP_PGW_GRANT_IDS  3      /* ids in strings */

/* The values of headers, which are the last strings. */
#define ngx_http_pgw_grant_headers(grant, conf)                               \
    ((grant)->strings + (grant)->nstrings - (conf)->claim_headers->nelts)


/* The issuer of a token, and its key set at the time of the verification. */

typedef struct {
    ngx_http_pgw_issuer_t  *issuer;
    const pj_keyset_t      *set;       /* to compare only: it may be freed; NULL
                                          if the issuer had no keys */
    ngx_uint_t              version;
} ngx_http_pgw_keys_t;


/* The context of a request, which nginx drops at an internal redirect.  The
   state that must outlive a redirect is in ngx_http_pgw_request_t. */

typedef struct {
    ngx_int_t             verdict;      /* NGX_OK or a status, once decided */
    ngx_uint_t            problem;      /* see _problem.c */

    /* Result of the first verification, by the guard or for a variable.  It is
       valid for this token, policy and key set only, because "rewrite" changes
       the location and keeps the context. */
    pj_str_t              token;
    ngx_uint_t            policy;       /* 0 before a verification */
    ngx_http_pgw_keys_t   keys;
    pj_err_t              err;
    int64_t               iat;          /* with KID_UNKNOWN; not verified */
    ngx_http_pgw_grant_t  grant;        /* with PJ_OK */
    ngx_http_pgw_reason_e  reason;      /* of err, of a missing token, or of a
                                           revocation */

    unsigned              dpop:1;       /* the token has the scheme DPoP */
    unsigned              settled:1;    /* the guard has accepted the token */
    unsigned              looked_up:1;  /* unshared has been decided */
    unsigned              unshared:1;   /* bypasses caches that clients share */
} ngx_http_pgw_ctx_t;


/*
 * The state of a main request and its subrequests.  It is found through a pool
 * cleanup, because internal redirects clear the contexts of all modules.  Once
 * it exists, headers are stripped and both ids are set.  A subrequest may only
 * set injected, anonymous and shown; the rest describes the main request, which
 * is logged and answered.
 */

typedef struct {
    ngx_str_t                    request_id;
    ngx_str_t                    correlation_id;
    ngx_list_part_t              sent;         /* all headers of the client */
    ngx_str_t                    trace_id;     /* len 0 without a trace */
    ngx_str_t                    traceparent;  /* of a trace that began here;
                                                  else len is 0 */

    ngx_http_pgw_reason_e        reason;
    const char                  *code;         /* NULL for the reason's */
    const char                  *detail;       /* NULL for the reason's */
    ngx_str_t                    errors;       /* JSON array of the refusal's
                                                  faults; may be empty */
    const ngx_str_t             *required;     /* levels of the location, or
                                                  NULL */
    const ngx_str_t             *scope;        /* sufficient scope, or NULL */
    const ngx_http_pgw_subject_t  *subject;    /* of the verified token, or
                                                  NULL */
    const ngx_http_pgw_subject_t  *named;      /* read by a variable, or NULL */

    ngx_http_pgw_shown_t        *shown;        /* NULL: no proof yet */
    ngx_str_t                    method;       /* that another proxy asks about;
                                                  len 0 for the client's */

    ngx_str_t                    nonce;        /* DPoP-Nonce of responses; may
                                                  be empty */

    /* headers of a refusal */
    ngx_str_t                    challenge;    /* WWW-Authenticate; may be
                                                  empty */
    ngx_str_t                    allow;        /* Allow */
    time_t                       retry_after;  /* Retry-After, s; 0 for none */

    /* set by the request or a subrequest */
    unsigned                     injected:1;   /* headers were set for a
                                                  location */
    unsigned                     anonymous:1;  /* a variable has read an empty
                                                  subject */

    unsigned                     shadowed:1;   /* the refusal was only logged */
    unsigned                     peer_trusted:1;  /* its Client-Cert is true */
} ngx_http_pgw_request_t;


typedef char *ngx_http_pgw_set_t(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

extern ngx_module_t  ngx_http_platform_gateway_module;


#endif /* _NGX_HTTP_PGW_H_INCLUDED_ */
