
/*
 * The guard: whether the token that a request carries opens its location, as
 * the state machine of ngx_http_pgw.h.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_subject.h"


static ngx_int_t ngx_http_pgw_decide(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);
static pj_err_t ngx_http_pgw_look(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, pj_claims_t *claims,
    ngx_http_pgw_ctx_t **found);
static pj_err_t ngx_http_pgw_check(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx,
    pj_str_t token, const pj_keyset_t *set, pj_claims_t *claims);
static pj_err_t ngx_http_pgw_verify(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    const pj_keyset_t *set, pj_claims_t *claims, ngx_http_pgw_grant_t *grant);
static ngx_int_t ngx_http_pgw_no_key(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_keys_t *keys, const pj_keyset_t *set,
    const pj_claims_t *claims);
static ngx_int_t ngx_http_pgw_refuse_token(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    pj_err_t err);
static const char *ngx_http_pgw_token_fault(pj_err_t err);
static ngx_int_t ngx_http_pgw_admit(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant);


ngx_int_t
ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t                  rc;
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_core_loc_conf_t  *clcf;

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (ctx && ctx->state == NGX_HTTP_PGW_DONE) {
        return ctx->verdict;
    }

    gr->required = conf->access;

    if (conf->access & NGX_HTTP_PGW_PUBLIC) {
        ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_PUBLIC);

        rc = ngx_http_pgw_inject(r, conf, NULL);

        return (rc == NGX_OK) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx = ngx_http_pgw_ctx_get(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (conf->access == 0) {
        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "no \"platform_gateway_access\" for location \"%V\"",
                      &clcf->name);

        rc = ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_NOT_FOUND,
                                 NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                 "GATEWAY_ROUTE_NOT_FOUND",
                                 "no route serves this path");

    } else {
        rc = ngx_http_pgw_decide(r, gr, conf);
    }

    if (rc == NGX_AGAIN) {
        ctx->state = NGX_HTTP_PGW_WAIT_KEYS;
        return NGX_AGAIN;
    }

    ctx->state = NGX_HTTP_PGW_DONE;
    ctx->verdict = rc;

    return rc;
}


static ngx_int_t
ngx_http_pgw_decide(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    pj_err_t                   err;
    pj_str_t                   token;
    ngx_int_t                  rc;
    pj_claims_t                claims;
    const pj_keyset_t         *set;
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_pgw_main_conf_t  *mcf;

    rc = ngx_http_pgw_token_find(r, &token);

    if (rc == NGX_DECLINED) {
        return ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_UNAUTHORIZED,
                                   NGX_HTTP_PGW_REASON_TOKEN_MISSING,
                                   "GATEWAY_TOKEN_MISSING",
                                   "a bearer token is required");
    }

    if (rc != NGX_OK) {
        return ngx_http_pgw_refuse_token(r, gr, conf, PJ_ERR_TOKEN_SHAPE);
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);
    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    set = ngx_http_pgw_keys_get(mcf->keys);

    err = ngx_http_pgw_check(r, conf, ctx, token, set, &claims);

    if (err == PJ_ERR_KID_UNKNOWN) {
        return ngx_http_pgw_no_key(r, gr, conf, mcf->keys, set, &claims);
    }

    if (err != PJ_OK) {
        return ngx_http_pgw_refuse_token(r, gr, conf, err);
    }

    return ngx_http_pgw_admit(r, gr, conf, &ctx->grant);
}


ngx_int_t
ngx_http_pgw_guard_early(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    pj_claims_t                claims;
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_pgw_main_conf_t  *mcf;

    if (ngx_http_pgw_look(r, conf, &claims, &ctx) != PJ_ERR_KID_UNKNOWN) {
        return NGX_DECLINED;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    return ngx_http_pgw_keys_wait(r, mcf->keys);
}


const ngx_http_pgw_subject_t *
ngx_http_pgw_guard_subject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    pj_claims_t          claims;
    ngx_http_pgw_ctx_t  *ctx;

    return ngx_http_pgw_look(r, conf, &claims, &ctx) == PJ_OK
           ? &ctx->grant.subject : NULL;
}


/* As decide(), without deciding. */

