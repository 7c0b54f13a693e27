
/*
 * $platform_account_id, $platform_session_id, $platform_workspace_id and
 * $platform_claim_NAME: the subject of the token of a request or subrequest.
 *
 * A variable verifies the token itself if the guard has not run yet, so it can
 * be read in every phase.  Without a verified token it is empty.
 *
 * nginx -t refuses a cache in a guarded location unless it is allowed, because
 * the key may lack the subject.  If the key has it, clients without a subject
 * would share an entry, and a "set" or "map" may hide the variable in the key.
 * Once a variable was read empty, the request and all of its subrequests
 * therefore bypass caches.
 */


#include "request/request.h"
#include "conf/conf.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_SUBJECT_CLAIM  "platform_claim_"
#define NGX_HTTP_PGW_SUBJECT_NONE   ((uintptr_t) -1)

/* NAME in $platform_claim_NAME. */
#define ngx_http_pgw_subject_name(var)                                        \
    ((ngx_str_t) { (var)->len - (sizeof(NGX_HTTP_PGW_SUBJECT_CLAIM) - 1),     \
                   (var)->data + sizeof(NGX_HTTP_PGW_SUBJECT_CLAIM) - 1 })


/*
 * A slice, or the update of a stale cache entry, is a subrequest that starts
 * after the guard.  Returns its parent, which the guard admitted, or r.
 */

static ngx_http_request_t *
ngx_http_pgw_subject_admitted(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t         *ctx;
    ngx_http_phase_handler_t   *ph;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ph = cmcf->phase_engine.handlers;

    for ( /* void */ ; r != r->main; r = r->parent) {

        ctx = ngx_http_pgw_ctx(r);

        if ((ctx && ctx->settled)
            || r->loc_conf != r->parent->loc_conf
            || ph[r->phase_handler].checker != ngx_http_core_content_phase)
        {
            break;
        }
    }

    return r;
}


/*
 * In a location that is not guarded, the subject is that of a guarded location
 * which redirected the request here.
 */

static ngx_int_t
ngx_http_pgw_subject_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    const ngx_str_t               *id;
    ngx_http_pgw_ctx_t            *ctx;
    ngx_http_pgw_request_t        *gr;
    ngx_http_pgw_loc_conf_t       *conf;
    const ngx_http_pgw_subject_t  *subject;

    static const ngx_str_t  none = ngx_null_string;

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    subject = gr->subject;

    conf = ngx_http_pgw_loc(r);

    if (conf->policy) {
        ctx = ngx_http_pgw_guard_authenticate(ngx_http_pgw_subject_admitted(r),
                                              conf);
        subject = (ctx && ctx->reason == NGX_HTTP_PGW_REASON_VERIFIED)
                  ? ctx->grant.subject : NULL;
    }

    id = (subject && data != NGX_HTTP_PGW_SUBJECT_NONE)
         ? (const ngx_str_t *) ((const char *) subject + data) : &none;

    if (id->len == 0) {
        gr->anonymous = 1;

    } else if (r == r->main) {
        gr->named = subject;
    }

    return ngx_http_pgw_headers_value(v, id->data, id->len);
}


/* A grant only has the claims that the configuration reads. */

static ngx_int_t
ngx_http_pgw_subject_claim(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t           name = ngx_http_pgw_subject_name((ngx_str_t *) data);
    ngx_uint_t          i;
    const ngx_array_t  *claims = &ngx_http_pgw_main(r)->claims_read;

    for (i = 0; i < claims->nelts; i++) {
        if (ngx_http_pgw_names_same((ngx_str_t *) claims->elts + i, &name)) {
            return ngx_http_pgw_subject_variable(r, v,
                       (NGX_HTTP_PGW_GRANT_IDS + i) * sizeof(ngx_str_t));
        }
    }

    return ngx_http_pgw_subject_variable(r, v, NGX_HTTP_PGW_SUBJECT_NONE);
}


/*
 * nginx reads this variable after it has made a cache key, and again when the
 * response arrives.  The first value is kept, because the key does not contain
 * variables that are read later.
 */

static ngx_int_t
ngx_http_pgw_subject_unshared(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_pgw_ctx_t      *ctx = ngx_http_pgw_request_ctx(r);
    ngx_http_pgw_request_t  *gr = ngx_http_pgw_request_begin(r);

    if (gr == NULL || ctx == NULL) {
        return NGX_ERROR;
    }

    if (!ctx->looked_up) {
        ctx->looked_up = 1;
        ctx->unshared = gr->anonymous;
    }

    *v = ctx->unshared ? ngx_http_variable_true_value
                       : ngx_http_variable_null_value;

    return NGX_OK;
}


