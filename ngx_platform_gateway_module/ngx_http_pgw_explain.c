
/*
 * platform_gateway_explain: answers why a request would be let through or
 * refused.  It is for the operator alone, since it tells more of a token than
 * its bearer learns from a refusal.
 */


#include "ngx_http_pgw_explain.h"
#include "ngx_http_pgw_header.h"


#define NGX_HTTP_PGW_EXPLAIN_MAX  (64 * 1024)

#define ngx_http_pgw_explain_is(e, name)                                      \
    ((e)->method.len == sizeof(name) - 1                                      \
     && ngx_strncmp((e)->method.data, name, sizeof(name) - 1) == 0)


static ngx_http_core_srv_conf_t *ngx_http_pgw_explain_named(ngx_conf_t *cf,
    const ngx_str_t *name);
static ngx_int_t ngx_http_pgw_explain_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_pgw_explain_browser(const ngx_http_request_t *r);
static void ngx_http_pgw_explain_body(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_str_t *body);
static ngx_int_t ngx_http_pgw_explain_route(ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_location(ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_method(ngx_http_pgw_explain_t *e);
static const char *ngx_http_pgw_explain_read(ngx_http_pgw_explain_t *e,
    const ngx_str_t *body);
static const char *ngx_http_pgw_explain_member(ngx_http_pgw_explain_t *e,
    const pj_json_t *m);
static ngx_int_t ngx_http_pgw_explain_token(ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_no_key(ngx_http_pgw_explain_t *e,
    const ngx_http_pgw_keys_t *keys, const pj_keyset_t *set);
static ngx_int_t ngx_http_pgw_explain_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *detail);


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
ngx_http_pgw_explain_check(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_explained_t  *explain;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* "if" and "limit_except" have the handler of their location */

    if (conf->explain == NULL && clcf->noname) {
        conf->explain = prev->explain;
    }

    explain = conf->explain;

    if (explain == NULL) {
        return NGX_CONF_OK;
    }

    explain->server = explain->name.len
               ? ngx_http_pgw_explain_named(cf, &explain->name)
               : ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if (explain->server == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "platform_gateway: location \"%V\" has "
                      "\"platform_gateway_explain %V\", and not exactly one "
                      "server has that \"server_name\", in %V:%ui",
                      &clcf->name, &explain->name, &conf->place.file,
                      conf->place.line);

        return NGX_CONF_ERROR;
    }

    if (clcf->internal
        || ngx_http_pgw_peek_access_denies(cf)
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
                  &clcf->name, &conf->place.file, conf->place.line);

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

    if (ngx_http_pgw_explain_route(e) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (e->conf && !e->redirect && e->conf->enable && e->conf->access) {

        e->public = e->options || (e->conf->access & NGX_HTTP_PGW_PUBLIC);

        if (!e->public && ngx_http_pgw_explain_token(e) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    return ngx_http_pgw_explain_send(e);
}


/* What a request from outside would be led to, before any rewrite. */

static ngx_int_t
ngx_http_pgw_explain_route(ngx_http_pgw_explain_t *e)
{
    void       **loc_conf;
    ngx_int_t    rc;

    rc = ngx_http_pgw_locate_uri(e->request, e->server, &e->path, &e->uri);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_PATH,
                                  NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                  "nginx does not accept this path");
        return NGX_OK;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_PATH);

    loc_conf = e->server->ctx->loc_conf;
    rc = ngx_http_pgw_locate(NULL, &e->uri, &loc_conf);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    e->redirect = (rc == NGX_DONE);
    e->clcf = loc_conf[ngx_http_core_module.ctx_index];
    e->conf = loc_conf[ngx_http_platform_gateway_module.ctx_index];

    ngx_http_pgw_explain_location(e);

    return NGX_OK;
}


static void
ngx_http_pgw_explain_location(ngx_http_pgw_explain_t *e)
{
    const char  *detail;

    if (e->clcf->internal) {
        detail = "the location is internal";

    } else if (e->conf->enable && e->conf->access == 0) {
        detail = "the location states no platform_gateway_access";

    } else if ((e->conf->access & NGX_HTTP_PGW_PUBLIC)
               && ngx_http_pgw_local_is_route_not_found(e->clcf))
    {
        detail = "no other location serves the path";

    } else {
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_LOCATION);

        if (e->conf->enable && !e->redirect) {
            ngx_http_pgw_explain_method(e);
        }

        return;
    }

    ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_LOCATION,
                              NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND, detail);
}


static void
ngx_http_pgw_explain_method(ngx_http_pgw_explain_t *e)
{
    ngx_uint_t           method;
    ngx_conf_bitmask_t  *m;

    if (ngx_http_pgw_explain_is(e, "OPTIONS")) {
        e->options = 1;
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_METHOD);
        return;
    }

    method = 0;

    for (m = ngx_http_pgw_methods; m->name.len; m++) {
        if (m->name.len == e->method.len
            && ngx_memcmp(m->name.data, e->method.data, e->method.len) == 0)
        {
            method = m->mask;
        }
    }

    if ((e->conf->methods && !(e->conf->methods & method))
        || ngx_http_pgw_explain_is(e, "TRACE")
        || ngx_http_pgw_explain_is(e, "CONNECT"))
    {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_METHOD,
                                  NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN,
                                  "the location does not take the method");
        return;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_METHOD);
}


