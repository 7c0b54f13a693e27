
/*
 * Private structures of the platform gateway module.
 *
 * Who calls whom: module -> access -> { guard, headers, cors, problem }; cors
 * -> { locate, guard }; local -> explain -> { locate, token, keys,
 * revocations }; guard -> { token, cache, keys, revocations, headers, reason };
 * revocations -> { feed, table }; subject -> guard; refresh -> { keys, fetch,
 * poll }; keys -> lease; poll -> { fetch, lease, feed }; feed -> table; problem
 * -> { reason, cors }.  All know the request's state, which headers makes; log
 * and metrics read it.  What a reason means is in the table of reason, which
 * all of them read.  Only token and keys verify with pj.
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

#define NGX_HTTP_PGW_GUARDED                                                  \
    (NGX_HTTP_PGW_ACCOUNT|NGX_HTTP_PGW_BRANCH|NGX_HTTP_PGW_SYSTEM)


#define NGX_HTTP_PGW_IDS         2    /* the first names to strip */
#define NGX_HTTP_PGW_LEEWAY_MAX  300  /* s, of all locations */


typedef struct ngx_http_pgw_keys_s ngx_http_pgw_keys_t;
typedef struct ngx_http_pgw_loc_conf_s ngx_http_pgw_loc_conf_t;
typedef struct ngx_http_pgw_cache_s ngx_http_pgw_cache_t;
typedef struct ngx_http_pgw_route_s ngx_http_pgw_route_t;
typedef struct ngx_http_pgw_revocations_s ngx_http_pgw_revocations_t;


/* A header name of ours, and the claim that becomes its value. */

typedef struct {
    ngx_str_t                    claim;
    ngx_str_t                    name;         /* X-Account-Id */
    ngx_str_t                    lowcase;      /* x-account-id */
    ngx_uint_t                   hash;
} ngx_http_pgw_claim_header_t;


/* Where something was said in the configuration; line 0: nowhere. */

typedef struct {
    ngx_str_t                    file;
    ngx_uint_t                   line;
} ngx_http_pgw_place_t;


/* Context: http.  One key set serves the whole nginx. */

typedef struct {
    ngx_http_pgw_keys_t            *keys;        /* these two never NULL */
    ngx_http_pgw_cache_t           *cache;
    ngx_http_pgw_route_t           *routes;
    ngx_http_pgw_revocations_t     *revocations;  /* NULL: none are asked for */
    ngx_msec_t                      revocations_after;  /* 0: not said */
    ngx_uint_t                      revocations_refuse;
    ngx_http_pgw_place_t            metrics_place;  /* line 0: nothing is
                                                       counted */

    /* a location that needs keys, or NULL */
    const ngx_http_pgw_loc_conf_t  *guarded;

    /* one for each policy there is, or NULL */
    ngx_http_pgw_loc_conf_t        *policies;

    ngx_uint_t                      subject_read;  /* by a variable, perhaps
                                                      before the guard */

    ngx_msec_t                      key_cooldown;  /* for each, ... */
    ngx_msec_t                      key_soft_age;
    ngx_msec_t                      key_hard_age;
    ngx_http_pgw_place_t            key_places[3];  /* ... its directive */
    ngx_msec_t                      key_wait;    /* of one request */
    ngx_int_t                       key_waiters;  /* per worker */
    ngx_str_t                       key_cache_file;
} ngx_http_pgw_main_conf_t;


/* Context: server.  What is needed before the location is known. */

typedef struct {
    ngx_array_t                 *strip;        /* claim_header_t: the ids, the
                                                  default map, all others */
    uint64_t                     strip_lengths;  /* a bit for each length */
    ngx_uint_t                   any_enabled;  /* on here or in a location */
    ngx_uint_t                   answers;      /* server{} has a "return" */
} ngx_http_pgw_srv_conf_t;


/* Context: http, server, location; merged.  Const in request handlers. */

