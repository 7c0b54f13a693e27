
/*
 * The phases of a request: what is done to every request before its location
 * is known (POST_READ), what is answered before limits and guards
 * (SERVER_REWRITE, REWRITE), where the guard is asked (ACCESS; PREACCESS for
 * subrequests), and our place among other modules.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


/* FastCGI and uwsgi: what a record holds, what of that is not the client's, and
   what a header takes beside its name and value: "HTTP_" and two lengths. */
#define NGX_HTTP_PGW_RECORD_MAX    65535
#define NGX_HTTP_PGW_RECORD_SPARE  4096
#define NGX_HTTP_PGW_RECORD_FIELD  (sizeof("HTTP_") - 1 + 2 * 4)


static ngx_int_t
ngx_http_pgw_post_read_handler(ngx_http_request_t *r)
{
    if (!ngx_http_pgw_srv(r)->any_enabled) {
        return NGX_DECLINED;
    }

    if (r->http_version < NGX_HTTP_VERSION_10) {
        return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                         NULL, "HTTP/0.9 is not supported", 0);
    }

    return ngx_http_pgw_request_begin(r) ? NGX_DECLINED
                                         : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_int_t
ngx_http_pgw_access_method(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t  rc;

    if (conf->strict_path && !ngx_http_pgw_path_plain(&r->unparsed_uri)) {
        gr->required = &conf->levels;
        rc = ngx_http_pgw_guard_refuse(r, gr, conf,
                                       NGX_HTTP_PGW_REASON_PATH_AMBIGUOUS,
                                       NULL);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (r->method != NGX_HTTP_OPTIONS
        && (r->method & (conf->methods ? conf->methods : (ngx_uint_t) -1)))
    {
        return NGX_DECLINED;
    }

    gr->required = &conf->levels;

    return r->method == NGX_HTTP_OPTIONS
           ? ngx_http_pgw_cors_options(r, gr, conf)
           : ngx_http_pgw_guard_refuse(r, gr, conf,
                                       NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN,
                                       NULL);
}


/*
 * A refusal may go upstream too, by error_page, and so may what others ask
 * before the guard decides (auth_request).  So what the location takes a token
 * from is hidden as soon as the location is known, whatever becomes of r; what
 * was injected for an earlier location is taken back.
 */

static ngx_int_t
ngx_http_pgw_access_clean(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    return gr->injected || (conf->enable && conf->from)
           ? ngx_http_pgw_headers_make(r, gr, NULL, NULL) : NGX_OK;
}


/* In an internal location: NGX_DECLINED for a fetch in its own.  404 for others
   in the location of a fetch: "internal" keeps clients out, but not whom
   X-Accel-Redirect or a page's SSI sends there.  Else NGX_OK. */

static ngx_int_t
ngx_http_pgw_access_internal(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_core(r);
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_main(r);

    if (ngx_http_pgw_fetch_owns(r)) {
        return NGX_DECLINED;
    }

    if (!ngx_http_pgw_lease_fetches(mcf, clcf)) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "location \"%V\" is for the gateway's own fetches: not found",
                  &clcf->name);

    return NGX_HTTP_NOT_FOUND;
}


/* The first phase of a fetch that has left its own location. */

static ngx_int_t
ngx_http_pgw_rewrite_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_pgw_ctx_t        *ctx;
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_pgw_main_conf_t  *mcf;

    rc = ngx_http_pgw_fetch_strayed(r) ? NGX_HTTP_NOT_FOUND
         : ngx_http_pgw_core(r)->internal ? ngx_http_pgw_access_internal(r)
         : NGX_OK;

    if (rc != NGX_OK || !ngx_http_pgw_srv(r)->any_enabled) {
        return rc != NGX_OK ? rc : NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_begin(r);
    conf = ngx_http_pgw_loc(r);

    if (gr == NULL || ngx_http_pgw_access_clean(r, gr, conf) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!conf->enable) {
        return NGX_DECLINED;
    }

    if (r == r->main) {
        rc = ngx_http_pgw_access_method(r, gr, conf);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    /* "set" and limits keep the value they read: wait for the key before */

    mcf = ngx_http_pgw_main(r);
    ctx = mcf->subject_read ? ngx_http_pgw_guard_look(r, conf) : NULL;

    return (ctx
            && ctx->err == PJ_ERR_KID_UNKNOWN
            && ngx_http_pgw_keys_wait(r, ctx->keys.issuer) == NGX_AGAIN)
           ? NGX_DONE : NGX_DECLINED;
}


/* The guard of a main request or of a subrequest. */

static ngx_int_t
ngx_http_pgw_access_ask(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_table_elt_t          *h;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);

    if (!conf->enable) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_writable(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_guard(r, gr, conf);

    if (rc == NGX_HTTP_UNAUTHORIZED && r != r->main) {

        /* auth_request takes it from its subrequest to the response */

        h = ngx_http_pgw_header_add(r, "WWW-Authenticate", &gr->challenge);
        if (h == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        r->headers_out.www_authenticate = h;
    }

    return rc;
}


/* nginx runs no ACCESS phase for subrequests, but it runs this one. */

static ngx_int_t
ngx_http_pgw_preaccess_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    /* A fetch carries no token, and is no client's: limits that its location
       inherits are not for it. */

    if (ngx_http_pgw_fetch_owns(r)) {
        return NGX_OK;
    }

    if (r == r->main) {
        return NGX_DECLINED;
    }

    rc = ngx_http_pgw_access_ask(r);

    /* NGX_OK would skip the other handlers of this phase, such as limits */

    return (rc == NGX_OK) ? NGX_DECLINED : rc;
}


static ngx_int_t
ngx_http_pgw_access_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc = ngx_http_pgw_access_ask(r);

    /* nginx would end the request here: let other modules speak first */

    return (rc == NGX_HTTP_SERVICE_UNAVAILABLE
            && ngx_http_pgw_core(r)->satisfy == NGX_HTTP_SATISFY_ANY)
           ? NGX_DECLINED : rc;
}


