
/*
 * The state of a request: its decision, its refusal, and its ids, which are
 * sent in the response.  The first id is also nginx's $request_id.
 */


#include "base/base.h"


const ngx_str_t  ngx_http_pgw_request_decisions[NGX_HTTP_PGW_DECISIONS] = {
    ngx_string("none"), ngx_string("allow"), ngx_string("deny"),
    ngx_string("shadow")
};

static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;

/* the index of nginx's $request_id in r->variables */
static ngx_int_t  ngx_http_pgw_request_index;


static ngx_int_t ngx_http_pgw_request_network(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


ngx_http_variable_t  ngx_http_pgw_request_variables[] = {
    { ngx_string("platform_client_network"), NULL, ngx_http_pgw_request_network,
      0, 0, 0 },
      ngx_http_null_variable
};


/* does nothing: the state is found by the address of this function */

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


/* Not inlined, because request_begin() would then save registers on each
   call. */

static __attribute__((noinline)) ngx_http_pgw_request_t *
ngx_http_pgw_request_make(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_pgw_request_t  *gr;

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

    if (ngx_http_pgw_srv(r)->any_enabled) {
        (void) ngx_http_pgw_headers_value(
                                     &r->variables[ngx_http_pgw_request_index],
                                     gr->request_id.data, gr->request_id.len);
    }

    return gr;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_begin(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr = ngx_http_pgw_request_get(r);

    return gr ? gr : ngx_http_pgw_request_make(r->main);
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_writable(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr, *copy;

    gr = ngx_http_pgw_request_begin(r);

    if (gr == NULL || r == r->main) {
        return gr;
    }

    copy = ngx_palloc(r->pool, sizeof(ngx_http_pgw_request_t));
    if (copy) {
        *copy = *gr;
    }

    return copy;
}


ngx_http_pgw_ctx_t *
ngx_http_pgw_request_ctx(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t  *ctx = ngx_http_pgw_ctx(r);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_pgw_ctx_t));

        if (ctx) {
            ngx_http_set_ctx(r, ctx, ngx_http_platform_gateway_module);
        }
    }

    return ctx;
}


ngx_uint_t
ngx_http_pgw_request_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    return gr->reason ? gr->reason
                      : ngx_http_pgw_reason_of_status(r->err_status);
}


ngx_http_pgw_decision_e
ngx_http_pgw_request_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    ngx_uint_t  reason = ngx_http_pgw_request_reason(r, gr);

    return reason == NGX_HTTP_PGW_REASON_NONE ? NGX_HTTP_PGW_DECISION_NONE
           : !(ngx_http_pgw_reasons[reason].flags
               & NGX_HTTP_PGW_REASON_REFUSES) ? NGX_HTTP_PGW_DECISION_ALLOW
           : gr->shadowed ? NGX_HTTP_PGW_DECISION_SHADOW
           : NGX_HTTP_PGW_DECISION_DENY;
}


const ngx_http_pgw_reason_t *
ngx_http_pgw_request_refusal(const ngx_http_pgw_request_t *gr)
{
    const ngx_http_pgw_reason_t  *reason = &ngx_http_pgw_reasons[gr->reason];

    return (reason->flags & NGX_HTTP_PGW_REASON_REFUSES) && !gr->shadowed
           ? reason : NULL;
}


/* Writes the parameters of a challenge (RFC 6750, section 3; RFC 9728, section
   5.1).  It has the required scope with 401, and the missing scope with 403. */

static void
ngx_http_pgw_request_parameters(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_reason_t *reason, const char *detail)
{
    const ngx_str_t  *scope = gr->scope;

    if (conf->metadata.len) {
        ngx_http_pgw_text_format(text, ", resource_metadata=\"%V\"",
                                 &conf->metadata);
    }

    if (reason->error) {
        ngx_http_pgw_text_format(text, ", error=\"%s\"", reason->error);
    }

    if (reason->error && !(scope && reason->status == NGX_HTTP_FORBIDDEN)) {
        ngx_http_pgw_text_format(text, ", error_description=\"%s\"", detail);
    }

    if (scope) {
        ngx_http_pgw_text_format(text, ", scope=\"%V\"", scope);
    }

    if (gr->reason == NGX_HTTP_PGW_REASON_AUTHENTICATION_REQUIRED) {
        ngx_http_pgw_text_format(text, "%V", &conf->authentication->challenge);
    }
}