struct ngx_http_pgw_loc_conf_s {
    ngx_flag_t                    enable;
    ngx_uint_t                    access;        /* bit mask, 0: not set */
    ngx_uint_t                    methods;       /* NGX_HTTP_GET ..., 0: any */
    ngx_str_t                     allow;         /* "GET, HEAD, OPTIONS" */
    ngx_str_t                     route_id;
    ngx_str_t                     service_name;
    ngx_http_pgw_route_t         *route;         /* what counts by route_id */
    ngx_array_t                  *issuers;       /* pj_str_t */
    ngx_array_t                  *audiences;     /* pj_str_t */
    time_t                        leeway;
    size_t                        token_max_size;
    ngx_array_t                  *claim_headers;
    ngx_flag_t                    forward_authorization;
    ngx_flag_t                    allow_confirmation;  /* "cnf" may stand */
    ngx_flag_t                    shadow;
    ngx_flag_t                    allow_return;  /* before the guard */
    ngx_flag_t                    allow_cache;   /* shared by clients */
    ngx_str_t                     challenge;     /* "Bearer realm=..." */
    ngx_uint_t                    policy;        /* equal where tokens mean the
                                                    same; 0: no token needed */
    ngx_http_pgw_loc_conf_t      *policy_next;   /* in mcf->policies */

    /* these three are not inherited */
    ngx_http_core_srv_conf_t     *explain;       /* of which server */
    ngx_str_t                     explain_name;
    ngx_uint_t                    route_not_found;

    ngx_uint_t                    one_record;    /* carries the headers: FastCGI
                                                    and uwsgi */
    ngx_http_handler_pt           handler;
    ngx_uint_t                    elsewhere;     /* an "if" with another one */

    ngx_http_pgw_place_t          place;         /* where the block begins */

    ngx_array_t                  *cors_origins;  /* origin_t; NULL: none */
    ngx_str_t                     cors_methods;  /* "GET, HEAD" */
    ngx_str_t                     cors_headers;
    time_t                        cors_max_age;
};


/* Whom a verified token names. */

typedef struct {
    ngx_str_t                    account_id;   /* data NULL: none */
    ngx_str_t                    session_id;
    ngx_str_t                    workspace_id;
} ngx_http_pgw_subject_t;


/*
 * What a verified token gives to a request under a policy.  All of it lives as
 * long as the request's pool.
 */

typedef struct {
    ngx_uint_t               access;   /* the level that it opens */
    ngx_http_pgw_subject_t  *subject;  /* the first of the ... */
    ngx_str_t               *strings;  /* account, session and workspace, then
                                          the policy's headers in the order of
                                          the map; data NULL: none */
    ngx_uint_t               nstrings;
    size_t                   size;     /* of a copy of strings */
    ngx_http_pgw_mark_t      mark;
} ngx_http_pgw_grant_t;

#define NGX_HTTP_PGW_GRANT_IDS  3      /* of the strings */


/*
 * One pass through the phases; an internal redirect starts with a new one.
 * What must outlive a redirect (ids, injected headers, what to log) is in
 * ngx_http_pgw_request_t.
 */

typedef struct {
    ngx_int_t             verdict;      /* NGX_OK or a status, once decided */
    ngx_uint_t            problem;      /* see _problem.c */

    /*
     * What the token was found to be, whoever asked first: the guard or a
     * variable.  It holds for these bytes, policy and key set alone, since a
     * "rewrite" changes the location and keeps the context.
     */
    pj_str_t              token;
    ngx_uint_t            policy;       /* 0: nothing is known */
    ngx_uint_t            version;
    const pj_keyset_t    *set;          /* compared, never followed */
    pj_err_t              err;
    int64_t               iat;          /* with PJ_ERR_KID_UNKNOWN: as the token
                                           says */
    ngx_http_pgw_grant_t  grant;        /* with PJ_OK */

    ngx_http_pgw_reason_e  reason;      /* what follows from err, or that it is
                                           revoked by now */

    unsigned              settled:1;    /* by the guard: the token is good */
    unsigned              missing:1;    /* there is no bearer token */
    unsigned              looked_up:1;  /* unshared is decided */
    unsigned              unshared:1;   /* no cache may answer it or keep its
                                           response */
} ngx_http_pgw_ctx_t;


/* What a browser asks for (the Fetch standard, "CORS protocol"). */

typedef struct {
    const ngx_str_t             *origin;
    const ngx_str_t             *method;       /* that it would use */
    ngx_uint_t                   origins;      /* how many there are */
    ngx_uint_t                   methods;
    const ngx_list_part_t       *headers;      /* those that it would send are
                                                  listed among these */
} ngx_http_pgw_cors_request_t;


/*
 * The request as a whole, found through a pool cleanup of the main request,
 * since internal redirects zero every module context.  Where it is, the
 * headers are stripped and both ids are set.  A subrequest writes here nothing
 * but what holds for all (injected, anonymous): what is logged and answered is
 * the main request's.
 */

