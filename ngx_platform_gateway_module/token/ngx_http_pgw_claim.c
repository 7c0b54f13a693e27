
/*
 * Claims of a token, and the rules of a location for them.
 */


#include "token/token.h"
#include "base/base.h"


char *
ngx_http_pgw_claim_place(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_http_pgw_claim_t *claim)
{
    u_char      *p, *end;
    ngx_uint_t   quoted, uri;
    const char  *fault;

    claim->text = *text;
    claim->depth = 0;

    uri = ngx_strchr(text->data, '"') == NULL
          && (ngx_strchr(text->data, ':') || ngx_strchr(text->data, '/'));

    p = ngx_pnalloc(cf->pool, text->len + 1);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(p, text->data, text->len + 1);

    while (p) {
        quoted = (*p == '"');
        p += quoted;
        end = p + strcspn((char *) p, quoted ? "\"" : uri ? "" : ".\"");

        fault = claim->depth == NGX_HTTP_PGW_CLAIM_DEPTH
                ? "is deeper than 8 names"
                : quoted && (*end == '\0' || (end[1] && end[1] != '.'))
                ? "has a quote that does not end a name"
                : end == p || (*end == '"' && !quoted)
                ? "has an empty name, or a quote inside of one" : NULL;

        if (fault) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "claim \"%V\" %s", text,
                               fault);
            return NGX_CONF_ERROR;
        }

        claim->names[claim->depth++] = (const char *) p;

        p = end[quoted] ? end + quoted + 1 : NULL;
        *end = '\0';
    }

    return NGX_CONF_OK;
}


const pj_json_t *
ngx_http_pgw_claim_find(const pj_json_t *root,
    const ngx_http_pgw_claim_t *claim)
{
    ngx_uint_t  i;

    for (i = 0; root && i < claim->depth; i++) {
        root = pj_json_member(root, claim->names[i]);
    }

    return root;
}


const pj_json_t *
ngx_http_pgw_claim_named(const pj_json_t *root, const ngx_array_t *names,
    ngx_uint_t n)
{
    const ngx_str_t  *name = (const ngx_str_t *) names->elts + n;
    const pj_json_t  *m, *found = NULL;

    for (m = root->child; m; m = m->next) {

        if (m->name.len == name->len
            && ngx_strncasecmp((u_char *) m->name.data, name->data, name->len)
               == 0)
        {
            if (found) {
                return NULL;
            }

            found = m;
        }
    }

    return found;
}


char *
ngx_http_pgw_claim_begin(ngx_conf_t *cf, const ngx_str_t *place,
    ngx_http_pgw_rule_t *rule)
{
    ngx_memzero(rule, sizeof(ngx_http_pgw_rule_t));

    rule->scoped = ngx_strcmp(place->data, "scope") == 0
                   || ngx_strcmp(place->data, "scp") == 0;

    return ngx_array_init(&rule->values, cf->pool, 2, sizeof(ngx_str_t))
           == NGX_OK
           ? ngx_http_pgw_claim_place(cf, place, &rule->claim)
           : NGX_CONF_ERROR;
}


char *
ngx_http_pgw_claim_value(ngx_conf_t *cf, ngx_http_pgw_rule_t *rule,
    const ngx_str_t *value)
{
    u_char     *p;
    ngx_str_t  *item;

    if (value->len == 0) {
        return "has an empty value";
    }

    if (rule->scoped
        && (!pj_json_plain(ngx_http_pgw_span(value))
            || ngx_strchr(value->data, ' ')))
    {
        return "has a value that is no scope: it is printable ASCII "
               "without spaces, quotes and backslashes";
    }

    item = ngx_array_push(&rule->values);
    p = ngx_pnalloc(cf->pool, rule->scope.len + 1 + value->len);

    if (item == NULL || p == NULL) {
        return NGX_CONF_ERROR;
    }

    *item = *value;

    /* the text of a challenge */

    if (rule->scoped) {
        rule->scope.len = (size_t) (ngx_sprintf(p, "%V%s%V", &rule->scope,
                                                rule->scope.len ? " " : "",
                                                item)
                                    - p);
        rule->scope.data = p;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_claim_rule(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_pgw_rule_t *rule)
{
    char        *rv;
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i;

    rv = ngx_http_pgw_claim_begin(cf, &value[first], rule);

    for (i = first + 1; rv == NGX_CONF_OK && i < cf->args->nelts; i++) {
        rv = ngx_http_pgw_claim_value(cf, rule, &value[i]);
    }

    return rv;
}


/* Returns 1 if a text is equal to a value of the rule. */

static ngx_uint_t
ngx_http_pgw_claim_has(const ngx_http_pgw_rule_t *rule, pj_str_t text)
{
    ngx_uint_t        i;
    const ngx_str_t  *value = rule->values.elts;

    for (i = 0; i < rule->values.nelts; i++) {
        if (value[i].len == text.len
            && ngx_memcmp(value[i].data, text.data, text.len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Returns 1 if a word of a scope (RFC 6749, section 3.3) is. */

static ngx_uint_t
ngx_http_pgw_claim_words(const ngx_http_pgw_rule_t *rule, pj_str_t text)
{
    const u_char  *p, *end, *last = text.data + text.len;

    for (p = text.data; p < last; p = end + 1) {

        for (end = p; end < last && *end != ' '; end++) { /* void */ }

        if (ngx_http_pgw_claim_has(rule, (pj_str_t) { p, (size_t) (end - p) }))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_claim_next(const pj_json_t *claim, const pj_json_t **item,
    pj_str_t *text)
{
    const pj_json_t  *next;

    static const pj_str_t  texts[] = { PJ_STR("false"), PJ_STR("true") };

    if (claim && claim->type == PJ_JSON_ARRAY) {
        next = *item ? (*item)->next : claim->child;

        while (next && next->type != PJ_JSON_STRING) {
            next = next->next;
        }

    } else {
        next = claim && *item == NULL
               && (claim->type == PJ_JSON_STRING
                   || claim->type == PJ_JSON_NUMBER
                   || claim->type == PJ_JSON_BOOL) ? claim : NULL;
    }

    if (next) {
        *item = next;
        *text = next->type == PJ_JSON_BOOL ? texts[next->boolean] : next->text;
    }

    return next != NULL;
}


ngx_uint_t
ngx_http_pgw_claim_accepted(const ngx_http_pgw_rule_t *rule,
    const pj_json_t *value)
{
    pj_str_t          text;
    const pj_json_t  *item = NULL;

    if (rule->scoped && value && value->type == PJ_JSON_STRING) {
        return ngx_http_pgw_claim_words(rule, value->text);
    }

    while (ngx_http_pgw_claim_next(value, &item, &text)) {
        if (ngx_http_pgw_claim_has(rule, text)) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule, const pj_json_t *root)
{
    return ngx_http_pgw_claim_accepted(rule, ngx_http_pgw_claim_find(root,
                                                                &rule->claim));
}


uint64_t
ngx_http_pgw_claim_missing(const ngx_array_t *rules, const pj_json_t *root)
{
    uint64_t                    lines = 0;
    ngx_uint_t                  i;
    const ngx_http_pgw_rule_t  *rule = rules ? rules->elts : NULL;

    for (i = 0; rules && i < rules->nelts; i++) {
        if (!ngx_http_pgw_claim_holds(&rule[i], root)) {
            lines |= (uint64_t) 1 << i;
        }
    }

    return lines;
}
