
/*
 * platform_gateway_explain: answers why a request would be let through or
 * refused.  It is for the operator alone, since it tells more of a token than
 * its bearer learns from a refusal.
 */


#include "ngx_http_pgw_explain.h"
#include "ngx_http_pgw_compat.h"
#include "ngx_http_pgw_header.h"


#define NGX_HTTP_PGW_EXPLAIN_MAX  (64 * 1024)


static ngx_http_core_srv_conf_t *ngx_http_pgw_explain_named(ngx_conf_t *cf,
    const ngx_str_t *name);
static ngx_int_t ngx_http_pgw_explain_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_pgw_explain_browser(const ngx_http_request_t *r);
static void ngx_http_pgw_explain_body(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_str_t *body);
static ngx_int_t ngx_http_pgw_explain_refuse(ngx_http_request_t *r,
    ngx_uint_t reason, const char *detail);


char *
ngx_http_pgw_explain_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    const ngx_str_t                        *value;
    ngx_http_core_loc_conf_t               *clcf;
    ngx_http_pgw_explained_t  *explain;

    (void) cmd;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    explain = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_explained_t));
    if (explain == NULL) {
        return NGX_CONF_ERROR;
    }

    if (cf->args->nelts == 2) {
        value = cf->args->elts;
        explain->name = value[1];
    }

    clcf->handler = ngx_http_pgw_explain_handler;

    lcf->explain = explain;
    lcf->methods |= NGX_HTTP_POST|NGX_CONF_BITMASK_SET;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_explain_check(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_explained_t  *explain;

    explain = conf->explain;

    if (explain == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    explain->server = explain->name.len
               ? ngx_http_pgw_explain_named(cf, &explain->name)
               : ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if (explain->server == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "platform_gateway: location \"%V\" has "
                      "\"platform_gateway_explain %V\", and not exactly one "
                      "server has that \"server_name\", in %V:%ui",
                      &clcf->name, &explain->name, &conf->conf_file,
                      conf->conf_line);

        return NGX_CONF_ERROR;
    }

    if (clcf->internal
        || ngx_http_pgw_access_denies(cf)
        || (conf->enable
            && (conf->access & (NGX_HTTP_PGW_ACCOUNT
                                |NGX_HTTP_PGW_BRANCH
                                |NGX_HTTP_PGW_SYSTEM))))
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
 * NULL unless there is exactly one.  The names are gone once the configuration
 * has been read.
 */

static ngx_http_core_srv_conf_t *
ngx_http_pgw_explain_named(ngx_conf_t *cf, const ngx_str_t *name)
{
    ngx_uint_t                  i, n;
    ngx_http_server_name_t     *sn;
    ngx_http_core_srv_conf_t  **cscfp, *found;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    found = NULL;
    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        sn = cscfp[i]->server_names.elts;

        for (n = 0; n < cscfp[i]->server_names.nelts; n++) {

            if (sn[n].name.len != name->len
                || ngx_strncasecmp(sn[n].name.data, name->data, name->len))
            {
                continue;
            }

            if (found && found != cscfp[i]) {
                return NULL;
            }

            found = cscfp[i];
        }
    }

    return found;
}


/*
 * A token must not reach the disk, so a body that nginx would not hold in
 * memory is refused.
 */

static ngx_int_t
ngx_http_pgw_explain_handler(ngx_http_request_t *r)
{
    off_t                      length;
    ngx_int_t                  rc;
    ngx_http_core_loc_conf_t  *clcf;

    if (r->method != NGX_HTTP_POST || r != r->main) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    if (ngx_http_pgw_explain_browser(r)) {
        return ngx_http_pgw_explain_refuse(r,
                            NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN,
                            "browsers get no explanation");
    }

    length = r->headers_in.content_length_n;

    if (length < 0) {
        return NGX_HTTP_LENGTH_REQUIRED;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (length > NGX_HTTP_PGW_EXPLAIN_MAX
        || length > (off_t) clcf->client_body_buffer_size)
    {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    r->request_body_in_file_only = 0;

    rc = ngx_http_read_client_request_body(r, ngx_http_pgw_explain_body);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


/*
 * A page may have its browser ask, from inside what "allow" lets in.  Of what a
 * page can have sent by POST, all has at least one of these headers.
 */

static ngx_uint_t
ngx_http_pgw_explain_browser(const ngx_http_request_t *r)
{
    ngx_uint_t              i;
    const ngx_list_part_t  *part;
    const ngx_table_elt_t  *h;

    i = 0;
    part = &r->headers_in.headers.part;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (ngx_http_pgw_header_is(h, "origin")
            || ngx_http_pgw_header_is(h, "sec-fetch-site"))
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_pgw_explain_body(ngx_http_request_t *r)
{
    size_t        len, n;
    u_char       *p;
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

    ngx_http_finalize_request(r, ngx_http_pgw_explain_answer(r, &body));
}


static ngx_int_t
ngx_http_pgw_explain_answer(ngx_http_request_t *r, const ngx_str_t *body)
{
    const char               *err;
    ngx_http_pgw_explain_t   *e;
    ngx_http_pgw_loc_conf_t  *conf;

    e = ngx_pcalloc(r->pool, sizeof(ngx_http_pgw_explain_t));
    if (e == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    e->request = r;
    e->server = conf->explain->server;
    e->at = ngx_time();
    ngx_str_set(&e->method, "GET");

    err = ngx_http_pgw_explain_read(e, body);
    if (err) {
        return ngx_http_pgw_explain_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                           err);
    }

    if (ngx_http_pgw_explain_route(e) != NGX_OK
        || ngx_http_pgw_explain_token(e) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_pgw_explain_send(e);
}


static ngx_int_t
ngx_http_pgw_explain_refuse(ngx_http_request_t *r, ngx_uint_t reason,
    const char *detail)
{
    ngx_int_t                rc;
    ngx_http_pgw_request_t  *gr;

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_problem_refuse(r, gr, reason, detail);

    if (reason == NGX_HTTP_PGW_REASON_BAD_REQUEST) {
        gr->code = "REQUEST_INVALID";
    }

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}