typedef struct {
    ngx_str_t                    request_id;
    ngx_str_t                    correlation_id;
    ngx_http_pgw_cors_request_t  cors;

    ngx_http_pgw_reason_e        reason;
    const char                  *code;         /* of the problem, and its ... */
    const char                  *detail;       /* ... detail; NULL: as the
                                                  reason has it */
    ngx_uint_t                   required;     /* access of the location */
    ngx_http_pgw_subject_t       subject;      /* of the verified token */
    const ngx_http_pgw_subject_t  *named;      /* by a variable, perhaps before
                                                  the guard; NULL: nobody */

    /* what goes with a refusal */
    ngx_str_t                    challenge;    /* WWW-Authenticate, or none */
    ngx_str_t                    allow;        /* of the location's methods */
    time_t                       retry_after;  /* seconds, 0: no header */

    /* in this request or in a subrequest */
    unsigned                     injected:1;   /* headers, for a location */
    unsigned                     anonymous:1;  /* a variable of the subject was
                                                  read and was empty */

    unsigned                     shadowed:1;   /* would have been refused */
} ngx_http_pgw_request_t;


/* An allowed origin: all of it, or what stands around the labels of a "*". */

typedef struct {
    ngx_str_t                    prefix;       /* "https://app.example.com" or
                                                  "https://"; all of the pattern
                                                  stands there, up to a zero */
    ngx_str_t                    suffix;       /* "" or ".example.com:8443" */
} ngx_http_pgw_origin_t;


extern ngx_module_t  ngx_http_platform_gateway_module;


/* ngx_http_pgw_headers.c: what is known of a request, its headers and ids */

/*
 * The request-wide state of r's main request, made at first use, ids
 * included; NULL when memory is short.  Works at any point in the life of r,
 * a request line that did not parse included.
 */
ngx_http_pgw_request_t *ngx_http_pgw_request_get(ngx_http_request_t *r);

/*
 * Where r notes what it decides and answers: that state, or for a subrequest a
 * copy that is nobody else's.
 */
ngx_http_pgw_request_t *ngx_http_pgw_request_own(ngx_http_request_t *r);

/* The context of this pass of r, made at first use; NULL: no memory. */
ngx_http_pgw_ctx_t *ngx_http_pgw_ctx_get(ngx_http_request_t *r);

/*
 * Gives r the headers that are right for a location, in one pass: drops every
 * context header and each alias of one, sets the ids, and adds those of grant
 * (NULL: none); takes out Authorization where conf says so (NULL: puts it
 * back).  With a new gr, of a main request, it first chooses the ids (the
 * client's where they are well formed and sent once, else new ones) and notes
 * gr->cors.  Does no more where the gateway is off in the whole server.
 *
 * Neither elements nor list parts that another request may share are written
 * to.
 */
ngx_int_t ngx_http_pgw_headers_make(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant);

/* Lower case for letters, digits as they are, '-' for any other byte. */
u_char ngx_http_pgw_headers_fold(u_char c);

/* Finds $request_id, to set it, and puts in the filter of responses' ids. */
ngx_int_t ngx_http_pgw_ids_init(ngx_conf_t *cf);

/* Whether h has that name, a literal. */

#define ngx_http_pgw_header_is(h, literal)                                    \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_strncasecmp((h)->key.data, (u_char *) (literal),                  \
                        sizeof(literal) - 1) == 0)

/* The same of a request's h, with a lower-case literal: cheaper. */

#define ngx_http_pgw_header_in_is(h, literal)                                 \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_memcmp((h)->lowcase_key, literal, sizeof(literal) - 1) == 0)

/*
 * Walks a list of headers: start with *part = &list->part and *i = 0.  NULL at
 * the end, and at once for a list that was never set up (HTTP/0.9).
 */

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_next(const ngx_list_part_t **part, ngx_uint_t *i)
{
    while (*part && *i >= (*part)->nelts) {
        *part = (*part)->next;
        *i = 0;
    }

    return *part ? (ngx_table_elt_t *) (*part)->elts + (*i)++ : NULL;
}

/* Adds a response header; name is a literal.  NULL when memory is short. */
#define ngx_http_pgw_header_add(r, name, value)                               \
    ngx_http_pgw_header_push(r, name, sizeof(name) - 1, value)

ngx_table_elt_t *ngx_http_pgw_header_push(ngx_http_request_t *r,
    const char *name, size_t len, const ngx_str_t *value);


/* ngx_http_pgw_conf.c: values of directives */

