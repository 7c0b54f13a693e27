
/*
 * What other modules say in a location.  They keep their structures to
 * themselves, and a gateway that did not look would let "return" answer before
 * the guard, a cache hand one client's answer to another, and an explanation
 * stand open to anybody.  What is relied on is said at each.  For the time of
 * configuration alone.
 */


#ifndef _NGX_HTTP_PGW_PEEK_H_INCLUDED_
#define _NGX_HTTP_PGW_PEEK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* The http module of that name, or NULL. */

static ngx_inline ngx_module_t *
ngx_http_pgw_peek_module_named(ngx_conf_t *cf, const char *name)
{
    ngx_module_t  **modules;

    for (modules = cf->cycle->modules; *modules; modules++) {
        if (ngx_strcmp((*modules)->name, name) == 0) {
            return *modules;
        }
    }

    return NULL;
}


/*
 * What the location or server in ctx says in the rewrite phase, or NULL.  The
 * rewrite module keeps its structure to itself; in all versions it begins with
 * the compiled code, words of which a function's address marks an instruction.
 */

static ngx_inline const ngx_array_t *
ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx)
{
    ngx_array_t  **codes;
    ngx_module_t  *module;

    module = ngx_http_pgw_peek_module_named(cf, "ngx_http_rewrite_module");
    if (module == NULL) {
        return NULL;
    }

    codes = ctx->loc_conf[module->ctx_index];

    return *codes;
}


/*
 * Whether the location in cf answers by itself in the rewrite phase: by
 * "return", or by a "rewrite" that redirects.
 */

static ngx_inline ngx_uint_t
ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf)
{
    u_char                        *p, *last;
    const ngx_array_t             *codes;
    ngx_http_script_code_pt        code;
#if (NGX_PCRE)
    ngx_http_script_regex_code_t  *regex;
#endif

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
        if (code == ngx_http_script_regex_start_code) {
            regex = (ngx_http_script_regex_code_t *) p;

            if (regex->redirect) {
                return 1;
            }
        }
#endif
    }

    return 0;
}


/*
 * Whether the last word of the location's "allow" and "deny" is "deny all".
 * The access module keeps its structure to itself: in all versions it is an
 * array of rules for each family, the sizes of which are checked here.
 */

static ngx_inline ngx_uint_t
ngx_http_pgw_peek_access_denies(ngx_conf_t *cf)
{
    u_char               *rule;
    ngx_uint_t            i, n, deny;
    ngx_array_t         **rules;
    ngx_module_t         *module;
    ngx_http_conf_ctx_t  *ctx;

    /* each rule is an address and a mask, then what it says */

    static const size_t  addresses[] = {
        2 * sizeof(in_addr_t),
#if (NGX_HAVE_INET6)
        2 * sizeof(struct in6_addr),
#endif
#if (NGX_HAVE_UNIX_DOMAIN)
        0
#endif
    };

    ctx = cf->ctx;
    module = ngx_http_pgw_peek_module_named(cf, "ngx_http_access_module");
    if (module == NULL) {
        return 0;
    }

    rules = ctx->loc_conf[module->ctx_index];

    for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {

        if (rules[i] == NULL
            || rules[i]->nelts == 0
            || rules[i]->size != addresses[i] + sizeof(ngx_uint_t))
        {
            return 0;
        }

        rule = (u_char *) rules[i]->elts
               + (rules[i]->nelts - 1) * rules[i]->size;

        for (n = 0; n < addresses[i]; n++) {
            if (rule[n]) {
                return 0;
            }
        }

        ngx_memcpy(&deny, rule + addresses[i], sizeof(ngx_uint_t));

        if (!deny) {
            return 0;
        }
    }

    return 1;
}


/*
 * The field that a directive of any module sets by that function in the
 * location in cf, or NULL.  The table of directives is public.
 */

static ngx_inline void *
ngx_http_pgw_peek_field(ngx_conf_t *cf, const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf))
{
    ngx_module_t        **module;
    ngx_command_t        *cmd;
    ngx_http_conf_ctx_t  *ctx;

    ctx = cf->ctx;

    for (module = cf->cycle->modules; *module; module++) {

        if ((*module)->type != NGX_HTTP_MODULE || (*module)->commands == NULL)
        {
            continue;
        }

        for (cmd = (*module)->commands; cmd->name.len; cmd++) {

            if (ngx_strcmp(cmd->name.data, directive) == 0
                && cmd->set == set
                && cmd->conf == NGX_HTTP_LOC_CONF_OFFSET)
            {
                return (char *) ctx->loc_conf[(*module)->ctx_index]
                       + cmd->offset;
            }
        }
    }

    return NULL;
}


/*
 * What a module that passes requests on ("proxy", "fastcgi", "scgi", "uwsgi")
 * has merged for the location in cf; NULL: it is not there.  *known: one of
 * them, or another such module, passes to a fixed upstream there.
 *
 * Each holds nginx's public ngx_http_upstream_conf_t, and its table of
 * directives tells where: the offset of a directive, less the offset of the
 * field that it sets.  So no layout is guessed at.
 */

static ngx_inline ngx_http_upstream_conf_t *
ngx_http_pgw_peek_passes(ngx_conf_t *cf, const ngx_str_t *module,
    ngx_uint_t *known)
{
    void                      *field;
    ngx_uint_t                 i;
    ngx_http_upstream_conf_t  *u, *found;

#define ngx_http_pgw_peek_headers(name)                                       \
    { name "_pass_request_headers", ngx_conf_set_flag_slot,                   \
      offsetof(ngx_http_upstream_conf_t, pass_request_headers) }
#define ngx_http_pgw_peek_buffer(name)                                        \
    { name "_buffer_size", ngx_conf_set_size_slot,                            \
      offsetof(ngx_http_upstream_conf_t, buffer_size) }

    static const struct {
        const char  *directive;
        char      *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
        size_t       offset;
    } passers[] = {
        ngx_http_pgw_peek_headers("proxy"),
        ngx_http_pgw_peek_headers("fastcgi"),
        ngx_http_pgw_peek_headers("scgi"),
        ngx_http_pgw_peek_headers("uwsgi"),

        /* these tell that a location is none of the others' */
        ngx_http_pgw_peek_buffer("grpc"),
        ngx_http_pgw_peek_buffer("memcached")
    };

    found = NULL;
    *known = 0;

    for (i = 0; i < sizeof(passers) / sizeof(passers[0]); i++) {

        field = ngx_http_pgw_peek_field(cf, passers[i].directive,
                                        passers[i].set);
        if (field == NULL) {
            continue;
        }

        u = (void *) ((char *) field - passers[i].offset);

        if (u->upstream) {
            *known = 1;
        }

        if (ngx_strncmp(passers[i].directive, module->data, module->len) == 0)
        {
            found = u;
        }
    }

    return found;
}


#endif /* _NGX_HTTP_PGW_PEEK_H_INCLUDED_ */
