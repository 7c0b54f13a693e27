
/*
 * Settings of other modules in a location, and the search for the location of a
 * path.
 *
 * nginx -t needs these settings to refuse a "return" that answers before the
 * guard, a cache that clients share, and an explanation that is open to all.
 */


#include "nginx/nginx.h"


static const ngx_http_pgw_passer_t  ngx_http_pgw_passers[] = {
    { ngx_string("proxy"), "proxy_buffer_size", NULL },
    { ngx_string("fastcgi"), "fastcgi_buffer_size", "fastcgi_param" },
    { ngx_string("scgi"), "scgi_buffer_size", NULL },
    { ngx_string("uwsgi"), "uwsgi_buffer_size", "uwsgi_param" },

    /* without a name, because they are never returned: a location that they
       serve is not taken for another module's */
    { ngx_null_string, "grpc_buffer_size", NULL },
    { ngx_null_string, "memcached_buffer_size", NULL }
};

#define NGX_HTTP_PGW_PASSERS                                                  \
    (sizeof(ngx_http_pgw_passers) / sizeof(ngx_http_pgw_passers[0]))


/* offset is that of the configuration which the directive sets. */

static ngx_command_t *
ngx_http_pgw_peek_search(ngx_conf_t *cf, const char *module,
    const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf),
    ngx_uint_t offset, ngx_module_t **found)
{
    ngx_module_t   **m;
    ngx_command_t   *cmd;

    for (m = cf->cycle->modules; *m; m++) {

        if ((*m)->type != NGX_HTTP_MODULE
            || (module && ngx_strcmp((*m)->name, module) != 0))
        {
            continue;
        }

        for (cmd = (*m)->commands; cmd && cmd->name.len; cmd++) {

            if (ngx_strcmp(cmd->name.data, directive) == 0
                && (set == NULL || cmd->set == set)
                && cmd->conf == offset)
            {
                *found = *m;
                return cmd;
            }
        }
    }

    return NULL;
}


ngx_command_t *
ngx_http_pgw_peek_command(ngx_conf_t *cf, const char *module,
    const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf),
    ngx_module_t **found)
{
    return ngx_http_pgw_peek_search(cf, module, directive, set,
                                    NGX_HTTP_LOC_CONF_OFFSET, found);
}


ngx_uint_t
ngx_http_pgw_peek_asks_certificate(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx)
{
    char           *conf;
    ngx_module_t   *m;
    ngx_command_t  *cmd;

    cmd = ngx_http_pgw_peek_search(cf, "ngx_http_ssl_module",
                                   "ssl_verify_client", ngx_conf_set_enum_slot,
                                   NGX_HTTP_SRV_CONF_OFFSET, &m);
    if (cmd == NULL) {
        return 0;
    }

    conf = ctx->srv_conf[m->ctx_index];

    return *(ngx_uint_t *) (void *) (conf + cmd->offset) != 0;
}


void *
ngx_http_pgw_peek_field(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const char *module, const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf))
{
    ngx_module_t   *m;
    ngx_command_t  *cmd;

    cmd = ngx_http_pgw_peek_command(cf, module, directive, set, &m);

    return cmd ? (char *) ctx->loc_conf[m->ctx_index] + cmd->offset : NULL;
}


const ngx_array_t *
ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx)
{
    ngx_array_t  **codes;

    codes = ngx_http_pgw_peek_field(cf, ctx, "ngx_http_rewrite_module",
                                    "return", NULL);

    return codes ? *codes : NULL;
}


ngx_uint_t
ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx)
{
    u_char                   *p, *last;
    const ngx_array_t        *codes = ngx_http_pgw_peek_rewrite_codes(cf, ctx);
    ngx_http_script_code_pt   code;

    if (codes == NULL) {
        return 0;
    }

    p = codes->elts;
    last = p + codes->nelts * codes->size;

    for ( /* void */ ; p + sizeof(code) <= last; p += sizeof(uintptr_t)) {

        ngx_memcpy(&code, p, sizeof(code));

        if (code == ngx_http_script_return_code) {
            return 1;
        }

#if (NGX_PCRE)
        if (code == ngx_http_script_regex_start_code
            && ((ngx_http_script_regex_code_t *) p)->redirect)
        {
            return 1;
        }
#endif
    }

    return 0;
}


/* The access module has an array of rules for each address family.  A rule is
   an address, a mask and "deny"; its size is checked. */

ngx_uint_t
ngx_http_pgw_peek_access_denies(ngx_conf_t *cf)
{
    u_char        *rule;
    ngx_uint_t     i, n, all, deny;
    ngx_array_t  **rules;

    static const u_char  any[2 * 16];

    static const size_t  sizes[] = {
        2 * sizeof(in_addr_t),
#if (NGX_HAVE_INET6)
        2 * sizeof(struct in6_addr),
#endif
#if (NGX_HAVE_UNIX_DOMAIN)
        0
#endif
    };

    rules = ngx_http_pgw_peek_field(cf, cf->ctx, "ngx_http_access_module",
                                    "deny", NULL);
    all = 0;
    deny = 0;

    for (i = 0; rules && i < sizeof(sizes) / sizeof(sizes[0]); i++) {

        if (rules[i] == NULL
            || rules[i]->nelts == 0
            || rules[i]->size != sizes[i] + sizeof(deny))
        {
            return 0;
        }

        for (n = 0; n < rules[i]->nelts; n++) {
            rule = (u_char *) rules[i]->elts + n * rules[i]->size;
            all = ngx_memcmp(rule, any, sizes[i]) == 0;
            ngx_memcpy(&deny, rule + sizes[i], sizeof(deny));

            if (all && !deny && sizes[i]) {
                return 0;
            }
        }

        if (!all || !deny) {
            return 0;
        }
    }

    return rules != NULL;
}


