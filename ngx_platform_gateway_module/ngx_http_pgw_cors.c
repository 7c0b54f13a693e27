
/*
 * CORS: OPTIONS is answered here, and the response headers of every other
 * request are set here (the Fetch standard, "CORS protocol").
 *
 * An origin is compared as bytes with the lower-case patterns made when the
 * configuration is read: browsers serialise origins in lower case and without
 * the default port (RFC 6454, section 6.2).
 */


#include "ngx_http_pgw_cors.h"


static ngx_int_t ngx_http_pgw_cors_preflight(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_cors_request_t *cr);
static const char *ngx_http_pgw_cors_detail(ngx_http_request_t *r,
    const char *what, const ngx_str_t *name);
static ngx_int_t ngx_http_pgw_cors_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_str_t *origin,
    ngx_uint_t preflight);
static ngx_uint_t ngx_http_pgw_cors_origin_allowed(
    const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_cors_request_t *cr);
static ngx_uint_t ngx_http_pgw_cors_match(const ngx_http_pgw_origin_t *pattern,
    const ngx_str_t *origin);
static ngx_uint_t ngx_http_pgw_cors_is_labels(const u_char *p,
    const u_char *last);
static ngx_uint_t ngx_http_pgw_cors_headers_allowed(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_str_t *name);
static ngx_uint_t ngx_http_pgw_cors_list_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);
static ngx_uint_t ngx_http_pgw_cors_next_name(ngx_str_t *rest,
    ngx_str_t *name);
static void ngx_http_pgw_cors_drop(ngx_http_request_t *r);
static ngx_int_t ngx_http_pgw_cors_vary(ngx_http_request_t *r,
    ngx_uint_t preflight);


/* The longest name of a client's that an answer repeats. */
#define NGX_HTTP_PGW_CORS_NAME  64


static const ngx_str_t  ngx_http_pgw_cors_true = ngx_string("true");

static const ngx_str_t  ngx_http_pgw_cors_exposed =
    ngx_string("X-Request-Id, X-Correlation-Id, Retry-After, "
               "WWW-Authenticate, ETag");


ngx_int_t
ngx_http_pgw_cors_options(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    if (r->method != NGX_HTTP_OPTIONS || r != r->main) {
        return NGX_DECLINED;
    }

    if (gr->cors.origins == 0 || gr->cors.methods == 0) {
        ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_OPTIONS);
        return NGX_HTTP_NO_CONTENT;
    }

    return ngx_http_pgw_cors_preflight(r, gr, conf, &gr->cors);
}


static ngx_int_t
ngx_http_pgw_cors_preflight(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_cors_request_t *cr)
{
    ngx_str_t    name;
    const char  *what;

    if (!ngx_http_pgw_cors_origin_allowed(conf, cr)) {
        return ngx_http_pgw_refuse(r, gr, conf,
                                   NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN, NULL);
    }

    if (cr->methods > 1
        || !ngx_http_pgw_cors_list_has(&conf->cors_methods, cr->method, 0))
    {
        what = "method";
        name = *cr->method;

        if (cr->methods > 1) {
            name.len = 0;
        }

    } else if (!ngx_http_pgw_cors_headers_allowed(r, conf, &name)) {
        what = "header";

    } else {
        ngx_http_pgw_allow(r, gr, NGX_HTTP_PGW_REASON_PREFLIGHT);
        return NGX_HTTP_NO_CONTENT;
    }

    return ngx_http_pgw_refuse(r, gr, conf,
                               NGX_HTTP_PGW_REASON_PREFLIGHT_FORBIDDEN,
                               ngx_http_pgw_cors_detail(r, what, &name));
}


/* What a client sent is repeated if it is short and needs no escaping. */

static const char *
ngx_http_pgw_cors_detail(ngx_http_request_t *r, const char *what,
    const ngx_str_t *name)
{
    u_char    *p;
    ngx_str_t  shown;

    ngx_str_null(&shown);

    if (name->len <= NGX_HTTP_PGW_CORS_NAME
        && ngx_http_pgw_cors_is_token(name))
    {
        shown = *name;
    }

    p = ngx_pnalloc(r->pool,
                    sizeof("the method  is not allowed for other origins")
                    + shown.len);
    if (p == NULL) {
        return "this is not allowed for other origins";
    }

    ngx_sprintf(p, "the %s%s%V is not allowed for other origins%Z", what,
                shown.len ? " " : "", &shown);

    return (const char *) p;
}


