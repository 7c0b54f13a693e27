
/*
 * The explanation of a decision: what a request with a token, a method and a
 * path would be answered, check by check.
 */


#ifndef _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_
#define _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "ngx_http_pgw.h"


/* The checks, in the order in which the first that fails decides. */

typedef enum {
    NGX_HTTP_PGW_CHECK_PATH = 0,
    NGX_HTTP_PGW_CHECK_LOCATION,
    NGX_HTTP_PGW_CHECK_METHOD,
    NGX_HTTP_PGW_CHECK_BEARER,
    NGX_HTTP_PGW_CHECK_SIZE,
    NGX_HTTP_PGW_CHECK_SHAPE,
    NGX_HTTP_PGW_CHECK_HEADER,
    NGX_HTTP_PGW_CHECK_ALG,
    NGX_HTTP_PGW_CHECK_TYP,
    NGX_HTTP_PGW_CHECK_CRIT,
    NGX_HTTP_PGW_CHECK_KID,
    NGX_HTTP_PGW_CHECK_PAYLOAD,
    NGX_HTTP_PGW_CHECK_KIND,
    NGX_HTTP_PGW_CHECK_CLAIMS,
    NGX_HTTP_PGW_CHECK_ISSUER,
    NGX_HTTP_PGW_CHECK_AUDIENCE,
    NGX_HTTP_PGW_CHECK_BOUND,
    NGX_HTTP_PGW_CHECK_NOT_YET,
    NGX_HTTP_PGW_CHECK_EXPIRY,
    NGX_HTTP_PGW_CHECK_KEY,
    NGX_HTTP_PGW_CHECK_SIGNATURE,
    NGX_HTTP_PGW_CHECK_CONTEXT,
    NGX_HTTP_PGW_CHECKS
} ngx_http_pgw_check_e;


typedef enum {
    NGX_HTTP_PGW_SKIPPED = 0,     /* an earlier one says it all */
    NGX_HTTP_PGW_PASSED,
    NGX_HTTP_PGW_FAILED
} ngx_http_pgw_result_e;


typedef struct {
    ngx_http_pgw_result_e  result;
    ngx_uint_t             reason;  /* where it failed */
    const char            *detail;  /* literal, or NULL */
} ngx_http_pgw_check_t;


typedef struct {
    ngx_http_request_t             *request;   /* that asks */

    /* what is asked about */
    ngx_str_t                       token;     /* data NULL: none */
    ngx_str_t                       method;
    ngx_str_t                       path;
    int64_t                         at;        /* seconds */

    /* where it would be served */
    ngx_http_core_srv_conf_t       *server;
    ngx_str_t                       uri;       /* decoded */
    ngx_http_core_loc_conf_t       *clcf;      /* NULL: not known */
    const ngx_http_pgw_loc_conf_t  *conf;
    ngx_uint_t                      redirect;  /* to the path and "/" */
    ngx_uint_t                      options;   /* answered before any token */

    /* what the token says; nothing of it is to be believed */
    const pj_json_t                *header;    /* NULL: not read */
    pj_claims_t                     claims;    /* root NULL: not read */

    ngx_uint_t                      public;    /* no token is looked at */
    ngx_http_pgw_check_t            check[NGX_HTTP_PGW_CHECKS];
} ngx_http_pgw_explain_t;


/* What the directive tells of. */

typedef struct ngx_http_pgw_explained_s {
    ngx_str_t                    name;         /* empty: of its own server */
    ngx_http_core_srv_conf_t    *server;       /* once merged */
} ngx_http_pgw_explained_t;


/* Notes that a check passed, or failed for that reason. */

static ngx_inline void
ngx_http_pgw_explain_pass(ngx_http_pgw_explain_t *e,
    ngx_http_pgw_check_e check)
{
    e->check[check].result = NGX_HTTP_PGW_PASSED;
}

static ngx_inline void
ngx_http_pgw_explain_fail(ngx_http_pgw_explain_t *e,
    ngx_http_pgw_check_e check, ngx_uint_t reason, const char *detail)
{
    e->check[check].result = NGX_HTTP_PGW_FAILED;
    e->check[check].reason = reason;
    e->check[check].detail = detail;
}


/* ngx_http_pgw_explain.c: the directive and its handler */

/* platform_gateway_explain [server_name]; */
char *ngx_http_pgw_explain_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Checks a merged location: one with the directive states who may ask, and of
 * which server.
 */
char *ngx_http_pgw_explain_check(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_explain_text.c: the checks by name, and the answer */

/* Notes of each check that verifying a token makes what came of it. */
void ngx_http_pgw_explain_steps(ngx_http_pgw_explain_t *e,
    const ngx_http_pgw_steps_t *steps);

ngx_int_t ngx_http_pgw_explain_send(const ngx_http_pgw_explain_t *e);


#endif /* _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_ */
