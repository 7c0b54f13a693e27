
/*
 * The two ids of a request: which they are, nginx's $request_id, which is one
 * of them, and the headers of a response.
 */


#include "ngx_http_pgw.h"

#include <openssl/rand.h>


#define NGX_HTTP_PGW_ID_MAX_LEN  128
#define NGX_HTTP_PGW_ID_BYTES    16


/* What no id may hold: all but A-Z, a-z, 0-9, ".", "_", ":" and "-". */

static const u_char  ngx_http_pgw_ids_bad[256] = {
    1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
    1,1,1,1,1,1,1,1,1,1,1,1,1,0,0,1, 0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,
    1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,0,
    1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,1,
    1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
    1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
    1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
    1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
};


static ngx_uint_t ngx_http_pgw_ids_valid(const ngx_str_t *id);
static ngx_int_t ngx_http_pgw_ids_make(ngx_http_request_t *r, ngx_str_t *id);
static ngx_int_t ngx_http_pgw_ids_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_ids_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;

/* what nginx itself answers for $request_id */
static ngx_http_get_variable_pt  ngx_http_pgw_ids_nginx;


ngx_int_t
ngx_http_pgw_ids_choose(ngx_http_request_t *r, ngx_http_pgw_request_t *gr)
{
    ngx_str_t              *request, *correlation;
    ngx_uint_t              i, requests, correlations;
    ngx_table_elt_t        *h;
    const ngx_list_part_t  *part;

    request = NULL;
    correlation = NULL;
    requests = 0;
    correlations = 0;

    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (ngx_http_pgw_header_is(h, "x-request-id")) {
            request = &h->value;
            requests++;

        } else if (ngx_http_pgw_header_is(h, "x-correlation-id"))
        {
            correlation = &h->value;
            correlations++;
        }
    }

    if (requests == 1 && ngx_http_pgw_ids_valid(request)) {
        gr->request_id = *request;
        gr->ids_kept |= NGX_HTTP_PGW_REQUEST_ID;

    } else if (ngx_http_pgw_ids_make(r, &gr->request_id) != NGX_OK) {
        return NGX_ERROR;
    }

    if (correlations == 1 && ngx_http_pgw_ids_valid(correlation)) {
        gr->correlation_id = *correlation;
        gr->ids_kept |= NGX_HTTP_PGW_CORRELATION_ID;

    } else {
        gr->correlation_id = gr->request_id;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_pgw_ids_valid(const ngx_str_t *id)
{
    size_t  i;
    u_char  bad;

    bad = 0;

    if (id->len == 0 || id->len > NGX_HTTP_PGW_ID_MAX_LEN) {
        return 0;
    }

    for (i = 0; i < id->len; i++) {
        bad |= ngx_http_pgw_ids_bad[id->data[i]];
    }

    return !bad;
}


static ngx_int_t
ngx_http_pgw_ids_make(ngx_http_request_t *r, ngx_str_t *id)
{
    /* of this worker: what is forked has used none yet */

    static u_char   random[NGX_HTTP_PGW_ID_BYTES * 64];
    static size_t   left;

    id->len = 2 * NGX_HTTP_PGW_ID_BYTES;
    id->data = ngx_pnalloc(r->pool, id->len);
    if (id->data == NULL) {
        return NGX_ERROR;
    }

    if (left == 0) {

        if (RAND_bytes(random, sizeof(random)) != 1) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "no random bytes for a request id");
            return NGX_ERROR;
        }

        left = sizeof(random);
    }

    left -= NGX_HTTP_PGW_ID_BYTES;
    ngx_hex_dump(id->data, random + left, NGX_HTTP_PGW_ID_BYTES);

    return NGX_OK;
}


/*
 * Among the filters by the order in which modules are configured: before
 * nginx's add_header, so that ours replaces what that added.
 */

void
ngx_http_pgw_ids_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_pgw_ids_header_filter;
}


/*
 * The two ids, once each.  A filter further down may end this response and
 * start another (416 of the range filter), so ours are replaced too.
 */

static ngx_int_t
ngx_http_pgw_ids_header_filter(ngx_http_request_t *r)
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

    gr = ngx_http_pgw_request_get(r);
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

    if (ngx_http_pgw_header_add(r, "X-Request-Id",
                                &gr->request_id)
        == NULL
        || ngx_http_pgw_header_add(r, "X-Correlation-Id",
                                                &gr->correlation_id)
           == NULL)
    {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


/* Puts our id in the place of nginx's. */

ngx_int_t
ngx_http_pgw_ids_add_variable(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_hash_key_t             *key;
    ngx_http_variable_t        *var;
    ngx_http_core_main_conf_t  *cmcf;

    static const ngx_str_t  name = ngx_string("request_id");

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    key = cmcf->variables_keys->keys.elts;

    for (i = 0; i < cmcf->variables_keys->keys.nelts; i++) {

        if (key[i].key.len == name.len
            && ngx_memcmp(key[i].key.data, name.data, name.len) == 0)
        {
            var = key[i].value;

            ngx_http_pgw_ids_nginx = var->get_handler;
            var->get_handler = ngx_http_pgw_ids_variable;

            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_pgw_ids_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf;

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (!sscf->any_enabled) {
        return ngx_http_pgw_ids_nginx(r, v, data);
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    v->data = gr->request_id.data;
    v->len = (unsigned) gr->request_id.len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}
