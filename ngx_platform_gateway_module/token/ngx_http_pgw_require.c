
/*
 * platform_gateway_require: the claims that a location requires.
 *
 * Lines of constants are decided once a token.  A line with variables is
 * decided for each request, on the text of its claim in the grant.
 */


#include "token/token.h"
#include "base/base.h"


/* The most lines of a location, since a bit mask has 64 bits. */
#define NGX_HTTP_PGW_REQUIRE_LINES  64

/* A longer value of a variable is in no token. */
#define NGX_HTTP_PGW_REQUIRE_MAX    256


static char *
ngx_http_pgw_require_variable(ngx_conf_t *cf, ngx_http_pgw_rule_t *rule,
    ngx_str_t *value)
{
    ngx_http_compile_complex_value_t  ccv = { .cf = cf, .value = value };

    ccv.complex_value = ngx_http_pgw_names_push(cf, &rule->variables,
                                            sizeof(ngx_http_complex_value_t));

    return ccv.complex_value && ngx_http_compile_complex_value(&ccv) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_pgw_require_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    char                 *rv;
    ngx_str_t            *value = cf->args->elts;
    ngx_uint_t            i;
    ngx_http_pgw_rule_t  *rule;

    if (cf->args->nelts < 3) {
        return "needs a claim and the values that it may have";
    }

    rule = ngx_http_pgw_names_push(cf, &lcf->required, sizeof(*rule));

    if (rule == NULL) {
        return NGX_CONF_ERROR;
    }

    if (lcf->required->nelts > NGX_HTTP_PGW_REQUIRE_LINES) {
        return "stands more than 64 times";
    }

    rv = ngx_http_pgw_claim_begin(cf, &value[1], rule);

    for (i = 2; rv == NGX_CONF_OK && i < cf->args->nelts; i++) {
        rv = ngx_http_script_variables_count(&value[i])
             ? ngx_http_pgw_require_variable(cf, rule, &value[i])
             : ngx_http_pgw_claim_value(cf, rule, &value[i]);
    }

    return rv;
}


ngx_uint_t
ngx_http_pgw_require_texts(const ngx_array_t *rules)
{
    ngx_uint_t                  i, n = 0;
    const ngx_http_pgw_rule_t  *rule = rules ? rules->elts : NULL;

    for (i = 0; rules && i < rules->nelts; i++) {
        n += (rule[i].variables != NULL);
    }

    return n;
}


/* A zero byte can end the words, because JSON with one is refused. */

