
/*
 * Tokens: their claims, their verification, the cache of verified tokens.
 */


#ifndef _NGX_HTTP_PGW_TOKEN_H_INCLUDED_
#define _NGX_HTTP_PGW_TOKEN_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * Claims by their place in a token, and what a location requires of them.
 */


/*
 * Reads a place: the names of members, from the outermost, with dots between
 * them; a name in double quotes may have dots.  What has ":" or "/" and no
 * quotes is one name, a URI's.
 */
char *ngx_http_pgw_claim_place(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_http_pgw_claim_t *claim);

/* The value there, or NULL. */
const pj_json_t *ngx_http_pgw_claim_find(const pj_json_t *root,
    const ngx_http_pgw_claim_t *claim);

/* The value of the claim that has the n-th of those names, in any case, since
   nginx keeps names of variables in lower case; NULL: none, or several. */
const pj_json_t *ngx_http_pgw_claim_named(const pj_json_t *root,
    const ngx_array_t *names, ngx_uint_t n);

/* CLAIM VALUE ...: reads the words from the first on into a rule. */
char *ngx_http_pgw_claim_rule(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_pgw_rule_t *rule);

/* platform_gateway_require CLAIM VALUE ...; into an array of rules. */
ngx_http_pgw_set_t  ngx_http_pgw_claim_require;

/*
 * Whether a claim has one of the values: it is that string, number or boolean,
 * an array with that string, or "scope" (or "scp") with that word.
 */
ngx_uint_t ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule,
    const pj_json_t *root);

/* Returns a bit for each rule that does not hold; 0 without rules. */
uint64_t ngx_http_pgw_claim_missing(const ngx_array_t *rules,
    const pj_json_t *root);

/* Writes the scopes of those rules, each once, in the order of the lines; len 0
   if the rules are about other claims. */
ngx_int_t ngx_http_pgw_claim_scopes(ngx_pool_t *pool, const ngx_array_t *rules,
    uint64_t lines, ngx_str_t *scope);


/* ngx_http_pgw_token.c */

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


/* ngx_http_pgw_cache.c */

ngx_http_pgw_cache_t *ngx_http_pgw_cache_create(ngx_conf_t *cf);

/* platform_gateway_token_cache off | entries=N [size=S]; */
ngx_http_pgw_set_t  ngx_http_pgw_cache_directive;

/*
 * NGX_OK: ctx->err is what token_verify() would return for ctx->token now, by
 * the policy of conf and its issuer's keys, ctx->by (with PJ_OK, ctx->grant is
 * filled from pool), or PJ_ERR_NO_SPACE.  NGX_DECLINED: not in the cache.
 */
ngx_int_t ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache,
    ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx);

/* Keeps a verified token that find() declined. */
void ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx,
    const pj_claims_t *claims);


#endif /* _NGX_HTTP_PGW_TOKEN_H_INCLUDED_ */
