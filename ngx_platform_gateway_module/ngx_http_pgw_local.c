
/*
 * Content handlers of the gateway's own: liveness, readiness, and the answer
 * to a path that no route serves.
 */


#include "ngx_http_pgw_keys.h"


static ngx_int_t ngx_http_pgw_local_health_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_local_ready_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_local_not_found_handler(ngx_http_request_t *r);
static char *ngx_http_pgw_local_set(ngx_conf_t *cf,
    ngx_http_handler_pt handler);


char *
ngx_http_pgw_local_health(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    (void) cmd;

    lcf->methods |= NGX_HTTP_GET;

    return ngx_http_pgw_local_set(cf, ngx_http_pgw_local_health_handler);
}


char *
ngx_http_pgw_local_ready(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    (void) cmd;

    lcf->methods |= NGX_HTTP_GET;

    return ngx_http_pgw_local_set(cf, ngx_http_pgw_local_ready_handler);
}


char *
ngx_http_pgw_local_route_not_found(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    (void) cmd;
    (void) conf;

    return ngx_http_pgw_local_set(cf, ngx_http_pgw_local_not_found_handler);
}


ngx_uint_t
ngx_http_pgw_local_is_route_not_found(const ngx_http_core_loc_conf_t *clcf)
{
    return clcf->handler == ngx_http_pgw_local_not_found_handler;
}


static char *
ngx_http_pgw_local_set(ngx_conf_t *cf, ngx_http_handler_pt handler)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = handler;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_local_health_handler(ngx_http_request_t *r)
{
    ngx_str_t                 type;
    ngx_http_complex_value_t  cv;

    static const ngx_str_t  no_store = ngx_string("no-store");

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    if (ngx_http_pgw_header_add(r, "Cache-Control", &no_store) == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_str_set(&type, "application/json");

    ngx_memzero(&cv, sizeof(ngx_http_complex_value_t));
    ngx_str_set(&cv.value, "{\"status\":\"UP\",\"service\":\"gateway\"}");

    return ngx_http_send_response(r, NGX_HTTP_OK, &type, &cv);
}


static ngx_int_t
ngx_http_pgw_local_ready_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module);

    if (!ngx_http_pgw_keys_usable(mcf->keys)
        || ngx_http_pgw_keys_get(mcf->keys))
    {
        return ngx_http_pgw_local_health_handler(r);
    }

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->retry_after = ngx_http_pgw_keys_retry_after(mcf->keys);

    return ngx_http_pgw_problem_refuse(r, gr,
                                       NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE,
                                       "no key set has been loaded yet");
}


static ngx_int_t
ngx_http_pgw_local_not_found_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr;

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_pgw_problem_refuse(r, gr,
                                       NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                       NULL);
}
