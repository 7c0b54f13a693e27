
/*
 * Metadata of a protected resource (RFC 9728): the document that lists the
 * issuers of its tokens, and the URL of that document in challenges.
 */


#include "conf/conf.h"
#include "issuer/issuer.h"
#include "base/base.h"


/* Returns 1 for a URL that can stand in a quoted string as it is. */

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


/* Lists the issuers whose tokens open the location.  An empty list is left out
   with its name.  Returns 0 if there are names, but none is a URL. */

static ngx_uint_t
ngx_http_pgw_resource_servers(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *issuer, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t          i, named;
    const char         *before = ",\"authorization_servers\":[";
    const pj_str_t     *name;
    const ngx_array_t  *names;

    named = 0;

    for ( /* void */ ; issuer; issuer = issuer->next) {
        names = ngx_http_pgw_issuer_accepted(issuer, conf);

        for (i = 0; names && i < names->nelts; i++) {
            name = (const pj_str_t *) names->elts + i;
            named = 1;

            if (ngx_http_pgw_resource_is_url(name)) {
                ngx_http_pgw_text_json(text, before, name);
                before = ",";
            }
        }
    }

    ngx_http_pgw_text_format(text, before[1] ? "" : "]");

    return !named || before[1] == '\0';
}


/* Lists the scopes of the directive.  Without any, the scopes that the location
   requires are listed. */

static void
ngx_http_pgw_resource_scopes(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                  i, n;
    const char                 *before = ",\"scopes_supported\":[";
    const pj_str_t             *scope = conf->resource->elts;
    const ngx_str_t            *value;
    const ngx_array_t          *rules;
    const ngx_http_pgw_rule_t  *rule;

    for (i = 1; i < conf->resource->nelts; i++) {
        ngx_http_pgw_text_json(text, before, &scope[i]);
        before = ",";
    }

    rules = conf->resource->nelts == 1 ? conf->required : NULL;

    for (i = 0; rules && i < rules->nelts; i++) {
        rule = (const ngx_http_pgw_rule_t *) rules->elts + i;
        value = rule->values.elts;

        for (n = 0; rule->scope.len && n < rule->values.nelts; n++) {
            ngx_http_pgw_text_json(text, before, &value[n]);
            before = ",";
        }
    }

    ngx_http_pgw_text_format(text, before[1] ? "" : "]");
}


/* Writes that proofs (DPoP) are accepted or required, and their algorithms. */

static void
ngx_http_pgw_resource_proofs(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_str_t    alg, algs = ngx_string(PJ_PROOF_ALGS);
    const char  *before = ",\"dpop_signing_alg_values_supported\":[";

    if (conf->proof_origins == NULL) {
        return;
    }

    while (ngx_http_pgw_names_split(&algs, ' ', &alg)) {
        ngx_http_pgw_text_json(text, before, &alg);
        before = ",";
    }

    ngx_http_pgw_text_format(text, "]%s",
                             conf->bound == NGX_HTTP_PGW_BOUND_REQUIRE
                             ? ",\"dpop_bound_access_tokens_required\":true"
                             : "");
}


char *
ngx_http_pgw_resource_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_pgw_text_t  text = { .pool = cf->pool };

    if (conf->handler != ngx_http_pgw_resource_content.handler) {
        return NGX_CONF_OK;
    }

    ngx_http_pgw_text_json(&text, "{\"resource\":",
                           (const pj_str_t *) conf->resource->elts);

    if (!ngx_http_pgw_resource_servers(&text,
                                       ngx_http_pgw_conf_main(cf)->issuers,
                                       conf))
    {
        return ngx_http_pgw_conf_fail(cf, NULL,
                   "has \"platform_gateway_protected_resource\", and no issuer "
                   "that it trusts is a URL: clients could not find whom to "
                   "ask for a token: add an issuer that is, or leave the "
                   "directive out,");
    }

    ngx_http_pgw_resource_scopes(&text, conf);
    ngx_http_pgw_text_format(&text,
                             ",\"bearer_methods_supported\":[\"header\"]");
    ngx_http_pgw_resource_proofs(&text, conf);
    ngx_http_pgw_text_format(&text, "}");

    conf->document = ngx_http_pgw_text_value(&text);

    return text.failed ? NGX_CONF_ERROR : NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_resource_handler(ngx_http_request_t *r)
{
    const ngx_str_t      *document = &ngx_http_pgw_loc(r)->document;
    ngx_http_pgw_text_t   text = {
        .request = r, .start = document->data,
        .last = document->data + document->len
    };

    return (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
           ? ngx_http_pgw_text_send(&text, "application/json")
           : NGX_HTTP_NOT_ALLOWED;
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
