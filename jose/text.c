/* Spans, UTF-8, checking and writing JSON strings, error texts, output. */

#include "pj_internal.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

pj_str_t pj_str(const char *s)
{
    return (pj_str_t){(const unsigned char *) s, strlen(s)};
}

bool pj_str_eq(pj_str_t a, pj_str_t b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool pj_str_caseeq(pj_str_t s, pj_str_t b)
{
    return s.len == b.len && strncasecmp((const char *) s.data,
                                         (const char *) b.data, b.len) == 0;
}

bool pj_is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* -- UTF-8 (Unicode table 3-7) -------------------------------------------- */

/* Only the range of the second byte depends on the first.  This excludes
 * overlong forms, surrogates and code points above U+10FFFF. */
size_t pj_utf8_next(const unsigned char *p, const unsigned char *end,
                    bool *valid)
{
    unsigned char lo = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    size_t i, len;

    *valid = p[0] < 0x80;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 1;
    len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;

    for (i = 1; i < len && p + i < end && p[i] >= lo && p[i] <= hi; i++) {
        lo = 0x80;
        hi = 0xBF;
    }
    *valid = i == len;
    return i;
}

bool pj_utf8_valid(pj_str_t s)
{
    bool valid = true;
    size_t i = 0;

    while (i < s.len && valid && s.data[i] != 0)
        i += pj_utf8_next(s.data + i, s.data + s.len, &valid);
    return i == s.len && valid;
}

/* -- eight bytes at a time ------------------------------------------------ */

#define ONES UINT64_C(0x0101010101010101)

/* Returns true if all eight bytes are ASCII from 0x20 up and not a backslash
 * and, in a string, neither a quote nor DEL. */
static bool plain8(const unsigned char *p, bool in_string)
{
    uint64_t x, odd;

    /* Each term sets the top bit of a byte that is not plain, and possibly of
     * higher bytes. */
    memcpy(&x, p, sizeof(x));
    odd = x | (x - ONES * 0x20) | ((x ^ ONES * '\\') - ONES);
    if (in_string)
        odd |= (x + ONES) | ((x ^ ONES * '"') - ONES);
    return (odd & ONES * 0x80) == 0;
}

/* -- reading JSON strings ------------------------------------------------- */

/* Returns the code unit of the escape \uXXXX at p, or -1. */
static int unit_read(const unsigned char *p, size_t left)
{
    int unit = left < 6 || p[0] != '\\' || p[1] != 'u' ? -1 : 0;

    for (int i = 2; i < 6 && unit >= 0; i++) {
        int digit = OPENSSL_hexchar2int(p[i]);

        unit = digit < 0 ? -1 : unit * 16 + digit;
    }
    return unit;
}

/* Checks the escape at p, which starts with a backslash, and sets its *len. */
static pj_err_t escape_check(const unsigned char *p, size_t left, size_t *len)
{
    int unit = unit_read(p, left), low;

    *len = unit < 0 ? 2 : 6;
    if (unit < 0) /* yajl checks the letter */
        return left < 2 || p[1] == 'u' ? PJ_ERR_JSON_SYNTAX : PJ_OK;
    if (unit < 0xD800 || unit > 0xDFFF)
        return unit == 0 ? PJ_ERR_JSON_NUL : PJ_OK;

    low = unit_read(p + 6, left - 6);
    if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
        return PJ_ERR_JSON_SYNTAX;
    *len = 12;
    return PJ_OK;
}

pj_err_t pj_json_text_check(pj_str_t text)
{
    const unsigned char *p = text.data, *end = p + text.len;
    size_t len;

    for (; p < end; p += len) {
        bool valid = true;
        pj_err_t err = PJ_OK;

        len = 1;
        if (end - p >= 8 && plain8(p, false))
            len = 8;
        else if (*p == '\\')
            err = escape_check(p, (size_t) (end - p), &len);
        else if (*p >= 0x80)
            len = pj_utf8_next(p, end, &valid);
        else if (*p == 0)
            err = PJ_ERR_JSON_NUL;
        else
            valid = *p >= 0x20 || *p == '\t' || *p == '\n' || *p == '\r';
        if (err != PJ_OK || !valid)
            return err != PJ_OK ? err : PJ_ERR_JSON_SYNTAX;
    }
    return PJ_OK;
}

/* -- writing JSON strings ------------------------------------------------- */

/* Counts the characters at p that need no escape. */
static size_t plain_run(const unsigned char *p, const unsigned char *end)
{
    const unsigned char *at = p;

    while (end - at >= 8 && plain8(at, true))
        at += 8;
    /* The last eight bytes may overlap the previous ones. */
    if (at > p && end - at < 8 && plain8(end - 8, true))
        at = end;
    while (at < end && *at >= 0x20 && *at < 0x7F && *at != '"' && *at != '\\')
        at++;
    return (size_t) (at - p);
}

bool pj_json_plain(pj_str_t s)
{
    return s.len == 0 || plain_run(s.data, s.data + s.len) == s.len;
}

size_t pj_steers(const unsigned char *p, const unsigned char *end)
{
    size_t left = (size_t) (end - p);
    unsigned low = left > 2 && p[0] == 0xE2 ? p[1] * 256U + p[2] : 0;

    if (p[0] < 0x20 || p[0] == 0x7F)
        return 1;
    if (left > 1 && ((p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0) ||
                     (p[0] == 0xD8 && p[1] == 0x9C)))
        return 2;
    return low == 0x808E || low == 0x808F || (low >= 0x80A8 && low <= 0x80AE) ||
                   (low >= 0x81A6 && low <= 0x81A9)
               ? 3
               : 0;
}

/* Writes the escape of the character at p, which is not plain, to dst.  Sets *n
 * to the length of that character. */
static size_t escape_char(char *dst, const unsigned char *p,
                          const unsigned char *end, size_t *n)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
    const char *named;
    bool valid;

    *n = pj_utf8_next(p, end, &valid);
    if (!valid) {
        memcpy(dst, "\xEF\xBF\xBD", 3); /* U+FFFD */
        return 3;
    }
    if (*n > 1 && pj_steers(p, end) == 0) {
        memcpy(dst, p, *n);
        return *n;
    }
    if (*n > 1) {
        unsigned code = *n == 2 ? (p[0] & 0x1FU) << 6 | (p[1] & 0x3FU)
                                : (p[0] & 0x0FU) << 12 | (p[1] & 0x3FU) << 6 |
                                      (p[2] & 0x3FU);

        memcpy(dst, "\\u", 2);
        for (int i = 0; i < 4; i++)
            dst[2 + i] = hex[code >> (12 - 4 * i) & 15];
        return 6;
    }
    memcpy(dst, "\\u00", 4);
    named = memchr(from, *p, sizeof(from) - 1);
    if (named != NULL) {
        dst[1] = to[named - from];
        return 2;
    }
    dst[4] = hex[*p >> 4];
    dst[5] = hex[*p & 15];
    return 6;
}

