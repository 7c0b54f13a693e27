/* Strict base64url and base64 (RFC 4648). */

#include "pj_internal.h"

#define BAD 0xFF

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* clang-format off */
#define X16 BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD,                           \
            BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD

/* Value of each base64url character; all others have a top bit set. */
static const unsigned char values[256] = {
    X16, X16,
    BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, BAD, 62, BAD,
    BAD, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, BAD, BAD, BAD, BAD, BAD, BAD,
    BAD, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, BAD, BAD, BAD, BAD, 63,
    BAD, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, BAD, BAD, BAD, BAD, BAD,
    X16, X16, X16, X16, X16, X16, X16, X16
};
/* clang-format on */

size_t pj_b64url_encoded_len(size_t n)
{
    return n / 3 * 4 + (n % 3 == 0 ? 0 : n % 3 + 1);
}

pj_err_t pj_b64url_encode(char *dst, size_t cap, size_t *out_len, pj_str_t src)
{
    const unsigned char *s = src.data;
    size_t left = src.len;

    /* The first test keeps the length of a huge src from wrapping. */
    if (left > SIZE_MAX / 2 || pj_b64url_encoded_len(left) > cap)
        return PJ_ERR_NO_SPACE;
    *out_len = pj_b64url_encoded_len(left);

    for (; left >= 3; left -= 3, s += 3, dst += 4) {
        unsigned bits = (unsigned) s[0] << 16 | (unsigned) s[1] << 8 | s[2];

        dst[0] = alphabet[bits >> 18];
        dst[1] = alphabet[bits >> 12 & 63];
        dst[2] = alphabet[bits >> 6 & 63];
        dst[3] = alphabet[bits & 63];
    }
    if (left > 0) {
        *dst++ = alphabet[s[0] >> 2];
        *dst++ = alphabet[(s[0] & 3) << 4 | (left == 2 ? s[1] >> 4 : 0)];
        if (left == 2)
            *dst++ = alphabet[(s[1] & 15) << 2];
    }
    return PJ_OK;
}

void pj_out_b64url(pj_out_t *out, pj_str_t bytes)
{
    size_t len = pj_b64url_encoded_len(bytes.len);
    char *at = pj_out_take(out, len);

    if (at != NULL)
        out->err = pj_b64url_encode(at, len, &len, bytes);
}

/* The last two or three characters; unused bits must be zero. */
static pj_err_t decode_tail(unsigned char *d, const unsigned char *s,
                            size_t left)
{
    unsigned a = values[s[0]];
    unsigned b = values[s[1]];
    unsigned c = left == 3 ? values[s[2]] : 0;

    if ((a | b | c) > 63 || (left == 2 ? b & 15 : c & 3) != 0)
        return PJ_ERR_BASE64;
    d[0] = (unsigned char) (a << 2 | b >> 4);
    if (left == 3)
        d[1] = (unsigned char) (b << 4 | c >> 2);
    return PJ_OK;
}

pj_err_t pj_b64url_decode(unsigned char *dst, size_t cap, size_t *out_len,
                          pj_str_t src)
{
    const unsigned char *s = src.data;
    size_t left = src.len;
    size_t len = left / 4 * 3 + (left % 4 == 0 ? 0 : left % 4 - 1);

    if (left % 4 == 1)
        return PJ_ERR_BASE64;
    if (len > cap)
        return PJ_ERR_NO_SPACE;
    *out_len = len;

    for (; left >= 4; left -= 4, s += 4, dst += 3) {
        unsigned a = values[s[0]], b = values[s[1]];
        unsigned c = values[s[2]], d = values[s[3]];

        if ((a | b | c | d) > 63)
            return PJ_ERR_BASE64;
        dst[0] = (unsigned char) (a << 2 | b >> 4);
        dst[1] = (unsigned char) (b << 4 | c >> 2);
        dst[2] = (unsigned char) (c << 6 | d);
    }
    return left == 0 ? PJ_OK : decode_tail(dst, s, left);
}

pj_err_t pj_b64_decode(unsigned char *dst, size_t cap, size_t *out_len,
                       pj_str_t src)
{
    size_t chars = 0, pad = 0, len = 0;
    unsigned acc = 0, bits = 0;

    for (size_t i = 0; i < src.len; i++) {
        unsigned char c = src.data[i];
        unsigned value = c == '+'               ? 62
                         : c == '/'             ? 63
                         : c == '-' || c == '_' ? BAD
                                                : values[c];

        if (pj_is_space(c))
            continue;
        pad += c == '=';
        if (c == '=')
            continue;
        if (value > 63 || pad > 0)
            return PJ_ERR_BASE64;
        chars++;
        acc = acc << 6 | value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (len == cap)
                return PJ_ERR_NO_SPACE;
            dst[len++] = (unsigned char) (acc >> bits);
            acc &= (1u << bits) - 1;
        }
    }
    /* What is left in acc are the trailing bits. */
    if (chars % 4 == 1 || acc != 0 || (pad != 0 && pad != (4 - chars % 4) % 4))
        return PJ_ERR_BASE64;
    *out_len = len;
    return PJ_OK;
}
