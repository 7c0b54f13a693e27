
/*
 * platform_gateway_authentication: how, and how long ago, the user of a token
 * has to have authenticated (RFC 9470).
 */


#include "token/token.h"
#include "issuer/issuer.h"
#include "base/base.h"


/* Results of authentication_time() that are not a time. */

enum {
    NGX_HTTP_PGW_AUTHENTICATION_NO_ACR = -1,
    NGX_HTTP_PGW_AUTHENTICATION_NO_TIME = -2
};


/* The values become words of a quoted string in WWW-Authenticate. */

static char *
ngx_http_pgw_authentication_acr(ngx_str_t list, ngx_array_t *values)
{
    ngx_str_t  value, *item;

    if (values->nelts) {
        return "has \"acr\" twice";
    }

    while (ngx_http_pgw_names_next(&list, &value)) {

        if (!pj_json_plain((pj_str_t) { value.data, value.len })
            || memchr(value.data, ' ', value.len))
        {
            return "has an acr that is not printable ASCII without spaces, "
                   "quotes and backslashes";
        }

        item = ngx_array_push(values);
        if (item == NULL) {
            return NGX_CONF_ERROR;
        }

        *item = value;
    }

    return values->nelts ? NGX_CONF_OK : "has an empty \"acr\"";
}


static char *
ngx_http_pgw_authentication_max_age(ngx_str_t *text, time_t *max_age)
{
    if (*max_age) {
        return "has \"max_age\" twice";
    }

    *max_age = (time_t) ngx_parse_time(text, 1);

    return *max_age > 0 ? NGX_CONF_OK
                        : "needs a \"max_age\" of at least 1s";
}


/* Writes the parameters of a challenge (RFC 9470, section 3). */

static char *
ngx_http_pgw_authentication_challenge(ngx_conf_t *cf,
    ngx_http_pgw_authentication_t *required)
{
    ngx_str_t            *value = required->acr.values.elts;
    ngx_uint_t            i;
    ngx_http_pgw_text_t   text = { .pool = cf->pool };

    for (i = 0; i < required->acr.values.nelts; i++) {
        ngx_http_pgw_text_format(&text, i ? " %V" : ", acr_values=\"%V",
                                 &value[i]);
    }

    ngx_http_pgw_text_format(&text, i ? "\"" : "");

    if (required->max_age) {
        ngx_http_pgw_text_format(&text, ", max_age=%T", required->max_age);
    }

    required->challenge = ngx_http_pgw_text_value(&text);

    return text.failed ? NGX_CONF_ERROR : NGX_CONF_OK;
}


char *
ngx_http_pgw_authentication_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    char                           *rv = NGX_CONF_OK;
    ngx_str_t                      *value = cf->args->elts, text;
    ngx_uint_t                      i;
    ngx_http_pgw_authentication_t  *required;

    if (lcf->authentication != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        lcf->authentication = NULL;
        return NGX_CONF_OK;
    }

    required = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_authentication_t));

    if (required == NULL
        || ngx_array_init(&required->acr.values, cf->pool, 2, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    lcf->authentication = required;

    for (i = 1; i < cf->args->nelts && rv == NGX_CONF_OK; i++) {
        rv = ngx_http_pgw_names_parameter(&value[i], "acr", &text)
             ? ngx_http_pgw_authentication_acr(text, &required->acr.values)
             : ngx_http_pgw_names_parameter(&value[i], "max_age", &text)
             ? ngx_http_pgw_authentication_max_age(&text, &required->max_age)
             : "accepts \"off\", or \"acr=VALUE,...\" and \"max_age=TIME\"";
    }

    return rv == NGX_CONF_OK
           ? ngx_http_pgw_authentication_challenge(cf, required) : rv;
}


/* A fraction would have to be rounded up as well as down towards refusal. */

int64_t
ngx_http_pgw_authentication_time(const ngx_http_pgw_authentication_t *required,
    const ngx_http_pgw_issuer_t *issuer, const pj_json_t *root)
{
    int64_t           time, above;
    const pj_json_t  *claim;

    if (required
        && required->acr.values.nelts
        && !ngx_http_pgw_claim_accepted(&required->acr,
                                        pj_json_member(root, issuer->acr)))
    {
        return NGX_HTTP_PGW_AUTHENTICATION_NO_ACR;
    }

    if (required == NULL || required->max_age == 0) {
        return 0;
    }

    claim = pj_json_member(root, issuer->auth_time);

    return pj_json_seconds(claim, PJ_ROUND_DOWN, &time) == PJ_OK
           && pj_json_seconds(claim, PJ_ROUND_UP, &above) == PJ_OK
           && time == above && time >= 0
           ? time : NGX_HTTP_PGW_AUTHENTICATION_NO_TIME;
}


const char *
ngx_http_pgw_authentication_fault(const ngx_http_pgw_authentication_t *required,
    int64_t time, int64_t now, time_t leeway)
{
    return time == NGX_HTTP_PGW_AUTHENTICATION_NO_ACR
           ? "the acr of the token is not one that the location requires"
           : time < 0 ? "the token has no auth_time in whole seconds"
           : required->max_age == 0 ? NULL
           : time > now + leeway
           ? "the auth_time of the token lies in the future"
           : now - time > required->max_age
           ? "the auth_time of the token is longer ago than max_age" : NULL;
}


void
ngx_http_pgw_authentication_explain(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_authentication_t *required)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (required == NULL) {
        ngx_http_pgw_text_format(text, ",\"authentication\":null");
        return;
    }

    value = required->acr.values.elts;
    ngx_http_pgw_text_format(text, ",\"authentication\":{\"acr\":[");

    for (i = 0; i < required->acr.values.nelts; i++) {
        ngx_http_pgw_text_item(text, &value[i]);
    }

    ngx_http_pgw_text_number(text, "],\"maxAgeSeconds\":",
                             required->max_age ? required->max_age : -1);
    ngx_http_pgw_text_format(text, "}");
}


void
ngx_http_pgw_authentication_found(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_issuer_t *issuer, const pj_json_t *root)
{
    int64_t           time;
    pj_str_t          s = { NULL, 0 };
    const pj_json_t  *acr = pj_json_member(root, issuer->acr);

    if (acr && acr->type == PJ_JSON_STRING) {
        s.data = acr->text.data;
        s.len = ngx_min(acr->text.len, PJ_KID_MAX_BYTES);
    }

    if (pj_json_seconds(pj_json_member(root, issuer->auth_time), PJ_ROUND_DOWN,
                        &time)
        != PJ_OK)
    {
        time = -1;
    }

    ngx_http_pgw_text_json(text, ",\"acr\":", &s);
    ngx_http_pgw_text_number(text, ",\"authTime\":", time);
}
