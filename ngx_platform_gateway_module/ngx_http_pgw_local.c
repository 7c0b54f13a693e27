
/*
 * Content handlers of the gateway's own: liveness, readiness, and the answer
 * to a path that no route serves.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_local.h"


ngx_int_t
ngx_http_pgw_local_refuse(ngx_http_request_t *r, ngx_http_pgw_reason_e reason,
    const char *code, const char *detail, time_t retry_after)
{
    ngx_int_t                rc;
    ngx_http_pgw_request_t  *gr;

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->retry_after = retry_after;

    rc = ngx_http_pgw_problem_refuse(r, gr, reason, detail);

    gr->code = code;

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


static ngx_int_t
ngx_http_pgw_local_health_handler(ngx_http_request_t *r)
{
    ngx_int_t            rc;
    ngx_http_pgw_text_t  text;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_pgw_text_init(&text, r);
    ngx_http_pgw_text_format(&text,
                             "{\"status\":\"UP\",\"service\":\"gateway\"}");

    return ngx_http_pgw_text_send(&text, "application/json");
}


static ngx_int_t
ngx_http_pgw_local_ready_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    if (!ngx_http_pgw_keys_usable(mcf->keys)
        || ngx_http_pgw_keys_get(mcf->keys))
    {
        return ngx_http_pgw_local_health_handler(r);
    }

    return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE,
                                     NULL, "no key set has been loaded yet",
                                     ngx_http_pgw_keys_retry_after(mcf->keys));
}


static ngx_int_t
ngx_http_pgw_local_not_found_handler(ngx_http_request_t *r)
{
    return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                     NULL, NULL, 0);
}


char *
ngx_http_pgw_local_content(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_http_core_loc_conf_t      *clcf;
    const ngx_http_pgw_content_t  *content;

    content = cmd->post;
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = content->handler;
    lcf->methods |= content->methods;
    lcf->route_not_found = (content == &ngx_http_pgw_local_route_not_found);

    return NGX_CONF_OK;
}


ngx_http_pgw_content_t  ngx_http_pgw_local_health =
    { ngx_http_pgw_local_health_handler, NGX_HTTP_GET };

ngx_http_pgw_content_t  ngx_http_pgw_local_ready =
    { ngx_http_pgw_local_ready_handler, NGX_HTTP_GET };

ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found =
    { ngx_http_pgw_local_not_found_handler, 0 };
