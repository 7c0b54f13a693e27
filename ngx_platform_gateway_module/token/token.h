
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

/* Iterates over the texts that a value of a rule may be equal to: the text of a
   string, number or boolean, or the strings of an array.  *item is NULL at
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

/* Makes the text of the claim of the n-th rule: the words that a value may be
   equal to, with a zero byte after each.  Returns NGX_DECLINED if there is
   none. */
ngx_int_t ngx_http_pgw_require_text(ngx_pool_t *pool, const ngx_array_t *rules,
    ngx_uint_t n, const pj_json_t *root, ngx_str_t *text);

/* Returns a bit mask of the rules of conf that a grant does not meet, for a
   grant with such bits. */
uint64_t ngx_http_pgw_require_lacking(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant);

/*
 * Writes the scopes for the challenge of a refusal, each once, in the order of
 * the rules: with 401 all that conf requires, with CLAIM_REQUIRED the scopes
 * that the grant lacks, with CONTEXT_FORBIDDEN the scopes of the levels.  len
 * is 0 without any.
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


/* ngx_http_pgw_certificate.c */

typedef enum {
    NGX_HTTP_PGW_CERTIFICATE_OFF = 0,
    NGX_HTTP_PGW_CERTIFICATE_CONNECTION,
    NGX_HTTP_PGW_CERTIFICATE_HEADER
} ngx_http_pgw_certificate_e;

/* platform_gateway_client_certificate off | connection | header ADDRESS ...; */
ngx_http_pgw_set_t  ngx_http_pgw_certificate_directive;

/* Returns 1 if the peer of r may say in Client-Cert which certificate its
   client has shown. */
ngx_uint_t ngx_http_pgw_certificate_peer_trusted(const ngx_http_request_t *r);

/* Checks possession of what the good token in ctx is bound to, by a certificate
   or by proof_check(), if conf accepts such tokens.  Returns VERIFIED, or the
   reason to refuse r. */
ngx_http_pgw_reason_e ngx_http_pgw_certificate_check(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx);


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


/* Finds the token in the value of Authorization, or NULL.  *dpop tells whether
   the scheme may be DPoP as well as Bearer, and is then set to whether it is.
   Returns NONE, TOKEN_SHAPE if nothing follows the scheme, or TOKEN_MISSING. */
ngx_http_pgw_reason_e ngx_http_pgw_token_find(const ngx_str_t *value,
    ngx_uint_t *dpop, pj_str_t *token);

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


/* ngx_http_pgw_replay.c */

#define NGX_HTTP_PGW_REPLAY_SLOTS       16
#define NGX_HTTP_PGW_REPLAY_WINDOW_MAX  300  /* s */

typedef struct {
    uint64_t                     id;        /* keyed hash */
    uint32_t                     iat;       /* s */
    uint32_t                     dies_at;   /* s; 0 if never used */
} ngx_http_pgw_replay_slot_t;


typedef struct {
    ngx_http_pgw_replay_slot_t   slot[NGX_HTTP_PGW_REPLAY_SLOTS];
} ngx_http_pgw_replay_bucket_t;


/* Used proofs, in shared memory; the rest is zeroed before replay_init(). */

typedef struct {
    ngx_http_pgw_zone_part_t       part;
    u_char                         secret[32];  /* of the ids */
    u_char                         nonces[32];  /* secret of the nonces */

    /* times of issue of the entries that were overwritten: up to forgotten, and
       from .. to; in s, and to < from if there are none */
    int64_t                        forgotten;
    int64_t                        from;
    int64_t                        to;

    int64_t                        latest;      /* clock at the last put */
    int64_t                        told;        /* by replay_pause() */
    uint64_t                       buckets;     /* 0 before replay_init() */
    ngx_http_pgw_replay_bucket_t  *bucket;
} ngx_http_pgw_replay_t;


/* How many proofs fit in: with more, a few are refused. */
#define ngx_http_pgw_replay_max(replay)                                       \
    ((replay)->buckets * NGX_HTTP_PGW_REPLAY_SLOTS / 3 * 2)

/* mem is zeroed, or NULL.  Proofs up to the time now are refused, because an
   earlier zone may have had them.  Windows are at most
   NGX_HTTP_PGW_REPLAY_WINDOW_MAX. */
