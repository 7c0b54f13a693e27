
/*
 * The guard decides whether the token of a request admits it to its location.
 */


#include "request/request.h"
#include "token/token.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"


/*
 * Records why r may pass.  A public location that an error_page leads to does
 * not overwrite the refusal that led there: the log keeps its reason.  A
 * guarded location, which has checked the token itself, does overwrite it.
 */

void
ngx_http_pgw_guard_allow(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason)
{
    if (gr->shadowed
        || (reason == NGX_HTTP_PGW_REASON_PUBLIC
            && r->internal
            && ngx_http_pgw_request_decision(r, gr)
               == NGX_HTTP_PGW_DECISION_DENY))
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
ngx_http_pgw_guard_inject(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
    ngx_http_pgw_request_t  *gr;

    /* a token in a cookie or a subprotocol was removed in REWRITE */

    if (grant == NULL
        && !ngx_http_pgw_headers_hide_proof(conf)
        && (conf->forward_authorization
            || r->headers_in.authorization == NULL))
    {
        return NGX_DECLINED;
    }

    /* gr belongs to the main request; the new list of headers is for r alone */

    gr = ngx_http_pgw_request_get(r);

    if (gr == NULL || ngx_http_pgw_headers_make(r, gr, conf, grant) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->injected = 1;

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_pgw_guard_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_reason_e reason,
    const char *detail)
{
    if (!conf->shadow) {
        return ngx_http_pgw_request_refuse(r, gr, reason, detail);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: shadow %s",
                   ngx_http_pgw_reasons[reason].name);

    /* the first refusal counts: it is the one for the client */

    if (!gr->shadowed && !ngx_http_pgw_request_refusal(gr)) {
        gr->shadowed = 1;
        gr->reason = reason;
    }

    return ngx_http_pgw_guard_inject(r, conf, NULL);
}


/* Sets ctx->err; also ctx->grant for a good token, and ctx->iat if the key is
   unknown. */

static void
ngx_http_pgw_guard_verify(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx,
    ngx_http_pgw_cache_t *cache)
{
    ngx_pool_t   *pool;
    pj_claims_t   claims;

    ngx_http_pgw_keys_select(ngx_http_pgw_main(r)->issuers, &ctx->keys);

    /* the request's pool would hold all this memory until the response ends */

    pool = ngx_create_pool(512, r->connection->log);
    if (pool == NULL) {
        ctx->err = PJ_ERR_NO_SPACE;
        return;
    }

    ctx->err = ngx_http_pgw_token_verify(pool, conf, ctx->token, &ctx->keys,
                                         &claims, NULL);

    if (ctx->err == PJ_ERR_KID_UNKNOWN) {
        ctx->iat = claims.iat;

    } else if (ctx->err == PJ_OK) {

        if (ngx_http_pgw_token_grant(r->pool, conf, ctx->keys.issuer, &claims,
                                     &ctx->grant)
            == NGX_OK
            && ngx_http_pgw_revocations_mark(ctx->keys.issuer->revocations,
                                             &claims, &ctx->grant.mark)
               == NGX_OK)
        {
            ngx_http_pgw_cache_store(cache, conf, ctx, &claims);

        } else {
            ctx->err = PJ_ERR_NO_SPACE;
        }
    }

    ngx_destroy_pool(pool);
}


/* Finds the token of r.  Returns NONE, or the reason to refuse r. */

static ngx_http_pgw_reason_e
ngx_http_pgw_guard_find(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx,
    pj_str_t *token)
{
    ngx_uint_t              dpop = conf->proof;
    ngx_table_elt_t        *h = r->headers_in.authorization;
    ngx_http_pgw_reason_e   reason;

    reason = ngx_http_pgw_token_find(h ? &h->value : NULL, &dpop, token);
    ctx->dpop = (dpop != 0);

    return conf->token_from && reason != NGX_HTTP_PGW_REASON_TOKEN_SHAPE
           ? ngx_http_pgw_source_find(r, ngx_http_pgw_request_get(r), conf,
                                      reason, token) : reason;
}


/*
 * Verifies once, and keeps the result for this token, policy and key set.
 *
 * Once the guard has admitted r, r keeps that identity to its end, even if the
 * key is removed or the token expires or is revoked meanwhile.  A change of the
 * location clears the context.
 */

ngx_http_pgw_ctx_t *
ngx_http_pgw_guard_authenticate(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    pj_str_t                token;
    ngx_int_t               rc;
    ngx_http_pgw_ctx_t     *ctx;
    ngx_http_pgw_cache_t   *cache = ngx_http_pgw_main(r)->cache;

    ctx = conf->policy ? ngx_http_pgw_request_ctx(r) : NULL;

    if (ctx == NULL || ctx->settled) {
        return ctx;
    }

    ctx->reason = ngx_http_pgw_guard_find(r, conf, ctx, &token);

    if (ctx->reason) {
        ctx->policy = 0;
        ctx->err = PJ_ERR_TOKEN_SHAPE;
        return ctx;
    }

    if (ctx->policy != conf->policy
        || ctx->token.data != token.data
        || ctx->token.len != token.len
        || ctx->keys.set != ngx_http_pgw_keys_get(ctx->keys.issuer)
        || ctx->keys.version != ctx->keys.issuer->version)
    {
        ctx->token = token;
        rc = ngx_http_pgw_cache_find(cache, r->pool, conf, ctx);

        if (rc == NGX_DECLINED) {
            ngx_http_pgw_guard_verify(r, conf, ctx, cache);
        }

        ctx->policy = conf->policy;

        ngx_log_debug3(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "http platform gateway: token %s, key set %ui%s",
                       pj_errname(ctx->err), ctx->keys.version,
                       rc == NGX_DECLINED ? "" : ", cached");
    }

    /* revocation and possession are checked on every call */

    ctx->reason = (ctx->err == PJ_OK && ctx->keys.issuer->revocations)
                  ? ngx_http_pgw_revocations_check(
                         ctx->keys.issuer->revocations, &ctx->grant.mark)
                  : ngx_http_pgw_reason_of_token(ctx->err);

    if ((conf->proof || conf->certificate)
        && ctx->reason == NGX_HTTP_PGW_REASON_VERIFIED)
    {
        ctx->reason = ngx_http_pgw_certificate_check(r, conf, ctx);
    }

    return ctx;
}


/* Returns whether a good token admits its request to this location. */

static ngx_http_pgw_reason_e
ngx_http_pgw_guard_authorize(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx)
{
    const ngx_http_pgw_revocations_t  *rev = ctx->keys.issuer->revocations;

    if (rev && ngx_http_pgw_revocations_stale(rev)) {
        ngx_http_pgw_counters_inc(unchecked);
    }

    gr->subject = ctx->grant.subject;
    ctx->settled = 1;

    if (!(conf->access & ctx->grant.access)) {
        return NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN;
    }

    if (ctx->grant.missing
        && ngx_http_pgw_require_lacking(r, conf, &ctx->grant))
    {
        return NGX_HTTP_PGW_REASON_CLAIM_REQUIRED;
    }

    if (conf->authentication
        && ngx_http_pgw_authentication_fault(conf->authentication,
                         ctx->grant.auth_time, ngx_time(),
                         ngx_http_pgw_issuer_leeway(ctx->keys.issuer, conf)))
    {
        return NGX_HTTP_PGW_REASON_AUTHENTICATION_REQUIRED;
    }

    return NGX_HTTP_PGW_REASON_VERIFIED;
}


/*
 * Returns why r is admitted or refused, or REASON_NONE if it waits for keys.
 * The key of its token may have been published after the last fetch, so r waits
 * for a fetch that begins after r arrived.  A key that is missing then does not
 * exist.
 */

static ngx_http_pgw_reason_e
ngx_http_pgw_guard_decide(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t              rc;
    ngx_http_pgw_ctx_t    *ctx;
    ngx_http_pgw_reason_e  reason;

    do {
        ctx = ngx_http_pgw_guard_authenticate(r, conf);

        /* there was nothing to verify */

        if (ctx == NULL
            || (ctx->err == PJ_ERR_TOKEN_SHAPE
                && ctx->reason != NGX_HTTP_PGW_REASON_TOKEN_SHAPE))
        {
            return ctx ? ctx->reason : NGX_HTTP_PGW_REASON_TOKEN_INVALID;
        }

        rc = (ctx->err == PJ_ERR_KID_UNKNOWN)
             ? ngx_http_pgw_keys_wait(r, ctx->keys.issuer) : NGX_OK;

        if (rc == NGX_AGAIN) {
            ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                           "http platform gateway: waits for keys");

            return NGX_HTTP_PGW_REASON_NONE;
        }

        /* another worker may have fetched meanwhile */

    } while (ctx->err == PJ_ERR_KID_UNKNOWN
             && ngx_http_pgw_keys_get(ctx->keys.issuer) != ctx->keys.set);

    reason = ctx->reason;

    gr->retry_after = (reason == NGX_HTTP_PGW_REASON_REVOCATIONS_STALE
                       || reason == NGX_HTTP_PGW_REASON_PROOF_STORE_FULL);

    if (ctx->err == PJ_ERR_KID_UNKNOWN
        && (ctx->keys.set == NULL || rc == NGX_DECLINED))
    {
        reason = ngx_http_pgw_token_no_key(&ctx->keys, ctx->iat);

        if (reason != NGX_HTTP_PGW_REASON_KID_UNKNOWN) {
            gr->retry_after = ngx_http_pgw_keys_retry_after(ctx->keys.issuer);
        }
    }

    ngx_http_pgw_counters_inc(reasons[
             reason == NGX_HTTP_PGW_REASON_SESSION_REVOKED
             ? reason : ngx_http_pgw_reason_of_token(ctx->err)].verifications);

    return reason == NGX_HTTP_PGW_REASON_VERIFIED
           ? ngx_http_pgw_guard_authorize(r, gr, conf, ctx) : reason;
}


/* Sets the scopes of the challenge. */

static ngx_int_t
ngx_http_pgw_guard_scope(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_reason_e reason,
    const ngx_http_pgw_ctx_t *ctx)
{
    ngx_str_t  *scope;

    if (conf->required == NULL
        && reason != NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN)
    {
        return NGX_OK;
    }

    scope = ngx_palloc(r->pool, sizeof(ngx_str_t));

    if (scope == NULL
        || ngx_http_pgw_require_challenge(r, conf, reason, &ctx->grant, scope)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    gr->scope = scope->len ? scope : NULL;

    return NGX_OK;
}


static ngx_http_pgw_reason_e
ngx_http_pgw_guard_no_access(ngx_http_request_t *r)
{
    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "no \"platform_gateway_access\" for location \"%V\"",
                  &ngx_http_pgw_core(r)->name);

    return NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND;
}


/* Checks the headers of r that need no token. */

static ngx_int_t
ngx_http_pgw_guard_headers(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    const char  *fault;

    fault = conf->single_headers ? ngx_http_pgw_single_fault(r, conf) : NULL;

    if (fault) {
        return ngx_http_pgw_guard_refuse(r, gr, conf,
                                         NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                         fault);
    }

    if (conf->strict_origin && ngx_http_pgw_origin_foreign(r, conf)) {
        return ngx_http_pgw_guard_refuse(r, gr, conf,
                                         NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN,
                                         NULL);
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_pgw_guard(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t               rc;
    ngx_http_pgw_ctx_t     *ctx;
    ngx_http_pgw_reason_e   reason;

    gr->required = &conf->levels;
    gr->scope = NULL;

    if (conf->single_headers || conf->strict_origin) {
        rc = ngx_http_pgw_guard_headers(r, gr, conf);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (conf->access & NGX_HTTP_PGW_PUBLIC) {
        ngx_http_pgw_guard_allow(r, gr, NGX_HTTP_PGW_REASON_PUBLIC);

        return ngx_http_pgw_guard_inject(r, conf, NULL);
    }

    ctx = ngx_http_pgw_request_ctx(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reason = conf->access ? ngx_http_pgw_guard_decide(r, gr, conf)
                          : ngx_http_pgw_guard_no_access(r);

    if (reason == NGX_HTTP_PGW_REASON_NONE) {
        return NGX_AGAIN;
    }

    rc = NGX_HTTP_INTERNAL_SERVER_ERROR;

    if (reason == NGX_HTTP_PGW_REASON_TOKEN_INVALID) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "token verification failed: %s", pj_strerror(ctx->err));

    } else if (reason != NGX_HTTP_PGW_REASON_VERIFIED) {
        rc = ngx_http_pgw_guard_scope(r, gr, conf, reason, ctx) != NGX_OK
             ? rc : ngx_http_pgw_guard_refuse(r, gr, conf, reason,
                                     ngx_http_pgw_proof_detail(gr, reason));

    } else if (ngx_http_pgw_guard_inject(r, conf, &ctx->grant)
               == NGX_DECLINED
               && ngx_http_pgw_expiry_watch(r, conf, ctx) == NGX_OK)
    {
        ngx_http_pgw_guard_allow(r, gr, reason);
        rc = NGX_OK;
    }

    ctx->verdict = rc;

    return rc;
}
