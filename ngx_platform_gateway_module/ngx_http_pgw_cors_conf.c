
/*
 * The CORS directives: origins are parsed into patterns that need no regular
 * expression, and the lists of the preflight answer are joined once.
 */


#include "ngx_http_pgw_cors.h"


static const char *ngx_http_pgw_cors_parse(ngx_pool_t *pool, ngx_str_t *value,
    ngx_http_pgw_origin_t *pattern);
static const char *ngx_http_pgw_cors_parse_scheme(u_char *p, u_char *last);
static const char *ngx_http_pgw_cors_parse_host(u_char *p, u_char *last,
    ngx_uint_t wildcard);
static ngx_uint_t ngx_http_pgw_cors_is_address(u_char *p, u_char *last);
static u_char *ngx_http_pgw_cors_find_port(u_char *p, u_char *last);
static const char *ngx_http_pgw_cors_parse_port(u_char *p, u_char *last);
static ngx_uint_t ngx_http_pgw_cors_is_default_port(const ngx_str_t *origin,
    const u_char *colon);
static ngx_int_t ngx_http_pgw_cors_merge_list(ngx_conf_t *cf,
    ngx_array_t **list, ngx_array_t *prev, const ngx_str_t *preset);
static ngx_int_t ngx_http_pgw_cors_push(ngx_array_t *list,
    const ngx_str_t *names);
static ngx_int_t ngx_http_pgw_cors_texts(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);
static ngx_int_t ngx_http_pgw_cors_join(ngx_conf_t *cf,
    const ngx_array_t *list, ngx_str_t *text);


#define ngx_http_pgw_cors_unset(list)                                         \
    ((list) == NULL || (list) == NGX_CONF_UNSET_PTR)


static const ngx_str_t  ngx_http_pgw_cors_methods[] = {
    ngx_string("GET"),
    ngx_string("HEAD"),
    ngx_string("POST"),
    ngx_string("PUT"),
    ngx_string("PATCH"),
    ngx_string("DELETE"),
    ngx_null_string
};


static const ngx_str_t  ngx_http_pgw_cors_names[] = {
    ngx_string("Authorization"),
    ngx_string("Content-Type"),
    ngx_string("X-Request-Id"),
    ngx_string("X-Correlation-Id"),
    ngx_string("traceparent"),
    ngx_string("tracestate"),
    ngx_string("Idempotency-Key"),
    ngx_string("If-None-Match"),
    ngx_null_string
};


