
/*
 * What nginx -t refuses: locations that would let in whom they should not, or
 * nobody at all; and what other modules say in a location.  They keep their
 * structures to themselves, and a gateway that did not look would let "return"
 * answer before the guard, a cache hand one client's answer to another, and an
 * explanation stand open to anybody.
 */


#include "ngx_http_pgw_revocations.h"


/*
 * What a client may send where its headers go on in one record of 64 KiB: the
 * rest is for parameters and trusted headers.
 */
#define NGX_HTTP_PGW_RECORD_HEAD  (56 * 1024)


static const ngx_http_pgw_passer_t  ngx_http_pgw_passers[] = {
    { ngx_string("proxy"), "proxy_buffer_size", NULL },
    { ngx_string("fastcgi"), "fastcgi_buffer_size", "fastcgi_param" },
    { ngx_string("scgi"), "scgi_buffer_size", NULL },
    { ngx_string("uwsgi"), "uwsgi_buffer_size", "uwsgi_param" },

    /* listed only to tell their locations from those of the others */
    { ngx_null_string, "grpc_buffer_size", NULL },
    { ngx_null_string, "memcached_buffer_size", NULL }
};

#define NGX_HTTP_PGW_PASSERS                                                  \
    (sizeof(ngx_http_pgw_passers) / sizeof(ngx_http_pgw_passers[0]))


void
ngx_http_pgw_conf_place(ngx_conf_t *cf, ngx_http_pgw_place_t *place)
{
    place->file = cf->conf_file->file.name;
    place->line = cf->conf_file->line;
}


char *
ngx_http_pgw_conf_fail(ngx_conf_t *cf, const ngx_http_pgw_place_t *place,
    const char *format, ...)
{
    u_char                    *last, text[NGX_MAX_CONF_ERRSTR];
    va_list                    args;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_loc_conf_t   *conf;

    last = text;

    if (place == NULL) {
        clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
        conf = ngx_http_conf_get_module_loc_conf(cf,
                                             ngx_http_platform_gateway_module);
        place = &conf->place;

        last = ngx_snprintf(text, sizeof(text), clcf->name.len
                            ? "platform_gateway: location \"%V\" "
                            : "platform_gateway: the server ", &clcf->name);
    }

    va_start(args, format);
    last = ngx_vslprintf(last, text + sizeof(text), format, args);
    va_end(args);

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "%*s in %V:%ui",
                  (size_t) (last - text), text, &place->file, place->line);

    return NGX_CONF_ERROR;
}


/*
 * The field that a directive of any module (or of that one) sets in the
 * location in ctx by that function (or any), or NULL.  The tables of directives
 * are public.
 */

static void *
ngx_http_pgw_peek_field(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const char *module, const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf))
{
    ngx_module_t   *m, **modules;
    ngx_command_t  *cmd;

    for (modules = cf->cycle->modules; *modules; modules++) {

        m = *modules;

        if (m->type != NGX_HTTP_MODULE
            || (module && ngx_strcmp(m->name, module) != 0))
        {
            continue;
        }

        for (cmd = m->commands; cmd && cmd->name.len; cmd++) {

            if (ngx_strcmp(cmd->name.data, directive) == 0
                && (set == NULL || cmd->set == set)
                && cmd->conf == NGX_HTTP_LOC_CONF_OFFSET)
            {
                return (char *) ctx->loc_conf[m->ctx_index] + cmd->offset;
            }
        }
    }

    return NULL;
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
    const ngx_array_t        *codes;
    ngx_http_script_code_pt   code;

    codes = ngx_http_pgw_peek_rewrite_codes(cf, ctx);

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


/*
 * The structure of the access module is an array of rules for each family, the
 * sizes of which are checked.  A rule is an address, a mask, and what it says.
 */

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


/*
 * Each of the modules holds nginx's public ngx_http_upstream_conf_t; the field
 * that its directive sets tells where.  So no layout is guessed at.  An "if"
 * or "limit_except" that passes elsewhere has the upstream of its location all
 * the same, and another one that may be made of variables.
 */

ngx_http_upstream_conf_t *
ngx_http_pgw_peek_passer(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const ngx_http_pgw_passer_t **passer)
{
    char                      *field;
    ngx_uint_t                 i, known;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_upstream_conf_t  *all[NGX_HTTP_PGW_PASSERS];

    conf = ctx->loc_conf[ngx_http_platform_gateway_module.ctx_index];
    known = 0;

    for (i = 0; i < NGX_HTTP_PGW_PASSERS; i++) {
        field = ngx_http_pgw_peek_field(cf, ctx, NULL,
                                        ngx_http_pgw_passers[i].directive,
                                        ngx_conf_set_size_slot);

        all[i] = !field ? NULL : (ngx_http_upstream_conf_t *) (void *)
                 (field - offsetof(ngx_http_upstream_conf_t, buffer_size));

        known |= all[i] && all[i]->upstream && !conf->elsewhere;
    }

    i = *passer ? (ngx_uint_t) (*passer - ngx_http_pgw_passers) + 1 : 0;

    for ( /* void */ ; ngx_http_pgw_passers[i].name.len; i++) {

        if (all[i] && (all[i]->upstream || !known)) {
            *passer = &ngx_http_pgw_passers[i];
            return all[i];
        }
    }

    return NULL;
}


static char *
ngx_http_pgw_check_guarded(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    size_t                     need, size;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;

    if (conf->access & NGX_HTTP_PGW_PUBLIC) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "is both \"public\" and guarded: \"public\" must stand "
                   "alone in \"platform_gateway_access\"");
    }

    if (conf->issuers == NULL) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "is guarded and has no issuer: add "
                   "\"platform_gateway_issuer\", the \"iss\" of its tokens");
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* a "return" of server{}, which has no name, leaves nothing to guard */

    if (clcf->name.len
        && !conf->allow_return
        && ngx_http_pgw_peek_rewrite_answers(cf, cf->ctx))
    {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "is guarded, but its \"return\" or redirecting \"rewrite\" "
                   "answers before the guard: move it to a public location, "
                   "or say \"platform_gateway_allow_return on\"");
    }

    /* nginx takes a header line into one buffer, or refuses the request */

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    need = conf->token_max_size;
    size = cscf->large_client_header_buffers.size;

    if (size < need + sizeof("Authorization: Bearer " CRLF) - 1) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "accepts tokens of %uz bytes (\"platform_gateway_token_max_"
                   "size\"), which \"large_client_header_buffers\" of %uz "
                   "bytes cannot hold: say \"large_client_header_buffers 2 "
                   "%uzk\" in its server, or accept smaller tokens",
                   need, size, (need + need / 2 + 1023) / 1024);
    }

    return NGX_CONF_OK;
}


