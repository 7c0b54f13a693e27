
/*
 * The guard: whether the token that a request carries opens its location.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_reason.h"


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

    /* the first refusal is the one that the client would have got, or got */

    if (!gr->shadowed && !ngx_http_pgw_refusal(gr)) {
        gr->shadowed = 1;
        gr->reason = reason;
    }

    rc = ngx_http_pgw_inject(r, conf, NULL);

    return (rc == NGX_OK) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/*
 * Sets ctx->err to what the token of r is: asked once, and kept where the
 * answer is one for good.  A key that is not known may still come; with that
 * error *claims is filled.  NGX_DECLINED: there is no token.
 */

static ngx_int_t
ngx_http_pgw_check(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t *ctx, const pj_keyset_t *set, pj_claims_t *claims)
{
    pj_str_t                   token;
    ngx_int_t                  rc;
    ngx_uint_t                 version;
    ngx_table_elt_t           *h;
    ngx_http_pgw_main_conf_t  *mcf;

    h = r->headers_in.authorization;

    rc = ngx_http_pgw_token_find(h ? &h->value : NULL, &token);

    if (rc != NGX_OK) {
        ctx->policy = 0;
        ctx->err = PJ_ERR_TOKEN_SHAPE;

        return (rc == NGX_DECLINED) ? NGX_DECLINED : NGX_OK;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    version = ngx_http_pgw_keys_version(mcf->keys);

    if (set
        && ctx->policy == conf->policy
        && ctx->version == version
        && ctx->token.data == token.data
        && ctx->token.len == token.len)
    {
        return NGX_OK;
    }

    /* without keys nothing is known, whatever was known before */

    rc = set ? ngx_http_pgw_cache_find(mcf->cache, r->pool, conf, token,
                                       version, &ctx->err, &ctx->grant)
             : NGX_DECLINED;

    if (rc == NGX_DECLINED) {
        ctx->err = ngx_http_pgw_token_verify(r, conf, token, set, claims,
                                             NULL);

        if (ctx->err == PJ_OK
            && ngx_http_pgw_inject_render(r->pool, conf, claims, &ctx->grant)
               != NGX_OK)
        {
            ctx->err = PJ_ERR_NO_SPACE;
        }

        if (ctx->err == PJ_OK) {
            ngx_http_pgw_cache_store(mcf->cache, conf, token, version, claims,
                                     &ctx->grant);
        }
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: token %s, key set %ui%s",
                   pj_errname(ctx->err), version,
                   rc == NGX_DECLINED ? "" : ", cached");

    ctx->policy = (ctx->err == PJ_ERR_KID_UNKNOWN) ? 0 : conf->policy;
    ctx->version = version;
    ctx->token = token;

    return NGX_OK;
}


/* The same without deciding, for a location that may guard nothing. */

static pj_err_t
ngx_http_pgw_look(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_ctx_t **ctx)
{
    pj_claims_t                claims;
    ngx_http_pgw_main_conf_t  *mcf;

    *ctx = conf->policy ? ngx_http_pgw_ctx_get(r) : NULL;

    if (*ctx == NULL) {
        return PJ_ERR_ARGUMENT;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    (void) ngx_http_pgw_check(r, conf, *ctx, ngx_http_pgw_keys_get(mcf->keys),
                              &claims);
    return (*ctx)->err;
}


ngx_int_t
ngx_http_pgw_guard_early(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_pgw_main_conf_t  *mcf;

    if (ngx_http_pgw_look(r, conf, &ctx) != PJ_ERR_KID_UNKNOWN) {
        return NGX_DECLINED;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    return ngx_http_pgw_keys_wait(r, mcf->keys);
}


const ngx_http_pgw_subject_t *
ngx_http_pgw_guard_subject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_pgw_ctx_t  *ctx;

    return ngx_http_pgw_look(r, conf, &ctx) == PJ_OK ? &ctx->grant.subject
                                                     : NULL;
}


static ngx_int_t
ngx_http_pgw_admit(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
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


static ngx_int_t
ngx_http_pgw_decide(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx)
{
    ngx_int_t                  rc;
    pj_claims_t                claims;
    const pj_keyset_t         *set;
    ngx_http_pgw_keys_t       *keys;
    ngx_http_pgw_reason_e      reason;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    keys = mcf->keys;
    set = ngx_http_pgw_keys_get(keys);

    if (ngx_http_pgw_check(r, conf, ctx, set, &claims) == NGX_DECLINED) {
        return ngx_http_pgw_refuse(r, gr, conf,
                                   NGX_HTTP_PGW_REASON_TOKEN_MISSING, NULL);
    }

    reason = ngx_http_pgw_reason_of_token(ctx->err);

    if (ctx->err == PJ_ERR_KID_UNKNOWN) {

        /*
         * The key may be one that was published after our last fetch: what a
         * fetch that began after the request came has not brought is not there.
         */

        rc = ngx_http_pgw_keys_wait(r, keys);

        if (rc == NGX_AGAIN) {
            return NGX_AGAIN;
        }

        /* A fetch of another worker may have ended since we looked. */

        if (ngx_http_pgw_keys_get(keys) != set) {
            return ngx_http_pgw_decide(r, gr, conf, ctx);
        }

        if (set == NULL || rc == NGX_DECLINED) {
            reason = ngx_http_pgw_token_no_key(keys, set, &claims);
        }

        if (reason != NGX_HTTP_PGW_REASON_KID_UNKNOWN) {
            gr->retry_after = ngx_http_pgw_keys_retry_after(keys);
        }
    }

    ngx_http_pgw_metrics_verification(ctx->err);

    if (ctx->err == PJ_OK) {
        return ngx_http_pgw_admit(r, gr, conf, &ctx->grant);
    }

    if (reason == NGX_HTTP_PGW_REASON_TOKEN_INVALID) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "token verification failed: %s", pj_strerror(ctx->err));

        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_pgw_refuse(r, gr, conf, reason, NULL);
}


ngx_int_t
ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t                  rc;
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_core_loc_conf_t  *clcf;

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (ctx && ctx->decided) {
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
        rc = ngx_http_pgw_decide(r, gr, conf, ctx);
    }

    if (rc == NGX_AGAIN) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "http platform gateway: waits for keys");

        return NGX_AGAIN;
    }

    ctx->decided = 1;
    ctx->verdict = rc;

    return rc;
}
