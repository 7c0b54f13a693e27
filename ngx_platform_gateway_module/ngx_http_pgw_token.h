
#ifndef _NGX_HTTP_PGW_TOKEN_H_INCLUDED_
#define _NGX_HTTP_PGW_TOKEN_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Sets conf->policy of a merged location where the gateway is on. */
char *ngx_http_pgw_token_intern(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);

/* The stages in which a token is verified, in their order. */

typedef enum {
    NGX_HTTP_PGW_STAGE_SPLIT = 0,
    NGX_HTTP_PGW_STAGE_HEADER,
    NGX_HTTP_PGW_STAGE_PAYLOAD,
    NGX_HTTP_PGW_STAGE_CLAIMS,
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
                                                  too; 0: not come to.  POLICY
                                                  has PJ_OK if all of it was
                                                  checked */
    const pj_json_t             *header;       /* NULL: not read */
} ngx_http_pgw_steps_t;


/* Finds the bearer token in the value of Authorization (NULL: none), or why
   there is none: TOKEN_SHAPE is Bearer and nothing after it. */
ngx_http_pgw_reason_e ngx_http_pgw_token_find(const ngx_str_t *value,
    pj_str_t *token);

/*
 * Verifies token against the conf's policy, as the issuer that it names: of the
 * list that begins with by, which becomes that one.  Returns PJ_OK with
 * *claims, PJ_ERR_KID_UNKNOWN when the set has no such key (claims->iat is then
 * what the token says, not verified), or why it is refused.  What *claims
 * points at is allocated from pool, 30 to 60 times the size of the token.
 *
 * With steps (else NULL) it takes the time from there, notes what each stage
 * found, and after a fault still runs the stages that do not depend on it; it
 * returns the first fault all the same.
 */
pj_err_t ngx_http_pgw_token_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    ngx_http_pgw_judge_t *by, pj_claims_t *claims, ngx_http_pgw_steps_t *steps);

/* Why a token whose key is not in by->set is refused, if no fetch can be waited
   for. */
ngx_http_pgw_reason_e ngx_http_pgw_token_no_key(
    const ngx_http_pgw_judge_t *by, int64_t iat);

/* The levels that a token of that issuer opens there; 0: none. */
ngx_uint_t ngx_http_pgw_token_access(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *by, const pj_claims_t *claims);

/* What claims give under the policy of conf, in memory of pool. */
ngx_int_t ngx_http_pgw_token_grant(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_issuer_t *by,
    const pj_claims_t *claims, ngx_http_pgw_grant_t *grant);

/* Copies a grant; mem has from->size bytes for what it points to.  NGX_ERROR:
   mem is NULL. */
ngx_int_t ngx_http_pgw_token_grant_copy(ngx_http_pgw_grant_t *to,
    const ngx_http_pgw_grant_t *from, void *mem);


#endif /* _NGX_HTTP_PGW_TOKEN_H_INCLUDED_ */
