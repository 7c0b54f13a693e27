
/*
 * The bearer token of a request: finding it, and asking pj whether it holds.
 */


#include "ngx_http_pgw.h"


static pj_err_t ngx_http_pgw_token_note(ngx_http_pgw_steps_t *steps,
    ngx_http_pgw_stage_e stage, pj_err_t err);
static pj_err_t ngx_http_pgw_token_policy(const ngx_http_pgw_loc_conf_t *conf,
    const pj_claims_t *claims, ngx_http_pgw_steps_t *steps);
static void *ngx_http_pgw_token_scratch(size_t size, ngx_log_t *log);


/*
 * Verifying takes some 30 to 60 times the token's size, for an instant: kept
 * by the worker, since a long response would hold the request's own memory.
 */

static void    *ngx_http_pgw_token_memory;
static size_t   ngx_http_pgw_token_memory_size;


ngx_int_t
ngx_http_pgw_token_find(const ngx_str_t *value, pj_str_t *token)
{
    u_char  *p, *last;

    if (value == NULL
        || value->len < sizeof("Bearer") - 1
        || ngx_strncasecmp(value->data, (u_char *) "Bearer",
                           sizeof("Bearer") - 1)
           != 0)
    {
        return NGX_DECLINED;
    }

    p = value->data + sizeof("Bearer") - 1;
    last = value->data + value->len;

    if (p < last && *p != ' ') {
        return NGX_DECLINED;
    }

    while (p < last && *p == ' ') {
        p++;
    }

    if (p == last) {
        return NGX_ERROR;
    }

    token->data = p;
    token->len = (size_t) (last - p);

    return NGX_OK;
}


/*
 * Cheap checks first: whatever can be refused without a key and without RSA
 * is.  Nothing of the claims is used before the signature has verified, but
 * for the time of issue of a token whose key is unknown.
 */

pj_err_t
ngx_http_pgw_token_verify(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    const pj_keyset_t *set, pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    void            *mem;
    size_t           size;
    pj_err_t         err, fault;
    pj_jws_t         jws;
    pj_arena_t       arena;
    pj_jws_header_t  header;
    const pj_key_t  *key;

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SPLIT,
                              pj_jws_split(token, conf->token_max_size, &jws));
    if (err) {
        return err;
    }

    size = pj_token_arena_bytes(token.len);

    mem = ngx_http_pgw_token_scratch(size, r->connection->log);
    if (mem == NULL) {
        return PJ_ERR_NO_SPACE;
    }

    pj_arena_init(&arena, mem, size);

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_HEADER,
                                  pj_jws_header(&arena, &jws, false, &header));

    if (steps) {
        steps->header = header.root;

    } else if (err) {
        return err;
    }

    fault = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_PAYLOAD,
                                    pj_claims_parse(&arena, &jws, claims));

    if (fault == PJ_OK) {
        fault = ngx_http_pgw_token_policy(conf, claims, steps);
    }

    /* a header at fault names no key */

    if (err || (fault && steps == NULL)) {
        return err ? err : fault;
    }

    key = set ? pj_keyset_find(set, header.kid) : NULL;

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_KEY,
                                  key ? PJ_OK : PJ_ERR_KID_UNKNOWN);

    if (key) {
        err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SIGNATURE,
                                      pj_jws_verify(&jws, key));
    }

    return fault ? fault : err;
}


static pj_err_t
ngx_http_pgw_token_note(ngx_http_pgw_steps_t *steps,
    ngx_http_pgw_stage_e stage, pj_err_t err)
{
    if (steps) {
        steps->found[stage] |= PJ_FAULT(err);
    }

    return err;
}


static pj_err_t
ngx_http_pgw_token_policy(const ngx_http_pgw_loc_conf_t *conf,
    const pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    pj_policy_t  policy;

    policy.issuers = conf->issuers->elts;
    policy.issuer_count = conf->issuers->nelts;
    policy.audiences = conf->audiences ? conf->audiences->elts : NULL;
    policy.audience_count = conf->audiences ? conf->audiences->nelts : 0;
    policy.now_s = steps ? steps->at : ngx_time();
    policy.leeway_s = conf->leeway;
    policy.allow_confirmation = (conf->allow_confirmation != 0);

    if (steps) {
        steps->found[NGX_HTTP_PGW_STAGE_POLICY] =
                                           pj_claims_faults(claims, &policy);
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_POLICY,
                                   pj_claims_check(claims, &policy));
}


/*
 * Only a token that is older than what we know is called invalid: anybody can
 * make one that is not, and so that has a reason of its own.
 */

ngx_http_pgw_reason_e
ngx_http_pgw_token_no_key(const ngx_http_pgw_keys_t *keys,
    const pj_keyset_t *set, const pj_claims_t *claims)
{
    if (set == NULL) {
        return NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE;
    }

    return claims->iat >= ngx_http_pgw_keys_fetched_at(keys)
           ? NGX_HTTP_PGW_REASON_KID_PENDING : NGX_HTTP_PGW_REASON_KID_UNKNOWN;
}


ngx_uint_t
ngx_http_pgw_token_access(pj_token_kind_t kind)
{
    switch (kind) {

    case PJ_TOKEN_ACCOUNT:
        return NGX_HTTP_PGW_ACCOUNT;

    case PJ_TOKEN_BRANCH:
        return NGX_HTTP_PGW_BRANCH;

    case PJ_TOKEN_SYSTEM:
        return NGX_HTTP_PGW_SYSTEM;

    case PJ_TOKEN_REFRESH:
        break;
    }

    return 0;
}


void
ngx_http_pgw_token_times(const pj_claims_t *claims,
    ngx_http_pgw_times_t *times)
{
    times->exp = claims->exp;
    times->not_before = ngx_max(claims->iat, claims->nbf);
}


void
ngx_http_pgw_token_exit_process(void)
{
    if (ngx_http_pgw_token_memory) {
        ngx_free(ngx_http_pgw_token_memory);
    }

    ngx_http_pgw_token_memory = NULL;
    ngx_http_pgw_token_memory_size = 0;
}


static void *
ngx_http_pgw_token_scratch(size_t size, ngx_log_t *log)
{
    if (size <= ngx_http_pgw_token_memory_size) {
        return ngx_http_pgw_token_memory;
    }

    ngx_http_pgw_token_exit_process();

    ngx_http_pgw_token_memory = ngx_alloc(size, log);

    if (ngx_http_pgw_token_memory) {
        ngx_http_pgw_token_memory_size = size;
    }

    return ngx_http_pgw_token_memory;
}
