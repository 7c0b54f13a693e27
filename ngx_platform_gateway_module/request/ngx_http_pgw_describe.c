
/*
 * The settings of a location, in an explanation.
 */


#include "request/request.h"
#include "token/token.h"
#include "base/base.h"


/* Writes a list whose elements begin with a pj_str_t. */

static void
ngx_http_pgw_describe_strings(ngx_http_pgw_text_t *text, const char *name,
    const ngx_array_t *list)
{
    u_char      *elt;
    ngx_uint_t   i;

    ngx_http_pgw_text_format(text, ",\"%s\":[", name);

    for (i = 0; list && i < list->nelts; i++) {
        elt = (u_char *) list->elts + i * list->size;
        ngx_http_pgw_text_item(text, (pj_str_t *) (void *) elt);
    }

    ngx_http_pgw_text_format(text, "]");
}


void
ngx_http_pgw_describe_location(ngx_http_pgw_text_t *text,
    const ngx_http_core_loc_conf_t *clcf, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_str_t    levels, level;
    const char  *match;

    ngx_http_pgw_text_format(text, ",\n\"location\":%s", conf ? "" : "null");

    if (conf == NULL) {
        return;
    }

    match = clcf->exact_match ? "exact" : "prefix";

#if (NGX_PCRE)
    match = clcf->regex ? "regex" : match;
#endif

    ngx_http_pgw_text_json(text, "{\"name\":", &clcf->name);
    ngx_http_pgw_text_literal(text, ",\"match\":",
                                 clcf->name.data ? match : NULL);
    ngx_http_pgw_text_format(text, ",\"gateway\":%s,\"access\":[",
                             conf->enable ? "true" : "false");

    levels = conf->levels;

    while (ngx_http_pgw_names_split(&levels, ' ', &level)) {
        ngx_http_pgw_text_item(text, &level);
    }

    ngx_http_pgw_text_json(text, "],\"methods\":", &conf->allow);
    ngx_http_pgw_text_json(text, ",\"routeId\":", &conf->route_id);
    ngx_http_pgw_text_json(text, ",\"serviceName\":", &conf->service_name);
    ngx_http_pgw_describe_strings(text, "issuers", conf->issuers);
    ngx_http_pgw_describe_strings(text, "audiences", conf->audiences);
    ngx_http_pgw_describe_strings(text, "corsOrigins", conf->cors_origins);
    ngx_http_pgw_text_json(text, ",\"corsMethods\":", &conf->cors_methods);
    ngx_http_pgw_text_json(text, ",\"corsHeaders\":", &conf->cors_headers);

    ngx_http_pgw_require_explain(text, conf->required);
    ngx_http_pgw_authentication_explain(text, conf->authentication);

    ngx_http_pgw_text_format(text, ",\"leewaySeconds\":%T,\"tokenMaxSize\":%uz,"
                             "\"shadow\":%s}", conf->leeway,
                             conf->token_max_size,
                             conf->shadow ? "true" : "false");
}