/* Whether what a guarded location gets or sends stays one client's. */

static char *
ngx_http_pgw_check_upstream(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_upstream_conf_t *u,
    const ngx_str_t *module)
{
    ngx_uint_t  keeps;

    if (u->pass_request_headers == 0) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "is guarded, but \"%V_pass_request_headers off\" keeps the "
                   "trusted headers from its upstream: take it out of this "
                   "location", module);
    }

    keeps = u->store > 0;

#if (NGX_HTTP_CACHE)
    keeps |= u->cache > 0;
#endif

    if (keeps && !conf->allow_cache) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "is guarded, but \"%V_cache\" or \"%V_store\" keeps what "
                   "one client was sent for the next: switch it off there, "
                   "or, where its key tells clients apart or all may see the "
                   "same, say \"platform_gateway_allow_cache on\"",
                   module, module);
    }

    return NGX_CONF_OK;
}


/*
 * An address that is made of variables may be anybody's: that it is such a
 * protocol's is then likely where there are parameters for it.
 */

static char *
ngx_http_pgw_check_record(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_upstream_conf_t *u, const ngx_http_pgw_passer_t *passer)
{
    size_t                      head;
    ngx_array_t               **params;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_core_srv_conf_t   *cscf;

    if (u->upstream == NULL) {

        clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
        params = ngx_http_pgw_peek_field(cf, cf->ctx, NULL, passer->param,
                                         ngx_http_upstream_param_set_slot);

        if (clcf->handler && params && *params) {
            conf->one_record = 1;
        }

        return NGX_CONF_OK;
    }

    /* in an "if", too, where the handler is that of the location around */

    conf->one_record = 1;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    head = cscf->client_header_buffer_size
           + (size_t) cscf->large_client_header_buffers.num
             * cscf->large_client_header_buffers.size;

    if (head > NGX_HTTP_PGW_RECORD_HEAD) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "uses \"%V_pass\", which carries a request's headers in "
                   "one record of 64k, and takes up to %uz bytes of them: say "
                   "\"large_client_header_buffers 2 24k\" in its server",
                   &passer->name, head);
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_http_pgw_check_fetched(const ngx_http_pgw_source_t *from,
    const ngx_http_core_loc_conf_t *clcf)
{
    return from->location.len
           && ngx_strcmp(clcf->name.data, from->location.data) == 0;
}


/* Keys or revocations are fetched through that location. */

static ngx_uint_t
ngx_http_pgw_check_is_fetched(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf)
{
    return ngx_http_pgw_check_fetched(&mcf->keys->from, clcf)
           || (mcf->revocations
               && ngx_http_pgw_check_fetched(&mcf->revocations->from, clcf));
}


char *
ngx_http_pgw_check_location(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                       guarded;
    ngx_http_core_loc_conf_t        *clcf;
    ngx_http_pgw_main_conf_t        *mcf;
    const ngx_http_pgw_passer_t     *passer;
    const ngx_http_upstream_conf_t  *u;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (conf->access == 0 && clcf->handler) {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "has a content handler and no \"platform_gateway_access\": "
                   "give it a level, \"public\" if anybody may enter");
    }

    guarded = conf->access & NGX_HTTP_PGW_GUARDED;

    if (guarded) {

        if (mcf->guarded == NULL) {
            mcf->guarded = conf;
        }

        if (ngx_http_pgw_check_guarded(cf, conf) != NGX_CONF_OK) {
            return NGX_CONF_ERROR;
        }
    }

    /* no token is checked in a location that is fetched */

    if (clcf->handler == NULL
        || (clcf->internal
            && ngx_http_pgw_check_is_fetched(mcf, clcf)))
    {
        guarded = 0;
    }

    passer = NULL;

    while ((u = ngx_http_pgw_peek_passer(cf, cf->ctx, &passer)) != NULL) {

        if (guarded
            && ngx_http_pgw_check_upstream(cf, conf, u, &passer->name)
               != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }

        if (passer->param
            && ngx_http_pgw_check_record(cf, conf, u, passer) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}
