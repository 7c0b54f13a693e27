
/*
 * Trusted headers: the claims of a verified token, one header each.
 */


#include "ngx_http_pgw.h"


static u_char *ngx_http_pgw_inject_escape(u_char *dst, pj_str_t text,
    ngx_uint_t element);
static ngx_uint_t ngx_http_pgw_inject_drop_same(ngx_table_elt_t *h,
    const void *data);


ngx_int_t
ngx_http_pgw_inject_render(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant)
{
    ngx_str_t                          *s;
    ngx_uint_t                          i;
    const ngx_http_pgw_claim_header_t  *ch;

    const pj_str_t  ids[NGX_HTTP_PGW_GRANT_IDS] = {
        claims->account_id, claims->session_id, claims->workspace_id
    };

    grant->access = ngx_http_pgw_token_access(claims->kind);
    grant->nstrings = NGX_HTTP_PGW_GRANT_IDS + conf->claim_headers->nelts;

    s = ngx_pcalloc(pool, grant->nstrings * sizeof(ngx_str_t));
    if (s == NULL) {
        return NGX_ERROR;
    }

    grant->strings = s;

    for (i = 0; i < NGX_HTTP_PGW_GRANT_IDS; i++, s++) {

        if (ids[i].len == 0) {
            continue;
        }

        s->len = ids[i].len;
        s->data = ngx_pnalloc(pool, s->len);
        if (s->data == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(s->data, ids[i].data, s->len);
    }

    ch = conf->claim_headers->elts;

    for (i = 0; i < conf->claim_headers->nelts; i++, s++) {

        if (ngx_http_pgw_inject_value(pool,
                           pj_json_member(claims->root,
                                          (const char *) ch[i].claim.data),
                           s)
            == NGX_ERROR)
        {
            return NGX_ERROR;
        }
    }

    s = grant->strings;

    ngx_http_pgw_grant_subject(grant,
                               ngx_http_pgw_json_plain(&s[0])
                               && ngx_http_pgw_json_plain(&s[1])
                               && ngx_http_pgw_json_plain(&s[2]));
    return NGX_OK;
}


void
ngx_http_pgw_grant_subject(ngx_http_pgw_grant_t *grant, ngx_uint_t plain)
{
    grant->subject.account_id = grant->strings[0];
    grant->subject.session_id = grant->strings[1];
    grant->subject.workspace_id = grant->strings[2];
    grant->subject.plain = plain;
}


ngx_int_t
ngx_http_pgw_inject(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant)
{
    ngx_str_t                    *value;
    ngx_uint_t                    i, n;
    ngx_table_elt_t              *add, *hide;
    ngx_http_pgw_request_t       *gr;
    ngx_http_pgw_claim_header_t  *ch;

    add = NULL;
    n = 0;

    if (grant) {

        ch = conf->claim_headers->elts;
        value = grant->strings + NGX_HTTP_PGW_GRANT_IDS;

        add = ngx_palloc(r->pool, grant->nstrings * sizeof(ngx_table_elt_t));
        if (add == NULL) {
            return NGX_ERROR;
        }

        for (i = 0; i < grant->nstrings - NGX_HTTP_PGW_GRANT_IDS; i++) {

            if (value[i].data) {
                ngx_http_pgw_headers_set(&add[n++], &ch[i], &value[i]);
            }
        }
    }

    /* headers_in.authorization stays: another location may still need it */

    hide = conf->forward_authorization ? NULL : r->headers_in.authorization;

    if (n == 0 && hide == NULL) {
        return NGX_OK;
    }

    /* the headers of a subrequest are those of its own parts, too */

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    gr->injected = 1;

    return ngx_http_pgw_headers_rebuild(r, hide ? ngx_http_pgw_inject_drop_same
                                                : NULL,
                                        hide, add, n);
}


static ngx_uint_t
ngx_http_pgw_inject_drop_same(ngx_table_elt_t *h, const void *data)
{
    return h == data;
}


ngx_int_t
ngx_http_pgw_inject_value(ngx_pool_t *pool, const pj_json_t *claim,
    ngx_str_t *value)
{
    size_t            len;
    u_char           *p;
    const pj_json_t  *item;

    static const ngx_str_t  no = ngx_string("false"), yes = ngx_string("true");

    if (claim == NULL
        || claim->type == PJ_JSON_NULL || claim->type == PJ_JSON_OBJECT)
    {
        return NGX_DECLINED;
    }

    if (claim->type == PJ_JSON_BOOL) {
        *value = claim->boolean ? yes : no;
        return NGX_OK;
    }

    /* with a final NUL, as in values that nginx read itself */

    len = 3 * claim->text.len + 1;

    for (item = claim->child; item; item = item->next) {

        if (item->type != PJ_JSON_STRING) {
            return NGX_DECLINED;
        }

        len += 3 * item->text.len + 1;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value->data = p;

    if (claim->type != PJ_JSON_ARRAY) {
        p = ngx_http_pgw_inject_escape(p, claim->text, 0);
    }

    for (item = claim->child; item; item = item->next) {
        p = ngx_http_pgw_inject_escape(p, item->text, 1);

        if (item->next) {
            *p++ = ',';
        }
    }

    *p = '\0';
    value->len = (size_t) (p - value->data);

    return NGX_OK;
}


/*
 * Percent-encodes what is not visible ASCII, '%', and in an array's element
 * ','.
 */

static u_char *
ngx_http_pgw_inject_escape(u_char *dst, pj_str_t text, ngx_uint_t element)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < text.len; i++) {

        c = text.data[i];

        if (c > 0x20 && c < 0x7f && c != '%' && !(element && c == ',')) {
            *dst++ = c;

        } else {
            dst = ngx_sprintf(dst, "%%%02Xd", c);
        }
    }

    return dst;
}