ngx_int_t
ngx_http_pgw_require_text(ngx_pool_t *pool, const ngx_array_t *rules,
    ngx_uint_t n, const pj_json_t *root, ngx_str_t *text)
{
    u_char                     *p;
    size_t                      len;
    pj_str_t                    word;
    const pj_json_t            *claim, *item;
    const ngx_http_pgw_rule_t  *rule = rules->elts;

    for ( /* void */ ; n || rule->variables == NULL; rule++) {
        n -= (rule->variables != NULL);
    }

    claim = ngx_http_pgw_claim_find(root, &rule->claim);
    len = 0;

    for (item = NULL; ngx_http_pgw_claim_next(claim, &item, &word); ) {
        len += word.len + 1;
    }

    if (len == 0) {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;
    text->len = len;

    for (item = NULL; ngx_http_pgw_claim_next(claim, &item, &word); ) {
        p = ngx_cpymem(p, word.data, word.len);
        *p++ = '\0';
    }

    /* the words of a scope, as claim_accepted() reads them */

    for (p = text->data; rule->scoped && claim->type == PJ_JSON_STRING
                         && p < text->data + len; p++)
    {
        *p = *p == ' ' ? '\0' : *p;
    }

    return NGX_OK;
}


/* Returns 1 if the text has the word. */

static ngx_uint_t
ngx_http_pgw_require_has(const ngx_str_t *text, const ngx_str_t *word)
{
    u_char  *p, *end, *last = text->data + text->len;

    for (p = text->data; p < last; p = end + 1) {

        end = memchr(p, '\0', (size_t) (last - p));

        if ((size_t) (end - p) == word->len
            && ngx_memcmp(p, word->data, word->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Returns 1 if a token might have the value.  A scope goes into a challenge,
   and a client may have written it. */

static ngx_uint_t
ngx_http_pgw_require_possible(const ngx_http_pgw_rule_t *rule,
    const ngx_str_t *value)
{
    return value->len && value->len <= NGX_HTTP_PGW_REQUIRE_MAX
           && (!rule->scoped
               || (pj_json_plain(ngx_http_pgw_span(value))
                   && memchr(value->data, ' ', value->len) == NULL));
}


/* Returns 1 if a line whose constants the token lacks holds for r.  An empty
   value is none, and a line without any value holds. */

static ngx_uint_t
ngx_http_pgw_require_holds(ngx_http_request_t *r,
    const ngx_http_pgw_rule_t *rule, const ngx_str_t *text)
{
    ngx_str_t                  value;
    ngx_uint_t                 i, asked = rule->values.nelts;
    ngx_http_complex_value_t  *cv = rule->variables->elts;

    for (i = 0; i < rule->variables->nelts; i++) {

        if (ngx_http_complex_value(r, &cv[i], &value) != NGX_OK) {
            return 0;
        }

        if (ngx_http_pgw_require_possible(rule, &value)
            && ngx_http_pgw_require_has(text, &value))
        {
            return 1;
        }

        asked += (value.len != 0);
    }

    return asked == 0;
}


uint64_t
ngx_http_pgw_require_lacking(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
    uint64_t                    lines = grant->missing;
    ngx_str_t                  *text;
    ngx_uint_t                  i;
    const ngx_http_pgw_rule_t  *rule = conf->required->elts;

    text = grant->strings + NGX_HTTP_PGW_GRANT_IDS + conf->claims_read->nelts;

    for (i = 0; i < conf->required->nelts; i++) {

        if (rule[i].variables == NULL) {
            continue;
        }

        if ((lines >> i & 1) && ngx_http_pgw_require_holds(r, &rule[i], text)) {
            lines &= ~((uint64_t) 1 << i);
        }

        text++;
    }

    return lines;
}


/* Appends a scope, unless it is there. */

static void
ngx_http_pgw_require_add(ngx_http_pgw_text_t *text, const ngx_str_t *scope)
{
    ngx_str_t  words = ngx_http_pgw_text_value(text), item;

    while (ngx_http_pgw_names_split(&words, ' ', &item)) {
        if (item.len == scope->len
            && ngx_memcmp(item.data, scope->data, item.len) == 0)
        {
            return;
        }
    }

    ngx_http_pgw_text_format(text, text->last == text->start ? "%V" : " %V",
                             scope);
}


/* Writes the scopes of the rules in the mask, each once, in the order of the
   rules. */

static ngx_int_t
ngx_http_pgw_require_scopes(ngx_http_request_t *r, const ngx_array_t *rules,
    uint64_t lines, ngx_str_t *scope)
{
    ngx_str_t                   value, words;
    ngx_uint_t                  i, n;
    ngx_http_pgw_text_t         text = { .request = r };
    ngx_http_complex_value_t   *cv;
    const ngx_http_pgw_rule_t  *rule = rules->elts;

    for (i = 0; i < rules->nelts; i++) {

        if (!(lines >> i & 1) || !rule[i].scoped) {
            continue;
        }

        words = rule[i].scope;

        while (ngx_http_pgw_names_split(&words, ' ', &value)) {
            ngx_http_pgw_require_add(&text, &value);
        }

        cv = rule[i].variables ? rule[i].variables->elts : NULL;

        for (n = 0; cv && n < rule[i].variables->nelts; n++) {

            if (ngx_http_complex_value(r, &cv[n], &value) != NGX_OK) {
                return NGX_ERROR;
            }

            if (ngx_http_pgw_require_possible(&rule[i], &value)) {
                ngx_http_pgw_require_add(&text, &value);
            }
        }
    }

    *scope = ngx_http_pgw_text_value(&text);

    return text.failed ? NGX_ERROR : NGX_OK;
}


ngx_int_t
ngx_http_pgw_require_challenge(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_reason_e reason,
    const ngx_http_pgw_grant_t *grant, ngx_str_t *scope)
{
    uint64_t  lines;

    ngx_str_null(scope);

    if (reason == NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN) {
        *scope = conf->scopes;
    }

    lines = conf->required == NULL ? 0
            : reason == NGX_HTTP_PGW_REASON_CLAIM_REQUIRED
            ? ngx_http_pgw_require_lacking(r, conf, grant)
            : ngx_http_pgw_reasons[reason].status == NGX_HTTP_UNAUTHORIZED
            ? (uint64_t) -1 : 0;

    return lines ? ngx_http_pgw_require_scopes(r, conf->required, lines, scope)
                 : NGX_OK;
}


void
ngx_http_pgw_require_explain(ngx_http_pgw_text_t *text,
    const ngx_array_t *rules)
{
    ngx_str_t                  *value;
    ngx_uint_t                  i, n;
    ngx_http_complex_value_t   *cv;
    const ngx_http_pgw_rule_t  *rule = rules ? rules->elts : NULL;

    ngx_http_pgw_text_format(text, ",\"require\":[");

    for (i = 0; rules && i < rules->nelts; i++) {

        ngx_http_pgw_text_json(text, i ? ",{\"claim\":" : "{\"claim\":",
                               &rule[i].claim.text);
        ngx_http_pgw_text_format(text, ",\"values\":[");
        value = rule[i].values.elts;

        for (n = 0; n < rule[i].values.nelts; n++) {
            ngx_http_pgw_text_item(text, &value[n]);
        }

        cv = rule[i].variables ? rule[i].variables->elts : NULL;

        for (n = 0; cv && n < rule[i].variables->nelts; n++) {
            ngx_http_pgw_text_item(text, &cv[n].value);
        }

        ngx_http_pgw_text_format(text, "]}");
    }

    ngx_http_pgw_text_format(text, "]");
}
