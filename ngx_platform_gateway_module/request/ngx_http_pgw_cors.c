
/*
 * CORS (the Fetch standard, "CORS protocol"): the response to OPTIONS, the
 * headers of all other responses, and the directives.
 */


#include "request/request.h"
#include "base/base.h"


/* The longest method or header name that a detail repeats. */
#define NGX_HTTP_PGW_CORS_NAME  64


/* Returns whether all requested headers are allowed, else *name is the first
   forbidden one. */

static ngx_uint_t
ngx_http_pgw_cors_headers_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_list_part_t *part, ngx_str_t *name)
{
    ngx_str_t             rest;
    ngx_table_elt_t      *h;
    ngx_http_pgw_walk_t   walk = { part, 0 };

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {

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


/* Returns PREFLIGHT for an allowed preflight, OPTIONS for a request that is not
   a preflight, else the reason to refuse; *detail is for request_refuse(). */

static ngx_http_pgw_reason_e
ngx_http_pgw_cors_check(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_list_part_t *sent, const char **detail)
{
    u_char                 *p;
    ngx_str_t               name, origin;
    ngx_uint_t              origins, methods;
    const char             *what;
    ngx_http_pgw_reason_e   reason;

    *detail = NULL;
    origins = ngx_http_pgw_names_find(sent, "origin", &origin);
    methods = ngx_http_pgw_names_find(sent, "access-control-request-method",
                                      &name);

    if (origins == 0 || methods == 0) {
        return NGX_HTTP_PGW_REASON_OPTIONS;
    }

    if (methods > 1) {
        name.len = 0;
    }

    if (origins > 1 || !ngx_http_pgw_origin_allowed(conf, &origin)) {
        return NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN;
    }

    what = "method";
    reason = NGX_HTTP_PGW_REASON_PREFLIGHT_METHOD_FORBIDDEN;

    if (ngx_http_pgw_names_has(&conf->cors_methods, &name, 0)) {
        what = "header";
        reason = NGX_HTTP_PGW_REASON_PREFLIGHT_HEADER_FORBIDDEN;

        if (ngx_http_pgw_cors_headers_allowed(conf, sent, &name)) {
            return NGX_HTTP_PGW_REASON_PREFLIGHT;
        }
    }

    /* repeat a name that is short and needs no escaping */

    if (name.len > NGX_HTTP_PGW_CORS_NAME
        || !web_plain(ngx_http_pgw_span(&name), "-_"))
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
ngx_http_pgw_cors_explain(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail)
{
#define ngx_http_pgw_cors_line(name, text)                                    \
    { .key = ngx_string(name), .lowcase_key = (u_char *) name, .value = text }

    ngx_table_elt_t  h[] = {
        ngx_http_pgw_cors_line("origin", question->origin),
        ngx_http_pgw_cors_line("access-control-request-method",
                               question->method),
        ngx_http_pgw_cors_line("access-control-request-headers",
                               question->headers)
    };
    ngx_list_part_t        sent = { .elts = h, .nelts = 3 };
    ngx_http_pgw_reason_e  reason;

    reason = ngx_http_pgw_cors_check(pool, conf, &sent, detail);

    return reason == NGX_HTTP_PGW_REASON_PREFLIGHT ? NGX_HTTP_PGW_REASON_NONE
                                                   : reason;
}


ngx_int_t
ngx_http_pgw_cors_options(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    const char             *detail;
    ngx_http_pgw_reason_e   reason;

    reason = ngx_http_pgw_cors_check(r->pool, conf, &gr->sent, &detail);

    if (ngx_http_pgw_reasons[reason].flags & NGX_HTTP_PGW_REASON_REFUSES) {
        return ngx_http_pgw_guard_refuse(r, gr, conf, reason, detail);
    }

    ngx_http_pgw_guard_allow(r, gr, reason);

    return NGX_HTTP_NO_CONTENT;
}


static ngx_int_t
ngx_http_pgw_cors_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_str_t *origin,
    ngx_uint_t preflight)
{
    ngx_str_t  age;

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
           && ngx_http_pgw_cors_add("Allow-Credentials",
                                    ngx_http_pgw_header_text("true"))
           && (preflight
               ? ngx_http_pgw_cors_add("Allow-Methods", &conf->cors_methods)
                 && ngx_http_pgw_cors_add("Allow-Headers", &conf->cors_headers)
                 && ngx_http_pgw_cors_add("Max-Age", &age)
               : ngx_http_pgw_cors_add("Expose-Headers", &conf->cors_exposed))
           ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_str_t             origin;
    ngx_uint_t            allowed, preflight, refused;
    ngx_table_elt_t      *h;
    const ngx_str_t      *names;
    ngx_http_pgw_walk_t   walk = { &r->headers_out.headers.part, 0 };

    static u_char  prefix[] = "access-control-";

    preflight = gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT
                || gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_METHOD_FORBIDDEN
                || gr->reason == NGX_HTTP_PGW_REASON_PREFLIGHT_HEADER_FORBIDDEN;

    /* in shadow mode the upstream answers a preflight that we would refuse */

    refused = gr->reason == NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN
              || (gr->shadowed && preflight);

    allowed = !refused && conf->cors_origins
              && ngx_http_pgw_names_find(&gr->sent, "origin", &origin) == 1
              && ngx_http_pgw_origin_allowed(conf, &origin);

    /* Vary goes on responses without an Origin too: a cache must not hand them
       to a page of another origin. */

    names = conf->cors_origins == NULL || conf->cors_origins->nelts == 0 ? NULL
            : preflight || refused
            ? ngx_http_pgw_header_text("Origin, Access-Control-Request-Method, "
                                       "Access-Control-Request-Headers")
            : ngx_http_pgw_header_text("Origin");

    /* remove the upstream's own CORS headers */

    while ((allowed || !conf->shadow)
           && (h = ngx_http_pgw_header_next(&walk)) != NULL)
    {
        if (h->key.len >= sizeof(prefix)
            && ngx_strncasecmp(h->key.data, prefix, sizeof(prefix) - 1) == 0)
        {
            h->hash = 0;
        }
    }

    if (names && !ngx_http_pgw_header_add(r, "Vary", names)) {
        return NGX_ERROR;
    }

    return allowed ? ngx_http_pgw_cors_allow(r, conf, &origin, preflight)
                   : NGX_OK;
}


char *
ngx_http_pgw_cors_origins(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    u_char                 *origin;
    ngx_str_t              *value;
    ngx_uint_t              i, first, off;
    const char             *err;
    web_origin_t           *allowed;

    value = cf->args->elts;
    first = (lcf->cors_origins == NGX_CONF_UNSET_PTR);

    if (first) {
        lcf->cors_origins = ngx_array_create(cf->pool, 4,
                                             sizeof(web_origin_t));
        if (lcf->cors_origins == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    off = (ngx_strcmp(value[1].data, "off") == 0);

    if (off ? !first || cf->args->nelts > 2
            : !first && lcf->cors_origins->nelts == 0)
    {
        return "has origins beside \"off\"";
    }

    for (i = 1; !off && i < cf->args->nelts; i++) {

        allowed = ngx_array_push(lcf->cors_origins);
        origin = ngx_pnalloc(cf->pool, value[i].len + 1);

        if (allowed == NULL || origin == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_strlow(origin, value[i].data, value[i].len + 1);

        err = ngx_http_pgw_origin_fault((char *) origin);
        if (err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid origin \"%V\" in \"%V\": %s",
                               &value[i], &cmd->name, err);
            return NGX_CONF_ERROR;
        }

        web_origin_set(allowed, (pj_str_t) { origin, value[i].len });
    }

    return NGX_CONF_OK;
}


/* "GET PURGE" becomes "GET, PURGE" */

char *
ngx_http_pgw_cors_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
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

        if (!web_plain(ngx_http_pgw_span(&value[i]), "-_")) {
            return "has an invalid name: there are no patterns";
        }

        if (ngx_strcmp(value[i].data, "default") == 0) {
            value[i].data = cmd->post;
            value[i].len = ngx_strlen(value[i].data);
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
