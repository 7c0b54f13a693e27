
/*
 * The CORS directives: origins are parsed into patterns that need no regular
 * expression, the lists of a preflight's answer are joined as it gives them.
 */


#include "ngx_http_pgw_cors.h"


static const char *ngx_http_pgw_cors_parse(ngx_pool_t *pool, ngx_str_t *value,
    ngx_http_pgw_origin_t *pattern);
static const char *ngx_http_pgw_cors_parse_host(u_char *p, u_char *last,
    ngx_uint_t wildcard);


#define NGX_HTTP_PGW_CORS_METHODS  "GET, HEAD, POST, PUT, PATCH, DELETE"

#define NGX_HTTP_PGW_CORS_NAMES                                               \
    "Authorization, Content-Type, X-Request-Id, X-Correlation-Id, "           \
    "traceparent, tracestate, Idempotency-Key, If-None-Match"

/* What stands in an origin, in the small letters of a browser's. */

#define NGX_HTTP_PGW_CORS_ALNUM   "abcdefghijklmnopqrstuvwxyz0123456789"
#define NGX_HTTP_PGW_CORS_SCHEME  NGX_HTTP_PGW_CORS_ALNUM "+-."
#define NGX_HTTP_PGW_CORS_HOST    NGX_HTTP_PGW_CORS_ALNUM "-_."
#define NGX_HTTP_PGW_CORS_IPV6    "0123456789abcdef:."

#define ngx_http_pgw_cors_span(p, set)                                        \
    ((p) + strspn((const char *) (p), set))


ngx_str_t  ngx_http_pgw_cors_methods = ngx_string(NGX_HTTP_PGW_CORS_METHODS);

ngx_str_t  ngx_http_pgw_cors_names = ngx_string(NGX_HTTP_PGW_CORS_NAMES);


void
ngx_http_pgw_cors_merge(ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf)
{
    ngx_conf_merge_ptr_value(conf->cors_origins, prev->cors_origins, NULL);
    ngx_conf_merge_str_value(conf->cors_methods, prev->cors_methods,
                             NGX_HTTP_PGW_CORS_METHODS);
    ngx_conf_merge_str_value(conf->cors_headers, prev->cors_headers,
                             NGX_HTTP_PGW_CORS_NAMES);
    ngx_conf_merge_sec_value(conf->cors_max_age, prev->cors_max_age, 600);
}


char *
ngx_http_pgw_cors_origins(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_str_t              *value;
    ngx_uint_t              i, first;
    const char             *err;
    ngx_http_pgw_origin_t  *pattern;

    value = cf->args->elts;
    first = (lcf->cors_origins == NGX_CONF_UNSET_PTR);

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


/* "GET PURGE" becomes "GET, PURGE" */

char *
ngx_http_pgw_cors_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    size_t      len;
    u_char     *p;
    ngx_str_t  *value, *text, *preset;
    ngx_uint_t  i;

    text = (ngx_str_t *) (void *) ((char *) conf + cmd->offset);
    value = cf->args->elts;
    preset = cmd->post;

    if (text->data) {
        return "is duplicate";
    }

    len = 0;

    for (i = 1; i < cf->args->nelts; i++) {

        if (!ngx_http_pgw_cors_is_token(&value[i])) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid name \"%V\" in \"%V\": each must be "
                               "given in full, there are no patterns",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (ngx_strcmp(value[i].data, "default") == 0) {
            value[i] = *preset;
        }

        len += value[i].len + sizeof(", ") - 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    text->data = p;

    for (i = 1; i < cf->args->nelts; i++) {
        p = ngx_sprintf(p, i > 1 ? ", %V" : "%V", &value[i]);
    }

    text->len = (size_t) (p - text->data);

    return NGX_CONF_OK;
}


/* scheme "://" [ "*." ] host [ ":" port ]; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_cors_parse(ngx_pool_t *pool, ngx_str_t *value,
    ngx_http_pgw_origin_t *pattern)
{
    u_char      *origin, *host, *colon, *last;
    ngx_int_t    port;
    ngx_uint_t   wildcard;
    const char  *err;

    if (ngx_strcmp(value->data, "*") == 0) {
        return "answers carry credentials, so each origin must be named";
    }

    if (ngx_strcmp(value->data, "null") == 0) {
        return "any sandboxed page has it";
    }

    origin = ngx_pnalloc(pool, value->len + 1);
    if (origin == NULL) {
        return "no memory";
    }

    ngx_strlow(origin, value->data, value->len + 1);

    last = origin + value->len;
    host = (u_char *) ngx_strstr(origin, "://");

    if (host == NULL || host == origin) {
        return "it must be scheme://host or scheme://host:port";
    }

    if (*origin < 'a' || *origin > 'z') {
        return "the scheme must begin with a letter";
    }

    if (ngx_http_pgw_cors_span(origin, NGX_HTTP_PGW_CORS_SCHEME) != host) {
        return "the scheme has a character that none can have";
    }

    host += sizeof("://") - 1;

    /* with a wildcard, the host begins at the dot after it */

    wildcard = (last - host > 2 && host[0] == '*' && host[1] == '.');
    host += wildcard;

    colon = (u_char *) strrchr((char *) host, ':');

    if (colon && ngx_http_pgw_cors_span(colon + 1, "0123456789") != last) {
        colon = NULL;
    }

    if (colon) {
        port = ngx_atoi(colon + 1, (size_t) (last - colon - 1));

        if (port < 1 || port > 65535 || colon[1] == '0') {
            return "the port must be 1 to 65535";
        }

        /* browsers leave the port out where it is the scheme's own */

        if ((port == 443 && ngx_strncmp(origin, "https:", 6) == 0)
            || (port == 80 && ngx_strncmp(origin, "http:", 5) == 0))
        {
            last = colon;
        }
    }

    err = ngx_http_pgw_cors_parse_host(host, colon ? colon : last, wildcard);
    if (err) {
        return err;
    }

    pattern->prefix.data = origin;
    pattern->prefix.len = (size_t) ((wildcard ? host - 1 : last) - origin);

    pattern->suffix.data = host;
    pattern->suffix.len = wildcard ? (size_t) (last - host) : 0;

    return NULL;
}


static const char *
ngx_http_pgw_cors_parse_host(u_char *p, u_char *last, ngx_uint_t wildcard)
{
    u_char  *host, *dot;

    if (last - p > 3 && *p == '['
        && ngx_http_pgw_cors_span(p + 1, NGX_HTTP_PGW_CORS_IPV6) == last - 1
        && last[-1] == ']')
    {
        return NULL;
    }

    host = p;
    p = ngx_http_pgw_cors_span(p, NGX_HTTP_PGW_CORS_HOST);

    if (p < last) {

        if (*p == '*') {
            return "\"*\" can only stand for the leftmost labels, as in "
                   "https://*.example.com";
        }

        return (*p == '/') ? "an origin has no path, not even a slash"
                           : "the host has a character that none can have";
    }

    if (host == last || last[-1] == '.') {
        return "the host is empty or ends with a dot";
    }

    dot = (u_char *) ngx_strstr(host, "..");

    if ((*host == '.' && !wildcard) || (dot && dot < last)) {
        return "the host has an empty label";
    }

    /* ".example.com" has two dots, ".com" has one */

    if (wildcard && ngx_strlchr(host + 1, last, '.') == NULL) {
        return "\"*\" cannot stand right below a top-level domain";
    }

    return NULL;
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