/* Methods by name, in the order in which Allow lists them. */
extern ngx_conf_bitmask_t  ngx_http_pgw_methods[];

/* Access levels by name; one has two. */
extern ngx_conf_bitmask_t  ngx_http_pgw_levels[];

typedef char *ngx_http_pgw_set_t(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* A flag, or with cmd->post a bitmask, that may not be set inside an "if". */
ngx_http_pgw_set_t  ngx_http_pgw_conf_plain;

ngx_http_pgw_set_t  ngx_http_pgw_conf_strings;  /* an array of pj_str_t */
ngx_http_pgw_set_t  ngx_http_pgw_conf_route;
ngx_http_pgw_set_t  ngx_http_pgw_conf_claim;
ngx_http_pgw_set_t  ngx_http_pgw_conf_strip;

/* NAME:SIZE, of at least min bytes. */
char *ngx_http_pgw_conf_zone(ngx_conf_t *cf, const ngx_str_t *value,
    const char *example, ssize_t min, ngx_str_t *name, size_t *zone_size);

char *ngx_http_pgw_conf_leeway(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_pgw_conf_realm(ngx_conf_t *cf, void *post, void *data);

/* The srv_conf_t, with the names that every server strips. */
void *ngx_http_pgw_conf_create_srv(ngx_conf_t *cf);
char *ngx_http_pgw_conf_merge_srv(ngx_conf_t *cf, void *parent, void *child);

/* Completes conf->methods and writes conf->allow. */
char *ngx_http_pgw_conf_methods(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);

/* Merges the claim maps; the header names in conf's map are stripped too. */
char *ngx_http_pgw_conf_merge_claims(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_srv_conf_t *sscf);


/* ngx_http_pgw_check.c: what nginx -t refuses, and what others say */

/* Notes where cf is. */
void ngx_http_pgw_conf_place(ngx_conf_t *cf, ngx_http_pgw_place_t *place);

/*
 * Logs "... in FILE:LINE", for checks at which nginx is past that line (at the
 * end of http{}).  place NULL: that of the location in cf, whose name then
 * begins the text.  Returns NGX_CONF_ERROR.
 */
char *ngx_http_pgw_conf_fail(ngx_conf_t *cf,
    const ngx_http_pgw_place_t *place, const char *format, ...);

/*
 * What the location or server in ctx does in the rewrite phase, or NULL: the
 * compiled code, the first member of the rewrite module's configuration.  A
 * word that is a function's address marks an instruction.
 */
const ngx_array_t *ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Whether it answers by itself in that phase: by "return", or by a "rewrite"
   that redirects. */
ngx_uint_t ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Whether its "allow" and "deny" end with "deny all", after no "allow all". */
ngx_uint_t ngx_http_pgw_peek_access_denies(ngx_conf_t *cf);

/* A module that may pass requests, and with them the trusted headers, on. */

typedef struct {
    ngx_str_t                    name;         /* "proxy" */
    const char                  *directive;    /* tells where its upstream_conf
                                                  is */
    const char                  *param;        /* sets what goes into its one
                                                  record, or NULL */
} ngx_http_pgw_passer_t;

/*
 * The next such module for the location in ctx (*passer NULL: the first) and
 * its merged configuration there; NULL: no other.  The one that serves the
 * location has a fixed upstream; where none has, the address is made of
 * variables, and any of them may serve it.
 */
ngx_http_upstream_conf_t *ngx_http_pgw_peek_passer(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx, const ngx_http_pgw_passer_t **passer);

/*
 * Checks a merged location where the gateway is on; notes in the main conf
 * that keys are needed, and sets conf->one_record.
 */
char *ngx_http_pgw_check_location(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_access.c: the phases, our place among other modules */

ngx_int_t ngx_http_pgw_phases_init(ngx_conf_t *cf);
ngx_int_t ngx_http_pgw_phases_init_module(ngx_cycle_t *cycle);


/* ngx_http_pgw_guard.c */

/*
 * NGX_OK: guarded and verified; NGX_DECLINED: nothing to say (public);
 * NGX_AGAIN: waits for keys, comes again; else the status of the refusal.
 */
ngx_int_t ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf);

/*
 * What the token of r is, as the guard finds it, in the context's err, reason
 * and grant; NULL: conf asks for none, or memory is short.  Decides nothing,
 * waits for nothing.
 */
ngx_http_pgw_ctx_t *ngx_http_pgw_guard_look(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes in gr that r goes on, and forgets a refusal of an earlier location. */
void ngx_http_pgw_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);

/*
 * Refuses r as reason_refuse() does, or notes in shadow mode that it would
 * have been: then NGX_DECLINED.
 */
ngx_int_t ngx_http_pgw_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, const char *detail);


/* ngx_http_pgw_token.c: the bearer token, and policies for it */

/* Sets conf->policy of a merged location where the gateway is on. */
char *ngx_http_pgw_policy_intern(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);

/* The stages in which a token is verified, in their order. */

typedef enum {
    NGX_HTTP_PGW_STAGE_SPLIT = 0,
    NGX_HTTP_PGW_STAGE_HEADER,
    NGX_HTTP_PGW_STAGE_PAYLOAD,
    NGX_HTTP_PGW_STAGE_POLICY,
    NGX_HTTP_PGW_STAGE_KEY,
    NGX_HTTP_PGW_STAGE_SIGNATURE,
    NGX_HTTP_PGW_STAGES
} ngx_http_pgw_stage_e;


/* What an explanation wants to know of them. */

typedef struct {
    int64_t                      at;           /* seconds: the time to take */
    uint64_t                     found[NGX_HTTP_PGW_STAGES];
                                               /* PJ_FAULT()s, that of PJ_OK
                                                  too; 0: not come to */
    const pj_json_t             *header;       /* NULL: not read */
} ngx_http_pgw_steps_t;


/*
 * Finds the bearer token in the value of Authorization (NULL: none): NGX_OK,
 * NGX_DECLINED (none, or another scheme), NGX_ERROR (Bearer, but no token68
 * after it).  *token points into value.
 */
ngx_int_t ngx_http_pgw_token_find(const ngx_str_t *value, pj_str_t *token);

/*
 * Verifies token against the conf's policy and set (NULL: no keys).
 * Returns PJ_OK with *claims, PJ_ERR_KID_UNKNOWN when the set has no such key
 * (claims->iat is then what the token says, not verified), or why it is
 * refused.  What *claims points at is allocated from pool, 30 to 60 times the
 * size of the token.
 *
 * With steps (else NULL) it takes the time from there, notes what each stage
 * found, and after a fault still runs the stages that do not depend on it; it
 * returns the first fault all the same.
 */
pj_err_t ngx_http_pgw_token_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    const pj_keyset_t *set, pj_claims_t *claims, ngx_http_pgw_steps_t *steps);

