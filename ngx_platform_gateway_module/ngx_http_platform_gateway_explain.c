
/*
 * platform_gateway_explain: answers why a request would be let through or
 * refused.  It is for the operator alone, since it tells more of a token than
 * its bearer learns from a refusal.
 */


#include "ngx_http_platform_gateway_explain.h"
#include "ngx_http_platform_gateway_compat.h"


#define NGX_HTTP_PLATFORM_GATEWAY_EXPLAIN_MAX  (64 * 1024)


static ngx_int_t ngx_http_platform_gateway_explain_handler(
    ngx_http_request_t *r);
static void ngx_http_platform_gateway_explain_body(ngx_http_request_t *r);
static ngx_int_t ngx_http_platform_gateway_explain_answer(
    ngx_http_request_t *r, const ngx_str_t *body);
static ngx_int_t ngx_http_platform_gateway_explain_refuse(
    ngx_http_request_t *r, const char *detail);


char *
ngx_http_platform_gateway_explain_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_platform_gateway_loc_conf_t *lcf = conf;

    ngx_http_core_loc_conf_t  *clcf;

    (void) cmd;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = ngx_http_platform_gateway_explain_handler;

    lcf->explain = 1;
    lcf->methods |= NGX_HTTP_POST|NGX_CONF_BITMASK_SET;

    return NGX_CONF_OK;
}


char *
ngx_http_platform_gateway_explain_check(ngx_conf_t *cf,
    const ngx_http_platform_gateway_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (!conf->explain
        || clcf->internal
        || ngx_http_platform_gateway_access_denies(cf)
        || (conf->enable
            && (conf->access & (NGX_HTTP_PLATFORM_GATEWAY_ACCOUNT
                                |NGX_HTTP_PLATFORM_GATEWAY_BRANCH
                                |NGX_HTTP_PLATFORM_GATEWAY_SYSTEM))))
    {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "platform_gateway: location \"%V\" has "
                  "\"platform_gateway_explain\" and is open to anybody: say "
                  "\"allow 127.0.0.1; deny all;\" or \"internal;\" in it, or "
                  "guard it, in %V:%ui",
                  &clcf->name, &conf->conf_file, conf->conf_line);

    return NGX_CONF_ERROR;
}


/*
 * A token must not reach the disk, so a body that nginx would not hold in
 * memory is refused.
 */

static ngx_int_t
ngx_http_platform_gateway_explain_handler(ngx_http_request_t *r)
{
    off_t                      length;
    ngx_int_t                  rc;
    ngx_http_core_loc_conf_t  *clcf;

    if (r->method != NGX_HTTP_POST || r != r->main) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    length = r->headers_in.content_length_n;

    if (length < 0) {
        return NGX_HTTP_LENGTH_REQUIRED;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (length > NGX_HTTP_PLATFORM_GATEWAY_EXPLAIN_MAX
        || length > (off_t) clcf->client_body_buffer_size)
    {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    r->request_body_in_file_only = 0;

    rc = ngx_http_read_client_request_body(r,
                                       ngx_http_platform_gateway_explain_body);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


static void
ngx_http_platform_gateway_explain_body(ngx_http_request_t *r)
{
    u_char       *p;
    size_t        len, n;
    ngx_str_t     body;
    ngx_chain_t  *cl;

    if (r->request_body->temp_file) {
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE);
        return;
    }

    len = 0;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        len += (size_t) (cl->buf->last - cl->buf->pos);
    }

    p = ngx_pnalloc(r->pool, len + 1);
    if (p == NULL) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    body.data = p;
    body.len = len;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        n = (size_t) (cl->buf->last - cl->buf->pos);

        if (n) {
            p = ngx_cpymem(p, cl->buf->pos, n);
        }
    }

    ngx_http_finalize_request(r, ngx_http_platform_gateway_explain_answer(r,
                                                                      &body));
}


static ngx_int_t
ngx_http_platform_gateway_explain_answer(ngx_http_request_t *r,
    const ngx_str_t *body)
{
    const char                           *err;
    ngx_http_platform_gateway_explain_t  *e;

    e = ngx_pcalloc(r->pool, sizeof(ngx_http_platform_gateway_explain_t));
    if (e == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    e->request = r;
    e->at = ngx_time();
    ngx_str_set(&e->method, "GET");

    err = ngx_http_platform_gateway_explain_read(e, body);
    if (err) {
        return ngx_http_platform_gateway_explain_refuse(r, err);
    }

    if (ngx_http_platform_gateway_explain_route(e) != NGX_OK
        || ngx_http_platform_gateway_explain_token(e) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_platform_gateway_explain_send(e);
}


static ngx_int_t
ngx_http_platform_gateway_explain_refuse(ngx_http_request_t *r,
    const char *detail)
{
    ngx_int_t                             rc;
    ngx_http_platform_gateway_request_t  *gr;

    gr = ngx_http_platform_gateway_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_platform_gateway_problem_refuse(r, gr, NGX_HTTP_BAD_REQUEST,
                                                  "REQUEST_INVALID", detail);

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}
