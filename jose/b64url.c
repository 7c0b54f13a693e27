/* Strict base64url and base64 (RFC 4648). */

#include "pj_internal.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* The value of each base64url character plus 64; 0 for other characters. */
static const unsigned char places[256] = {
    ['A'] = 64,  65,  66,  67,  68,  69,  70,  71,          72,
    73,          74,  75,  76,  77,  78,  79,  80,          81,
    82,          83,  84,  85,  86,  87,  88,  89,          ['a'] = 90,
    91,          92,  93,  94,  95,  96,  97,  98,          99,
    100,         101, 102, 103, 104, 105, 106, 107,         108,
    109,         110, 111, 112, 113, 114, 115, ['0'] = 116, 117,
    118,         119, 120, 121, 122, 123, 124, 125,         ['-'] = 126,
    ['_'] = 127,
};

size_t pj_b64url_encoded_len(size_t n)
{
    return n > SIZE_MAX / 2 ? SIZE_MAX
                            : n / 3 * 4 + (n % 3 == 0 ? 0 : n % 3 + 1);
}

pj_err_t pj_b64url_encode(char *dst, size_t cap, size_t *out_len, pj_str_t src)
{
    const unsigned char *s = src.data;
    size_t left = src.len;

    if (pj_b64url_encoded_len(left) > cap)
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

/* Decodes four characters to three bytes; false if one is not base64url. */
static bool four_decode(unsigned char *dst, const unsigned char *s)
{
    unsigned a = places[s[0]], b = places[s[1]];
    unsigned c = places[s[2]], d = places[s[3]];
    unsigned bits = (a << 18) + (b << 12) + (c << 6) + d - 64 * 0x41041;

    dst[0] = (unsigned char) (bits >> 16);
    dst[1] = (unsigned char) (bits >> 8);
    dst[2] = (unsigned char) bits;
    return (a & b & c & d) != 0;
}

pj_err_t pj_b64url_decode(unsigned char *dst, size_t cap, size_t *out_len,
                          pj_str_t src)
{
    unsigned char last[] = "AAAA", bytes[3];
    const unsigned char *s = src.data;
    size_t left = src.len;
    size_t len = left / 4 * 3 + (left % 4 == 0 ? 0 : left % 4 - 1);

    if (left % 4 == 1)
        return PJ_ERR_BASE64;
    if (len > cap)
        return PJ_ERR_NO_SPACE;
    *out_len = len;

    for (; left >= 4; left -= 4, s += 4, dst += 3) {
        if (!four_decode(dst, s))
            return PJ_ERR_BASE64;
    }
    if (left > 0) {
        memcpy(last, s, left);
        /* The unused bits are all in this byte and must be zero. */
        if (!four_decode(bytes, last) || bytes[left - 1] != 0)
            return PJ_ERR_BASE64;
        memcpy(dst, bytes, left - 1);
    }
    return PJ_OK;
}

pj_err_t pj_b64_decode(unsigned char *dst, size_t cap, size_t *out_len,
                       pj_str_t src)
{
    unsigned char four[4];
    size_t have = 0, pad = 0, len = 0, n = 0;
    pj_err_t err = PJ_OK;

    for (size_t i = 0; i < src.len && err == PJ_OK; i++) {
        unsigned char c = src.data[i];

        pad += c == '=';
        if (c == '=' || pj_is_space(c))
            continue;
        if (c == '-' || c == '_' || pad > 0)
            return PJ_ERR_BASE64;
        four[have++] = c == '+' ? '-' : c == '/' ? '_' : c;
        if (have == 4) {
            err =
                pj_b64url_decode(dst + len, cap - len, &n, (pj_str_t){four, 4});
            len += n;
            have = 0;
        }
    }
    if (err == PJ_OK)
        err =
            pj_b64url_decode(dst + len, cap - len, &n, (pj_str_t){four, have});
    if (err == PJ_OK && pad != 0 && pad != (4 - have) % 4)
        err = PJ_ERR_BASE64;
    *out_len = len + n;
    return err;
}