/* Under "satisfy any" no other module let the request in.  Without keys we
   could not decide: answer 503. */

static ngx_int_t
ngx_http_pgw_access_last_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t  *ctx = ngx_http_pgw_ctx(r);

    if (ctx
        && ctx->verdict == NGX_HTTP_SERVICE_UNAVAILABLE
        && ngx_http_pgw_core(r)->satisfy == NGX_HTTP_SATISFY_ANY)
    {
        r->access_code = NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    return NGX_DECLINED;
}


/*
 * Parameters that do not fit into one record make nginx answer 500 and log an
 * alert, so we refuse them.  The header buffers bound what a client sends, but
 * short headers take more room in a record than in a buffer, and parameters
 * repeat the path, the query and the content type.
 */

static ngx_int_t
ngx_http_pgw_access_fits(ngx_http_request_t *r)
{
    size_t                len;
    ngx_table_elt_t      *h;
    ngx_http_pgw_walk_t   walk = { &r->headers_in.headers.part, 0 };

    len = NGX_HTTP_PGW_RECORD_SPARE
          + r->request_line.len + r->args.len + 3 * r->uri.len;

    if (r->headers_in.content_type) {
        len += r->headers_in.content_type->value.len;
    }

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {
        len += h->key.len + h->value.len + NGX_HTTP_PGW_RECORD_FIELD;
    }

    if (len <= NGX_HTTP_PGW_RECORD_MAX) {
        return NGX_DECLINED;
    }

    return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                     "GATEWAY_HEADER_TOO_LARGE",
                                     "the request headers are too large "
                                     "for the service behind this path", 0);
}


/*
 * By now the headers are those that the upstream will get.
 *
 * A request that we refused and that still comes here was let in by another
 * module under "satisfy any": it goes on with no trusted header, and without
 * Authorization where that is not forwarded; what is answered is not our
 * refusal.
 */

static ngx_int_t
ngx_http_pgw_precontent_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_http_pgw_ctx_t       *ctx;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);

    if (conf->one_record) {
        rc = ngx_http_pgw_access_fits(r);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    ctx = ngx_http_pgw_ctx(r);

    if (r != r->main
        || ctx == NULL
        || ctx->verdict < NGX_HTTP_SPECIAL_RESPONSE)
    {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);

    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_guard_allow(r, gr, NGX_HTTP_PGW_REASON_SATISFIED);

    ctx->verdict = NGX_OK;

    return ngx_http_pgw_guard_inject(r, conf, NULL);
}


/*
 * Within a phase nginx runs first what was registered last, and a module that
 * is loaded after ours would come before it: before headers are stripped,
 * before OPTIONS is answered.  So our handlers are moved to their places when
 * all modules have registered theirs, whatever the order of load_module.
 */

static const struct {
    ngx_http_phases      phase;
    ngx_http_handler_pt  handler;
    ngx_int_t            step;         /* -1: first of its phase, 1: last */
} ngx_http_pgw_phases[] = {
    { NGX_HTTP_POST_READ_PHASE, ngx_http_pgw_post_read_handler, -1 },
    { NGX_HTTP_REWRITE_PHASE, ngx_http_pgw_rewrite_handler, -1 },
    { NGX_HTTP_PREACCESS_PHASE, ngx_http_pgw_preaccess_handler, -1 },
    { NGX_HTTP_ACCESS_PHASE, ngx_http_pgw_access_handler, -1 },
    { NGX_HTTP_ACCESS_PHASE, ngx_http_pgw_access_last_handler, 1 },
    { NGX_HTTP_PRECONTENT_PHASE, ngx_http_pgw_precontent_handler, -1 },
    { NGX_HTTP_LOG_PHASE, ngx_http_pgw_log_handler, -1 }
};

#define NGX_HTTP_PGW_PHASES                                                   \
    (sizeof(ngx_http_pgw_phases) / sizeof(ngx_http_pgw_phases[0]))


ngx_int_t
ngx_http_pgw_access_init(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);

    for (i = 0; i < NGX_HTTP_PGW_PHASES; i++) {

        h = ngx_array_push(
                     &cmcf->phases[ngx_http_pgw_phases[i].phase].handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = ngx_http_pgw_phases[i].handler;
    }

    return NGX_OK;
}


/* The handlers of a phase stand side by side and share checker and next, so it
   is enough to swap the functions. */

ngx_int_t
ngx_http_pgw_access_init_module(ngx_cycle_t *cycle)
{
    ngx_int_t                   n, step;
    ngx_uint_t                  i;
    ngx_http_handler_pt         handler;
    ngx_http_phase_handler_t   *ph;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_core_module);

    if (cmcf == NULL) {
        return NGX_OK;
    }

    ph = cmcf->phase_engine.handlers;

    for (i = 0; i < NGX_HTTP_PGW_PHASES; i++) {

        handler = ngx_http_pgw_phases[i].handler;
        step = ngx_http_pgw_phases[i].step;

        /* the last checker, NULL, has nothing behind it */

        for (n = 0; ph[n].checker && ph[n].handler != handler; n++) {
            /* void */
        }

        while (ph[n].checker
               && n + step >= 0
               && ph[n + step].checker == ph[n].checker
               && ph[n + step].next == ph[n].next)
        {
            ph[n].handler = ph[n + step].handler;
            n += step;
            ph[n].handler = handler;
        }
    }

    ngx_http_pgw_problem_init();

    return NGX_OK;
}
