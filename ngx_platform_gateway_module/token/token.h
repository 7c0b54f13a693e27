
/*
 * Tokens: their claims, their verification, the cache of verified tokens.
 */


#ifndef _NGX_HTTP_PGW_TOKEN_H_INCLUDED_
#define _NGX_HTTP_PGW_TOKEN_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "base/base.h"


/* ngx_http_pgw_claim.c */

/*
 * Reads the path of a claim: the names of members from the outermost on, with
 * dots between them.  A name in double quotes may contain dots.  A text with
 * ":" or "/" and without quotes is a URI, and a single name.
 */
char *ngx_http_pgw_claim_place(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_http_pgw_claim_t *claim);

/* Returns the value of the claim, or NULL. */
const pj_json_t *ngx_http_pgw_claim_find(const pj_json_t *root,
    const ngx_http_pgw_claim_t *claim);

/* Returns the top-level claim with the n-th name, or NULL if there is none or
   more than one.  Case is ignored, because nginx keeps the names of variables
   in lower case. */
const pj_json_t *ngx_http_pgw_claim_named(const pj_json_t *root,
    const ngx_array_t *names, ngx_uint_t n);

/* Begin a rule about a claim, and add a value to it. */
char *ngx_http_pgw_claim_begin(ngx_conf_t *cf, const ngx_str_t *place,
    ngx_http_pgw_rule_t *rule);
char *ngx_http_pgw_claim_value(ngx_conf_t *cf, ngx_http_pgw_rule_t *rule,
    const ngx_str_t *value);

/* Reads the words "CLAIM VALUE ..." into a rule, beginning with word first. */
char *ngx_http_pgw_claim_rule(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_pgw_rule_t *rule);

/* Iterates over the texts that a value of a rule may be equal to: that of a
   string, number or boolean, and the strings of an array.  *item is NULL at
   first.  Returns 0 at the end. */
ngx_uint_t ngx_http_pgw_claim_next(const pj_json_t *claim,
    const pj_json_t **item, pj_str_t *text);

/*
 * Returns 1 if a claim, or NULL, has one of the values of the rule.  A string,
 * number or boolean has to equal a value, an array has to contain one as a
 * string, and the text of "scope" or "scp" has to contain one as a word.
 */
ngx_uint_t ngx_http_pgw_claim_accepted(const ngx_http_pgw_rule_t *rule,
    const pj_json_t *value);

/* Returns 1 if the claim of the rule has one of its values. */
ngx_uint_t ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule,
    const pj_json_t *root);

/* Returns a bit mask of the rules that do not hold, as far as constants tell.
   rules may be NULL. */
uint64_t ngx_http_pgw_claim_missing(const ngx_array_t *rules,
    const pj_json_t *root);


/* ngx_http_pgw_require.c */

/* platform_gateway_require CLAIM VALUE ...; */
ngx_http_pgw_set_t  ngx_http_pgw_require_directive;

/* Returns the number of rules with variables, each of which has a text in a
   grant.  rules may be NULL. */
ngx_uint_t ngx_http_pgw_require_texts(const ngx_array_t *rules);

/* Makes the text of the claim of the n-th of these rules: the words that a
   value may be equal to, with a zero byte after each.  Returns NGX_DECLINED if
   there is none. */
ngx_int_t ngx_http_pgw_require_text(ngx_pool_t *pool, const ngx_array_t *rules,
    ngx_uint_t n, const pj_json_t *root, ngx_str_t *text);

/* Returns a bit mask of the rules of conf that a grant does not meet, for a
   grant with such bits. */
uint64_t ngx_http_pgw_require_lacking(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant);

/*
 * Writes the scopes for the challenge of a refusal, each once, in the order of
 * the rules: all that conf requires with 401, those that the grant lacks with
 * CLAIM_REQUIRED, and those of the levels with CONTEXT_FORBIDDEN.  len is 0 if
 * there are none.
 */
ngx_int_t ngx_http_pgw_require_challenge(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_reason_e reason,
    const ngx_http_pgw_grant_t *grant, ngx_str_t *scope);

/* Writes the rules, or an empty list, for an explanation. */
void ngx_http_pgw_require_explain(ngx_http_pgw_text_t *text,
    const ngx_array_t *rules);


/* ngx_http_pgw_authentication.c */

/* platform_gateway_authentication [acr=VALUE,...] [max_age=TIME] | off; */
ngx_http_pgw_set_t  ngx_http_pgw_authentication_directive;

/* Returns the time in seconds at which the user of a good token authenticated,
   0 if no time is required (required may be NULL), or a number below 0 if the
   token cannot meet the requirement at any time. */
int64_t ngx_http_pgw_authentication_time(
    const ngx_http_pgw_authentication_t *required,
    const ngx_http_pgw_issuer_t *issuer, const pj_json_t *root);

/* Returns NULL if a result of authentication_time() meets the requirement at
   the time now, or the fault. */
const char *ngx_http_pgw_authentication_fault(
    const ngx_http_pgw_authentication_t *required, int64_t time, int64_t now,
    time_t leeway);

/* Write what is required, or null, and what a token has, for an explanation. */
void ngx_http_pgw_authentication_explain(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_authentication_t *required);
void ngx_http_pgw_authentication_found(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *issuer, const pj_json_t *root);


