
/*
 * The phases of a request.  POST_READ strips headers, before the location is
 * known.  REWRITE refuses methods and answers OPTIONS, before limits.  The
 * guard decides in ACCESS, for subrequests in PREACCESS.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "conf/conf.h"
#include "token/token.h"
#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


/* A record of FastCGI or uwsgi: its size, the part of it for parameters that no
   client sends, and the bytes that a header needs beside its name and value:
   "HTTP_" and two lengths. */
#define NGX_HTTP_PGW_RECORD_MAX    65535
#define NGX_HTTP_PGW_RECORD_SPARE  4096
#define NGX_HTTP_PGW_RECORD_FIELD  (sizeof("HTTP_") - 1 + 2 * 4)


/* The peer is known here alone: the module realip replaces its address. */

static ngx_int_t
ngx_http_pgw_post_read_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf = ngx_http_pgw_srv(r);

    if (!sscf->any_enabled) {
        return NGX_DECLINED;
    }

    if (r->http_version < NGX_HTTP_VERSION_10) {
        return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                         NULL, "HTTP/0.9 is not supported", 0);
    }

    gr = ngx_http_pgw_request_begin(r);

    if (gr && sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_HEADER) {
        gr->peer_trusted = ngx_http_pgw_certificate_peer_trusted(r) != 0;
    }

    return gr ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_uint_t
ngx_http_pgw_access_mask(const ngx_str_t *name)
{
    ngx_conf_bitmask_t  *method = ngx_http_pgw_methods;

    if (ngx_http_pgw_names_has(ngx_http_pgw_header_text("TRACE, CONNECT"), name,
                               0))
    {
        return 0;
    }

    if (ngx_http_pgw_names_has(ngx_http_pgw_header_text("OPTIONS"), name, 0)) {
        return NGX_HTTP_OPTIONS;
    }

    while (method->name.len && !ngx_http_pgw_names_has(&method->name, name, 0))
    {
        method++;
    }

    return method->name.len ? method->mask : NGX_HTTP_UNKNOWN;
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
        && ngx_http_pgw_access_accepts(conf, r->method))
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
 * Removes the headers that were injected for an earlier location, and the token
 * if it is in a cookie or a subprotocol.  It is done as soon as the location is
 * known, because a refusal (by error_page) and the subrequest of auth_request
 * may reach an upstream too.
 */

static ngx_int_t
ngx_http_pgw_access_clean(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    return gr->injected || (conf->enable && conf->token_from)
           ? ngx_http_pgw_headers_make(r, gr, NULL, NULL) : NGX_OK;
}


/* For an internal location.  Returns NGX_DECLINED for a fetch in its own
   location, and 404 for any other request there: "internal" does not stop
   X-Accel-Redirect and SSI.  Else returns NGX_OK. */

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

    /* the method of another proxy's request is for the described location */

    if (r == r->main && conf->forward != NGX_HTTP_PGW_FORWARD_REQUEST) {
        rc = ngx_http_pgw_access_method(r, gr, conf);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    /* wait for the key first, because "set" and limits read variables once */

    mcf = ngx_http_pgw_main(r);
    ctx = mcf->subject_read ? ngx_http_pgw_guard_authenticate(r, conf) : NULL;

    return (ctx
            && ctx->err == PJ_ERR_KID_UNKNOWN
            && ngx_http_pgw_keys_wait(r, ctx->keys.issuer) == NGX_AGAIN)
           ? NGX_DONE : NGX_DECLINED;
}


/* The guard of a main request or of a subrequest. */

static ngx_int_t
ngx_http_pgw_access_guard(ngx_http_request_t *r)
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

        /* auth_request copies it from its subrequest to the response */

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

    /* limits that the location inherits are for clients, not for a fetch */

    if (ngx_http_pgw_fetch_owns(r)) {
        return NGX_OK;
    }

    if (r == r->main) {
        return NGX_DECLINED;
    }

    rc = ngx_http_pgw_access_guard(r);

    /* NGX_OK would skip the other handlers of this phase, such as limits */

    return (rc == NGX_OK) ? NGX_DECLINED : rc;
}


static ngx_int_t
ngx_http_pgw_access_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc = ngx_http_pgw_access_guard(r);

    /* nginx would end the request here, before other modules decide */

    return (rc == NGX_HTTP_SERVICE_UNAVAILABLE
            && ngx_http_pgw_core(r)->satisfy == NGX_HTTP_SATISFY_ANY)
           ? NGX_DECLINED : rc;
}


/* Under "satisfy any" no other module has admitted the request.  Without keys
   we could not decide, so the answer is 503. */

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
 * Refuses headers that do not fit into one record, because nginx would answer
 * 500 and log an alert.  The size of the header buffers is not enough: a short
 * header needs more room in a record than in a buffer, and parameters repeat
 * the path, the query and the content type.
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
 * The headers are final here.
 *
 * If the guard has refused a request that arrives here, another module has
 * admitted it under "satisfy any".  Such a request gets no trusted headers, and
 * loses Authorization if the location does not forward it.
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
 * Within a phase nginx runs handlers in the reverse order of registration, so a
 * module that is loaded after ours would run before headers are stripped.  When
 * all modules have registered their handlers, ours are moved to their places,
 * whatever the order of load_module.
 */

static const struct {
    ngx_http_phases      phase;
    ngx_http_handler_pt  handler;
    ngx_int_t            step;         /* -1 to run first in its phase, 1 to
                                          run last */
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


/* The handlers of a phase are neighbours with the same checker and next, so
   only the functions are swapped. */

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

        /* a checker of NULL ends the array */

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