static pj_err_t
ngx_http_pgw_look(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    pj_claims_t *claims, ngx_http_pgw_ctx_t **found)
{
    pj_str_t                   token;
    ngx_http_pgw_main_conf_t  *mcf;

    if (conf->policy == 0 || ngx_http_pgw_token_find(r, &token) != NGX_OK) {
        return PJ_ERR_TOKEN_SHAPE;
    }

    *found = ngx_http_pgw_ctx_get(r);
    if (*found == NULL) {
        return PJ_ERR_NO_SPACE;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    return ngx_http_pgw_check(r, conf, *found, token,
                              ngx_http_pgw_keys_get(mcf->keys), claims);
}


/*
 * What the token is: asked once, and kept where the answer is one for good.  A
 * key that is not known may still come; with that error *claims is filled.
 */

static pj_err_t
ngx_http_pgw_check(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx, pj_str_t token, const pj_keyset_t *set,
    pj_claims_t *claims)
{
    ngx_int_t                  rc;
    ngx_uint_t                 version;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    version = ngx_http_pgw_keys_version(mcf->keys);

    if (set
        && ctx->policy == conf->policy
        && ctx->version == version
        && ctx->token.data == token.data
        && ctx->token.len == token.len)
    {
        return ctx->err;
    }

    ctx->policy = 0;

    /* without keys nothing is known, whatever was known before */

    rc = set ? ngx_http_pgw_cache_find(mcf->cache, r->pool, conf, token,
                                       version, &ctx->err, &ctx->grant)
             : NGX_DECLINED;

    if (rc == NGX_ERROR) {
        return PJ_ERR_NO_SPACE;
    }

    if (rc == NGX_DECLINED) {
        ctx->err = ngx_http_pgw_verify(r, conf, token, set, claims,
                                       &ctx->grant);
    }

    if (ctx->err != PJ_ERR_KID_UNKNOWN) {
        ctx->policy = conf->policy;
        ctx->version = version;
        ctx->token = token;
    }

    return ctx->err;
}


/* The whole way, and what it leads to is kept. */

static pj_err_t
ngx_http_pgw_verify(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    pj_str_t token, const pj_keyset_t *set, pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant)
{
    pj_err_t                   err;
    ngx_http_pgw_times_t       times;
    ngx_http_pgw_main_conf_t  *mcf;

    err = ngx_http_pgw_token_verify(r, conf, token, set, claims);

    if (err != PJ_OK) {
        return err;
    }

    if (ngx_http_pgw_inject_render(r->pool, conf, claims, grant) != NGX_OK) {
        return PJ_ERR_NO_SPACE;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    ngx_http_pgw_token_times(claims, &times);

    ngx_http_pgw_cache_store(mcf->cache, conf, token,
                             ngx_http_pgw_keys_version(mcf->keys), &times,
                             grant);

    return PJ_OK;
}


/*
 * The key may be one that was published after our last fetch.  Wait for a
 * fetch where that is allowed: what one that began after the request came has
 * not brought is not there.  Where none may be made now, only a token that is
 * older than what we know is called invalid; anybody can make one that is not,
 * and so that has a reason of its own.
 */

static ngx_int_t
ngx_http_pgw_no_key(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_keys_t *keys,
    const pj_keyset_t *set, const pj_claims_t *claims)
{
    ngx_int_t              rc;
    ngx_http_pgw_reason_e  reason;

    gr->token_error = PJ_ERR_KID_UNKNOWN;

    rc = ngx_http_pgw_keys_wait(r, keys);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    /* A fetch of another worker may have ended since we looked. */

    if (ngx_http_pgw_keys_get(keys) != set) {
        return ngx_http_pgw_decide(r, gr, conf);
    }

    ngx_http_pgw_metrics_verification(PJ_ERR_KID_UNKNOWN);

    if (set == NULL
        || (rc == NGX_DECLINED
            && claims->iat >= ngx_http_pgw_keys_fetched_at(keys)))
    {
        gr->retry_after = ngx_http_pgw_keys_retry_after(keys);

        reason = set ? NGX_HTTP_PGW_REASON_KID_PENDING
                     : NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE;

        return ngx_http_pgw_refuse(r, gr, conf,
                             NGX_HTTP_SERVICE_UNAVAILABLE, reason,
                             "GATEWAY_KEYS_UNAVAILABLE",
                             "the key of the token is not available yet");
    }

    return ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_UNAUTHORIZED,
                               NGX_HTTP_PGW_REASON_KID_UNKNOWN,
                               "GATEWAY_TOKEN_INVALID",
                               pj_strerror(PJ_ERR_KID_UNKNOWN));
}


static ngx_int_t
ngx_http_pgw_refuse_token(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, pj_err_t err)
{
    gr->token_error = err;

    ngx_http_pgw_metrics_verification(err);

    switch (err) {

    case PJ_ERR_ARGUMENT:
    case PJ_ERR_NO_SPACE:
    case PJ_ERR_CRYPTO:
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "token verification failed: %s", pj_strerror(err));

        return NGX_HTTP_INTERNAL_SERVER_ERROR;

    case PJ_ERR_TOKEN_EXPIRED:
        return ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_UNAUTHORIZED,
                                   NGX_HTTP_PGW_REASON_TOKEN_EXPIRED,
                                   "GATEWAY_TOKEN_EXPIRED", pj_strerror(err));

    default:
        return ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_UNAUTHORIZED,
                                   NGX_HTTP_PGW_REASON_TOKEN_INVALID,
                                   "GATEWAY_TOKEN_INVALID",
                                   ngx_http_pgw_token_fault(err));
    }
}


