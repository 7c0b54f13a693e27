
/*
 * Metadata of a protected resource (RFC 9728): the document that tells clients
 * whose tokens open it, and where a challenge says that this is.
 */


#include "conf/conf.h"
#include "issuer/issuer.h"
#include "base/base.h"


/* Whether it is one that may stand in a quoted string. */

static ngx_uint_t
ngx_http_pgw_resource_is_url(const pj_str_t *s)
{
    size_t  scheme;

    scheme = s->len > 8 && ngx_memcmp(s->data, "https://", 8) == 0 ? 8
             : s->len > 7 && ngx_memcmp(s->data, "http://", 7) == 0 ? 7 : 0;

    return scheme && s->data[scheme] != '/' && pj_json_plain(*s)
           && memchr(s->data, ' ', s->len) == NULL
           && memchr(s->data, '#', s->len) == NULL;
}


char *
ngx_http_pgw_resource_url(ngx_conf_t *cf, void *post, void *data)
{
    const ngx_str_t  *value = data;

    return ngx_http_pgw_resource_is_url(&(pj_str_t) { value->data, value->len })
           ? NGX_CONF_OK
           : "needs a URL, https:// or http://, of printable ASCII without "
             "spaces, quotes, backslashes and \"#\"";
}


/* The next of a list; *before is what stands before it, the name of the member
   at first: one that is empty is left out. */

static void
ngx_http_pgw_resource_item(ngx_http_pgw_text_t *text, const char **before,
    pj_str_t s)
{
    ngx_http_pgw_text_json(text, *before, &s);
    *before = ",";
}


/* The names of an issuer; NULL if its tokens open no location with conf. */

static const ngx_array_t *
ngx_http_pgw_resource_names(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer)
{
    return !ngx_http_pgw_issuer_trusted(conf, issuer) ? NULL
           : issuer->issuers ? issuer->issuers : conf->issuers;
}


char *
ngx_http_pgw_resource_merge(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                    i, named = 0;
    const ngx_array_t            *all;
    const ngx_http_pgw_issuer_t  *issuer;

    if (conf->handler != ngx_http_pgw_resource_content.handler) {
        return NGX_CONF_OK;
    }

    for (issuer = ngx_http_pgw_conf_main(cf)->issuers; issuer;
         issuer = issuer->next)
    {
        all = ngx_http_pgw_resource_names(conf, issuer);

        for (i = 0; all && i < all->nelts; i++) {
            named = 1;

            if (ngx_http_pgw_resource_is_url((const pj_str_t *) all->elts + i))
            {
                return NGX_CONF_OK;
            }
        }
    }

    return !named ? NGX_CONF_OK
           : ngx_http_pgw_conf_fail(cf, NULL,
               "has \"platform_gateway_protected_resource\", and no issuer "
               "that it trusts is a URL: clients could not find whom to ask "
               "for a token: add an issuer that is, or leave the directive "
               "out,");
}


/* Scopes are those that the directive lists, or else those that the location
   requires. */

static void
ngx_http_pgw_resource_lists(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                    i, n;
    const char                   *before = ",\"authorization_servers\":[";
    const pj_str_t               *s;
    const ngx_str_t              *value;
    const ngx_array_t            *all;
    const ngx_http_pgw_rule_t    *rule;
    const ngx_http_pgw_issuer_t  *issuer;

    for (issuer = ngx_http_pgw_main(text->request)->issuers; issuer;
         issuer = issuer->next)
    {
        all = ngx_http_pgw_resource_names(conf, issuer);

        for (i = 0; all && i < all->nelts; i++) {
            s = (const pj_str_t *) all->elts + i;

            if (ngx_http_pgw_resource_is_url(s)) {
                ngx_http_pgw_resource_item(text, &before, *s);
            }
        }
    }

    ngx_http_pgw_text_format(text, before[1] ? "" : "]");

    before = ",\"scopes_supported\":[";
    s = conf->resource->elts;

    for (i = 1; i < conf->resource->nelts; i++) {
        ngx_http_pgw_resource_item(text, &before, s[i]);
    }

    all = conf->resource->nelts == 1 ? conf->required : NULL;

    for (i = 0; all && i < all->nelts; i++) {
        rule = (const ngx_http_pgw_rule_t *) all->elts + i;
        value = rule->values.elts;

        for (n = 0; rule->scope.len && n < rule->values.nelts; n++) {
            ngx_http_pgw_resource_item(text, &before, (pj_str_t) {
                                       value[n].data, value[n].len });
        }
    }

    ngx_http_pgw_text_format(text, before[1] ? "" : "]");
}


static ngx_int_t
ngx_http_pgw_resource_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_text_t             text = { .request = r };
    const ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    ngx_http_pgw_text_json(&text, "{\"resource\":",
                           (const pj_str_t *) conf->resource->elts);
    ngx_http_pgw_resource_lists(&text, conf);
    ngx_http_pgw_text_format(&text,
                             ",\"bearer_methods_supported\":[\"header\"]}");

    return ngx_http_pgw_text_send(&text, "application/json");
}


ngx_http_pgw_content_t  ngx_http_pgw_resource_content =
    { .handler = ngx_http_pgw_resource_handler, .methods = NGX_HTTP_GET };


char *
ngx_http_pgw_resource_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char        *rv;
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i;

    rv = ngx_http_pgw_resource_url(cf, NULL, &value[1]);

    for (i = 2; rv == NGX_CONF_OK && i < cf->args->nelts; i++) {
        if (!pj_json_plain((pj_str_t) { value[i].data, value[i].len })
            || ngx_strchr(value[i].data, ' '))
        {
            rv = "has a scope with a space, a quote, or what is not printable "
                 "ASCII";
        }
    }

    if (rv == NGX_CONF_OK) {
        rv = ngx_http_pgw_conf_strings(cf, cmd, conf);
    }

    return rv == NGX_CONF_OK ? ngx_http_pgw_content_directive(cf, cmd, conf)
                             : rv;
}
