
/*
 * Writes a response of any length into buffers of the request's pool.
 */


#include "ngx_http_pgw_text.h"
#include "ngx_http_pgw_json.h"


#define NGX_HTTP_PGW_TEXT_BUFFER  8192
#define NGX_HTTP_PGW_TEXT_PIECE   512


static u_char *ngx_http_pgw_text_reserve(ngx_http_pgw_text_t *text,
    size_t len);


void
ngx_http_pgw_text_init(ngx_http_pgw_text_t *text, ngx_http_request_t *r)
{
    ngx_memzero(text, sizeof(ngx_http_pgw_text_t));

    text->request = r;
}


void
ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...)
{
    u_char  *p;
    va_list  args;

    p = ngx_http_pgw_text_reserve(text, NGX_HTTP_PGW_TEXT_PIECE);
    if (p == NULL) {
        return;
    }

    va_start(args, fmt);
    text->buf->last = ngx_vslprintf(p, p + NGX_HTTP_PGW_TEXT_PIECE, fmt, args);
    va_end(args);
}


void
ngx_http_pgw_text_json(ngx_http_pgw_text_t *text, const ngx_str_t *s)
{
    size_t   len;
    u_char  *p;

    if (s->data == NULL) {
        ngx_http_pgw_text_format(text, "null");
        return;
    }

    len = ngx_http_pgw_json_escape(NULL, s) + sizeof("\"\"") - 1;

    p = ngx_http_pgw_text_reserve(text, len);
    if (p == NULL) {
        return;
    }

    *p++ = '"';
    p += ngx_http_pgw_json_escape(p, s);
    *p++ = '"';

    text->buf->last = p;
}


void
ngx_http_pgw_text_label(ngx_http_pgw_text_t *text, const ngx_str_t *s)
{
    size_t      n;
    u_char     *p, *dst, *last;
    ngx_uint_t  valid;

    /* a byte becomes three at most */

    dst = ngx_http_pgw_text_reserve(text, s->len * 3);
    if (dst == NULL) {
        return;
    }

    last = s->data + s->len;

    for (p = s->data; p < last; p += n) {

        n = ngx_http_pgw_json_utf8(p, last, &valid);

        if (!valid) {
            dst = ngx_cpymem(dst, "\xef\xbf\xbd", 3);      /* U+FFFD */

        } else if (*p == '\n') {
            *dst++ = '\\';
            *dst++ = 'n';

        } else {
            if (*p == '"' || *p == '\\') {
                *dst++ = '\\';
            }

            dst = ngx_cpymem(dst, p, n);
        }
    }

    text->buf->last = dst;
}


ngx_int_t
ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type)
{
    ngx_int_t            rc;
    ngx_str_t            value;
    ngx_http_request_t  *r;

    r = text->request;

    if (text->failed || text->buf == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text->buf->last_buf = (r == r->main) ? 1 : 0;
    text->buf->last_in_chain = 1;

    ngx_str_set(&value, "no-store");

    if (ngx_http_pgw_header_add(r, "Cache-Control", &value) == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = text->size
                                      + (text->buf->last - text->buf->pos);
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, text->out);
}


/* Room for len bytes at buf->last. */

static u_char *
ngx_http_pgw_text_reserve(ngx_http_pgw_text_t *text, size_t len)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    b = text->buf;

    if (b && (size_t) (b->end - b->last) >= len) {
        return b->last;
    }

    if (b) {
        text->size += b->last - b->pos;
    }

    /* no buffer stays empty: nginx would take it for a mistake */

    cl = (b && b->last == b->pos) ? text->last
                                  : ngx_alloc_chain_link(text->request->pool);

    b = ngx_create_temp_buf(text->request->pool,
                            ngx_max(len, NGX_HTTP_PGW_TEXT_BUFFER));

    text->buf = b;

    if (b == NULL || cl == NULL) {
        text->failed = 1;
        text->buf = NULL;
        return NULL;
    }

    cl->buf = b;

    if (cl == text->last) {
        return b->last;
    }

    cl->next = NULL;

    if (text->last) {
        text->last->next = cl;

    } else {
        text->out = cl;
    }

    text->last = cl;

    return b->last;
}
