
/*
 * The guard: whether the token that a request carries opens its location, as
 * the state machine of ngx_http_pgw.h.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_reason.h"
#include "ngx_http_pgw_subject.h"


static ngx_int_t ngx_http_pgw_decide(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);
static ngx_int_t ngx_http_pgw_find(ngx_http_request_t *r, pj_str_t *token);
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
static void ngx_http_pgw_shadow(ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason);
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

        rc = ngx_http_pgw_refuse(r, gr, conf,
                                 NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND, NULL);

    } else {
        rc = ngx_http_pgw_decide(r, gr, conf);
    }

    if (rc == NGX_AGAIN) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "http platform gateway: waits for keys");

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

    rc = ngx_http_pgw_find(r, &token);

    if (rc == NGX_DECLINED) {
        return ngx_http_pgw_refuse(r, gr, conf,
                                   NGX_HTTP_PGW_REASON_TOKEN_MISSING, NULL);
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


static ngx_int_t
ngx_http_pgw_find(ngx_http_request_t *r, pj_str_t *token)
{
    ngx_table_elt_t  *h;

    h = r->headers_in.authorization;

    return ngx_http_pgw_token_find(h ? &h->value : NULL, token);
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

    if (conf->policy == 0 || ngx_http_pgw_find(r, &token) != NGX_OK) {
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

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: token %s, key set %ui%s",
                   pj_errname(ctx->err), version,
                   rc == NGX_DECLINED ? "" : ", cached");

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

    err = ngx_http_pgw_token_verify(r, conf, token, set, claims, NULL);

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
 * not brought is not there.
 */

static ngx_int_t
ngx_http_pgw_no_key(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_keys_t *keys,
    const pj_keyset_t *set, const pj_claims_t *claims)
{
    ngx_int_t              rc;
    ngx_http_pgw_reason_e  reason;

    rc = ngx_http_pgw_keys_wait(r, keys);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    /* A fetch of another worker may have ended since we looked. */

    if (ngx_http_pgw_keys_get(keys) != set) {
        return ngx_http_pgw_decide(r, gr, conf);
    }

    ngx_http_pgw_metrics_verification(PJ_ERR_KID_UNKNOWN);

    reason = (set && rc != NGX_DECLINED)
             ? NGX_HTTP_PGW_REASON_KID_UNKNOWN
             : ngx_http_pgw_token_no_key(keys, set, claims);

    if (reason != NGX_HTTP_PGW_REASON_KID_UNKNOWN) {
        gr->retry_after = ngx_http_pgw_keys_retry_after(keys);
    }

    return ngx_http_pgw_refuse(r, gr, conf, reason, NULL);
}


static ngx_int_t
ngx_http_pgw_refuse_token(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, pj_err_t err)
{
    ngx_http_pgw_reason_e  reason;

    ngx_http_pgw_metrics_verification(err);

    reason = ngx_http_pgw_reason_of_token(err);

    if (reason == NGX_HTTP_PGW_REASON_TOKEN_INVALID) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "token verification failed: %s", pj_strerror(err));

        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_pgw_refuse(r, gr, conf, reason, NULL);
}


static ngx_int_t
ngx_http_pgw_admit(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
    ngx_http_pgw_metrics_verification(PJ_OK);

    gr->subject = grant->subject;

    if (!(conf->access & grant->access)) {
        return ngx_http_pgw_refuse(r, gr, conf,
                                   NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN,
                                   NULL);
    }

    if (ngx_http_pgw_inject(r, conf, grant) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_VERIFIED);

    return NGX_OK;
}


/* The first refusal is the one that the client would have got, or got. */

static void
ngx_http_pgw_shadow(ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason)
{
    if (gr->shadowed || ngx_http_pgw_refusal(gr)) {
        return;
    }

    gr->shadowed = 1;
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
            && r->internal && ngx_http_pgw_refusal(gr)))
    {
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: allow %s",
                   ngx_http_pgw_reasons[reason].name);

    gr->reason = reason;
    gr->retry_after = 0;
    ngx_str_null(&gr->challenge);
}


ngx_int_t
ngx_http_pgw_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_reason_e reason,
    const char *detail)
{
    ngx_int_t  rc;

    if (!conf->shadow) {
        return ngx_http_pgw_problem_refuse(r, gr, reason, detail);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: shadow %s",
                   ngx_http_pgw_reasons[reason].name);

    ngx_http_pgw_shadow(gr, reason);

    rc = ngx_http_pgw_inject(r, conf, NULL);

    return (rc == NGX_OK) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}
