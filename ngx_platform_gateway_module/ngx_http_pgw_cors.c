
/*
 * CORS: OPTIONS is answered here, and the response headers of every other
 * request are set here (the Fetch standard, "CORS protocol").
 *
 * nginx refuses a body that is too large, redirects to the path with a slash
 * and hides internal locations as soon as it has found a location, and no
 * handler runs before that but those of the SERVER_REWRITE phase.  So OPTIONS
 * is answered there, as the location says that would have served it.
 *
 * An origin is compared as bytes with the lower-case patterns made when the
 * configuration is read: browsers serialise origins in lower case and without
 * the default port (RFC 6454, section 6.2).
 */


#include "ngx_http_pgw_cors.h"
#include "ngx_http_pgw_guard.h"
#include "ngx_http_pgw_headers.h"
#include "ngx_http_pgw_locate.h"
#include "ngx_http_pgw_names.h"
#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_text.h"


/* The longest name of a client's that an answer repeats. */
#define NGX_HTTP_PGW_CORS_NAME  64


/* One or more labels with single dots between them. */

static ngx_uint_t
ngx_http_pgw_cors_is_labels(const u_char *p, const u_char *last)
{
    u_char  prev;

    for (prev = '.'; p < last; prev = *p++) {

        if ((*p < 'a' || *p > 'z') && (*p < '0' || *p > '9')
            && *p != '-' && *p != '_' && (*p != '.' || prev == '.'))
        {
            return 0;
        }
    }

    return prev != '.';
}


static ngx_uint_t
ngx_http_pgw_cors_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_cors_request_t *cr)
{
    u_char                       *first, *last;
    ngx_uint_t                    i;
    const ngx_http_pgw_origin_t  *pattern;

    if (cr->origins != 1 || conf->cors_origins == NULL) {
        return 0;
    }

    pattern = conf->cors_origins->elts;

    for (i = 0; i < conf->cors_origins->nelts; i++, pattern++) {

        if (cr->origin->len < pattern->prefix.len + pattern->suffix.len) {
            continue;
        }

        /* what the prefix and the suffix leave */

        first = cr->origin->data + pattern->prefix.len;
        last = cr->origin->data + cr->origin->len - pattern->suffix.len;

        if (ngx_memcmp(cr->origin->data, pattern->prefix.data,
                       pattern->prefix.len)
            == 0
            && ngx_memcmp(last, pattern->suffix.data, pattern->suffix.len) == 0
            && (pattern->suffix.len ? ngx_http_pgw_cors_is_labels(first, last)
                                    : first == last))
        {
            return 1;
        }
    }

    return 0;
}


/* Whether all of them are; *name is the first that is not. */

static ngx_uint_t
ngx_http_pgw_cors_headers_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_list_part_t *part, ngx_str_t *name)
{
    ngx_str_t         rest;
    ngx_uint_t        i;
    ngx_table_elt_t  *h;

    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (!ngx_http_pgw_header_in_is(h, "access-control-request-headers")) {
            continue;
        }

        rest = h->value;

        while (ngx_http_pgw_names_next(&rest, name)) {
            if (!ngx_http_pgw_names_has(&conf->cors_headers, name, 1)) {
                return 0;
            }
        }
    }

    return 1;
}


/* Why a preflight is refused, or NONE; *detail for request_refuse(). */