/* ngx_http_pgw_assertion.c */

/* The keys of assertions.  Const once the configuration is read. */

struct ngx_http_pgw_signer_s {
    pj_key_t                     *key;         /* signs; NULL if none */
    ngx_str_t                     issuer;
    ngx_str_t                     document;    /* key set, in JSON */
};


/* The assertion for the service of a location. */

struct ngx_http_pgw_assertion_s {
    const ngx_http_pgw_signer_t  *signer;
    ngx_str_t                     audience;
    time_t                        ttl;         /* s */
};


/* platform_gateway_assertion audience=NAME [ttl=TIME] | off; */
ngx_http_pgw_set_t  ngx_http_pgw_assertion_directive;

/* The header of an assertion. */
extern const ngx_str_t  ngx_http_pgw_assertion_name;

/* Sets conf->claim_headers from claim_map and assertion, which may be unset. */
ngx_int_t ngx_http_pgw_assertion_headers(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);

/* Signs an assertion of the claims in the headers of grant.  Sets *value and
   grant->asserted. */
ngx_int_t ngx_http_pgw_assertion_sign(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant, ngx_str_t *value);

/* Returns 1 if less than half of the life is left, unless a new assertion would
   end with the token too, or if the clock was set back. */

static ngx_inline ngx_uint_t
ngx_http_pgw_assertion_stale(const ngx_http_pgw_assertion_t *assertion,
    const ngx_http_pgw_grant_t *grant)
{
    uint64_t  age = (uint64_t) (ngx_time() - grant->asserted);

    return age > (uint64_t) (grant->exp - grant->asserted <= assertion->ttl
                             ? assertion->ttl : assertion->ttl / 2);
}


/* ngx_http_pgw_token.c */

/* Sets conf->policy of a merged location in which the gateway is on. */
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


/* The results of all stages, for an explanation. */

typedef struct {
    int64_t                      at;           /* time of the check, seconds */
    uint64_t                     found[NGX_HTTP_PGW_STAGES];
                                               /* PJ_FAULT()s, also of PJ_OK; 0
                                                  if the stage did not run.
                                                  POLICY always includes PJ_OK
                                                  after a complete check */
    const pj_json_t             *header;       /* NULL if it was not read */
} ngx_http_pgw_steps_t;


/* Finds the bearer token in the value of Authorization, or NULL.  Returns NONE,
   TOKEN_SHAPE if nothing follows "Bearer", or TOKEN_MISSING. */
ngx_http_pgw_reason_e ngx_http_pgw_token_find(const ngx_str_t *value,
    pj_str_t *token);

/*
 * Verifies the token against the policy of conf.  keys->issuer is the first of
 * the list of issuers; on return keys describes the issuer of the token.
 * Returns PJ_OK with *claims, or the first fault.  With PJ_ERR_KID_UNKNOWN (the
 * key is not in the set) claims->iat is set, but not verified.  *claims points
 * into memory of pool, 30 to 60 times the size of the token.
 *
 * steps is NULL except for an explanation.  Then the time comes from steps,
 * each stage records its result there, and stages that do not depend on a fault
 * run after it, too.
 */
pj_err_t ngx_http_pgw_token_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    ngx_http_pgw_keys_t *keys, pj_claims_t *claims,
    ngx_http_pgw_steps_t *steps);

/* Returns the reason to refuse a token with an unknown key, if the request
   cannot wait for a fetch. */
ngx_http_pgw_reason_e ngx_http_pgw_token_no_key(
    const ngx_http_pgw_keys_t *keys, int64_t iat);

/* Returns the access levels in a location of a token of the issuer, or 0. */
ngx_uint_t ngx_http_pgw_token_access(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer, const pj_claims_t *claims);

/* Fills the grant of the claims under the policy of conf, from pool. */
ngx_int_t ngx_http_pgw_token_grant(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_issuer_t *issuer,
    const pj_claims_t *claims, ngx_http_pgw_grant_t *grant);

/* Copies a grant, and its strings into mem, which has from->size bytes.
   Returns NGX_ERROR if mem is NULL. */
ngx_int_t ngx_http_pgw_token_grant_copy(ngx_http_pgw_grant_t *to,
    const ngx_http_pgw_grant_t *from, void *mem);


/* ngx_http_pgw_cache.c */

ngx_http_pgw_cache_t *ngx_http_pgw_cache_create(ngx_conf_t *cf);

/* platform_gateway_token_cache off | entries=N [size=S]; */
ngx_http_pgw_set_t  ngx_http_pgw_cache_directive;

/*
 * Returns NGX_DECLINED if ctx->token is not in the cache.  Otherwise ctx->err
 * is the result that token_verify() would have now, or PJ_ERR_NO_SPACE,
 * ctx->keys describes the issuer, and with PJ_OK ctx->grant is filled from
 * pool.
 */
ngx_int_t ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache,
    ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx);

/* Stores a verified token after cache_find() has returned NGX_DECLINED. */
void ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx,
    const pj_claims_t *claims);


#endif /* _NGX_HTTP_PGW_TOKEN_H_INCLUDED_ */
