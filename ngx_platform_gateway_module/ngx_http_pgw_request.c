
/*
 * What is known of a request as a whole: its state, made once and freed with
 * it.  Both of its ids go into the response; the first is also nginx's
 * $request_id.
 */


#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_headers.h"


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;

/* the index of nginx's $request_id among a request's cached variables */
static ngx_int_t  ngx_http_pgw_request_index;


/* cleans nothing up: its address is what the state is found by */

static void
ngx_http_pgw_request_cleanup(void *data)
{
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_get(const ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = r->main->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_request_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_begin(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t       *cln;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf;

    gr = ngx_http_pgw_request_get(r);
    if (gr) {
        return gr;
    }

    r = r->main;

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

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (sscf->any_enabled) {
        (void) ngx_http_pgw_headers_value(
                                     &r->variables[ngx_http_pgw_request_index],
                                     gr->request_id.data, gr->request_id.len);
    }

    return gr;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_own(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr, *own;

    gr = ngx_http_pgw_request_begin(r);

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
ngx_http_pgw_request_ctx(ngx_http_request_t *r)
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


/*
 * Sets the two ids, once each.  A filter after this one may start another
 * response (416 of the range filter), so ids that we set are replaced too.
 */

static ngx_int_t
ngx_http_pgw_request_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t                i;
    ngx_table_elt_t          *h;
    const ngx_list_part_t    *part;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (!conf->enable || r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    part = &r->headers_out.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (ngx_http_pgw_header_is(h, "x-request-id")
            || ngx_http_pgw_header_is(h, "x-correlation-id"))
        {
            h->hash = 0;
        }
    }

    if (!ngx_http_pgw_header_add(r, "X-Request-Id", &gr->request_id)
        || !ngx_http_pgw_header_add(r, "X-Correlation-Id", &gr->correlation_id))
    {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


/*
 * "ngx_module_order" in the file config puts the module before nginx's headers
 * filter, so this filter runs after it and replaces what add_header has added.
 */

ngx_int_t
ngx_http_pgw_request_init(ngx_conf_t *cf)
{
    static ngx_str_t  name = ngx_string("request_id");

    ngx_http_pgw_request_index = ngx_http_get_variable_index(cf, &name);

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_pgw_request_header_filter;

    return (ngx_http_pgw_request_index == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}