/* The parser's words are about any text: to a client it is the token's. */

static const char *
ngx_http_pgw_token_fault(pj_err_t err)
{
    switch (err) {

    case PJ_ERR_TOKEN_SIZE:
        return "the token is too large";

    case PJ_ERR_BASE64:
        return "the token is not well-formed base64url";

    case PJ_ERR_JSON_SYNTAX:
    case PJ_ERR_JSON_DUPLICATE:
    case PJ_ERR_JSON_DEPTH:
    case PJ_ERR_JSON_NUL:
    case PJ_ERR_JSON_LIMIT:
    case PJ_ERR_JSON_TYPE:
        return "the token does not hold acceptable JSON";

    default:
        return pj_strerror(err);
    }
}


static ngx_int_t
ngx_http_pgw_admit(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
    gr->token_error = PJ_OK;

    ngx_http_pgw_metrics_verification(PJ_OK);

    gr->subject = grant->subject;

    if (!(conf->access & grant->access)) {
        return ngx_http_pgw_refuse(r, gr, conf, NGX_HTTP_FORBIDDEN,
                                   NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN,
                                   "GATEWAY_CONTEXT_FORBIDDEN",
                                   "the token is valid for another context");
    }

    if (ngx_http_pgw_inject(r, conf, grant) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_VERIFIED);

    return NGX_OK;
}


/* The first refusal is the one that the client would have got. */

void
ngx_http_pgw_shadow(ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason)
{
    if (gr->shadowed) {
        return;
    }

    gr->shadowed = 1;
    gr->decision = "shadow";
    gr->reason = reason;
}


/*
 * The public page of an error_page does not whitewash the refusal that led to
 * it: the log keeps the reason of what the client was answered with.  A
 * location that checked the token for itself speaks for itself.
 */

void
ngx_http_pgw_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason)
{
    if (gr->shadowed
        || (reason == NGX_HTTP_PGW_REASON_PUBLIC
            && r->internal && gr->status))
    {
        return;
    }

    gr->decision = "allow";
    gr->reason = reason;
    gr->status = 0;
    gr->retry_after = 0;
    ngx_str_null(&gr->code);
    ngx_str_null(&gr->challenge);
}


ngx_int_t
ngx_http_pgw_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_int_t status,
    ngx_http_pgw_reason_e reason, const char *code, const char *detail)
{
    ngx_int_t  rc;

    if (conf->shadow) {
        ngx_http_pgw_shadow(gr, reason);

        rc = ngx_http_pgw_inject(r, conf, NULL);

        return (rc == NGX_OK) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->decision = "deny";
    gr->reason = reason;

    return ngx_http_pgw_problem_refuse(r, gr, status, code, detail);
}