/*
 * Why a token whose key is not in set (NULL: no keys) is refused, if no fetch
 * can be waited for.
 */
ngx_http_pgw_reason_e ngx_http_pgw_token_no_key(
    const ngx_http_pgw_keys_t *keys, const pj_keyset_t *set, int64_t iat);

/* The access level that tokens of kind open; 0: none. */
ngx_uint_t ngx_http_pgw_token_access(pj_token_kind_t kind);

/* What claims give under the policy of conf; it lives as long as both they and
   pool do. */
ngx_int_t ngx_http_pgw_token_grant(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant);

/* Copies a grant; mem has from->size bytes for what it points to.  NGX_ERROR:
   mem is NULL. */
ngx_int_t ngx_http_pgw_grant_copy(ngx_http_pgw_grant_t *to,
    const ngx_http_pgw_grant_t *from, void *mem);


/* ngx_http_pgw_cache.c: verified tokens */

ngx_http_pgw_cache_t *ngx_http_pgw_cache_create(ngx_conf_t *cf);

/* platform_gateway_token_cache off | entries=N [size=S]; */
ngx_http_pgw_set_t  ngx_http_pgw_cache_directive;

/*
 * NGX_OK: ctx->err is what token_verify() would return for ctx->token now, by
 * the policy of conf and the key set of ctx->version (with PJ_OK, ctx->grant is
 * filled from pool), or PJ_ERR_NO_SPACE.  NGX_DECLINED: not in the cache.
 */
ngx_int_t ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache,
    ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx);

/* Keeps a verified token that find() declined. */
void ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx,
    const pj_claims_t *claims);


/* ngx_http_pgw_subject.c: variables that name the subject, and caches */

extern ngx_http_variable_t  ngx_http_pgw_subject_variables[];

/*
 * Keeps requests for which a variable named nobody off the caches of the
 * location in cf, and refuses a configuration that would use an empty one.
 */
char *ngx_http_pgw_subject_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes whether any of these variables is read. */
void ngx_http_pgw_subject_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_H_INCLUDED_ */
