
/*
 * What nginx -t refuses: locations that would let in whom they should not, or
 * nobody at all.
 */


#include "ngx_http_platform_gateway.h"
#include "ngx_http_platform_gateway_compat.h"


#define NGX_HTTP_PLATFORM_GATEWAY_GUARDED                                     \
    (NGX_HTTP_PLATFORM_GATEWAY_ACCOUNT                                        \
     |NGX_HTTP_PLATFORM_GATEWAY_BRANCH                                        \
     |NGX_HTTP_PLATFORM_GATEWAY_SYSTEM)


static const char *ngx_http_platform_gateway_check_guarded(ngx_conf_t *cf,
    const ngx_http_platform_gateway_loc_conf_t *conf);


char *
ngx_http_platform_gateway_check_location(ngx_conf_t *cf,
    const ngx_http_platform_gateway_loc_conf_t *conf)
{
    const char                *err;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    err = NULL;

    if (conf->access == 0 && clcf->handler) {
        err = "has a content handler and no \"platform_gateway_access\": "
              "give it a level, \"public\" if anybody may enter";

    } else if (conf->access & NGX_HTTP_PLATFORM_GATEWAY_GUARDED) {
        err = ngx_http_platform_gateway_check_guarded(cf, conf);
    }

    if (err == NULL) {
        return NGX_CONF_OK;
    }

    /* nginx is at the end of http{} by now: say where the block began */

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "platform_gateway: location \"%V\" %s in %V:%ui",
                  &clcf->name, err, &conf->conf_file, conf->conf_line);

    return NGX_CONF_ERROR;
}


static const char *
ngx_http_platform_gateway_check_guarded(ngx_conf_t *cf,
    const ngx_http_platform_gateway_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t               *clcf;
    ngx_http_platform_gateway_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);
    mcf->guarded = 1;

    if (conf->access & NGX_HTTP_PLATFORM_GATEWAY_PUBLIC) {
        return "is both \"public\" and guarded: "
               "\"public\" must stand alone in \"platform_gateway_access\"";
    }

    if (conf->issuers == NULL) {
        return "is guarded and has no \"platform_gateway_issuer\"";
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* a "return" of server{}, which has no name, leaves nothing to guard */

    if (clcf->name.len
        && !conf->allow_return
        && ngx_http_platform_gateway_rewrite_answers(cf))
    {
        return "is guarded, but its \"return\" or redirecting \"rewrite\" "
               "answers before the guard: move it to a public location, or "
               "say \"platform_gateway_allow_return on\"";
    }

    return NULL;
}