ngx_int_t ngx_http_pgw_replay_init(ngx_http_pgw_replay_t *replay, void *mem,
    size_t size, int64_t now);

/*
 * Stores the id of a good proof; the mutex is held.  iat is its time of issue,
 * and at dies_at the proof is too old.  Returns NGX_OK if the proof may be used
 * now; NGX_DONE if it was used; NGX_ABORT if it has a time of issue of
 * overwritten entries; NGX_DECLINED without room; NGX_ERROR on failure.
 */
ngx_int_t ngx_http_pgw_replay_put(ngx_http_pgw_replay_t *replay,
    const u_char id[PJ_SHA256_BYTES], int64_t iat, int64_t dies_at,
    int64_t now);

/* After NGX_ABORT, with the mutex held: returns for how many seconds proofs are
   refused since the clock was set back, once for each pause, or else 0. */
int64_t ngx_http_pgw_replay_pause(ngx_http_pgw_replay_t *replay, int64_t now);

/* Counts the live entries; needs no lock. */
uint64_t ngx_http_pgw_replay_live(const ngx_http_pgw_replay_t *replay,
    int64_t now);


/* ngx_http_pgw_proof.c */

/* platform_gateway_proof */

struct ngx_http_pgw_proof_s {
    ngx_str_t                zone_name;
    size_t                   zone_size;
    time_t                   window;     /* s; 0 if not set */
    ngx_uint_t               nonce;
    ngx_http_pgw_place_t     place;
    ngx_shm_zone_t          *shm_zone;
    ngx_http_pgw_replay_t   *replay;     /* in it */
};

/* The key or certificate that a token is bound to. */

typedef enum {
    NGX_HTTP_PGW_BINDING_NONE = 0,
    NGX_HTTP_PGW_BINDING_KEY,
    NGX_HTTP_PGW_BINDING_CERTIFICATE
} ngx_http_pgw_binding_e;

/* Returns what the token of the claims is bound to, with the thumbprint, if the
   location accepts such tokens. */
ngx_http_pgw_binding_e ngx_http_pgw_proof_binding(
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    u_char thumbprint[PJ_SHA256_BYTES]);

/* Returns NONE if a proof has to come with a good token, VERIFIED if none has
   to, or the reason to refuse the token.  dpop tells whether its scheme is
   DPoP. */
ngx_http_pgw_reason_e ngx_http_pgw_proof_needed(
    const ngx_http_pgw_loc_conf_t *conf, ngx_uint_t bound, ngx_uint_t dpop);

/* A proof and the request that it is for. */

typedef struct {
    const ngx_str_t         *value;      /* of the DPoP header */
    pj_str_t                 method;
    const ngx_str_t         *uri;        /* the query is ignored */
    pj_str_t                 token;
    const u_char            *thumbprint;
    int64_t                  now;
} ngx_http_pgw_proof_of_t;


/* Checks all but whether the proof was used.  Returns VERIFIED with *proof, or
   the reason to refuse; *detail may be NULL. */
ngx_http_pgw_reason_e ngx_http_pgw_proof_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_proof_t *by,
    const ngx_http_pgw_proof_of_t *of, pj_proof_t *proof,
    const char **detail);

/* The verdict on the proof of a client's request, which is used once, although
   several locations may check it. */

struct ngx_http_pgw_shown_s {
    const ngx_array_t           *origins;      /* conf->proof_origins */
    pj_str_t                     token;
    ngx_http_pgw_reason_e        reason;
    const char                  *detail;       /* NULL for the reason's */
    ngx_uint_t                   used;         /* the proof with the id */
    u_char                       id[PJ_SHA256_BYTES];
};


ngx_int_t ngx_http_pgw_proof_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/*
 * Checks whether r may use its good token, and uses up the proof of a bound
 * token.  gr is that of the main request.  Returns VERIFIED, or the reason to
 * refuse r.  Further calls for the same client's request have the same result.
 */
ngx_http_pgw_reason_e ngx_http_pgw_proof_check(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_ctx_t *ctx);

/* Returns the detail of a refusal for the reason, or NULL for the reason's. */
const char *ngx_http_pgw_proof_detail(const ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);


#endif /* _NGX_HTTP_PGW_TOKEN_H_INCLUDED_ */