#define ngx_http_pgw_subject_entry(member)                                    \
    { ngx_string("platform_" #member), NULL, ngx_http_pgw_subject_variable,   \
      offsetof(ngx_http_pgw_subject_t, member), NGX_HTTP_VAR_NOCACHEABLE, 0 }

ngx_http_variable_t  ngx_http_pgw_subject_variables[] = {
    ngx_http_pgw_subject_entry(account_id),
    ngx_http_pgw_subject_entry(session_id),
    ngx_http_pgw_subject_entry(workspace_id),
    { ngx_string(NGX_HTTP_PGW_SUBJECT_CLAIM), NULL, ngx_http_pgw_subject_claim,
      0, NGX_HTTP_VAR_NOCACHEABLE|NGX_HTTP_VAR_PREFIX, 0 },
    { ngx_string("platform_unshared"), NULL, ngx_http_pgw_subject_unshared, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },
      ngx_http_null_variable
};

/* Returns 1 if variable n of the configuration is one of ours. */

static ngx_uint_t
ngx_http_pgw_subject_named(const ngx_http_core_main_conf_t *cmcf, ngx_uint_t n)
{
    const ngx_http_variable_t  *var, *ours;

    var = (const ngx_http_variable_t *) cmcf->variables.elts + n;
    ours = ngx_http_pgw_subject_variables;

    for ( /* void */ ; ours->get_handler != ngx_http_pgw_subject_unshared;
         ours++)
    {
        if ((var->name.len == ours->name.len
             || (var->name.len > ours->name.len
                 && (ours->flags & NGX_HTTP_VAR_PREFIX)))
            && ngx_memcmp(var->name.data, ours->name.data, ours->name.len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Returns 1 if the code reads such a variable. */

static ngx_uint_t
ngx_http_pgw_subject_reads(ngx_conf_t *cf, const ngx_array_t *codes)
{
    u_char                     *p, *last;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);
    ngx_http_script_var_code_t  var;

    p = codes->elts;
    last = p + codes->nelts * codes->size;

    for ( /* void */ ; p + sizeof(var) <= last; p += sizeof(uintptr_t)) {

        ngx_memcpy(&var, p, sizeof(var));

        if ((var.code == ngx_http_script_copy_var_code
             || var.code == ngx_http_script_var_code)
            && var.index < cmcf->variables.nelts
            && ngx_http_pgw_subject_named(cmcf, var.index))
        {
            return 1;
        }
    }

    return 0;
}


#if (NGX_HTTP_CACHE)

/*
 * Adds $platform_unshared to the conditions of "proxy_cache_bypass" and
 * "proxy_no_cache".  The arrays may be inherited, so they are copied.  The new
 * condition comes first, because nginx stops at the first that is true.
 */

static ngx_int_t
ngx_http_pgw_subject_guard_cache(ngx_conf_t *cf, ngx_http_upstream_conf_t *u)
{
    ngx_str_t                         value = ngx_string("$platform_unshared");
    ngx_uint_t                        i, n;
    ngx_array_t                      *inherited;
    ngx_http_complex_value_t         *cv;
    ngx_http_compile_complex_value_t  ccv = { .cf = cf, .value = &value };

    ngx_array_t **const  conditions[] = { &u->cache_bypass, &u->no_cache };

    for (i = 0; i < 2; i++) {

        inherited = *conditions[i];
        n = inherited ? inherited->nelts : 0;

        *conditions[i] = ngx_array_create(cf->pool, n + 1, sizeof(*cv));
        if (*conditions[i] == NULL) {
            return NGX_ERROR;
        }

        cv = ngx_array_push_n(*conditions[i], n + 1);
        ccv.complex_value = cv;

        if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
            return NGX_ERROR;
        }

        if (n) {
            ngx_memcpy(&cv[1], inherited->elts, n * sizeof(*cv));
        }
    }

    return NGX_OK;
}

#endif


char *
ngx_http_pgw_subject_merge(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    const ngx_array_t            *codes;
    ngx_http_upstream_conf_t     *u;
    ngx_http_core_srv_conf_t     *cscf = ngx_http_pgw_conf_server(cf);
    const ngx_http_pgw_passer_t  *passer;

    codes = ngx_http_pgw_peek_rewrite_codes(cf, cscf->ctx);

    /* no token is verified before the location is known, and "set" would keep
       the empty value */

    if (conf->enable && codes && ngx_http_pgw_subject_reads(cf, codes)) {

        conf = cscf->ctx->loc_conf[ngx_http_platform_gateway_module.ctx_index];

        return ngx_http_pgw_conf_fail(cf, &conf->place,
                   "platform_gateway: the server reads $platform_account_id, "
                   "_session_id, _workspace_id or _claim_... in a \"set\", "
                   "\"if\" or "
                   "\"rewrite\" of its own, before it is known which location "
                   "checks the token: say it in the location");
    }

    passer = NULL;

    while ((u = ngx_http_pgw_peek_passer(cf, cf->ctx, &passer)) != NULL) {

        if (u->store > 0 && u->store_values
            && ngx_http_pgw_subject_reads(cf, u->store_values))
        {
            return ngx_http_pgw_conf_fail(cf, &conf->place,
                       "platform_gateway: \"%V_store\" names a file by "
                       "$platform_account_id, _session_id, _workspace_id or "
                       "_claim_..., and clients without that value would share "
                       "the file: use \"%V_cache\"",
                       &passer->name, &passer->name);
        }

        /* always, because scripts may read a variable by its name */

#if (NGX_HTTP_CACHE)
        if (u->cache > 0 && ngx_http_pgw_subject_guard_cache(cf, u) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
#endif
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_pgw_subject_init_conf(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_str_t                  *name;
    ngx_uint_t                  i;
    ngx_http_variable_t        *var;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);

    var = cmcf->variables.elts;

    if (ngx_array_init(&mcf->claims_read, cf->pool, 2, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (!ngx_http_pgw_subject_named(cmcf, i)) {
            continue;
        }

        mcf->subject_read = 1;

        if (ngx_strncmp(var[i].name.data, NGX_HTTP_PGW_SUBJECT_CLAIM,
                        sizeof(NGX_HTTP_PGW_SUBJECT_CLAIM) - 1)
            == 0)
        {
            name = ngx_array_push(&mcf->claims_read);
            if (name == NULL) {
                return NGX_ERROR;
            }

            *name = ngx_http_pgw_subject_name(&var[i].name);
        }
    }

    return NGX_OK;
}
