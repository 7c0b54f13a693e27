
/*
 * Checks of nginx -t: locations that would admit too many requests, or none.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "issuer/issuer.h"
#include "nginx/nginx.h"


/* The most bytes of client headers for an upstream that takes all headers in
   one record of 64 KiB.  The rest is for parameters and trusted headers. */
#define NGX_HTTP_PGW_RECORD_HEAD  (56 * 1024)


const char *
ngx_http_pgw_check_restriction(const ngx_http_pgw_loc_conf_t *conf)
{
    return conf->enable != NGX_CONF_UNSET ? NULL
           : conf->access ? "access"
           : conf->required != NGX_CONF_UNSET_PTR ? "require"
           : conf->authentication != NGX_CONF_UNSET_PTR && conf->authentication
           ? "authentication"
           : conf->trusted != NGX_CONF_UNSET_PTR ? "trusted"
           : conf->bound == NGX_HTTP_PGW_BOUND_REQUIRE ? "bound"
           : conf->assertion != NGX_CONF_UNSET_PTR && conf->assertion
           ? "assertion"
           : conf->claim_map != NGX_CONF_UNSET_PTR ? "claim_header" : NULL;
}


char *
ngx_http_pgw_check_off(ngx_conf_t *cf, const char *restriction)
{
    return restriction == NULL ? NGX_CONF_OK
           : ngx_http_pgw_conf_fail(cf, NULL,
                 "has \"platform_gateway_%s\", but the gateway is not on "
                 "there: everybody gets in, with any header: say "
                 "\"platform_gateway on\", or \"platform_gateway off\" if "
                 "that is intended,",
                 restriction);
}


/* Returns what is wrong with a public location that requires something. */

static const char *
ngx_http_pgw_check_public(const ngx_http_pgw_loc_conf_t *prev,
    const ngx_http_pgw_loc_conf_t *conf)
{
    return conf->required != prev->required
           && conf->handler != ngx_http_pgw_resource_content.handler
           ? "is \"public\", so its \"platform_gateway_require\" has no "
             "effect: leave one out,"
           : conf->authentication
             && conf->authentication != prev->authentication
           ? "is \"public\", so its \"platform_gateway_authentication\" "
             "has no effect: leave one out,"
           : conf->assertion && conf->assertion != prev->assertion
           ? "is \"public\", so its \"platform_gateway_assertion\" has no "
             "effect: leave one out," : NULL;
}


/* Checks the access level together with the other directives of a location. */

static char *
ngx_http_pgw_check_access(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *prev,
    const ngx_http_pgw_loc_conf_t *conf)
{
    size_t                     need, size;
    const char                *fault;
    ngx_uint_t                 guarded = conf->access & NGX_HTTP_PGW_GUARDED;
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_conf_core(cf);
    ngx_http_core_srv_conf_t  *cscf = ngx_http_pgw_conf_server(cf);
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);

    need = conf->token_max_size;
    size = cscf->large_client_header_buffers.size;

    fault = conf->access == 0 && clcf->handler
            ? "has a content handler and no \"platform_gateway_access\": give "
              "it a level, \"public\" if anybody may enter"
            : !guarded
            ? (clcf->name.len && (conf->access & NGX_HTTP_PGW_PUBLIC)
               ? ngx_http_pgw_check_public(prev, conf) : NULL)
            : conf->access & NGX_HTTP_PGW_PUBLIC
            ? "is both \"public\" and guarded: \"public\" must stand alone in "
              "\"platform_gateway_access\""
            : !(ngx_http_pgw_issuer_opens(mcf->issuers, conf) & guarded)
            ? "is guarded and has no issuer whose tokens open it: add "
              "\"platform_gateway_issuer\", the \"iss\" of its tokens"

            : conf->assertion && mcf->signer->key == NULL
            ? "has \"platform_gateway_assertion\", and there is no key to sign "
              "with: add \"platform_gateway_assertion_key\" to http{}"

            /* not for server{}, whose name is empty: its "return" answers
               every request */

            : clcf->name.len && !conf->allow_return
              && ngx_http_pgw_peek_rewrite_answers(cf, cf->ctx)
            ? "is guarded, but its \"return\" or redirecting \"rewrite\" "
              "answers before the guard: move it to a public location, or say "
              "\"platform_gateway_allow_return on\""

            /* nginx refuses a header line that does not fit into a buffer */

            : size < need + sizeof("Authorization: Bearer " CRLF) - 1
            ? "accepts tokens of %uz bytes (\"platform_gateway_token_max_"
              "size\"), which \"large_client_header_buffers\" of %uz bytes "
              "cannot hold: say \"large_client_header_buffers 2 %uzk\" in its "
              "server, or accept smaller tokens" : NULL;

    return fault ? ngx_http_pgw_conf_fail(cf, NULL, fault, need, size,
                                          (need + need / 2 + 1023) / 1024)
                 : NGX_CONF_OK;
}


