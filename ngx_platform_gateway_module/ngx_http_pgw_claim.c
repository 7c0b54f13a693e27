
/*
 * Claims by their place in a token, and what a location requires of them.
 */


#include "ngx_http_pgw_claim.h"


/* The next name of a place, with a NUL; *p is where it begins, and then where
   the one after it does, NULL: there is none. */

static char *
ngx_http_pgw_claim_name(ngx_conf_t *cf, u_char **p, const char **name)
{
    u_char  *begin = *p, *end, *next;

    if (*begin == '"') {
        end = (u_char *) ngx_strchr(++begin, '"');
        next = end ? end + 1 : NULL;

        if (end == NULL || (*next != '\0' && *next != '.')) {
            return "has a quote that does not end a name";
        }

    } else {
        end = begin + strcspn((char *) begin, ".\"");
        next = end;
    }

    if (begin == end || *next == '"') {
        return "has an empty name, or a quote inside of one";
    }

    *p = *next ? next + 1 : NULL;

    next = ngx_pnalloc(cf->pool, (size_t) (end - begin) + 1);
    if (next == NULL) {
        return NGX_CONF_ERROR;
    }

    *ngx_cpymem(next, begin, (size_t) (end - begin)) = '\0';
    *name = (const char *) next;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_claim_place(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_http_pgw_claim_t *claim)
{
    char    *rv = NGX_CONF_OK;
    u_char  *p = text->data;

    claim->text = *text;
    claim->depth = 0;

    if (ngx_strchr(p, '"') == NULL
        && (ngx_strchr(p, ':') || ngx_strchr(p, '/')))
    {
        claim->names[claim->depth++] = (const char *) p;
        return NGX_CONF_OK;
    }

    while (p && rv == NGX_CONF_OK) {
        rv = claim->depth == NGX_HTTP_PGW_CLAIM_DEPTH
             ? "is deeper than 8 names"
             : ngx_http_pgw_claim_name(cf, &p, &claim->names[claim->depth++]);
    }

    if (rv != NGX_CONF_OK && rv != NGX_CONF_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "claim \"%V\" %s", text, rv);
    }

    return rv == NGX_CONF_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
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


/* The values of a rule about the scope, as a challenge says them. */

static char *
ngx_http_pgw_claim_scope(ngx_conf_t *cf, ngx_http_pgw_rule_t *rule)
{
    u_char      *p;
    size_t       len = 0;
    ngx_str_t   *value = rule->values.elts;
    ngx_uint_t   i;

    for (i = 0; i < rule->values.nelts; i++) {

        if (!pj_json_plain((pj_str_t) { value[i].data, value[i].len })
            || ngx_strchr(value[i].data, ' '))
        {
            return "has a value that is no scope: it is printable ASCII "
                   "without spaces, quotes and backslashes";
        }

        len += value[i].len + 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    rule->scope.data = p;
    rule->scope.len = len - 1;

    for (i = 0; i < rule->values.nelts; i++) {
        p = ngx_cpymem(p, value[i].data, value[i].len);
        *p++ = ' ';
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_claim_rule(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_pgw_rule_t *rule)
{
    ngx_str_t   *value = cf->args->elts, *one;
    ngx_uint_t   i;

    if (ngx_http_pgw_claim_place(cf, &value[first], &rule->claim)
        != NGX_CONF_OK
        || ngx_array_init(&rule->values, cf->pool, 2, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = first + 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "has an empty value";
        }

        one = ngx_array_push(&rule->values);
        if (one == NULL) {
            return NGX_CONF_ERROR;
        }

        *one = value[i];
    }

    ngx_str_null(&rule->scope);

    return ngx_strcmp(value[first].data, "scope") == 0
           || ngx_strcmp(value[first].data, "scp") == 0
           ? ngx_http_pgw_claim_scope(cf, rule) : NGX_CONF_OK;
}


char *
ngx_http_pgw_claim_require(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_http_pgw_rule_t  *rule;

    if (cf->args->nelts < 3) {
        return "needs a claim and the values that it may have";
    }

    if (lcf->required == NGX_CONF_UNSET_PTR) {
        lcf->required = ngx_array_create(cf->pool, 2,
                                         sizeof(ngx_http_pgw_rule_t));
    }

    rule = lcf->required ? ngx_array_push(lcf->required) : NULL;

    return rule ? ngx_http_pgw_claim_rule(cf, 1, rule) : NGX_CONF_ERROR;
}


/* Whether a text is one of the values. */

static ngx_uint_t
ngx_http_pgw_claim_has(const ngx_http_pgw_rule_t *rule, const u_char *text,
    size_t len)
{
    ngx_uint_t        i;
    const ngx_str_t  *value = rule->values.elts;

    for (i = 0; i < rule->values.nelts; i++) {
        if (value[i].len == len && ngx_memcmp(value[i].data, text, len) == 0) {
            return 1;
        }
    }

    return 0;
}


/* Whether one of the words of a scope (RFC 6749 section 3.3) is. */

static ngx_uint_t
ngx_http_pgw_claim_words(const ngx_http_pgw_rule_t *rule, pj_str_t text)
{
    const u_char  *p = text.data, *last = p + text.len, *end;

    while (p < last) {

        for (end = p; end < last && *end != ' '; end++) { /* void */ }

        if (ngx_http_pgw_claim_has(rule, p, (size_t) (end - p))) {
            return 1;
        }

        p = end + 1;
    }

    return 0;
}


ngx_uint_t
ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule, const pj_json_t *root)
{
    const pj_json_t  *item, *value;

    value = ngx_http_pgw_claim_find(root, &rule->claim);

    if (value == NULL) {
        return 0;
    }

    switch (value->type) {

    case PJ_JSON_STRING:
        if (rule->scope.len) {
            return ngx_http_pgw_claim_words(rule, value->text);
        }

        /* fall through */

    case PJ_JSON_NUMBER:
        return ngx_http_pgw_claim_has(rule, value->text.data, value->text.len);

    case PJ_JSON_BOOL:
        return value->boolean
               ? ngx_http_pgw_claim_has(rule, (u_char *) "true", 4)
               : ngx_http_pgw_claim_has(rule, (u_char *) "false", 5);

    case PJ_JSON_ARRAY:
        for (item = value->child; item; item = item->next) {
            if (item->type == PJ_JSON_STRING
                && ngx_http_pgw_claim_has(rule, item->text.data,
                                          item->text.len))
            {
                return 1;
            }
        }

        return 0;

    default:
        return 0;
    }
}


const ngx_http_pgw_rule_t *
ngx_http_pgw_claim_missing(const ngx_array_t *rules, const pj_json_t *root)
{
    ngx_uint_t                  i;
    const ngx_http_pgw_rule_t  *rule = rules ? rules->elts : NULL;

    for (i = 0; rules && i < rules->nelts; i++) {
        if (!ngx_http_pgw_claim_holds(&rule[i], root)) {
            return &rule[i];
        }
    }

    return NULL;
}