/* Reads {"token", "method", "path", "at"}; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_explain_read(ngx_http_pgw_explain_t *e, const ngx_str_t *body)
{
    void             *mem;
    size_t            size;
    pj_str_t          text;
    pj_arena_t        arena;
    const char       *err;
    const pj_json_t  *root, *m;

    size = pj_keyset_arena_bytes(body->len);

    mem = ngx_palloc(e->request->pool, size);
    if (mem == NULL) {
        return "the request is too large";
    }

    pj_arena_init(&arena, mem, size);

    text.data = body->data;
    text.len = body->len;

    if (pj_json_parse(&arena, text, &root) != PJ_OK
        || root->type != PJ_JSON_OBJECT)
    {
        return "the body is no JSON object";
    }

    for (m = root->child; m; m = m->next) {
        err = ngx_http_pgw_explain_member(e, m);
        if (err) {
            return err;
        }
    }

    return e->path.len ? NULL : "a path is required";
}


static const char *
ngx_http_pgw_explain_member(ngx_http_pgw_explain_t *e, const pj_json_t *m)
{
    ngx_uint_t  i;
    ngx_str_t  *value;

    struct {
        ngx_str_t    name;
        ngx_str_t   *value;
    } members[] = {
        { ngx_string("token"), &e->token },
        { ngx_string("method"), &e->method },
        { ngx_string("path"), &e->path }
    };

    if (m->name.len == sizeof("at") - 1
        && ngx_memcmp(m->name.data, "at", sizeof("at") - 1) == 0)
    {
        return pj_json_seconds(m, PJ_ROUND_DOWN, &e->at) == PJ_OK
               && e->at >= 0 && e->at < NGX_MAX_INT_T_VALUE - 300
               ? NULL : "the time is a number of seconds";
    }

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {

        if (m->name.len != members[i].name.len
            || ngx_memcmp(m->name.data, members[i].name.data, m->name.len)
               != 0)
        {
            continue;
        }

        value = members[i].value;

        if (m->type == PJ_JSON_NULL && value == &e->token) {
            return NULL;
        }

        if (m->type != PJ_JSON_STRING) {
            return "token, method and path are strings";
        }

        if (m->text.len) {
            value->data = (u_char *) m->text.data;
        }

        value->len = m->text.len;

        return NULL;
    }

    return "the members are token, method, path and at";
}


/* The value of Authorization, or a token alone; then as the guard does. */

static ngx_int_t
ngx_http_pgw_explain_token(ngx_http_pgw_explain_t *e)
{
    pj_err_t                   err;
    pj_str_t                   token;
    ngx_int_t                  rc;
    const pj_keyset_t         *set;
    ngx_http_pgw_steps_t       steps;
    ngx_http_pgw_main_conf_t  *mcf;

    rc = ngx_http_pgw_token_find(&e->token, &token);

    if (rc == NGX_DECLINED
        && e->token.data
        && ngx_strlchr(e->token.data, e->token.data + e->token.len, ' ')
           == NULL)
    {
        token.data = e->token.data;
        token.len = e->token.len;

    } else if (rc == NGX_DECLINED) {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_BEARER,
                                  NGX_HTTP_PGW_REASON_TOKEN_MISSING,
                                  e->token.data ? "the scheme is not Bearer"
                                                : "a bearer token is required");
        return NGX_OK;

    } else if (rc == NGX_ERROR) {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_BEARER,
                                  NGX_HTTP_PGW_REASON_TOKEN_SHAPE,
                                  pj_strerror(PJ_ERR_TOKEN_SHAPE));
        return NGX_OK;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_BEARER);

    mcf = ngx_http_get_module_main_conf(e->request,
                                        ngx_http_platform_gateway_module);

    /* the keys as they are now: no fetch is asked for */

    set = ngx_http_pgw_keys_get(mcf->keys);

    ngx_memzero(&steps, sizeof(ngx_http_pgw_steps_t));
    steps.at = e->at;

    err = ngx_http_pgw_token_verify(e->request->pool, e->conf, token, set,
                                    &e->claims, &steps);

    if (ngx_http_pgw_reason_of_token(err) == NGX_HTTP_PGW_REASON_TOKEN_INVALID)
    {
        return NGX_ERROR;
    }

    e->header = steps.header;

    ngx_http_pgw_explain_steps(e, &steps);

    if (e->check[NGX_HTTP_PGW_CHECK_KEY].result == NGX_HTTP_PGW_FAILED) {
        ngx_http_pgw_explain_no_key(e, mcf->keys, set);
    }

    if (steps.found[NGX_HTTP_PGW_STAGE_POLICY] == 0) {
        return NGX_OK;
    }

    if (e->conf->access & ngx_http_pgw_token_access(e->claims.kind)) {
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_CONTEXT);

    } else {
        ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_CONTEXT,
                                  NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN,
                                  "the token is valid for another context");
    }

    return NGX_OK;
}


static void
ngx_http_pgw_explain_no_key(ngx_http_pgw_explain_t *e,
    const ngx_http_pgw_keys_t *keys, const pj_keyset_t *set)
{
    ngx_http_pgw_check_t  *check;

    check = &e->check[NGX_HTTP_PGW_CHECK_KEY];
    check->reason = ngx_http_pgw_token_no_key(keys, set, e->claims.iat);

    if (check->reason == NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE) {
        check->detail = "there is no usable key set";

    } else if (check->reason == NGX_HTTP_PGW_REASON_KID_PENDING) {
        check->detail = "the key set is older than the token, a request would "
                        "have it fetched first";
    }
}


static ngx_int_t
ngx_http_pgw_explain_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *detail)
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
