
/*
 * platform_gateway_assertion: a token of the gateway's own, which proves to the
 * service of a location that a request came through the gateway.
 *
 * It is the last of the trusted headers, so it is kept in the cache with them,
 * and is added and removed with them.
 */


#include "token/token.h"
#include "base/base.h"


#define NGX_HTTP_PGW_ASSERTION_TTL      120  /* s */
#define NGX_HTTP_PGW_ASSERTION_TTL_MIN  60
#define NGX_HTTP_PGW_ASSERTION_TTL_MAX  300

/* Bytes of a token besides its payload: header and signature. */
#define NGX_HTTP_PGW_ASSERTION_REST     (4 * (64 + 6 * PJ_KID_MAX_BYTES))


const ngx_str_t  ngx_http_pgw_assertion_name =
    ngx_string("X-Platform-Assertion");


static char *
ngx_http_pgw_assertion_read(ngx_conf_t *cf, ngx_http_pgw_assertion_t *assertion)
{
    ngx_str_t   *value = cf->args->elts, text;
    ngx_uint_t   i;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_pgw_names_parameter(&value[i], "audience", &text)
            && assertion->audience.len == 0)
        {
            assertion->audience = text;

            if (text.len && pj_json_plain(ngx_http_pgw_span(&text))) {
                continue;
            }

            return "needs an \"audience\" of printable ASCII without quotes "
                   "and backslashes";
        }

        if (ngx_http_pgw_names_parameter(&value[i], "ttl", &text)
            && assertion->ttl == 0)
        {
            assertion->ttl = (time_t) ngx_parse_time(&text, 1);

            if (assertion->ttl >= NGX_HTTP_PGW_ASSERTION_TTL_MIN
                && assertion->ttl <= NGX_HTTP_PGW_ASSERTION_TTL_MAX)
            {
                continue;
            }

            return "needs a \"ttl\" of 60s to 300s";
        }

        return "accepts \"audience=NAME\" with \"ttl=TIME\", or \"off\"";
    }

    return assertion->audience.len ? NGX_CONF_OK : "needs \"audience=NAME\"";
}


char *
ngx_http_pgw_assertion_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    char                      *rv;
    ngx_str_t                 *value = cf->args->elts;
    ngx_http_pgw_assertion_t  *assertion;

    if (lcf->assertion != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        lcf->assertion = NULL;
        return NGX_CONF_OK;
    }

    assertion = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_assertion_t));
    if (assertion == NULL) {
        return NGX_CONF_ERROR;
    }

    rv = ngx_http_pgw_assertion_read(cf, assertion);

    if (assertion->ttl == 0) {
        assertion->ttl = NGX_HTTP_PGW_ASSERTION_TTL;
    }

    assertion->signer = ngx_http_pgw_conf_main(cf)->signer;
    lcf->assertion = assertion;

    return rv;
}


/* Returns 1 if the claim of the n-th header is a member of the assertion: its
   name is not one of ours, and no header before has it. */

static ngx_uint_t
ngx_http_pgw_assertion_member(const ngx_http_pgw_claim_header_t *ch,
    ngx_uint_t n)
{
    pj_str_t   text = ngx_http_pgw_span(&ch[n].claim.text);
    ngx_str_t  names, name;

    ngx_str_set(&names, "iss, sub, aud, exp, nbf, iat, jti, cnf");

    while (ngx_http_pgw_names_next(&names, &name)) {
        if (pj_str_eq(ngx_http_pgw_span(&name), text)) {
            return 0;
        }
    }

    while (n && !pj_str_eq(ngx_http_pgw_span(&ch[n - 1].claim.text), text)) {
        n--;
    }

    return n == 0;
}


