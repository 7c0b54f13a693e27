
/*
 * The CORS directives: origins are parsed into patterns that need no regular
 * expression, the lists of a preflight's answer are joined as it gives them;
 * and what reads such a list.
 */


#include "ngx_http_pgw_cors_conf.h"
#include "ngx_http_pgw_names.h"


/* What stands in an origin, in the small letters of a browser's. */

#define NGX_HTTP_PGW_CORS_DIGITS  "0123456789"
#define NGX_HTTP_PGW_CORS_ALNUM                                               \
    "abcdefghijklmnopqrstuvwxyz" NGX_HTTP_PGW_CORS_DIGITS
#define NGX_HTTP_PGW_CORS_SCHEME  NGX_HTTP_PGW_CORS_ALNUM "+-."
#define NGX_HTTP_PGW_CORS_HOST    NGX_HTTP_PGW_CORS_ALNUM "-_."
#define NGX_HTTP_PGW_CORS_IPV6    NGX_HTTP_PGW_CORS_DIGITS "abcdef:."

#define ngx_http_pgw_cors_span(p, set)                                        \
    ((p) + strspn((const char *) (p), set))


/* Sets *end to the end of the host at p; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_cors_host(u_char *p, ngx_uint_t wildcard, u_char **end)
{
    *end = ngx_http_pgw_cors_span(p, NGX_HTTP_PGW_CORS_HOST);

    if (*p == '[') {
        *end = ngx_http_pgw_cors_span(p + 1, NGX_HTTP_PGW_CORS_IPV6);

        if (*end < p + 3 || *(*end)++ != ']') {
            return "the host has a character that is not allowed";
        }
    }

    if (**end == '*') {
        return "\"*\" can only stand for the leftmost labels, as in "
               "https://*.example.com";
    }

    if (**end == '/') {
        return "an origin has no path, not even a slash";
    }

    if (**end && (**end != ':'
                  || *ngx_http_pgw_cors_span(*end + 1,
                                             NGX_HTTP_PGW_CORS_DIGITS)))
    {
        return "the host has a character that is not allowed";
    }

    if (*end == p || (*end)[-1] == '.') {
        return "the host is empty or ends with a dot";
    }

    if ((*p == '.' && !wildcard) || ngx_strstr(p, "..")) {
        return "the host has an empty label";
    }

    /* ".example.com" has two dots, ".com" has one */

    if (wildcard && ngx_strlchr(p + 1, *end, '.') == NULL) {
        return "\"*\" cannot stand right below a top-level domain";
    }

    return NULL;
}


/* scheme "://" [ "*." ] host [ ":" port ]; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_cors_parse(u_char *origin, ngx_http_pgw_origin_t *pattern)
{
    u_char      *host, *end;
    ngx_int_t    port;
    ngx_uint_t   wildcard;
    const char  *err;

    if (ngx_strcmp(origin, "*") == 0) {
        return "answers carry credentials, so each origin must be named";
    }

    if (ngx_strcmp(origin, "null") == 0) {
        return "any sandboxed page has it";
    }

    host = (u_char *) ngx_strstr(origin, "://");

    if (host == NULL || host == origin) {
        return "it must be scheme://host or scheme://host:port";
    }

    if (*origin < 'a' || *origin > 'z') {
        return "the scheme must begin with a letter";
    }

    if (ngx_http_pgw_cors_span(origin, NGX_HTTP_PGW_CORS_SCHEME) != host) {
        return "the scheme has a character that is not allowed";
    }

    /* with a wildcard, the host begins at the dot after it */

    host += sizeof("://") - 1;
    wildcard = (host[0] == '*' && host[1] == '.' && host[2]);
    host += wildcard;

    err = ngx_http_pgw_cors_host(host, wildcard, &end);

    if (err == NULL && *end) {
        port = ngx_atoi(end + 1, ngx_strlen(end + 1));

        if (port < 1 || port > 65535 || end[1] == '0') {
            err = "the port must be 1 to 65535";
        }

        /* browsers leave the port out where it is the scheme's own */

        if ((port != 443 || ngx_strncmp(origin, "https:", 6) != 0)
            && (port != 80 || ngx_strncmp(origin, "http:", 5) != 0))
        {
            end += ngx_strlen(end);
        }
    }

    *end = '\0';
    pattern->prefix.data = origin;
    pattern->prefix.len = (size_t) ((wildcard ? host - 1 : end) - origin);
    pattern->suffix.data = host;
    pattern->suffix.len = wildcard ? (size_t) (end - host) : 0;

    return err;
}


char *
ngx_http_pgw_cors_conf_origins(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    u_char                 *origin;
    ngx_str_t              *value;
    ngx_uint_t              i, first, off;
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

    off = (ngx_strcmp(value[1].data, "off") == 0);

    if (off && first && cf->args->nelts == 2) {
        return NGX_CONF_OK;
    }

    if (off || (!first && lcf->cors_origins->nelts == 0)) {
        return "has origins beside \"off\"";
    }

    for (i = 1; i < cf->args->nelts; i++) {

        pattern = ngx_array_push(lcf->cors_origins);
        origin = ngx_pnalloc(cf->pool, value[i].len + 1);

        if (pattern == NULL || origin == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_strlow(origin, value[i].data, value[i].len + 1);

        err = ngx_http_pgw_cors_parse(origin, pattern);
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
ngx_http_pgw_cors_conf_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    u_char     *p;
    ngx_str_t  *value, *text;
    ngx_uint_t  i;

    text = (ngx_str_t *) (void *) ((char *) conf + cmd->offset);
    value = cf->args->elts;

    if (text->data) {
        return "is duplicate";
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (!ngx_http_pgw_names_plain(&value[i], "-_")) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid name \"%V\" in \"%V\": each must be "
                               "given in full, there are no patterns",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (ngx_strcmp(value[i].data, "default") == 0) {
            value[i] = *(ngx_str_t *) cmd->post;
        }

        p = ngx_pnalloc(cf->pool, text->len + sizeof(", ") + value[i].len);
        if (p == NULL) {
            return NGX_CONF_ERROR;
        }

        text->len = (size_t) (ngx_sprintf(p, "%V%s%V", text, i > 1 ? ", " : "",
                                          &value[i])
                              - p);
        text->data = p;
    }

    return NGX_CONF_OK;
}
