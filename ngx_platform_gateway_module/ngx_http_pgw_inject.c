
/*
 * What goes upstream: trusted headers, the claims of a verified token, and
 * whether it all fits.
 */


#include "ngx_http_pgw.h"


/* FastCGI and uwsgi: what a record holds, and what is not the client's. */
#define NGX_HTTP_PGW_RECORD_MAX    65535
#define NGX_HTTP_PGW_RECORD_SPARE  4096

/* What a header takes beside its name and value: "HTTP_" and two lengths. */
#define NGX_HTTP_PGW_RECORD_FIELD  (sizeof("HTTP_") - 1 + 2 * 4)


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


ngx_int_t
ngx_http_pgw_inject_render(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant)
{
    ngx_str_t                          *s, id;
    ngx_uint_t                          i;
    const pj_json_t                    *claim;
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
    grant->subject = (ngx_http_pgw_subject_t *) s;

    for (i = 0; i < NGX_HTTP_PGW_GRANT_IDS; i++, s++) {

        if (ids[i].len == 0) {
            continue;
        }

        id.len = ids[i].len;
        id.data = (u_char *) ids[i].data;

        s->len = id.len;
        s->data = ngx_pstrdup(pool, &id);
        if (s->data == NULL) {
            return NGX_ERROR;
        }
    }

    ch = conf->claim_headers->elts;

    for (i = 0; i < conf->claim_headers->nelts; i++, s++) {

        claim = pj_json_member(claims->root, (const char *) ch[i].claim.data);

        if (ngx_http_pgw_inject_value(pool, claim, s) == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_inject(ngx_http_request_t *r, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant)
{
    ngx_http_pgw_request_t  *gr;

    if (grant == NULL
        && (conf->forward_authorization
            || r->headers_in.authorization == NULL))
    {
        return NGX_OK;
    }

    /* the headers of a subrequest are those of its own parts, too */

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    gr->injected = 1;

    return ngx_http_pgw_headers_make(r, gr, conf, grant);
}


/*
 * nginx answers what does not fit into a record with 500 and an alert.  The
 * buffers bound what a client sends, but short headers take more room in a
 * record than there, and parameters repeat the path, the query and the type.
 */

ngx_int_t
ngx_http_pgw_inject_fits(ngx_http_request_t *r)
{
    size_t                   len;
    ngx_int_t                rc;
    ngx_uint_t               i;
    ngx_table_elt_t         *h;
    const ngx_list_part_t   *part;
    ngx_http_pgw_request_t  *gr;

    len = NGX_HTTP_PGW_RECORD_SPARE
          + r->request_line.len + r->args.len + 3 * r->uri.len;

    if (r->headers_in.content_type) {
        len += r->headers_in.content_type->value.len;
    }

    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {
        len += h->key.len + h->value.len + NGX_HTTP_PGW_RECORD_FIELD;
    }

    if (len <= NGX_HTTP_PGW_RECORD_MAX) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_problem_refuse(r, gr, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                     "the request headers are too large "
                                     "for the service behind this path");
    gr->code = "GATEWAY_HEADER_TOO_LARGE";

    return rc;
}
