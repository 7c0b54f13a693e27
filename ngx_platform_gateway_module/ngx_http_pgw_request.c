
/*
 * What is known of a request: made at first use, freed with the request.
 */


#include "ngx_http_pgw.h"


/* nothing to clean up: the handler is what the state is found by */

static void
ngx_http_pgw_request_cleanup(void *data)
{
    (void) data;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_pgw_request_t  *gr;

    r = r->main;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_request_cleanup) {
            return cln->data;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_request_t));
    if (cln == NULL) {
        return NULL;
    }

    gr = cln->data;
    ngx_memzero(gr, sizeof(ngx_http_pgw_request_t));

    if (ngx_http_pgw_headers_make(r, gr, NULL, NULL) != NGX_OK) {
        return NULL;
    }

    cln->handler = ngx_http_pgw_request_cleanup;

    return gr;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_own(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr, *own;

    gr = ngx_http_pgw_request_get(r);

    if (gr == NULL || r == r->main) {
        return gr;
    }

    own = ngx_palloc(r->pool, sizeof(ngx_http_pgw_request_t));
    if (own) {
        *own = *gr;
    }

    return own;
}


ngx_http_pgw_ctx_t *
ngx_http_pgw_ctx_get(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_pgw_ctx_t));

        if (ctx) {
            ngx_http_set_ctx(r, ctx, ngx_http_platform_gateway_module);
        }
    }

    return ctx;
}
