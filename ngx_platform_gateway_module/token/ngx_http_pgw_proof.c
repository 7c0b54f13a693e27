
/*
 * Proofs of possession (DPoP, RFC 9449).  A token that is bound to a key is
 * accepted with a proof by that key for this request.
 */


#include "token/token.h"
#include "base/base.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>


#define NGX_HTTP_PGW_NONCE_BYTES  16
#define NGX_HTTP_PGW_NONCE_LEN    22  /* in base64url */
#define NGX_HTTP_PGW_PROOF_KEYS   1024


/* Keys of this worker that were used last, because to make one costs a third of
   a verification.  Two with the same place displace each other. */

static struct {
    u_char     thumbprint[PJ_SHA256_BYTES];
    pj_key_t  *key;
} ngx_http_pgw_proof_keys[NGX_HTTP_PGW_PROOF_KEYS];


ngx_int_t
ngx_http_pgw_proof_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    size_t                  size;
    ngx_slab_pool_t        *shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    ngx_http_pgw_proof_t   *proof = shm_zone->data;
    ngx_http_pgw_replay_t  *replay;

    static const ngx_str_t  all = ngx_null_string;

    replay = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_PROOFS,
                                    sizeof(ngx_http_pgw_replay_t), &all);

    if (replay && replay->buckets == 0) {
        size = shpool->pfree * ngx_pagesize;

        (void) ngx_http_pgw_replay_init(replay, size
                                        ? ngx_slab_calloc(shpool, size) : NULL,
                                        size, ngx_time());
    }

    if (replay == NULL || replay->buckets == 0) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" of \"platform_gateway_proof\" has no room "
                      "left for proofs: the running configuration uses it for "
                      "something else; give it another name, or restart nginx",
                      &shm_zone->shm.name);
        return NGX_ERROR;
    }

    proof->replay = replay;

    return NGX_OK;
}


ngx_http_pgw_binding_e
ngx_http_pgw_proof_binding(const ngx_http_pgw_loc_conf_t *conf,
    const pj_claims_t *claims, u_char thumbprint[PJ_SHA256_BYTES])
{
    return conf->proof && pj_claims_jkt(claims, thumbprint)
           ? NGX_HTTP_PGW_BINDING_KEY
           : conf->certificate && pj_claims_x5t(claims, thumbprint)
           ? NGX_HTTP_PGW_BINDING_CERTIFICATE : NGX_HTTP_PGW_BINDING_NONE;
}


ngx_http_pgw_reason_e
ngx_http_pgw_proof_needed(const ngx_http_pgw_loc_conf_t *conf,
    ngx_uint_t bound, ngx_uint_t dpop)
{
    return bound ? (dpop ? NGX_HTTP_PGW_REASON_NONE
                         : NGX_HTTP_PGW_REASON_TOKEN_BOUND)
           : dpop || conf->bound == NGX_HTTP_PGW_BOUND_REQUIRE
           ? NGX_HTTP_PGW_REASON_TOKEN_UNBOUND : NGX_HTTP_PGW_REASON_VERIFIED;
}


/* The method that the client used: error_page changes that of r. */

static pj_str_t
ngx_http_pgw_proof_method(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    ngx_str_t  line = r->main->request_line, method = gr->method;

    if (method.len == 0 && !ngx_http_pgw_names_split(&line, ' ', &method)) {
        method = r->main->method_name;
    }

    return ngx_http_pgw_span(&method);
}


/* The path without the query, as the client sent it. */

static pj_str_t
ngx_http_pgw_proof_path(const ngx_str_t *uri)
{
    const u_char  *query = memchr(uri->data, '?', uri->len);

    return (pj_str_t) { uri->data, query ? (size_t) (query - uri->data)
                                         : uri->len };
}


/* Makes the nonce of a slice of time, which needs no memory of its own. */

static ngx_int_t
ngx_http_pgw_proof_nonce(const ngx_http_pgw_proof_t *by, int64_t slice,
    u_char text[NGX_HTTP_PGW_NONCE_LEN])
{
    u_char     md[EVP_MAX_MD_SIZE];
    ngx_str_t  src = { NGX_HTTP_PGW_NONCE_BYTES, md };
    ngx_str_t  dst = { 0, text };

    if (HMAC(EVP_sha256(), by->replay->nonces, sizeof(by->replay->nonces),
             (const u_char *) &slice, sizeof(slice), md, NULL)
        == NULL)
    {
        return NGX_ERROR;
    }

    ngx_encode_base64url(&dst, &src);

    return NGX_OK;
}


