
/*
 * A buffer to write responses and lines of the access log.
 */


#include "base/base.h"


#define NGX_HTTP_PGW_TEXT_START  384
#define NGX_HTTP_PGW_TEXT_PIECE  128


u_char *
ngx_http_pgw_text_grow(ngx_http_pgw_text_t *text, size_t len)
{
    size_t       used, size;
    u_char      *p;
    ngx_pool_t  *pool = text->pool ? text->pool : text->request->pool;

    used = (size_t) (text->last - text->start);
    size = ngx_max(2 * used, NGX_HTTP_PGW_TEXT_START) + len;

    p = text->failed ? NULL : ngx_palloc(pool, size);
    if (p == NULL) {
        text->failed = 1;
        text->end = text->last;
        return NULL;
    }

    if (text->start) {
        ngx_memcpy(p, text->start, used);
        (void) ngx_pfree(pool, text->start);
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


ngx_int_t
ngx_http_pgw_text_send_cached(ngx_http_pgw_text_t *text, const char *type,
    const ngx_str_t *cache_control)
{
    ngx_str_t                 content_type;
    ngx_http_complex_value_t  body;

    if (text->failed
        || !ngx_http_pgw_header_add(text->request, "Cache-Control",
                                    cache_control))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    body.value = ngx_http_pgw_text_value(text);
    content_type.data = (u_char *) type;
    content_type.len = ngx_strlen(type);

    return ngx_http_send_response(text->request, NGX_HTTP_OK, &content_type,
                                  &body);
}
