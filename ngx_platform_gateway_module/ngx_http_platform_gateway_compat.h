
/*
 * What differs between the nginx versions that the module builds for.  The
 * only file that tests nginx_version.
 */


#ifndef _NGX_HTTP_PLATFORM_GATEWAY_COMPAT_H_INCLUDED_
#define _NGX_HTTP_PLATFORM_GATEWAY_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* 1.23.0 chains the header lines of one name. */

static ngx_inline void
ngx_http_platform_gateway_header_unchain(ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)
    h->next = NULL;
#else
    (void) h;
#endif
}


/*
 * Whether the location in cf answers by itself in the rewrite phase: by
 * "return", or by a "rewrite" that redirects.  The rewrite module keeps its
 * structure to itself; in all versions it begins with the compiled code, words
 * of which a function's address marks an instruction.
 */

static ngx_inline ngx_uint_t
ngx_http_platform_gateway_rewrite_answers(ngx_conf_t *cf)
{
    u_char                         *p, *last;
    ngx_uint_t                      i;
    ngx_array_t                   **codes;
    ngx_module_t                  **modules;
    ngx_http_conf_ctx_t            *ctx;
    ngx_http_script_code_pt         code;
#if (NGX_PCRE)
    ngx_http_script_regex_code_t   *regex;
#endif

    ctx = cf->ctx;
    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {
        if (ngx_strcmp(modules[i]->name, "ngx_http_rewrite_module") == 0) {
            break;
        }
    }

    if (modules[i] == NULL) {
        return 0;
    }

    codes = ctx->loc_conf[modules[i]->ctx_index];

    if (*codes == NULL) {
        return 0;
    }

    p = (*codes)->elts;
    last = p + (*codes)->nelts * (*codes)->size;

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


#endif /* _NGX_HTTP_PLATFORM_GATEWAY_COMPAT_H_INCLUDED_ */
