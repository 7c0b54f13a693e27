
/*
 * Text as the inside of a JSON string (RFC 8259): valid UTF-8, whatever bytes
 * a client sent.
 */


#include "ngx_http_pgw_json.h"


static ngx_uint_t ngx_http_pgw_json_odd(uint64_t w);
static size_t ngx_http_pgw_json_run(const u_char *p, const u_char *last);
static size_t ngx_http_pgw_json_escape_one(u_char *dst, const u_char *p,
    size_t n, ngx_uint_t valid);


#define ngx_http_pgw_json_is_plain(c)                                         \
    ((c) >= 0x20 && (c) < 0x7f && (c) != '"' && (c) != '\\')

/* The byte c eight times; and a high bit where one of the eight in w is c. */

#define ngx_http_pgw_json_eight(c)                                            \
    ((uint64_t) (c) * 0x0101010101010101ULL)

#define ngx_http_pgw_json_has(w, c)                                           \
    ((((w) ^ ngx_http_pgw_json_eight(c))                                      \
      - ngx_http_pgw_json_eight(1))                                           \
     & ~((w) ^ ngx_http_pgw_json_eight(c)))


/* Whether one of the eight bytes needs escaping. */

static ngx_uint_t
ngx_http_pgw_json_odd(uint64_t w)
{
    uint64_t  odd;

    /* a high bit stays where a byte is 0x80 and more, 0x7f, below 0x20 ... */

    odd = w | (w + ngx_http_pgw_json_eight(1))
          | ((w - ngx_http_pgw_json_eight(0x20)) & ~w);

    /* ... or one of the two */

    odd |= ngx_http_pgw_json_has(w, '"') | ngx_http_pgw_json_has(w, '\\');

    return (odd & ngx_http_pgw_json_eight(0x80)) != 0;
}


ngx_uint_t
ngx_http_pgw_json_plain(const ngx_str_t *s)
{
    uint64_t       w;
    const u_char  *p, *last;

    p = s->data;
    last = p + s->len;

    if (s->len < sizeof(w)) {
        return ngx_http_pgw_json_run(p, last) == s->len;
    }

    for ( /* void */ ; last - p > (ptrdiff_t) sizeof(w); p += sizeof(w)) {

        ngx_memcpy(&w, p, sizeof(w));

        if (ngx_http_pgw_json_odd(w)) {
            return 0;
        }
    }

    ngx_memcpy(&w, last - sizeof(w), sizeof(w));

    return !ngx_http_pgw_json_odd(w);
}


/* How many bytes at p need no escaping. */

static size_t
ngx_http_pgw_json_run(const u_char *p, const u_char *last)
{
    uint64_t       w;
    const u_char  *start;

    start = p;

    while (last - p >= (ptrdiff_t) sizeof(w)) {

        ngx_memcpy(&w, p, sizeof(w));

        if (ngx_http_pgw_json_odd(w)) {
            break;
        }

        p += sizeof(w);
    }

    while (p < last && ngx_http_pgw_json_is_plain(*p)) {
        p++;
    }

    return (size_t) (p - start);
}


size_t
ngx_http_pgw_json_escape(u_char *dst, const ngx_str_t *src)
{
    size_t      n, len;
    u_char     *p, *last;
    ngx_uint_t  valid;

    len = 0;
    p = src->data;
    last = p + src->len;

    while (p < last) {

        n = ngx_http_pgw_json_run(p, last);

        if (dst) {
            ngx_memcpy(dst + len, p, n);
        }

        len += n;
        p += n;

        if (p < last) {
            n = ngx_http_pgw_json_utf8(p, last, &valid);
            len += ngx_http_pgw_json_escape_one(dst ? dst + len : NULL, p, n,
                                                valid);
            p += n;
        }
    }

    return len;
}


/* The n bytes at p are one character, or none. */

static size_t
ngx_http_pgw_json_escape_one(u_char *dst, const u_char *p, size_t n,
    ngx_uint_t valid)
{
    size_t  len;
    u_char  buf[sizeof("\\u0000")];

    if (!valid) {
        len = 3;
        ngx_memcpy(buf, "\xef\xbf\xbd", 3);      /* U+FFFD */

    } else if (n > 1) {
        len = n;
        ngx_memcpy(buf, p, n);

    } else if (*p == '"' || *p == '\\') {
        len = 2;
        buf[0] = '\\';
        buf[1] = *p;

    } else {
        len = (size_t) (ngx_sprintf(buf, "\\u%04xd", (int) *p) - buf);
    }

    if (dst) {
        ngx_memcpy(dst, buf, len);
    }

    return len;
}


/* Unicode, table 3-7 and section 3.9: substitution of maximal subparts. */

size_t
ngx_http_pgw_json_utf8(const u_char *p, const u_char *last, ngx_uint_t *valid)
{
    size_t  i, n;
    u_char  low, high;

    *valid = 1;

    if (*p < 0x80) {
        return 1;
    }

    low = 0x80;
    high = 0xbf;

    if (*p >= 0xc2 && *p <= 0xdf) {
        n = 2;

    } else if (*p >= 0xe0 && *p <= 0xef) {
        n = 3;
        low = (*p == 0xe0) ? 0xa0 : low;    /* no overlong form */
        high = (*p == 0xed) ? 0x9f : high;  /* no surrogate */

    } else if (*p >= 0xf0 && *p <= 0xf4) {
        n = 4;
        low = (*p == 0xf0) ? 0x90 : low;
        high = (*p == 0xf4) ? 0x8f : high;  /* no more than U+10FFFF */

    } else {
        *valid = 0;
        return 1;
    }

    for (i = 1; i < n; i++) {

        if (p + i == last || p[i] < low || p[i] > high) {
            *valid = 0;
            return i;
        }

        low = 0x80;
        high = 0xbf;
    }

    return n;
}
