
/*
 * Values of directives: those that nginx's own slots do not read.
 */


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_LEEWAY_MAX  300


ngx_conf_bitmask_t  ngx_http_pgw_methods[] = {
    { ngx_string("GET"), NGX_HTTP_GET },
    { ngx_string("HEAD"), NGX_HTTP_HEAD },
    { ngx_string("POST"), NGX_HTTP_POST },
    { ngx_string("PUT"), NGX_HTTP_PUT },
    { ngx_string("PATCH"), NGX_HTTP_PATCH },
    { ngx_string("DELETE"), NGX_HTTP_DELETE },
    { ngx_string("MKCOL"), NGX_HTTP_MKCOL },
    { ngx_string("COPY"), NGX_HTTP_COPY },
    { ngx_string("MOVE"), NGX_HTTP_MOVE },
    { ngx_string("PROPFIND"), NGX_HTTP_PROPFIND },
    { ngx_string("PROPPATCH"), NGX_HTTP_PROPPATCH },
    { ngx_string("LOCK"), NGX_HTTP_LOCK },
    { ngx_string("UNLOCK"), NGX_HTTP_UNLOCK },
    { ngx_null_string, 0 }
};


/* who may enter must be plain to see, not a matter of what a client sends */

char *
ngx_http_pgw_conf_plain(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    if (cf->cmd_type & (NGX_HTTP_SIF_CONF|NGX_HTTP_LIF_CONF)) {
        return "cannot stand inside \"if\": say it in the location itself, "
               "or \"rewrite\" to a location of its own";
    }

    if (cf->cmd_type & NGX_HTTP_LMT_CONF) {
        return "cannot stand inside \"limit_except\": say it in the location "
               "itself; \"platform_gateway_methods\" limits methods";
    }

    return cmd->post ? ngx_conf_set_bitmask_slot(cf, cmd, conf)
                     : ngx_conf_set_flag_slot(cf, cmd, conf);
}


/* GET implies HEAD, as in limit_except; OPTIONS is always answered */

char *
ngx_http_pgw_conf_methods(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    size_t               len;
    u_char              *p;
    ngx_conf_bitmask_t  *m;

    if (conf->methods == 0) {
        return NGX_CONF_OK;
    }

    if (conf->methods & NGX_HTTP_GET) {
        conf->methods |= NGX_HTTP_HEAD;
    }

    len = sizeof("OPTIONS") - 1;

    for (m = ngx_http_pgw_methods; m->name.len; m++) {
        if (conf->methods & m->mask) {
            len += m->name.len + 2;
        }
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    conf->allow.len = len;
    conf->allow.data = p;

    for (m = ngx_http_pgw_methods; m->name.len; m++) {
        if (conf->methods & m->mask) {
            p = ngx_cpymem(p, m->name.data, m->name.len);
            *p++ = ',';
            *p++ = ' ';
        }
    }

    ngx_memcpy(p, "OPTIONS", sizeof("OPTIONS") - 1);

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_conf_route(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_str_t  *value;

    (void) cmd;

    if (lcf->route_id.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty id";
    }

    lcf->route_id = value[1];

    if (cf->args->nelts == 3) {
        lcf->service_name = value[2];
    }

    lcf->log_plain = ngx_http_pgw_json_plain(&lcf->route_id)
                     && ngx_http_pgw_json_plain(&lcf->service_name);

    return NGX_CONF_OK;
}


/* like ngx_conf_set_str_array_slot(), in pj's strings */

char *
ngx_http_pgw_conf_strings(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    pj_str_t      *s;
    ngx_str_t     *value;
    ngx_uint_t     i;
    ngx_array_t  **a;

    a = (ngx_array_t **) ((char *) conf + cmd->offset);

    if (*a == NGX_CONF_UNSET_PTR) {
        *a = ngx_array_create(cf->pool, 2, sizeof(pj_str_t));
        if (*a == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "has an empty value";
        }

        s = ngx_array_push(*a);
        if (s == NULL) {
            return NGX_CONF_ERROR;
        }

        s->data = value[i].data;
        s->len = value[i].len;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_conf_leeway(ngx_conf_t *cf, void *post, void *data)
{
    time_t  *leeway = data;

    (void) cf;
    (void) post;

    if (*leeway > NGX_HTTP_PGW_LEEWAY_MAX) {
        return "is more than 300 seconds";
    }

    return NGX_CONF_OK;
}


/* the realm stands in a quoted string of WWW-Authenticate */

char *
ngx_http_pgw_conf_realm(ngx_conf_t *cf, void *post, void *data)
{
    ngx_str_t  *realm = data;

    size_t  i;

    (void) cf;
    (void) post;

    for (i = 0; i < realm->len; i++) {
        if (realm->data[i] < 0x20 || realm->data[i] > 0x7e
            || realm->data[i] == '"' || realm->data[i] == '\\')
        {
            return "must be printable ASCII without quotes and backslashes";
        }
    }

    return NGX_CONF_OK;
}