/* Returns 1 if the nonce is that of the present slice or the one before. */

static ngx_uint_t
ngx_http_pgw_proof_fresh(const ngx_http_pgw_proof_t *by, int64_t now,
    pj_str_t nonce)
{
    u_char   good[NGX_HTTP_PGW_NONCE_LEN];
    int64_t  n;

    for (n = 0; nonce.len == sizeof(good) && n < 2; n++) {
        if (ngx_http_pgw_proof_nonce(by, now / by->window - n, good) == NGX_OK
            && CRYPTO_memcmp(good, nonce.data, sizeof(good)) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Returns where the key with the thumbprint is kept, or NULL is. */

static pj_key_t **
ngx_http_pgw_proof_key(const u_char thumbprint[PJ_SHA256_BYTES])
{
    ngx_uint_t  i = ((ngx_uint_t) thumbprint[0] << 8 | thumbprint[1])
                    % NGX_HTTP_PGW_PROOF_KEYS;

    if (ngx_memcmp(ngx_http_pgw_proof_keys[i].thumbprint, thumbprint,
                   PJ_SHA256_BYTES)
        != 0)
    {
        pj_key_free(ngx_http_pgw_proof_keys[i].key);

        ngx_http_pgw_proof_keys[i].key = NULL;
        ngx_memcpy(ngx_http_pgw_proof_keys[i].thumbprint, thumbprint,
                   PJ_SHA256_BYTES);
    }

    return &ngx_http_pgw_proof_keys[i].key;
}


/* Writes which part of a proof is wrong. */

static const char *
ngx_http_pgw_proof_fault(ngx_pool_t *pool, pj_err_t err, pj_str_t part)
{
    u_char      *p;
    const char  *text = pj_strerror(err);

    p = part.len ? ngx_pnalloc(pool, ngx_strlen(text) + part.len + sizeof(": "))
                 : NULL;
    if (p == NULL) {
        return text;
    }

    ngx_sprintf(p, "%s: %*s%Z", text, part.len, part.data);

    return (const char *) p;
}


ngx_http_pgw_reason_e
ngx_http_pgw_proof_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_proof_t *by,
    const ngx_http_pgw_proof_of_t *of, pj_proof_t *proof, const char **detail)
{
    void                   *mem;
    pj_err_t                err;
    pj_arena_t              arena;
    ngx_pool_t             *temporary;
    ngx_http_pgw_reason_e   reason = NGX_HTTP_PGW_REASON_TOKEN_INVALID;

    const pj_proof_policy_t  policy = {
        .method = of->method,
        .origins = conf->proof_origins->elts,
        .origin_count = conf->proof_origins->nelts,
        .path = ngx_http_pgw_proof_path(of->uri),
        .token = of->token,
        .now_s = of->now,
        .window_s = by->window,
        .thumbprint = of->thumbprint,
        .key = ngx_http_pgw_proof_key(of->thumbprint)
    };

    temporary = ngx_create_pool(512, pool->log);
    if (temporary == NULL) {
        return reason;
    }

    mem = ngx_palloc(temporary, pj_token_arena_bytes(PJ_PROOF_MAX_BYTES));

    if (mem) {
        pj_arena_init(&arena, mem, pj_token_arena_bytes(PJ_PROOF_MAX_BYTES));
        err = pj_proof_verify(&arena, ngx_http_pgw_span(of->value), &policy,
                              proof);

        reason = err == PJ_ERR_PROOF || err == PJ_ERR_PROOF_TIME
                 ? NGX_HTTP_PGW_REASON_PROOF_INVALID
                 : err ? NGX_HTTP_PGW_REASON_TOKEN_INVALID
                 : by->nonce
                   && !ngx_http_pgw_proof_fresh(by, of->now, proof->nonce)
                 ? NGX_HTTP_PGW_REASON_PROOF_NONCE
                 : NGX_HTTP_PGW_REASON_VERIFIED;

        *detail = reason == NGX_HTTP_PGW_REASON_PROOF_INVALID
                  ? ngx_http_pgw_proof_fault(pool, err, proof->fault) : NULL;
    }

    ngx_destroy_pool(temporary);

    return reason;
}


/* Uses the proof up. */

static ngx_http_pgw_reason_e
ngx_http_pgw_proof_use(const ngx_http_pgw_proof_t *by, const pj_proof_t *proof,
    ngx_log_t *log, const char **detail)
{
    int64_t           pause;
    ngx_int_t         rc;
    ngx_slab_pool_t  *shpool = (ngx_slab_pool_t *) by->shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    rc = ngx_http_pgw_replay_put(by->replay, proof->id, proof->iat,
                                 proof->iat + by->window + 1, ngx_time());

    pause = rc == NGX_ABORT ? ngx_http_pgw_replay_pause(by->replay, ngx_time())
                            : 0;

    ngx_shmtx_unlock(&shpool->mutex);

    if (pause) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "the clock was set back to a time "
                      "whose proofs of possession are no longer remembered: "
                      "they are refused for %L s; a restart ends that", pause);
    }

    if (rc == NGX_ABORT) {
        *detail = "the proof is older than what is remembered";
    }

    return rc == NGX_OK ? NGX_HTTP_PGW_REASON_VERIFIED
           : rc == NGX_DONE ? NGX_HTTP_PGW_REASON_PROOF_REPLAYED
           : rc == NGX_ABORT ? NGX_HTTP_PGW_REASON_PROOF_INVALID
           : rc == NGX_DECLINED ? NGX_HTTP_PGW_REASON_PROOF_STORE_FULL
           : NGX_HTTP_PGW_REASON_TOKEN_INVALID;
}


