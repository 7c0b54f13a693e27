
#ifndef _NGX_HTTP_PGW_TEXT_H_INCLUDED_
#define _NGX_HTTP_PGW_TEXT_H_INCLUDED_


#include "ngx_http_pgw.h"


typedef struct {
    ngx_http_request_t          *request;      /* the others begin as zeroes */
    u_char                      *start;
    u_char                      *last;
    u_char                      *end;
    ngx_uint_t                   failed;       /* out of memory */
} ngx_http_pgw_text_t;

/* As ngx_sprintf(). */
void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...);

/* What has been written. */
#define ngx_http_pgw_text_value(text)                                         \
    ((ngx_str_t) { (size_t) ((text)->last - (text)->start), (text)->start })

/* Writes n, and returns its end. */

static ngx_inline u_char *
ngx_http_pgw_text_digits(u_char *p, uint64_t n)
{
    u_char  digits[NGX_INT64_LEN], *first, *last;

    last = digits + sizeof(digits);
    first = last;

    do {
        *--first = (u_char) ('0' + n % 10);
        n /= 10;
    } while (n);

    return ngx_cpymem(p, first, (size_t) (last - first));
}

/* Room for len bytes at text->last; NULL: there is none. */
u_char *ngx_http_pgw_text_grow(ngx_http_pgw_text_t *text, size_t len);

#define ngx_http_pgw_text_reserve(text, len)                                  \
    ((size_t) ((text)->end - (text)->last) >= (len)                           \
     ? (text)->last : ngx_http_pgw_text_grow(text, len))

/* What stands before, then s (an ngx_str_t or a pj_str_t) as a JSON string, one
   that needs no escaping, or n; null where s->data is NULL or n negative. */
#define ngx_http_pgw_text_json(text, before, s)                               \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 0)
#define ngx_http_pgw_text_plain(text, before, s)                              \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 1)
#define ngx_http_pgw_text_number(text, before, n)                             \
    ngx_http_pgw_text_integer(text, before, ngx_strlen(before), (int64_t) (n))

/* Inline: the log of a request has eighteen. */

static ngx_inline void
ngx_http_pgw_text_string(ngx_http_pgw_text_t *text, const char *before,
    size_t len, pj_str_t s, ngx_uint_t plain)
{
    size_t   most;
    u_char  *p;

    /* a byte takes six at most, but that is too much room for a long text */

    most = plain ? s.len
           : s.len < 128 ? 6 * s.len : pj_json_escape(NULL, s);

    p = ngx_http_pgw_text_reserve(text, len + most + sizeof("null"));
    if (p == NULL) {
        return;
    }

    p = ngx_cpymem(p, before, len);

    if (s.data == NULL) {
        text->last = ngx_cpymem(p, "null", 4);
        return;
    }

    *p++ = '"';
    p = plain || pj_json_plain(s) ? ngx_cpymem(p, s.data, s.len)
                                  : p + pj_json_escape((char *) p, s);
    *p++ = '"';

    text->last = p;
}

static ngx_inline void
ngx_http_pgw_text_integer(ngx_http_pgw_text_t *text, const char *before,
    size_t len, int64_t n)
{
    u_char  *p;

    p = ngx_http_pgw_text_reserve(text, len + NGX_INT64_LEN);
    if (p) {
        p = ngx_cpymem(p, before, len);
        text->last = n < 0 ? ngx_cpymem(p, "null", 4)
                           : ngx_http_pgw_text_digits(p, (uint64_t) n);
    }
}

/* A C string that needs no escaping, or NULL. */

static ngx_inline void
ngx_http_pgw_text_literal(ngx_http_pgw_text_t *text, const char *before,
    const char *literal)
{
    const pj_str_t  s = { (const u_char *) literal,
                          literal ? ngx_strlen(literal) : 0 };

    ngx_http_pgw_text_plain(text, before, &s);
}

/* The same of s as the next element of a list. */
#define ngx_http_pgw_text_item(text, s)                                       \
    ngx_http_pgw_text_json(text, (text)->failed || (text)->last[-1] == '['    \
                           ? "" : ",", s)

/* Answers 200 with the text, whatever body r has; what it returns, a content
   handler may, too. */
ngx_int_t ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type);


#endif /* _NGX_HTTP_PGW_TEXT_H_INCLUDED_ */