/* The field before that of "proxy_ssl_protocols" is 1 for https.  It is only
   compared, so another layout is harmless. */

ngx_uint_t
ngx_http_pgw_peek_unverified(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx)
{
    ngx_flag_t  *verify;
    ngx_uint_t  *protocols;

    verify = ngx_http_pgw_peek_field(cf, ctx, "ngx_http_proxy_module",
                                     "proxy_ssl_verify",
                                     ngx_conf_set_flag_slot);
    protocols = ngx_http_pgw_peek_field(cf, ctx, "ngx_http_proxy_module",
                                        "proxy_ssl_protocols",
                                        ngx_conf_set_bitmask_slot);

    return verify && protocols && *verify == 0 && protocols[-1] == 1;
}


/*
 * The configuration of each module above contains an ngx_http_upstream_conf_t.
 * The directive gives the address of its field buffer_size, and so that of the
 * structure.  An "if" or "limit_except" with a handler of its own inherits the
 * upstream of its location, and may have another one, of variables.
 */

ngx_http_upstream_conf_t *
ngx_http_pgw_peek_passer(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const ngx_http_pgw_passer_t **passer)
{
    char                      *field;
    ngx_uint_t                 i, fixed;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_upstream_conf_t  *u[NGX_HTTP_PGW_PASSERS];

    conf = ctx->loc_conf[ngx_http_platform_gateway_module.ctx_index];
    fixed = 0;

    for (i = 0; i < NGX_HTTP_PGW_PASSERS; i++) {
        field = ngx_http_pgw_peek_field(cf, ctx, NULL,
                                        ngx_http_pgw_passers[i].directive,
                                        ngx_conf_set_size_slot);

        u[i] = !field ? NULL : (ngx_http_upstream_conf_t *) (void *)
               (field - offsetof(ngx_http_upstream_conf_t, buffer_size));

        fixed |= u[i] && u[i]->upstream && !conf->other_handler;
    }

    i = *passer ? (ngx_uint_t) (*passer - ngx_http_pgw_passers) + 1 : 0;

    for ( /* void */ ; ngx_http_pgw_passers[i].name.len; i++) {

        if (u[i] && (u[i]->upstream || !fixed)) {
            *passer = &ngx_http_pgw_passers[i];
            return u[i];
        }
    }

    return NULL;
}


typedef struct {
    void                       **loc_conf;
    ngx_int_t                    status;
} ngx_http_pgw_peek_found_t;


/* Called when the subrequest ends.  With log_subrequest in the location that
   was found, nginx would log the search. */

static ngx_int_t
ngx_http_pgw_peek_end(ngx_http_request_t *sr, void *data, ngx_int_t rc)
{
    ngx_http_pgw_peek_found_t  *found = data;

    found->loc_conf = sr->loc_conf;
    found->status = rc;

    sr->loc_conf = sr->parent->loc_conf;

    return NGX_OK;
}


/* A background subrequest runs the phase FIND_CONFIG alone, without a wait.
   nginx ends it there with 301 if it redirects the path. */

ngx_int_t
ngx_http_pgw_peek_location(ngx_http_request_t *r,
    const ngx_http_core_srv_conf_t *server, ngx_str_t *path, void ***loc_conf)
{
    u_char                      *p;
    ngx_http_request_t          *sr;
    ngx_http_variable_value_t   *captures;
    ngx_http_core_main_conf_t   *cmcf;
    ngx_http_pgw_peek_found_t    found;
    ngx_http_post_subrequest_t   end = { ngx_http_pgw_peek_end, &found };

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    captures = ngx_pcalloc(r->pool, cmcf->variables.nelts
                                    * sizeof(ngx_http_variable_value_t));
    p = ngx_pnalloc(r->pool, 2 * path->len + 1);        /* as is, and decoded */

    if (p == NULL
        || captures == NULL
        || ngx_http_subrequest(r, path, NULL, &sr, &end,
                               NGX_HTTP_SUBREQUEST_BACKGROUND)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    sr->srv_conf = server->ctx->srv_conf;
    sr->loc_conf = server->ctx->loc_conf;
    sr->variables = captures;
    sr->method = 0;                            /* is in no limit_except */
    sr->headers_in.content_length_n = -1;      /* is not too large */
    sr->discard_body = 0;
    sr->write_event_handler = ngx_http_request_empty_handler;

    sr->uri_start = p;
    sr->uri_end = ngx_cpymem(p, path->data, path->len);
    sr->uri.data = sr->uri_end + 1;

    *sr->uri_end = ' ';        /* the parser looks one byte further */

    if (path->len == 0
        || ngx_http_parse_uri(sr) != NGX_OK
        || ngx_http_parse_complex_uri(sr, (ngx_uint_t) server->merge_slashes)
           != NGX_OK)
    {
        ngx_http_finalize_request(sr, NGX_HTTP_BAD_REQUEST);

    } else if (ngx_http_core_find_config_phase(sr, NULL) == NGX_AGAIN) {
        ngx_http_finalize_request(sr, NGX_OK);
    }

    *loc_conf = found.loc_conf;

    return found.status == NGX_OK ? NGX_OK
           : found.status == NGX_HTTP_MOVED_PERMANENTLY ? NGX_DONE
           : found.status == NGX_HTTP_BAD_REQUEST ? NGX_DECLINED : NGX_ERROR;
}