static ngx_http_pgw_reason_e
ngx_http_pgw_proof_judge(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const u_char *thumbprint)
{
    ngx_str_t                    value;
    pj_proof_t                   proof;
    ngx_http_pgw_shown_t        *shown = gr->shown;
    ngx_http_pgw_reason_e        reason;
    const ngx_http_pgw_proof_t  *by = ngx_http_pgw_main(r)->proof;

    const ngx_http_pgw_proof_of_t  of = {
        .value = &value,
        .method = ngx_http_pgw_proof_method(r, gr),
        .uri = &r->unparsed_uri,
        .token = shown->token,
        .thumbprint = thumbprint,
        .now = ngx_time()
    };

    if (ngx_http_pgw_names_find(&gr->sent, "dpop", &value) != 1) {
        return NGX_HTTP_PGW_REASON_PROOF_MISSING;
    }

    reason = ngx_http_pgw_proof_verify(r->main->pool, conf, by, &of, &proof,
                                       &shown->detail);

    /* another location of this request may have used the proof already */

    if (reason == NGX_HTTP_PGW_REASON_VERIFIED
        && !(shown->used
             && ngx_memcmp(shown->id, proof.id, sizeof(proof.id)) == 0))
    {
        reason = ngx_http_pgw_proof_use(by, &proof, r->connection->log,
                                        &shown->detail);

        if (reason == NGX_HTTP_PGW_REASON_VERIFIED) {
            shown->used = 1;
            ngx_memcpy(shown->id, proof.id, sizeof(proof.id));
        }
    }

    return reason;
}


ngx_http_pgw_reason_e
ngx_http_pgw_proof_check(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx)
{
    ngx_pool_t                  *pool = r->main->pool;
    ngx_http_pgw_shown_t        *shown = gr->shown;
    ngx_http_pgw_reason_e        reason;
    const ngx_http_pgw_proof_t  *by = ngx_http_pgw_main(r)->proof;

    reason = ngx_http_pgw_proof_needed(conf, ctx->grant.bound, ctx->dpop);

    if (reason != NGX_HTTP_PGW_REASON_NONE) {
        return reason;
    }

    if (shown == NULL) {
        shown = ngx_pcalloc(pool, sizeof(ngx_http_pgw_shown_t));
        if (shown == NULL) {
            return NGX_HTTP_PGW_REASON_TOKEN_INVALID;
        }

        gr->shown = shown;
    }

    if (shown->origins == conf->proof_origins
        && pj_str_eq(shown->token, ctx->token))
    {
        return shown->reason;
    }

    if (by->nonce) {
        gr->nonce.len = NGX_HTTP_PGW_NONCE_LEN;
        gr->nonce.data = ngx_pnalloc(pool, NGX_HTTP_PGW_NONCE_LEN);

        if (gr->nonce.data == NULL
            || ngx_http_pgw_proof_nonce(by, ngx_time() / by->window,
                                        gr->nonce.data)
               != NGX_OK)
        {
            ngx_str_null(&gr->nonce);
        }
    }

    shown->origins = conf->proof_origins;
    shown->token = ctx->token;
    shown->detail = NULL;
    shown->reason = ngx_http_pgw_proof_judge(r, gr, conf,
                                             ctx->grant.thumbprint);

    return shown->reason;
}


const char *
ngx_http_pgw_proof_detail(const ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e reason)
{
    return gr->shown && gr->shown->reason == reason ? gr->shown->detail : NULL;
}