static ngx_http_pgw_reason_e
ngx_http_pgw_cors_check(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_cors_request_t *cr, const char **detail)
{
    u_char                 *p;
    ngx_str_t               name;
    const char             *what;
    ngx_http_pgw_reason_e   reason;

    *detail = NULL;
    name = *cr->method;

    if (cr->methods > 1) {
        name.len = 0;
    }

    if (!ngx_http_pgw_cors_origin_allowed(conf, cr)) {
        return NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN;
    }

    what = "method";
    reason = NGX_HTTP_PGW_REASON_PREFLIGHT_METHOD_FORBIDDEN;

    if (ngx_http_pgw_names_has(&conf->cors_methods, &name, 0)) {
        what = "header";
        reason = NGX_HTTP_PGW_REASON_PREFLIGHT_HEADER_FORBIDDEN;

        if (ngx_http_pgw_cors_headers_allowed(conf, cr->headers, &name)) {
            return NGX_HTTP_PGW_REASON_NONE;
        }
    }

    /* what a client sent is repeated if it is short and needs no escaping */

    if (name.len > NGX_HTTP_PGW_CORS_NAME
        || !ngx_http_pgw_names_plain(&name, "-_"))
    {
        return reason;
    }

    p = ngx_pnalloc(pool, sizeof("the method  is not allowed for other origins")
                          + name.len);
    if (p) {
        ngx_sprintf(p, "the %s %V is not allowed for other origins%Z", what,
                    &name);
    }

    *detail = (const char *) p;

    return reason;
}


ngx_http_pgw_reason_e
ngx_http_pgw_cors_ask(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail)
{
    ngx_table_elt_t              h = {
        .key = ngx_string("Access-Control-Request-Headers"),
        .lowcase_key = (u_char *) "access-control-request-headers",
        .value = question->headers
    };
    ngx_list_part_t              headers = { .elts = &h, .nelts = 1 };
    ngx_http_pgw_cors_request_t  cr = { &question->origin, &question->method,
                                        1, 1, &headers };

    return ngx_http_pgw_cors_check(pool, conf, &cr, detail);
}


ngx_int_t
ngx_http_pgw_cors_options(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    const char             *detail;
    ngx_http_pgw_reason_e   reason;

    if (r->method != NGX_HTTP_OPTIONS || r != r->main) {
        return NGX_DECLINED;
    }

    if (gr->cors.origins == 0 || gr->cors.methods == 0) {
        ngx_http_pgw_guard_allow(r, gr, NGX_HTTP_PGW_REASON_OPTIONS);
        return NGX_HTTP_NO_CONTENT;
    }

    reason = ngx_http_pgw_cors_check(r->pool, conf, &gr->cors, &detail);
    if (reason) {
        return ngx_http_pgw_guard_refuse(r, gr, conf, reason, detail);
    }

    ngx_http_pgw_guard_allow(r, gr, NGX_HTTP_PGW_REASON_PREFLIGHT);

    return NGX_HTTP_NO_CONTENT;
}


