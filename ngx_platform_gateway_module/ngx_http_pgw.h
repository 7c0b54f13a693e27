
/*
 * Types that many files share.
 */


#ifndef _NGX_HTTP_PGW_H_INCLUDED_
#define _NGX_HTTP_PGW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <pj.h>

#include "ngx_http_pgw_reason.h"
#include "ngx_http_pgw_table.h"


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
    ngx_uint_t                   own;          /* of the default map, which says
                                                  nothing of other issuers' */
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
    ngx_uint_t                   answers;      /* server{} has a "return" */
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
    ngx_uint_t                    elsewhere;     /* an "if" with another one */

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
} ngx_http_pgw_judge_t;


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
    ngx_http_pgw_judge_t  by;
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
