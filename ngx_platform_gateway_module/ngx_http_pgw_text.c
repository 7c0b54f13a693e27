
/*
 * Writes a response of any length, piece by piece.
 */


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_TEXT_START  1024
#define NGX_HTTP_PGW_TEXT_PIECE  512


void
ngx_http_pgw_text_init(ngx_http_pgw_text_t *text, ngx_http_request_t *r)
{
    ngx_memzero(text, sizeof(ngx_http_pgw_text_t));

    text->request = r;
}


u_char *
ngx_http_pgw_text_reserve(ngx_http_pgw_text_t *text, size_t len)
{
    size_t   used, size;
    u_char  *p;

    if ((size_t) (text->end - text->last) >= len) {
        return text->last;
    }

    used = (size_t) (text->last - text->start);
    size = ngx_max(2 * used, NGX_HTTP_PGW_TEXT_START) + len;

    p = text->failed ? NULL : ngx_palloc(text->request->pool, size);
    if (p == NULL) {
        text->failed = 1;
        text->end = text->last;
        return NULL;
    }

    if (text->start) {
        ngx_memcpy(p, text->start, used);
        (void) ngx_pfree(text->request->pool, text->start);
    }

    text->start = p;
    text->last = p + used;
    text->end = p + size;

    return text->last;
}


void
ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...)
{
    size_t   room;
    u_char  *last;
    va_list  args;

    for (room = NGX_HTTP_PGW_TEXT_PIECE;
         ngx_http_pgw_text_reserve(text, room);
         room *= 2)
    {
        va_start(args, fmt);
        last = ngx_vslprintf(text->last, text->end, fmt, args);
        va_end(args);

        if (last < text->end) {
            text->last = last;
            return;
        }
    }
}


void
ngx_http_pgw_text_member(ngx_http_pgw_text_t *text, const char *before,
    size_t len, const ngx_str_t *s, ngx_uint_t plain)
{
    u_char  *p;

    plain = plain || ngx_http_pgw_json_plain(s);

    p = ngx_http_pgw_text_reserve(text, NGX_HTTP_PGW_TEXT_BEFORE
                                + sizeof("null")
                                + (plain ? s->len
                                         : ngx_http_pgw_json_escape(NULL, s)));
    if (p == NULL) {
        return;
    }

    ngx_memcpy(p, before, NGX_HTTP_PGW_TEXT_BEFORE);
    p += len;

    if (s->data == NULL) {
        text->last = ngx_cpymem(p, "null", 4);
        return;
    }

    *p++ = '"';

    if (plain) {
        p = ngx_cpymem(p, s->data, s->len);

    } else {
        p += ngx_http_pgw_json_escape(p, s);
    }

    *p++ = '"';

    text->last = p;
}


ngx_int_t
ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type)
{
    ngx_int_t            rc;
    ngx_buf_t           *b;
    ngx_str_t            value;
    ngx_chain_t          out;
    ngx_http_request_t  *r;

    r = text->request;
    b = ngx_calloc_buf(r->pool);

    ngx_str_set(&value, "no-store");

    if (text->failed || b == NULL
        || ngx_http_pgw_header_add(r, "Cache-Control", &value) == NULL)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->pos = text->start;
    b->last = text->last;
    b->memory = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, &out);
}