size_t pj_json_escape(char *dst, pj_str_t s)
{
    const unsigned char *p = s.data, *end = s.len == 0 ? p : p + s.len;
    size_t len = 0, n, size;
    char escaped[6];

    for (; p < end; p += n, len += size) {
        const void *from = p;

        n = size = plain_run(p, end);
        if (n == 0) {
            from = escaped;
            size = escape_char(escaped, p, end, &n);
        }
        if (dst != NULL)
            memcpy(dst + len, from, size);
    }
    return len;
}

/* -- errors ------------------------------------------------------------- */

#define ERR_TEXT(code, name, phrase) {name, phrase},

static const struct {
    const char *name;
    const char *phrase;
} err_texts[PJ_ERR_COUNT + 1] = {
    {"ok", "no error"},
    PJ_ERRORS(ERR_TEXT){"unknown", "an unknown error"},
};

/* The cast is for compilers whose enums are signed. */
static size_t err_index(pj_err_t err)
{
    return (unsigned) err < PJ_ERR_COUNT ? err : PJ_ERR_COUNT;
}

const char *pj_strerror(pj_err_t err)
{
    return err_texts[err_index(err)].phrase;
}

const char *pj_errname(pj_err_t err)
{
    return err_texts[err_index(err)].name;
}

/* -- bounded output ------------------------------------------------------- */

char *pj_out_take(pj_out_t *out, size_t len)
{
    if (len > out->cap - out->len)
        out->err = PJ_ERR_NO_SPACE;
    if (out->err != PJ_OK || len == 0)
        return NULL;
    out->len += len;
    return out->dst + out->len - len;
}

void pj_out_text(pj_out_t *out, pj_str_t text)
{
    char *at = pj_out_take(out, text.len);

    if (at != NULL)
        memcpy(at, text.data, text.len);
}

void pj_out_json_string(pj_out_t *out, pj_str_t s)
{
    size_t len = pj_json_escape(NULL, s) + 2;
    char *at = pj_out_take(out, len);

    if (at != NULL) {
        pj_json_escape(at + 1, s);
        at[0] = at[len - 1] = '"';
    }
}