ngx_int_t
ngx_http_pgw_assertion_headers(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                    i;
    const ngx_array_t            *map = conf->claim_map;
    ngx_http_pgw_claim_header_t  *ch;

    static u_char  lowcase[] = "x-platform-assertion";

    conf->claim_headers = conf->claim_map;

    if (conf->assertion == NULL || conf->assertion == NGX_CONF_UNSET_PTR) {
        return NGX_OK;
    }

    conf->claim_headers = ngx_array_create(cf->pool, map->nelts + 1, map->size);
    if (conf->claim_headers == NULL) {
        return NGX_ERROR;
    }

    ch = ngx_array_push_n(conf->claim_headers, map->nelts + 1);
    ngx_memcpy(ch, map->elts, map->nelts * map->size);

    for (i = 0; i < map->nelts; i++) {
        ch[i].asserted = ngx_http_pgw_assertion_member(ch, i);
    }

    ngx_memzero(&ch[i], map->size);

    ch[i].name = ngx_http_pgw_assertion_name;
    ch[i].lowcase.len = sizeof(lowcase) - 1;
    ch[i].lowcase.data = lowcase;
    ch[i].hash = ngx_hash_key(lowcase, sizeof(lowcase) - 1);

    return NGX_OK;
}


/* Writes a claim of which a header was made. */

static void
ngx_http_pgw_assertion_claim(ngx_http_pgw_text_t *text, const ngx_str_t *name,
    const pj_json_t *claim)
{
    const pj_json_t  *item;

    ngx_http_pgw_text_json(text, ",", name);

    switch (claim->type) {

    case PJ_JSON_STRING:
        ngx_http_pgw_text_json(text, ":", &claim->text);
        return;

    case PJ_JSON_ARRAY:
        ngx_http_pgw_text_format(text, ":[");

        for (item = claim->child; item; item = item->next) {
            ngx_http_pgw_text_item(text, &item->text);
        }

        ngx_http_pgw_text_format(text, "]");
        return;

    case PJ_JSON_BOOL:
        ngx_http_pgw_text_format(text, claim->boolean ? ":true" : ":false");
        return;

    default:
        ngx_http_pgw_text_format(text, ":%*s", claim->text.len,
                                 claim->text.data);
    }
}


/* Writes the payload.  The assertion does not outlive the token. */

static void
ngx_http_pgw_assertion_payload(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    const ngx_http_pgw_grant_t *grant)
{
    ngx_uint_t                          i;
    const ngx_str_t                    *value;
    const ngx_http_pgw_assertion_t     *assertion = conf->assertion;
    const ngx_http_pgw_claim_header_t  *ch = conf->claim_headers->elts;

    ngx_http_pgw_text_json(text, "{\"iss\":", &assertion->signer->issuer);
    ngx_http_pgw_text_json(text, ",\"aud\":", &assertion->audience);
    ngx_http_pgw_text_json(text, ",\"sub\":", &grant->subject->account_id);
    ngx_http_pgw_text_number(text, ",\"iat\":", grant->asserted);
    ngx_http_pgw_text_number(text, ",\"exp\":",
                             ngx_min(grant->asserted + assertion->ttl,
                                     claims->exp));

    value = ngx_http_pgw_grant_headers(grant, conf);

    for (i = 0; i < conf->claim_headers->nelts; i++) {
        if (ch[i].asserted && value[i].data) {
            ngx_http_pgw_assertion_claim(text, &ch[i].claim.text,
                           ngx_http_pgw_claim_find(claims->root,
                                                   &ch[i].claim));
        }
    }

    ngx_http_pgw_text_format(text, "}");
}


ngx_int_t
ngx_http_pgw_assertion_sign(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant, ngx_str_t *value)
{
    size_t               size;
    pj_err_t             err;
    pj_str_t             payload;
    ngx_http_pgw_text_t  text = { .pool = pool };

    grant->asserted = ngx_time();

    ngx_http_pgw_assertion_payload(&text, conf, claims, grant);
    payload = ngx_http_pgw_span(&ngx_http_pgw_text_value(&text));

    size = pj_b64url_encoded_len(payload.len) + NGX_HTTP_PGW_ASSERTION_REST;
    value->data = text.failed ? NULL : ngx_pnalloc(pool, size + 1);
    if (value->data == NULL) {
        return NGX_ERROR;
    }

    err = pj_jws_sign(conf->assertion->signer->key, PJ_TYP_ASSERTION, payload,
                      (char *) value->data, size, &value->len);
    if (err) {
        ngx_log_error(NGX_LOG_ERR, pool->log, 0,
                      "the assertion for \"%V\" was not signed: %s",
                      &conf->assertion->audience, pj_strerror(err));
        return NGX_ERROR;
    }

    value->data[value->len] = '\0';

    ngx_http_pgw_counters_inc(assertions);

    return NGX_OK;
}