/* Makes WWW-Authenticate of a refusal, or an empty one.  Where proofs are
   checked it has a challenge for DPoP as well (RFC 9449, section 7.1); the
   challenge of the scheme that the request has used gets the parameters. */

static ngx_int_t
ngx_http_pgw_request_challenge(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_reason_t *reason, const char *detail)
{
    ngx_str_t                  scheme = conf->challenge;
    ngx_uint_t                 dpop, bearer;
    ngx_http_pgw_text_t        text = { .request = r };
    const ngx_http_pgw_ctx_t  *ctx = ngx_http_pgw_ctx(r);

    if (reason->error == NULL && reason->status != NGX_HTTP_UNAUTHORIZED) {
        ngx_str_null(&gr->challenge);
        return NGX_OK;
    }

    if (reason->error == NULL && conf->metadata.len == 0 && gr->scope == NULL
        && !conf->proof)
    {
        gr->challenge = scheme;
        return NGX_OK;
    }

    bearer = !conf->proof || conf->certificate
             || conf->bound != NGX_HTTP_PGW_BOUND_REQUIRE;
    dpop = !bearer || (conf->proof && ctx && ctx->dpop);

    if (bearer) {
        ngx_http_pgw_text_format(&text, "%V", &scheme);

        if (!dpop) {
            ngx_http_pgw_request_parameters(&text, gr, conf, reason, detail);
        }
    }

    if (conf->proof) {
        scheme.data += sizeof("Bearer") - 1;
        scheme.len -= sizeof("Bearer") - 1;

        ngx_http_pgw_text_format(&text, "%sDPoP%V, algs=\"" PJ_PROOF_ALGS "\"",
                                 bearer ? ", " : "", &scheme);

        if (dpop) {
            ngx_http_pgw_request_parameters(&text, gr, conf, reason, detail);
        }
    }

    gr->challenge = ngx_http_pgw_text_value(&text);

    return text.failed ? NGX_ERROR : NGX_OK;
}


ngx_int_t
ngx_http_pgw_request_refuse(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_reason_e code, const char *detail)
{
    const ngx_http_pgw_reason_t    *reason = &ngx_http_pgw_reasons[code];
    const ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);

    gr->reason = code;
    gr->shadowed = 0;
    gr->code = NULL;
    gr->detail = detail;
    gr->allow = conf->allow;

    detail = detail ? detail : reason->detail;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: deny %s: %s", reason->name, detail);

    return ngx_http_pgw_request_challenge(r, gr, conf, reason, detail) == NGX_OK
           ? (ngx_int_t) reason->status : NGX_ERROR;
}


/* Adds both ids, and removes others.  They may be there already, because a
   later filter may start a new response (the range filter's 416). */

static ngx_int_t
ngx_http_pgw_request_header_filter(ngx_http_request_t *r)
{
    ngx_table_elt_t         *h;
    ngx_http_pgw_walk_t      walk = { &r->headers_out.headers.part, 0 };
    ngx_http_pgw_request_t  *gr;

    if (!ngx_http_pgw_loc(r)->enable || r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {

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


/* This filter runs after nginx's headers filter, and replaces ids of
   add_header, because of "ngx_module_order" in the file config. */

ngx_int_t
ngx_http_pgw_request_init(ngx_conf_t *cf)
{
    static ngx_str_t  name = ngx_string("request_id");

    ngx_http_pgw_request_index = ngx_http_get_variable_index(cf, &name);

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_pgw_request_header_filter;

    return (ngx_http_pgw_request_index == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/* $platform_client_network: the IPv4 address, also if it is mapped, or the /64
   of an IPv6 address, because a client can use all addresses of its /64. */

static ngx_int_t
ngx_http_pgw_request_network(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    struct sockaddr      *sa = r->connection->sockaddr;
    struct sockaddr_in6  *sin6;

    if (sa->sa_family == AF_INET) {
        return ngx_http_pgw_headers_value(v,
                          (u_char *) &((struct sockaddr_in *) sa)->sin_addr, 4);
    }

    if (sa->sa_family != AF_INET6) {
        return ngx_http_pgw_headers_value(v, r->connection->addr_text.data,
                                          r->connection->addr_text.len);
    }

    sin6 = (struct sockaddr_in6 *) sa;

    return IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)
           ? ngx_http_pgw_headers_value(v, &sin6->sin6_addr.s6_addr[12], 4)
           : ngx_http_pgw_headers_value(v, sin6->sin6_addr.s6_addr, 8);
}
