/* Strict checks of text: spans, UTF-8 and the bytes of a JSON document. */

#include "pj_internal.h"

#include <string.h>

bool pj_str_eq(pj_str_t a, pj_str_t b)
{
    return a.len == b.len &&
           (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static unsigned char ascii_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char) (c | 0x20) : c;
}

bool pj_str_caseeq(pj_str_t s, pj_str_t b)
{
    if (s.len != b.len)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (ascii_lower(s.data[i]) != ascii_lower(b.data[i]))
            return false;
    }
    return true;
}

/*
 * Length of the well-formed sequence of two to four bytes at p, or 0.  Only
 * the second byte's range depends on the first: that is what shuts out
 * overlong forms, surrogates and code points past U+10FFFF.
 */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char lo = 0x80, hi = 0xBF;
    size_t len;

    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (left < len)
        return 0;

    if (p[0] == 0xE0)
        lo = 0xA0;
    else if (p[0] == 0xED)
        hi = 0x9F;
    else if (p[0] == 0xF0)
        lo = 0x90;
    else if (p[0] == 0xF4)
        hi = 0x8F;

    if (p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

bool pj_utf8_valid(pj_str_t s)
{
    for (size_t i = 0, n; i < s.len; i += n) {
        n = s.data[i] < 0x80 ? 1 : utf8_sequence(s.data + i, s.len - i);
        if (n == 0 || s.data[i] == 0)
            return false;
    }
    return true;
}

/* The code unit of the four hex digits at p, or -1. */
static int hex4(const unsigned char *p)
{
    int unit = 0;

    for (int i = 0; i < 4; i++) {
        int c = ascii_lower(p[i]);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Checks the escape at p (a backslash); *len is what it spans. */
static pj_err_t escape_check(const unsigned char *p, size_t left, size_t *len)
{
    int unit, low;

    if (left < 2)
        return PJ_ERR_JSON_SYNTAX;
    *len = 2; /* which letters may follow is left to yajl */
    if (p[1] != 'u')
        return PJ_OK;

    if (left < 6 || (unit = hex4(p + 2)) < 0)
        return PJ_ERR_JSON_SYNTAX;
    if (unit == 0)
        return PJ_ERR_JSON_NUL;
    *len = 6;
    if (unit < 0xD800 || unit > 0xDFFF)
        return PJ_OK;

    if (unit > 0xDBFF || left < 12 || p[6] != '\\' || p[7] != 'u')
        return PJ_ERR_JSON_SYNTAX;
    low = hex4(p + 8);
    if (low < 0xDC00 || low > 0xDFFF)
        return PJ_ERR_JSON_SYNTAX;
    *len = 12;
    return PJ_OK;
}

/* True when the eight bytes at p are plain: ASCII, at least 0x20, and no
 * backslash.  Each term sets the top bit of a byte that is not. */
static bool plain8(const unsigned char *p)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t x, y;

    memcpy(&x, p, sizeof(x));
    y = x ^ (ones * '\\');
    return ((x | (x - ones * 0x20) | (y - ones)) & (ones * 0x80)) == 0;
}

pj_err_t pj_json_text_check(pj_str_t text)
{
    const unsigned char *p = text.data, *end = p + text.len;

    while (p < end) {
        size_t left = (size_t) (end - p);
        size_t len = 1;

        if (left >= 8 && plain8(p)) {
            p += 8;
            continue;
        }
        if (*p == '\\') {
            pj_err_t err = escape_check(p, left, &len);

            if (err != PJ_OK)
                return err;
        } else if (*p >= 0x80) {
            len = utf8_sequence(p, left);
            if (len == 0)
                return PJ_ERR_JSON_SYNTAX;
        } else if (*p == 0) {
            return PJ_ERR_JSON_NUL;
        } else if (*p < 0x20 && *p != '\t' && *p != '\n' && *p != '\r') {
            return PJ_ERR_JSON_SYNTAX;
        }
        p += len;
    }
    return PJ_OK;
}
