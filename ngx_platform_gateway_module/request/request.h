
/*
 * The way of a request: its phases, the guard, CORS, refusals, forward-auth and
 * explanations.
 */


#ifndef _NGX_HTTP_PGW_REQUEST_H_INCLUDED_
#define _NGX_HTTP_PGW_REQUEST_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_access.c */

/* Answers OPTIONS, and refuses a method that the location does not take; 0 is
   one that none does.  NGX_DECLINED: r goes on. */
ngx_int_t ngx_http_pgw_access_method(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

ngx_int_t ngx_http_pgw_access_init(ngx_conf_t *cf);
ngx_int_t ngx_http_pgw_access_init_module(ngx_cycle_t *cycle);


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
void ngx_http_pgw_guard_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);

/*
 * Adds the trusted headers of grant (NULL: none, r stays anonymous) and removes
 * Authorization where conf says so.  NGX_DECLINED: done, the phase goes on.
 */
ngx_int_t ngx_http_pgw_guard_inject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant);

/*
 * Refuses r as request_refuse() does, or notes in shadow mode that it would
 * have been: then NGX_DECLINED.
 */
ngx_int_t ngx_http_pgw_guard_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, const char *detail);


/* ngx_http_pgw_explain.c */

ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_http_pgw_question_t *question);


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

/* Notes whether any of these variables is read, and of which claims. */
ngx_int_t ngx_http_pgw_subject_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_cors.c */

/* Directive: ORIGIN ... | off; may be given several times. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_origins;

/* Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
   among them stands for cmd->post, text that holds without the directive. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_list;

/* Why the preflight for such a request would be refused, or NONE; *detail as
   request_refuse() takes it. */
ngx_http_pgw_reason_e ngx_http_pgw_cors_ask(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail);

/* Answers OPTIONS; NGX_DECLINED in shadow mode for a preflight that would be
   refused. */
ngx_int_t ngx_http_pgw_cors_options(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

/* Called from the header filter: takes out an upstream's CORS headers and adds
   ours, on any response. */
ngx_int_t ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_problem.c */

/* Puts the header and body filters before those of all other modules. */
void ngx_http_pgw_problem_init(void);


/* ngx_http_pgw_forward.c */

extern ngx_http_pgw_content_t  ngx_http_pgw_forward_content;

/* Directive: forwarded|original [SERVER_NAME]; cmd->post is that content. */
ngx_http_pgw_set_t  ngx_http_pgw_forward_auth;


#endif /* _NGX_HTTP_PGW_REQUEST_H_INCLUDED_ */
