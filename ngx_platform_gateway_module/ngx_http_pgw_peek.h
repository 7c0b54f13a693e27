
/*
 * What other modules say in a location, at the time of configuration.  They
 * keep their structures to themselves, and a gateway that did not look would
 * let "return" answer before the guard, a cache hand one client's answer to
 * another, and an explanation stand open to anybody.
 */


#ifndef _NGX_HTTP_PGW_PEEK_H_INCLUDED_
#define _NGX_HTTP_PGW_PEEK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The field that a directive of any module (or of that one) sets in the
 * location in ctx by that function (or any), or NULL.  The tables of directives
 * are public.
 */

static ngx_inline void *
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


/*
 * What the location or server in ctx says in the rewrite phase, or NULL: the
 * compiled code, with which the structure of the rewrite module begins.  A word
 * that is a function's address marks an instruction.
 */

static ngx_inline const ngx_array_t *
ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx)
{
    ngx_array_t  **codes;

    codes = ngx_http_pgw_peek_field(cf, ctx, "ngx_http_rewrite_module",
                                    "return", NULL);

    return codes ? *codes : NULL;
}


/*
 * Whether the location in cf answers by itself in the rewrite phase: by
 * "return", or by a "rewrite" that redirects.
 */

static ngx_inline ngx_uint_t
ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf)
{
    u_char                   *p, *last;
    const ngx_array_t        *codes;
    ngx_http_script_code_pt   code;

    codes = ngx_http_pgw_peek_rewrite_codes(cf, cf->ctx);

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
 * Whether the last word of the location's "allow" and "deny" is "deny all":
 * the structure of the access module is an array of rules for each family, the
 * sizes of which are checked.  A rule is an address, a mask, and what it says.
 */

static ngx_inline ngx_uint_t
ngx_http_pgw_peek_access_denies(ngx_conf_t *cf)
{
    u_char        *rule;
    ngx_uint_t     i, deny;
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

    for (i = 0; rules && i < sizeof(sizes) / sizeof(sizes[0]); i++) {

        if (rules[i] == NULL
            || rules[i]->nelts == 0
            || rules[i]->size != sizes[i] + sizeof(deny))
        {
            return 0;
        }

        rule = (u_char *) rules[i]->elts
               + (rules[i]->nelts - 1) * rules[i]->size;

        ngx_memcpy(&deny, rule + sizes[i], sizeof(deny));

        if (!deny || ngx_memcmp(rule, any, sizes[i]) != 0) {
            return 0;
        }
    }

    return rules != NULL;
}


/*
 * What a module that passes requests on ("proxy", "fastcgi", "scgi", "uwsgi")
 * has merged for the location in cf; NULL: it is not there.  *known: one of
 * them, or another such module, passes to a fixed upstream there.
 *
 * Each holds nginx's public ngx_http_upstream_conf_t; the field that its
 * directive sets tells where.  So no layout is guessed at.
 */

static ngx_inline ngx_http_upstream_conf_t *
ngx_http_pgw_peek_passes(ngx_conf_t *cf, const ngx_str_t *module,
    ngx_uint_t *known)
{
    void                      *field;
    ngx_uint_t                 i;
    ngx_http_upstream_conf_t  *u, *found;

    static const char * const  directives[] = {
        "proxy_buffer_size", "fastcgi_buffer_size",
        "scgi_buffer_size", "uwsgi_buffer_size",

        /* these tell that a location is none of the others' */
        "grpc_buffer_size", "memcached_buffer_size"
    };

    found = NULL;
    *known = 0;

    for (i = 0; i < sizeof(directives) / sizeof(directives[0]); i++) {

        field = ngx_http_pgw_peek_field(cf, cf->ctx, NULL, directives[i],
                                        ngx_conf_set_size_slot);
        if (field == NULL) {
            continue;
        }

        u = (ngx_http_upstream_conf_t *)
                ((char *) field
                 - offsetof(ngx_http_upstream_conf_t, buffer_size));

        if (u->upstream) {
            *known = 1;
        }

        if (ngx_strncmp(directives[i], module->data, module->len) == 0) {
            found = u;
        }
    }

    return found;
}


#endif /* _NGX_HTTP_PGW_PEEK_H_INCLUDED_ */