ngx_int_t
ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t  allowed, preflight, refused;

    preflight = gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT
                || gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_FORBIDDEN;

    /* a preflight that shadow mode lets pass is the upstream's to answer */

    refused = gr->reason == NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN
              || (gr->shadowed
                  && gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_FORBIDDEN);

    allowed = !refused && ngx_http_pgw_cors_origin_allowed(conf, &gr->cors);

    /* what an upstream allows is refused by taking it away */

    if (allowed || !conf->shadow) {
        ngx_http_pgw_cors_drop(r);
    }

    if (conf->cors_origins == NULL || conf->cors_origins->nelts == 0) {
        return NGX_OK;
    }

    /*
     * Vary goes on responses without an Origin too: a cache must not hand
     * them to a page of another origin.
     */

    if (ngx_http_pgw_cors_vary(r, preflight || refused) != NGX_OK) {
        return NGX_ERROR;
    }

    return allowed ? ngx_http_pgw_cors_allow(r, conf, gr->cors.origin,
                                             preflight)
                   : NGX_OK;
}


static ngx_int_t
ngx_http_pgw_cors_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_str_t *origin,
    ngx_uint_t preflight)
{
    ngx_str_t  age;

    if (!ngx_http_pgw_header_add(r, "Access-Control-Allow-Origin", origin)
        || !ngx_http_pgw_header_add(r, "Access-Control-Allow-Credentials",
                                    &ngx_http_pgw_cors_true))
    {
        return NGX_ERROR;
    }

    if (!preflight) {
        return ngx_http_pgw_header_add(r, "Access-Control-Expose-Headers",
                                       &ngx_http_pgw_cors_exposed)
               ? NGX_OK : NGX_ERROR;
    }

    age.data = ngx_pnalloc(r->pool, NGX_TIME_T_LEN);
    if (age.data == NULL) {
        return NGX_ERROR;
    }

    age.len = (size_t) (ngx_sprintf(age.data, "%T", conf->cors_max_age)
                        - age.data);

    return ngx_http_pgw_header_add(r, "Access-Control-Allow-Methods",
                                   &conf->cors_methods)
           && ngx_http_pgw_header_add(r, "Access-Control-Allow-Headers",
                                      &conf->cors_headers)
           && ngx_http_pgw_header_add(r, "Access-Control-Max-Age", &age)
           ? NGX_OK : NGX_ERROR;
}