static ngx_int_t
ngx_http_pgw_cors_answer(ngx_http_request_t *r, ngx_uint_t answers)
{
    void                     **loc_conf, **server;
    ngx_int_t                  rc;
    ngx_http_pgw_request_t    *gr;
    ngx_http_pgw_srv_conf_t   *sscf;
    ngx_http_pgw_loc_conf_t   *conf;
    ngx_http_core_loc_conf_t  *clcf;

    sscf = ngx_http_pgw_srv(r);

    if (r != r->main || !sscf->any_enabled || sscf->answers != answers) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_get(r);
    server = r->loc_conf;
    loc_conf = server;

    if (gr == NULL || ngx_http_pgw_locate(r, &r->uri, &loc_conf) == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    clcf = loc_conf[ngx_http_core_module.ctx_index];

    /* to a client an internal one is a path that does not exist */

    if (!clcf->internal || r->internal) {
        r->loc_conf = loc_conf;
    }

    rc = NGX_DECLINED;
    conf = ngx_http_pgw_loc(r);

    if (conf->enable) {
        gr->required = conf->access;
        rc = ngx_http_pgw_cors_options(r, gr, conf);
    }

    if (rc == NGX_DECLINED) {

        /* nginx looks for the location itself, and begins at the server */

        r->loc_conf = server;
        return NGX_DECLINED;
    }

    ngx_http_update_location_config(r);

    return rc;
}


/*
 * Where a "return" of server{} may answer by itself: before it, for the path as
 * the client sent it.  Elsewhere last, for the path that may be rewritten.
 */

ngx_int_t
ngx_http_pgw_cors_first_handler(ngx_http_request_t *r)
{
    return r->method == NGX_HTTP_OPTIONS ? ngx_http_pgw_cors_answer(r, 1)
                                         : NGX_DECLINED;
}


ngx_int_t
ngx_http_pgw_cors_last_handler(ngx_http_request_t *r)
{
    return r->method == NGX_HTTP_OPTIONS ? ngx_http_pgw_cors_answer(r, 0)
                                         : NGX_DECLINED;
}


/*
 * Takes out an upstream's CORS headers, where drop, and adds names to the last
 * Vary line that there is, or as a line of its own; NULL: no Vary.
 */

static ngx_int_t
ngx_http_pgw_cors_edit(ngx_http_request_t *r, ngx_uint_t drop,
    const ngx_str_t *names)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_table_elt_t        *h, *vary;
    const ngx_list_part_t  *part;

    static const u_char     prefix[] = "access-control-";
    static const ngx_str_t  any = ngx_string("*");
    static const ngx_str_t  origin = ngx_string("Origin");

    vary = NULL;
    part = &r->headers_out.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (drop
            && h->key.len >= sizeof(prefix)
            && ngx_strncasecmp(h->key.data, (u_char *) prefix,
                               sizeof(prefix) - 1) == 0)
        {
            h->hash = 0;
        }

        if (names && h->hash && ngx_http_pgw_header_is(h, "vary")) {
            vary = h;

            if (ngx_http_pgw_names_has(&h->value, &origin, 1)
                || ngx_http_pgw_names_has(&h->value, &any, 0))
            {
                names = NULL;
            }
        }
    }

    if (names == NULL) {
        return NGX_OK;
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


static ngx_int_t
ngx_http_pgw_cors_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_str_t *origin,
    ngx_uint_t preflight)
{
    ngx_str_t  age;

    static const ngx_str_t  yes = ngx_string("true");
    static const ngx_str_t  exposed = ngx_string("X-Request-Id, "
        "X-Correlation-Id, Retry-After, WWW-Authenticate, ETag");

    age.data = ngx_pnalloc(r->pool, NGX_TIME_T_LEN);
    if (age.data == NULL) {
        return NGX_ERROR;
    }

    age.len = (size_t) (ngx_http_pgw_text_digits(age.data,
                                              (uint64_t) conf->cors_max_age)
                        - age.data);

#define ngx_http_pgw_cors_add(name, value)                                    \
    (ngx_http_pgw_header_add(r, "Access-Control-" name, value) != NULL)

    return ngx_http_pgw_cors_add("Allow-Origin", origin)
           && ngx_http_pgw_cors_add("Allow-Credentials", &yes)
           && (preflight
               ? ngx_http_pgw_cors_add("Allow-Methods", &conf->cors_methods)
                 && ngx_http_pgw_cors_add("Allow-Headers", &conf->cors_headers)
                 && ngx_http_pgw_cors_add("Max-Age", &age)
               : ngx_http_pgw_cors_add("Expose-Headers", &exposed))
           ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t        allowed, preflight, refused;
    const ngx_str_t  *names;

    static const ngx_str_t  origin = ngx_string("Origin");
    static const ngx_str_t  three = ngx_string("Origin, "
        "Access-Control-Request-Method, Access-Control-Request-Headers");

    preflight = gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT
                || gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_METHOD_FORBIDDEN
                || gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_HEADER_FORBIDDEN;

    /* a preflight that shadow mode lets pass is the upstream's to answer */

    refused = gr->reason == NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN
              || (gr->shadowed && preflight);

    allowed = !refused && ngx_http_pgw_cors_origin_allowed(conf, &gr->cors);

    /*
     * Vary goes on responses without an Origin too: a cache must not hand
     * them to a page of another origin.
     */

    names = conf->cors_origins == NULL || conf->cors_origins->nelts == 0 ? NULL
            : preflight || refused ? &three : &origin;

    /* what an upstream allows is refused by taking it away */

    if (ngx_http_pgw_cors_edit(r, allowed || !conf->shadow, names) != NGX_OK) {
        return NGX_ERROR;
    }

    return allowed ? ngx_http_pgw_cors_allow(r, conf, gr->cors.origin,
                                             preflight)
                   : NGX_OK;
}
