
/*
 * Directives of locations that the gateway itself answers, and their checks by
 * nginx -t.
 */


#include "conf/conf.h"
#include "base/base.h"
#include "nginx/nginx.h"


/* Returns the server of that name, or NULL unless exactly one server has it. */

static ngx_http_core_srv_conf_t *
ngx_http_pgw_content_server(ngx_conf_t *cf, const ngx_str_t *name)
{
    ngx_uint_t                  i, n, count = 0;
    ngx_http_server_name_t     *sn;
    ngx_http_core_srv_conf_t  **cscfp, *found = NULL;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);

    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        sn = cscfp[i]->server_names.elts;
        n = cscfp[i]->server_names.nelts;

        while (n && !ngx_http_pgw_names_same(&sn[n - 1].name, name)) {
            n--;
        }

        if (n) {
            found = cscfp[i];
            count++;
        }
    }

    return count == 1 ? found : NULL;
}


/* Returns 1 if no path gets an answer in the server of cf, except by the
   location in cf or by "platform_gateway_route_not_found". */

static ngx_uint_t
ngx_http_pgw_content_alone(ngx_conf_t *cf)
{
    ngx_uint_t                  rest;
    ngx_queue_t                *q, *all;
    ngx_http_core_srv_conf_t   *cscf = ngx_http_pgw_conf_server(cf);
    ngx_http_core_loc_conf_t   *clcf, *own = ngx_http_pgw_conf_core(cf);
    ngx_http_pgw_loc_conf_t    *conf;
    ngx_http_location_queue_t  *lq;

    clcf = cscf->ctx->loc_conf[ngx_http_core_module.ctx_index];
    all = clcf->locations;

    if (own->locations || own->error_pages || clcf->error_pages
        || ngx_http_pgw_peek_rewrite_answers(cf, cf->ctx)
        || ngx_http_pgw_peek_rewrite_answers(cf, cscf->ctx))
    {
        return 0;
    }

    rest = 0;

    for (q = ngx_queue_head(all); q != ngx_queue_sentinel(all);
         q = ngx_queue_next(q))
    {
        lq = (ngx_http_location_queue_t *) q;
        clcf = ngx_http_pgw_queued_location(lq);
        conf = clcf->loc_conf[ngx_http_platform_gateway_module.ctx_index];

        if (clcf != own && !clcf->internal && !clcf->named
            && !conf->route_not_found)
        {
            return 0;
        }

        rest |= lq->inclusive && lq->name->len == 1
                && lq->name->data[0] == '/';
    }

    return rest;
}


/* A path of the client may climb out of the location of forward-auth, and each
   answer with 200 lets its request pass. */

static const char *
ngx_http_pgw_content_request(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                 plain;
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_conf_core(cf);

    plain = clcf->name.len && clcf->name.data[0] == '/'
            && !clcf->exact_match && !clcf->named && !clcf->internal;

#if (NGX_PCRE)
    plain = plain && clcf->regex == NULL;
#endif

    return !plain ? "has \"platform_gateway_forward_auth request\", which is "
                    "for a location of a prefix, like \"/\","
           : conf->explain_name.len == 0
             || conf->explain == ngx_http_pgw_conf_server(cf)
           ? "has \"platform_gateway_forward_auth request\": name the server "
             "that has the locations for the described requests, another one,"
           : !ngx_http_pgw_content_alone(cf)
           ? "has \"platform_gateway_forward_auth request\", and its server "
             "has more that may answer, which would let requests pass: give it "
             "a server without \"error_page\", \"if\" and \"return\", and with "
             "no other location but \"internal\" ones and, beside a prefix, "
             "\"/\" with \"platform_gateway_route_not_found\","
           : NULL;
}


char *
ngx_http_pgw_content_merge(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                 closed;
    const char                *fault;
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_conf_core(cf);

    /* the handler of a location also runs in its "if" and "limit_except" */

    conf->handler = clcf->handler;

    if (clcf->noname) {
        conf->explain = prev->explain;
        conf->forward = prev->forward;
        conf->one_record = prev->one_record;
        conf->other_handler = clcf->handler && clcf->handler != prev->handler;
    }

    if (conf->explain == NULL || (clcf->noname && !clcf->lmt_excpt)) {
        return NGX_CONF_OK;
    }

    if (conf->explain_name.len) {
        conf->explain = ngx_http_pgw_content_server(cf, &conf->explain_name);
    }

    closed = clcf->internal || ngx_http_pgw_peek_access_denies(cf);

    fault = conf->explain == NULL
            ? "names the server \"%V\", and not exactly one server has that "
              "\"server_name\","
            : conf->forward
            ? (closed && conf->enable
               ? (conf->forward == NGX_HTTP_PGW_FORWARD_REQUEST
                  ? ngx_http_pgw_content_request(cf, conf) : NULL)
               : "has \"platform_gateway_forward_auth\": say "
                 "\"platform_gateway on\" in it, and \"allow 127.0.0.1; deny "
                 "all;\" with the address of the other proxy,")
            : closed
              || (conf->enable && !conf->shadow
                  && (conf->access & NGX_HTTP_PGW_GUARDED)) ? NULL
            : "has \"platform_gateway_explain\" and is open to anybody: say "
              "\"allow 127.0.0.1; deny all;\" or \"internal;\" in it, or guard "
              "it,";

    return fault ? ngx_http_pgw_conf_fail(cf, NULL, fault, &conf->explain_name)
                 : NGX_CONF_OK;
}


char *
ngx_http_pgw_content_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                     *value = cf->args->elts;
    ngx_http_pgw_loc_conf_t       *lcf = conf;
    ngx_http_core_loc_conf_t      *clcf = ngx_http_pgw_conf_core(cf);
    const ngx_http_pgw_content_t  *content = cmd->post;

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = content->handler;
    lcf->methods |= content->methods;
    lcf->route_not_found = content->not_found;

    if (content->metrics) {
        ngx_http_pgw_conf_place(cf, &ngx_http_pgw_conf_main(cf)->metrics_place);
    }

    if (content->server) {
        lcf->explain = ngx_http_pgw_conf_server(cf);

        if (cf->args->nelts > content->server) {
            lcf->explain_name = value[content->server];
        }
    }

    return NGX_CONF_OK;
}