static ngx_uint_t
ngx_http_pgw_cors_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_cors_request_t *cr)
{
    ngx_uint_t                    i;
    const ngx_http_pgw_origin_t  *pattern;

    if (cr->origins != 1 || conf->cors_origins == NULL) {
        return 0;
    }

    pattern = conf->cors_origins->elts;

    for (i = 0; i < conf->cors_origins->nelts; i++) {
        if (ngx_http_pgw_cors_match(&pattern[i], cr->origin)) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_pgw_cors_match(const ngx_http_pgw_origin_t *pattern,
    const ngx_str_t *origin)
{
    u_char  *labels, *suffix;

    if (pattern->suffix.len == 0) {
        return origin->len == pattern->prefix.len
               && ngx_memcmp(origin->data, pattern->prefix.data, origin->len)
                  == 0;
    }

    if (origin->len <= pattern->prefix.len + pattern->suffix.len) {
        return 0;
    }

    labels = origin->data + pattern->prefix.len;
    suffix = origin->data + origin->len - pattern->suffix.len;

    return ngx_memcmp(origin->data, pattern->prefix.data, pattern->prefix.len)
           == 0
           && ngx_memcmp(suffix, pattern->suffix.data, pattern->suffix.len)
              == 0 && ngx_http_pgw_cors_is_labels(labels, suffix);
}


/* One or more labels with single dots between them. */

static ngx_uint_t
ngx_http_pgw_cors_is_labels(const u_char *p, const u_char *last)
{
    u_char  prev;

    for (prev = '.'; p < last; prev = *p++) {

        if (*p == '.') {
            if (prev == '.') {
                return 0;
            }

        } else if ((*p < 'a' || *p > 'z') && (*p < '0' || *p > '9')
                   && *p != '-' && *p != '_')
        {
            return 0;
        }
    }

    return prev != '.';
}


/* Whether all of them are; *name is the first that is not. */

static ngx_uint_t
ngx_http_pgw_cors_headers_allowed(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_str_t *name)
{
    ngx_str_t               rest;
    ngx_uint_t              i;
    ngx_table_elt_t        *h;
    const ngx_list_part_t  *part;

    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (!ngx_http_pgw_header_is(h, "access-control-request-headers")) {
            continue;
        }

        rest = h->value;

        while (ngx_http_pgw_cors_next_name(&rest, name)) {
            if (!ngx_http_pgw_cors_list_has(&conf->cors_headers, name, 1)) {
                return 0;
            }
        }
    }

    return 1;
}


/* Whether a comma-separated list has the name. */

static ngx_uint_t
ngx_http_pgw_cors_list_has(const ngx_str_t *list, const ngx_str_t *name,
    ngx_uint_t any_case)
{
    ngx_str_t  rest, elt;

    rest = *list;

    while (ngx_http_pgw_cors_next_name(&rest, &elt)) {

        if (elt.len == name->len
            && (any_case ? ngx_strncasecmp(elt.data, name->data, elt.len)
                         : ngx_memcmp(elt.data, name->data, elt.len)) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* Takes the next element off a comma-separated list; false at its end. */

static ngx_uint_t
ngx_http_pgw_cors_next_name(ngx_str_t *rest, ngx_str_t *name)
{
    u_char  *p, *last;

    p = rest->data;
    last = p + rest->len;

    while (p < last && (*p == ' ' || *p == '\t' || *p == ',')) {
        p++;
    }

    name->data = p;

    while (p < last && *p != ',') {
        p++;
    }

    rest->data = p;
    rest->len = (size_t) (last - p);

    while (p > name->data && (p[-1] == ' ' || p[-1] == '\t')) {
        p--;
    }

    name->len = (size_t) (p - name->data);

    return name->len != 0;
}


static void
ngx_http_pgw_cors_drop(ngx_http_request_t *r)
{
    ngx_uint_t              i;
    ngx_table_elt_t        *h;
    const ngx_list_part_t  *part;

    part = &r->headers_out.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (h->key.len > sizeof("access-control-") - 1
            && ngx_strncasecmp(h->key.data, (u_char *) "access-control-",
                               sizeof("access-control-") - 1) == 0)
        {
            h->hash = 0;
        }
    }
}


/* Adds names to the last Vary line that there is, or as a line of its own. */

static ngx_int_t
ngx_http_pgw_cors_vary(ngx_http_request_t *r, ngx_uint_t preflight)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_table_elt_t        *h, *vary;
    const ngx_str_t        *names;
    const ngx_list_part_t  *part;

    static const ngx_str_t  any = ngx_string("*");
    static const ngx_str_t  origin = ngx_string("Origin");
    static const ngx_str_t  three = ngx_string("Origin, "
        "Access-Control-Request-Method, Access-Control-Request-Headers");

    names = preflight ? &three : &origin;
    vary = NULL;
    part = &r->headers_out.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (h->hash == 0 || !ngx_http_pgw_header_is(h, "vary")) {
            continue;
        }

        if (ngx_http_pgw_cors_list_has(&h->value, &origin, 1)
            || ngx_http_pgw_cors_list_has(&h->value, &any, 0))
        {
            return NGX_OK;
        }

        vary = h;
    }

    if (vary == NULL || vary->value.len == 0) {
        return ngx_http_pgw_header_add(r, "Vary", names) ? NGX_OK : NGX_ERROR;
    }

    p = ngx_pnalloc(r->pool, vary->value.len + sizeof(", ") - 1 + names->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    vary->value.len = (size_t) (ngx_sprintf(p, "%V, %V", &vary->value, names)
                                - p);
    vary->value.data = p;

    return NGX_OK;
}
