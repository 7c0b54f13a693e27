
/*
 * The way of a request: its phases, the guard, CORS, refusals, forward-auth and
 * explanations.
 */


#ifndef _NGX_HTTP_PGW_REQUEST_H_INCLUDED_
#define _NGX_HTTP_PGW_REQUEST_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "conf/conf.h"
#include "base/base.h"


/* ngx_http_pgw_access.c */

/* Returns the bit of a method, or NGX_HTTP_UNKNOWN for methods without a bit of
   their own.  Returns 0 for TRACE and CONNECT, which no location accepts. */
ngx_uint_t ngx_http_pgw_access_mask(const ngx_str_t *name);

#define ngx_http_pgw_access_accepts(conf, method)                             \
    ((method) & ((conf)->methods ? (conf)->methods : (ngx_uint_t) -1))

/* Answers OPTIONS, and refuses an ambiguous path or a method that the location
   does not accept.  Returns NGX_DECLINED if r goes on. */
ngx_int_t ngx_http_pgw_access_method(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

ngx_int_t ngx_http_pgw_access_init(ngx_conf_t *cf);
ngx_int_t ngx_http_pgw_access_init_module(ngx_cycle_t *cycle);


/* ngx_http_pgw_guard.c */

/*
 * Returns NGX_OK if the token admits r, NGX_DECLINED in a public location,
 * NGX_AGAIN if r waits for keys and the phase runs again, else the status of
 * the refusal.
 */
ngx_int_t ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf);

/*
 * Verifies the token of r as the guard does, into err, reason and grant of the
 * context, without a decision or a wait.  Returns NULL if conf requires no
 * token, or on an allocation failure.
 */
ngx_http_pgw_ctx_t *ngx_http_pgw_guard_authenticate(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);

/* Records in gr that r goes on, and clears a refusal of an earlier location. */
void ngx_http_pgw_guard_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);

/*
 * Adds the trusted headers of grant, unless it is NULL for an anonymous r, and
 * removes Authorization if conf does not forward it.  Returns NGX_DECLINED on
 * success.
 */
ngx_int_t ngx_http_pgw_guard_inject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant);

/*
 * Refuses r as request_refuse() does.  In shadow mode records the refusal and
 * returns NGX_DECLINED.
 */
ngx_int_t ngx_http_pgw_guard_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, const char *detail);


/* ngx_http_pgw_single.c */

/* platform_gateway_single_header off | NAME ...; */
ngx_http_pgw_set_t  ngx_http_pgw_single_directive;

/* Returns NULL, or why servers may read one of the headers in
   conf->single_headers in different ways. */
const char *ngx_http_pgw_single_fault(const ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_expiry.c */

/* If conf has it on, ends the response of r when the token in ctx, which has
   admitted r, is good no more. */
ngx_int_t ngx_http_pgw_expiry_watch(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx);


/* ngx_http_pgw_explain.c */

/* The request that an explanation is about. */

typedef struct {
    ngx_http_core_srv_conf_t    *server;
    ngx_str_t                    token;        /* data is NULL if absent */
    ngx_str_t                    proof;        /* DPoP; NULL data if absent */
    ngx_str_t                    method;
    ngx_str_t                    path;
    ngx_str_t                    origin;       /* data is NULL if absent */
    ngx_str_t                    headers;      /* names, with commas */
    int64_t                      at;           /* time of the request, s */
} ngx_http_pgw_question_t;

ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    ngx_http_pgw_question_t *question);


/* ngx_http_pgw_describe.c */

/* Writes the member "location"; conf is NULL if there is none. */
void ngx_http_pgw_describe_location(ngx_http_pgw_text_t *text,
    const ngx_http_core_loc_conf_t *clcf, const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_question.c */

extern ngx_http_pgw_content_t  ngx_http_pgw_question_content;


/* ngx_http_pgw_subject.c */

extern ngx_http_variable_t  ngx_http_pgw_subject_variables[];

/*
 * Keeps requests for which a variable named nobody off the caches of the
 * location in cf, and refuses a configuration that would use an empty one.
 */
char *ngx_http_pgw_subject_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

/* Notes whether any variable of a subject is read, and for which claims. */
ngx_int_t ngx_http_pgw_subject_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_cors.c */

/* Directive: ORIGIN ... | off; may be given several times. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_origins;

/* Directives: NAME ..., joined into the ngx_str_t at cmd->offset.  "default"
   stands for cmd->post, the value without the directive. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_list;

/* Returns the reason to refuse the preflight of the request in question, or
   NONE; *detail is for request_refuse(). */
ngx_http_pgw_reason_e ngx_http_pgw_cors_explain(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail);

/* Answers OPTIONS.  In shadow mode returns NGX_DECLINED for a forbidden
   preflight. */
ngx_int_t ngx_http_pgw_cors_options(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

/* Called from the header filter, for any response: replaces the upstream's CORS
   headers by ours. */
ngx_int_t ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_problem.c */

/* Puts the header and body filters before the filters of other modules. */
void ngx_http_pgw_problem_init(void);


/* ngx_http_pgw_forward.c */

extern ngx_http_pgw_content_t  ngx_http_pgw_forward_content;

/* Directive: forwarded|original|request [SERVER_NAME]; cmd->post is that
   content. */
ngx_http_pgw_set_t  ngx_http_pgw_forward_auth;


#endif /* _NGX_HTTP_PGW_REQUEST_H_INCLUDED_ */
