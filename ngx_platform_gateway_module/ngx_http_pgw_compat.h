
/*
 * What differs between the nginx versions that the module builds for.  The
 * only file that tests nginx_version.
 */


#ifndef _NGX_HTTP_PGW_COMPAT_H_INCLUDED_
#define _NGX_HTTP_PGW_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


#if (nginx_version < 1022000)
#error nginx 1.22 or newer is needed
#endif


/* 1.23.0 chains the header lines of one name. */

static ngx_inline void
ngx_http_pgw_header_unchain(ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)
    h->next = NULL;
#else
    (void) h;
#endif
}


/* The http module of that name, or NULL. */

static ngx_inline ngx_module_t *
ngx_http_pgw_module_named(ngx_conf_t *cf, const char *name)
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
ngx_http_pgw_rewrite_codes(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx)
{
    ngx_array_t  **codes;
    ngx_module_t  *module;

    module = ngx_http_pgw_module_named(cf, "ngx_http_rewrite_module");

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
ngx_http_pgw_rewrite_answers(ngx_conf_t *cf)
{
    u_char                        *p, *last;
    const ngx_array_t             *codes;
    ngx_http_script_code_pt        code;
#if (NGX_PCRE)
    ngx_http_script_regex_code_t  *regex;
#endif

    codes = ngx_http_pgw_rewrite_codes(cf, cf->ctx);

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
ngx_http_pgw_access_denies(ngx_conf_t *cf)
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
    module = ngx_http_pgw_module_named(cf, "ngx_http_access_module");
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


#endif /* _NGX_HTTP_PGW_COMPAT_H_INCLUDED_ */