char *
ngx_http_pgw_cors_origins(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_str_t                           *value;
    ngx_uint_t                           i, first;
    const char                          *err;
    ngx_http_pgw_origin_t  *pattern;

    value = cf->args->elts;
    first = ngx_http_pgw_cors_unset(lcf->cors_origins);

    if (first) {
        lcf->cors_origins = ngx_array_create(cf->pool, 4,
                                             sizeof(ngx_http_pgw_origin_t));
        if (lcf->cors_origins == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return (first && cf->args->nelts == 2) ? NGX_CONF_OK
                                               : "has origins beside \"off\"";
    }

    if (!first && lcf->cors_origins->nelts == 0) {
        return "has origins beside \"off\"";
    }

    for (i = 1; i < cf->args->nelts; i++) {

        pattern = ngx_array_push(lcf->cors_origins);
        if (pattern == NULL) {
            return NGX_CONF_ERROR;
        }

        err = ngx_http_pgw_cors_parse(cf->pool, &value[i], pattern);
        if (err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid origin \"%V\" in \"%V\": %s",
                               &value[i], &cmd->name, err);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_cors_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t         *value, name[2];
    ngx_uint_t         i;
    ngx_array_t      **list;
    const ngx_str_t   *preset;

    preset = (cmd->offset == offsetof(ngx_http_pgw_loc_conf_t, cors_methods))
             ? ngx_http_pgw_cors_methods : ngx_http_pgw_cors_names;

    ngx_str_null(&name[1]);

    list = (ngx_array_t **) (p + cmd->offset);
    value = cf->args->elts;

    if (!ngx_http_pgw_cors_unset(*list)) {
        return "is duplicate";
    }

    *list = ngx_array_create(cf->pool, cf->args->nelts - 1, sizeof(ngx_str_t));
    if (*list == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (!ngx_http_pgw_cors_is_token(&value[i])) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid name \"%V\" in \"%V\": each must be "
                               "given in full, there are no patterns",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        name[0] = value[i];

        if (ngx_http_pgw_cors_push(*list,
                ngx_strcmp(value[i].data, "default") == 0 ? preset : name)
            != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* scheme "://" [ "*." ] host [ ":" port ]; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_cors_parse(ngx_pool_t *pool, ngx_str_t *value,
    ngx_http_pgw_origin_t *pattern)
{
    u_char      *host, *last, *colon;
    ngx_str_t    origin;
    ngx_uint_t   wildcard;
    const char  *err;

    if (ngx_strcmp(value->data, "*") == 0) {
        return "answers carry credentials, so each origin must be named";
    }

    if (ngx_strcmp(value->data, "null") == 0) {
        return "any sandboxed page has it";
    }

    origin.len = value->len;
    origin.data = ngx_pnalloc(pool, value->len + 1);
    if (origin.data == NULL) {
        return "no memory";
    }

    ngx_strlow(origin.data, value->data, value->len);
    origin.data[origin.len] = '\0';

    last = origin.data + origin.len;
    host = (u_char *) ngx_strstr(origin.data, "://");

    if (host == NULL || host == origin.data) {
        return "it must be scheme://host or scheme://host:port";
    }

    err = ngx_http_pgw_cors_parse_scheme(origin.data, host);
    if (err) {
        return err;
    }

    host += sizeof("://") - 1;

    wildcard = (last - host > 2 && host[0] == '*' && host[1] == '.');
    if (wildcard) {
        host++;
    }

    colon = ngx_http_pgw_cors_find_port(host, last);
    if (colon) {

        err = ngx_http_pgw_cors_parse_port(colon + 1, last);
        if (err) {
            return err;
        }

        if (ngx_http_pgw_cors_is_default_port(&origin, colon)) {
            origin.len = (size_t) (colon - origin.data);
        }

        last = colon;
    }

    err = ngx_http_pgw_cors_parse_host(host, last, wildcard);
    if (err) {
        return err;
    }

    pattern->prefix = origin;
    ngx_str_null(&pattern->suffix);

    if (wildcard) {
        pattern->suffix.data = host;
        pattern->suffix.len = origin.len - (size_t) (host - origin.data);
        pattern->prefix.len = (size_t) (host - 1 - origin.data);
    }

    return NULL;
}


static const char *
ngx_http_pgw_cors_parse_scheme(u_char *p, u_char *last)
{
    u_char  c;

    if (*p < 'a' || *p > 'z') {
        return "the scheme must begin with a letter";
    }

    while (p < last) {
        c = *p++;

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')
            && c != '+' && c != '-' && c != '.')
        {
            return "the scheme has a character that none can have";
        }
    }

    return NULL;
}


/* With a wildcard, p stands at the dot after it. */

static const char *
ngx_http_pgw_cors_parse_host(u_char *p, u_char *last, ngx_uint_t wildcard)
{
    u_char      c, prev;
    ngx_uint_t  dots;

    if (!wildcard && ngx_http_pgw_cors_is_address(p, last)) {
        return NULL;
    }

    dots = 0;
    prev = wildcard ? '*' : '.';

    while (p < last) {
        c = *p++;

        if (c == '*') {
            return "\"*\" can only stand for the leftmost labels, as in "
                   "https://*.example.com";
        }

        if (c == '/') {
            return "an origin has no path, not even a slash";
        }

        if (c == '.') {
            if (prev == '.') {
                return "the host has an empty label";
            }

            dots++;

        } else if ((c < 'a' || c > 'z') && (c < '0' || c > '9')
                   && c != '-' && c != '_')
        {
            return "the host has a character that none can have";
        }

        prev = c;
    }

    if (prev == '.') {
        return "the host is empty or ends with a dot";
    }

    /* ".example.com" has two dots, ".com" has one */

    if (wildcard && dots < 2) {
        return "\"*\" cannot stand right below a top-level domain";
    }

    return NULL;
}


/* An IPv6 address in brackets, by its characters. */

static ngx_uint_t
ngx_http_pgw_cors_is_address(u_char *p, u_char *last)
{
    u_char  c;

    if (last - p < 4 || *p != '[' || last[-1] != ']') {
        return 0;
    }

    for (p++; p < last - 1; p++) {
        c = *p;

        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')
            && c != ':' && c != '.')
        {
            return 0;
        }
    }

    return 1;
}


/* The colon before the port, or NULL. */

static u_char *
ngx_http_pgw_cors_find_port(u_char *p, u_char *last)
{
    while (last > p && last[-1] >= '0' && last[-1] <= '9') {
        last--;
    }

    return (last > p && last[-1] == ':') ? last - 1 : NULL;
}


static const char *
ngx_http_pgw_cors_parse_port(u_char *p, u_char *last)
{
    ngx_int_t  port;

    port = ngx_atoi(p, (size_t) (last - p));

    if (port < 1 || port > 65535 || *p == '0') {
        return "the port must be 1 to 65535";
    }

    return NULL;
}


/* Browsers leave the port out where it is the scheme's own. */

static ngx_uint_t
ngx_http_pgw_cors_is_default_port(const ngx_str_t *origin, const u_char *colon)
{
    return (ngx_strncmp(origin->data, "https://", 8) == 0
            && ngx_strcmp(colon, ":443") == 0)
           || (ngx_strncmp(origin->data, "http://", 7) == 0
               && ngx_strcmp(colon, ":80") == 0);
}


char *
ngx_http_pgw_cors_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf)
{
    if (ngx_http_pgw_cors_unset(conf->cors_origins)) {
        conf->cors_origins = (prev->cors_origins == NGX_CONF_UNSET_PTR)
                             ? NULL : prev->cors_origins;
    }

    if (ngx_http_pgw_cors_merge_list(cf, &conf->cors_methods,
            prev->cors_methods, ngx_http_pgw_cors_methods)
        != NGX_OK
        || ngx_http_pgw_cors_merge_list(cf, &conf->cors_headers,
               prev->cors_headers, ngx_http_pgw_cors_names)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_conf_merge_sec_value(conf->cors_max_age, prev->cors_max_age, 600);

    if (conf->cors_methods == prev->cors_methods
        && conf->cors_headers == prev->cors_headers
        && conf->cors_max_age == prev->cors_max_age
        && prev->cors_max_age_text.len)
    {
        conf->cors_methods_text = prev->cors_methods_text;
        conf->cors_headers_text = prev->cors_headers_text;
        conf->cors_max_age_text = prev->cors_max_age_text;

        return NGX_CONF_OK;
    }

    return ngx_http_pgw_cors_texts(cf, conf) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_pgw_cors_merge_list(ngx_conf_t *cf, ngx_array_t **list,
    ngx_array_t *prev, const ngx_str_t *preset)
{
    if (!ngx_http_pgw_cors_unset(*list)) {
        return NGX_OK;
    }

    if (!ngx_http_pgw_cors_unset(prev)) {
        *list = prev;
        return NGX_OK;
    }

    *list = ngx_array_create(cf->pool, 8, sizeof(ngx_str_t));
    if (*list == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_pgw_cors_push(*list, preset);
}


/* names end with an empty one */

static ngx_int_t
ngx_http_pgw_cors_push(ngx_array_t *list, const ngx_str_t *names)
{
    ngx_str_t  *name;

    for ( /* void */ ; names->len; names++) {

        name = ngx_array_push(list);
        if (name == NULL) {
            return NGX_ERROR;
        }

        *name = *names;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_cors_texts(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    u_char  *p;

    if (ngx_http_pgw_cors_join(cf, conf->cors_methods,
                               &conf->cors_methods_text)
        != NGX_OK
        || ngx_http_pgw_cors_join(cf, conf->cors_headers,
                                               &conf->cors_headers_text)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(cf->pool, NGX_TIME_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    conf->cors_max_age_text.data = p;
    conf->cors_max_age_text.len =
        (size_t) (ngx_sprintf(p, "%T", conf->cors_max_age) - p);

    return NGX_OK;
}


/* "GET, HEAD" */

static ngx_int_t
ngx_http_pgw_cors_join(ngx_conf_t *cf, const ngx_array_t *list,
    ngx_str_t *text)
{
    size_t      len;
    u_char     *p;
    ngx_str_t  *name;
    ngx_uint_t  i;

    name = list->elts;
    len = 0;

    for (i = 0; i < list->nelts; i++) {
        len += name[i].len + sizeof(", ") - 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    for (i = 0; i < list->nelts; i++) {
        p = ngx_sprintf(p, i ? ", %V" : "%V", &name[i]);
    }

    text->len = (size_t) (p - text->data);

    return NGX_OK;
}


ngx_uint_t
ngx_http_pgw_cors_is_token(const ngx_str_t *name)
{
    u_char      c;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        c = name->data[i];

        if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
            && (c < '0' || c > '9') && c != '-' && c != '_')
        {
            return 0;
        }
    }

    return name->len != 0;
}
