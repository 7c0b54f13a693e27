
/*
 * What nginx -t refuses: locations that would let in whom they should not, or
 * nobody at all.
 */


#include "ngx_http_pgw_check.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_peek.h"


/*
 * What a client may send where its headers go on in one record of 64 KiB: the
 * rest is for parameters and trusted headers.
 */
#define NGX_HTTP_PGW_RECORD_HEAD  (56 * 1024)


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
        || (clcf->internal && ngx_http_pgw_lease_fetches(mcf, clcf)))
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