/* Checks the upstream of a location: trusted headers are sent, responses are
   not shared, and the headers fit into one record. */

static char *
ngx_http_pgw_check_upstream(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_upstream_conf_t *u, const ngx_http_pgw_passer_t *passer,
    ngx_uint_t guarded)
{
    size_t                      head;
    ngx_uint_t                  shared = u->store > 0, record;
    const char                 *fault;
    ngx_array_t               **params;
    ngx_http_core_srv_conf_t   *cscf = ngx_http_pgw_conf_server(cf);

#if (NGX_HTTP_CACHE)
    shared |= u->cache > 0;
#endif

    /* u->upstream is NULL if the address is made of variables: the protocol
       is then assumed if the location has parameters for it; an "if" has the
       handler of its location */

    record = passer->param && u->upstream;
    params = passer->param == NULL || record ? NULL
             : ngx_http_pgw_peek_field(cf, cf->ctx, NULL, passer->param,
                                       ngx_http_upstream_param_set_slot);

    conf->one_record |= record || (params && *params
                                   && ngx_http_pgw_conf_core(cf)->handler);

    head = cscf->client_header_buffer_size
           + (size_t) cscf->large_client_header_buffers.num
             * cscf->large_client_header_buffers.size;

    fault = guarded && u->pass_request_headers == 0
            ? "is guarded, but \"%V_pass_request_headers off\" keeps the "
              "trusted headers from its upstream: take it out of this location"
            : guarded && shared && !conf->allow_cache
            ? "is guarded, but \"%V_cache\" or \"%V_store\" keeps what one "
              "client was sent for the next: switch it off there, or, where "
              "its key tells clients apart or all may see the same, say "
              "\"platform_gateway_allow_cache on\""
            : record && head > NGX_HTTP_PGW_RECORD_HEAD
            ? "uses \"%V_pass\": %V carries a request's headers in one record "
              "of 64k, and they take up to %uz bytes here: say "
              "\"large_client_header_buffers 2 24k\" in its server" : NULL;

    return fault ? ngx_http_pgw_conf_fail(cf, NULL, fault, &passer->name,
                                          &passer->name, head)
                 : NGX_CONF_OK;
}


char *
ngx_http_pgw_check_location(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                       guarded;
    ngx_http_core_loc_conf_t        *clcf = ngx_http_pgw_conf_core(cf);
    ngx_http_pgw_main_conf_t        *mcf = ngx_http_pgw_conf_main(cf);
    const ngx_http_pgw_passer_t     *passer;
    const ngx_http_upstream_conf_t  *u;

    if (ngx_http_pgw_check_access(cf, prev, conf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    guarded = conf->access & NGX_HTTP_PGW_GUARDED;

    if (guarded && ngx_http_pgw_proof_conf_check(cf, conf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (guarded && mcf->guarded == NULL) {
        mcf->guarded = conf;
    }

    /* tokens are not checked in the location of a fetch */

    guarded = guarded && clcf->handler
              && !ngx_http_pgw_lease_fetches(mcf, clcf);

    passer = NULL;

    while ((u = ngx_http_pgw_peek_passer(cf, cf->ctx, &passer)) != NULL) {

        if (ngx_http_pgw_check_upstream(cf, conf, u, passer, guarded)
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}
