
/*
 * Variables for the access log: what is known of a request, one by one.
 */


#include "ngx_http_pgw_log.h"
#include "ngx_http_pgw_reason.h"


/* An ngx_str_t of the request's state, of its location's configuration, or
   what a function says. */

typedef enum {
    NGX_HTTP_PGW_LOG_STATE = 0,
    NGX_HTTP_PGW_LOG_CONF,
    NGX_HTTP_PGW_LOG_ACCESS,
    NGX_HTTP_PGW_LOG_DECISION,
    NGX_HTTP_PGW_LOG_REASON
} ngx_http_pgw_log_source_e;


typedef struct {
    ngx_str_t                  name;
    ngx_http_pgw_log_source_e  source;
    size_t                     offset;
} ngx_http_pgw_log_variable_t;


static ngx_int_t ngx_http_pgw_log_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_str_t ngx_http_pgw_log_value(const ngx_http_pgw_log_ctx_t *lc,
    const ngx_http_pgw_log_variable_t *var);
static ngx_str_t ngx_http_pgw_log_literal(const char *text);


#define ngx_http_pgw_log_in_state(member)                                     \
    NGX_HTTP_PGW_LOG_STATE,                                                   \
    offsetof(ngx_http_pgw_request_t, member)

#define ngx_http_pgw_log_in_conf(member)                                      \
    NGX_HTTP_PGW_LOG_CONF,                                                    \
    offsetof(ngx_http_pgw_loc_conf_t, member)


static ngx_http_pgw_log_variable_t
    ngx_http_pgw_log_variables[] =
{
    { ngx_string("platform_request_id"),
      ngx_http_pgw_log_in_state(request_id) },

    { ngx_string("platform_correlation_id"),
      ngx_http_pgw_log_in_state(correlation_id) },

    { ngx_string("platform_route_id"),
      ngx_http_pgw_log_in_conf(route_id) },

    { ngx_string("platform_service_name"),
      ngx_http_pgw_log_in_conf(service_name) },

    { ngx_string("platform_access"),
      NGX_HTTP_PGW_LOG_ACCESS, 0 },

    { ngx_string("platform_decision"),
      NGX_HTTP_PGW_LOG_DECISION, 0 },

    { ngx_string("platform_reason"),
      NGX_HTTP_PGW_LOG_REASON, 0 }
};


static ngx_str_t  ngx_http_pgw_log_json_name =
    ngx_string("platform_access_json");


/* By ngx_http_pgw_loc_conf_t.access: the bits above the lowest. */

static const ngx_str_t  ngx_http_pgw_log_levels[] = {
    ngx_null_string,
    ngx_string("public"),
    ngx_string("account"),
    ngx_string("public account"),
    ngx_string("branch"),
    ngx_string("public branch"),
    ngx_string("account branch"),
    ngx_string("public account branch"),
    ngx_string("system"),
    ngx_string("public system"),
    ngx_string("account system"),
    ngx_string("public account system"),
    ngx_string("branch system"),
    ngx_string("public branch system"),
    ngx_string("account branch system"),
    ngx_string("public account branch system")
};


ngx_int_t
ngx_http_pgw_log_add_variables(ngx_conf_t *cf)
{
    ngx_uint_t            i;
    ngx_http_variable_t  *var;

    for (i = 0;
         i < sizeof(ngx_http_pgw_log_variables)
             / sizeof(ngx_http_pgw_log_variables[0]);
         i++)
    {
        /* a decision changes while the request goes on */

        var = ngx_http_add_variable(cf, &ngx_http_pgw_log_variables[i].name,
                                    NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_pgw_log_variable;
        var->data = i;
    }

    var = ngx_http_add_variable(cf, &ngx_http_pgw_log_json_name,
                                NGX_HTTP_VAR_NOCACHEABLE);
    if (var == NULL) {
        return NGX_ERROR;
    }

    var->get_handler = ngx_http_pgw_log_json;

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_str_t               text;
    ngx_http_pgw_log_ctx_t  lc;

    if (ngx_http_pgw_log_start(r, &lc) != NGX_OK) {
        return NGX_ERROR;
    }

    text = ngx_http_pgw_log_value(&lc, &ngx_http_pgw_log_variables[data]);

    if (text.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = text.data;
    v->len = (unsigned) text.len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_str_t
ngx_http_pgw_log_value(const ngx_http_pgw_log_ctx_t *lc,
    const ngx_http_pgw_log_variable_t *var)
{
    static const ngx_str_t  none = ngx_null_string;

    switch (var->source) {

    case NGX_HTTP_PGW_LOG_STATE:
        return lc->gr ? *(const ngx_str_t *) ((const char *) lc->gr
                                              + var->offset)
                      : none;

    case NGX_HTTP_PGW_LOG_CONF:
        return *(const ngx_str_t *) ((const char *) lc->conf + var->offset);

    case NGX_HTTP_PGW_LOG_ACCESS:
        return *ngx_http_pgw_log_access(lc);

    case NGX_HTTP_PGW_LOG_DECISION:
        return ngx_http_pgw_log_decision(lc);

    case NGX_HTTP_PGW_LOG_REASON:
        return ngx_http_pgw_log_reason(lc);
    }

    return none;
}


ngx_int_t
ngx_http_pgw_log_start(ngx_http_request_t *r, ngx_http_pgw_log_ctx_t *lc)
{
    ngx_http_pgw_srv_conf_t  *sscf;

    lc->request = r;
    lc->gr = NULL;
    lc->conf = ngx_http_get_module_loc_conf(r,
                                            ngx_http_platform_gateway_module);

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (sscf->any_enabled) {
        lc->gr = ngx_http_pgw_request_get(r);
        if (lc->gr == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


const ngx_str_t *
ngx_http_pgw_log_access(const ngx_http_pgw_log_ctx_t *lc)
{
    ngx_uint_t  access;

    access = 0;

    if (lc->gr) {
        access = lc->gr->required ? lc->gr->required : lc->conf->access;
    }

    return &ngx_http_pgw_log_levels[(access >> 1) & 0xf];
}


ngx_str_t
ngx_http_pgw_log_decision(const ngx_http_pgw_log_ctx_t *lc)
{
    return ngx_http_pgw_log_literal(
               lc->gr ? ngx_http_pgw_decision(lc->request, lc->gr)
                      : NULL);
}


ngx_str_t
ngx_http_pgw_log_reason(const ngx_http_pgw_log_ctx_t *lc)
{
    ngx_uint_t  reason;

    reason = lc->gr ? ngx_http_pgw_reason(lc->request, lc->gr)
                    : NGX_HTTP_PGW_REASON_NONE;

    return ngx_http_pgw_log_literal(ngx_http_pgw_reasons[reason].name);
}


static ngx_str_t
ngx_http_pgw_log_literal(const char *text)
{
    ngx_str_t  s;

    s.data = (u_char *) text;
    s.len = text ? ngx_strlen(text) : 0;

    return s;
}
