
/*
 * Tokens in other headers than Authorization: a cookie, or a subprotocol of a
 * WebSocket.  There the token is an item of a list, found by its prefix, and is
 * removed before the header is forwarded.
 */


#include "base/base.h"


#define NGX_HTTP_PGW_SOURCE_SAFE                                              \
    (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS)

static const struct {
    const char  *word;                 /* parameter of the directive */
    ngx_str_t    name;                 /* of the header */
    const char  *separator;
} ngx_http_pgw_sources[NGX_HTTP_PGW_SOURCES] = {
    [NGX_HTTP_PGW_SOURCE_COOKIE] =
        { "cookie=", ngx_string("cookie"), "; " },
    [NGX_HTTP_PGW_SOURCE_PROTOCOL] =
        { "subprotocol=", ngx_string("sec-websocket-protocol"), ", " }
};


/* Returns the source that conf uses and h is, or NGX_HTTP_PGW_SOURCES. */

static ngx_uint_t
ngx_http_pgw_source_find_header(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_table_elt_t *h)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_PGW_SOURCES; i++) {

        if (conf->token_from->prefix[i].len
            && h->key.len == ngx_http_pgw_sources[i].name.len
            && ngx_memcmp(h->lowcase_key, ngx_http_pgw_sources[i].name.data,
                          h->key.len) == 0)
        {
            break;
        }
    }

    return i;
}


/* Returns 1 if the item of the source's header has the token. */

static ngx_uint_t
ngx_http_pgw_source_match(const ngx_http_pgw_loc_conf_t *conf,
    ngx_uint_t source, const ngx_str_t *item, pj_str_t *token)
{
    ngx_str_t  *prefix = &conf->token_from->prefix[source];

    if (source == NGX_HTTP_PGW_SOURCE_COOKIE) {
        return web_cookie(ngx_http_pgw_span(item), ngx_http_pgw_span(prefix),
                          token);
    }

    if (item->len < prefix->len
        || ngx_memcmp(item->data, prefix->data, prefix->len) != 0)
    {
        return 0;
    }

    *token = web_skip(ngx_http_pgw_span(item), prefix->len);

    return 1;
}


/*
 * Browsers send a cookie with the requests of all pages.  So a token that is
 * only in a cookie is accepted in two cases: the request changes nothing and
 * keeps no connection open, or the origin of the page is allowed.
 */

static ngx_uint_t
ngx_http_pgw_source_cookie_allowed(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_str_t  value;

    return ((r->method & NGX_HTTP_PGW_SOURCE_SAFE)
            && (r->main->method & NGX_HTTP_PGW_SOURCE_SAFE)
            && r->headers_in.upgrade == NULL)
           || (ngx_http_pgw_names_find(&gr->sent, "sec-fetch-site", &value)
               == 1
               && value.len == sizeof("same-origin") - 1
               && ngx_strncmp(value.data, "same-origin", value.len) == 0)
           || (ngx_http_pgw_names_find(&gr->sent, "origin", &value) == 1
               && (ngx_http_pgw_origin_allowed(conf, &value)
                   || ngx_http_pgw_origin_same(r, &value)));
}


ngx_http_pgw_reason_e
ngx_http_pgw_source_find(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, pj_str_t *token)
{
    pj_str_t              found;
    ngx_str_t             rest, item;
    ngx_uint_t            source, shown;
    ngx_table_elt_t      *h;
    ngx_http_pgw_walk_t   walk = { &gr->sent, 0 };

    /* set by a script or a program, since a browser adds only the cookie */

    shown = (reason == NGX_HTTP_PGW_REASON_NONE);

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {

        source = ngx_http_pgw_source_find_header(conf, h);
        rest = h->value;

        while (source < NGX_HTTP_PGW_SOURCES
               && ngx_http_pgw_names_split(&rest,
                           (u_char) *ngx_http_pgw_sources[source].separator,
                           &item))
        {
            if (!ngx_http_pgw_source_match(conf, source, &item, &found)
                || found.len == 0)
            {
                continue;
            }

            if (reason == NGX_HTTP_PGW_REASON_NONE
                && (found.len != token->len
                    || ngx_memcmp(found.data, token->data, found.len) != 0))
            {
                return NGX_HTTP_PGW_REASON_TOKEN_CONFLICT;
            }

            *token = found;
            reason = NGX_HTTP_PGW_REASON_NONE;
            shown |= (source == NGX_HTTP_PGW_SOURCE_PROTOCOL);
        }
    }

    return reason || shown || ngx_http_pgw_source_cookie_allowed(r, gr, conf)
           ? reason : NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN;
}


ngx_int_t
ngx_http_pgw_source_hide(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_table_elt_t *h, ngx_table_elt_t **rest)
{
    u_char      *p, *start;
    pj_str_t     token;
    ngx_str_t    left = h->value, item;
    ngx_uint_t   source, found;
    const char  *separator;

    source = ngx_http_pgw_source_find_header(conf, h);

    if (source == NGX_HTTP_PGW_SOURCES
        || (source == NGX_HTTP_PGW_SOURCE_COOKIE
            && conf->forward_authorization))
    {
        return NGX_DECLINED;
    }

    /* a space may be added before each item */

    separator = ngx_http_pgw_sources[source].separator;
    start = ngx_pnalloc(pool, 2 * left.len + 1);
    if (start == NULL) {
        return NGX_ERROR;
    }

    p = start;
    found = 0;

    while (ngx_http_pgw_names_split(&left, (u_char) *separator, &item)) {

        if (ngx_http_pgw_source_match(conf, source, &item, &token)) {
            found = 1;

        } else {
            p = ngx_sprintf(p, "%s%V", p == start ? "" : separator, &item);
        }
    }

    if (!found || p == start) {
        return found ? NGX_OK : NGX_DECLINED;
    }

    *p = '\0';

    *rest = ngx_palloc(pool, sizeof(ngx_table_elt_t));
    if (*rest == NULL) {
        return NGX_ERROR;
    }

    **rest = *h;
    (*rest)->value.len = (size_t) (p - start);
    (*rest)->value.data = start;

    return NGX_OK;
}


char *
ngx_http_pgw_source_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_token_from_t **from = (ngx_http_pgw_token_from_t **)
                                 ((char *) conf + cmd->offset);

    pj_str_t     text;
    ngx_str_t   *value = cf->args->elts, *prefix;
    ngx_uint_t   i, source, off;
    const char  *word;

    if (*from != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    off = (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0);
    *from = off ? NULL : ngx_pcalloc(cf->pool,
                                     sizeof(ngx_http_pgw_token_from_t));

    for (i = 1; *from && i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "subprotocol") == 0) {
            ngx_str_set(&value[i], "subprotocol=bearer.");
        }

        text = ngx_http_pgw_span(&value[i]);

        for (source = 0; source < NGX_HTTP_PGW_SOURCES; source++) {

            word = ngx_http_pgw_sources[source].word;
            prefix = &(*from)->prefix[source];

            if (prefix->len == 0 && web_begins(text, word)) {
                text = web_unquote(web_skip(text, ngx_strlen(word)));
                break;
            }
        }

        /* the characters of a cookie's name (RFC 6265) or a subprotocol
           (RFC 6455) */

        if (source == NGX_HTTP_PGW_SOURCES
            || !web_plain(text, "!#$%&'*+-.^_`|~"))
        {
            return "takes \"cookie=NAME\" and \"subprotocol=PREFIX\", each "
                   "once, or \"off\"";
        }

        prefix->data = (u_char *) text.data;
        prefix->len = text.len;
    }

    return off || *from ? NGX_CONF_OK : NGX_CONF_ERROR;
}
