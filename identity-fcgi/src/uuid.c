/* UUIDs (RFC 9562): random ones, their text and their bytes. */

#include "uuid.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define IS_DIGIT 0x10

/* The value of each hex digit, marked as one. */
static const unsigned char digit_value[256] = {
    ['0'] = IS_DIGIT | 0,  ['1'] = IS_DIGIT | 1,  ['2'] = IS_DIGIT | 2,
    ['3'] = IS_DIGIT | 3,  ['4'] = IS_DIGIT | 4,  ['5'] = IS_DIGIT | 5,
    ['6'] = IS_DIGIT | 6,  ['7'] = IS_DIGIT | 7,  ['8'] = IS_DIGIT | 8,
    ['9'] = IS_DIGIT | 9,  ['a'] = IS_DIGIT | 10, ['b'] = IS_DIGIT | 11,
    ['c'] = IS_DIGIT | 12, ['d'] = IS_DIGIT | 13, ['e'] = IS_DIGIT | 14,
    ['f'] = IS_DIGIT | 15,
};

/* Takes random bytes; asking OpenSSL for few costs as much as for many. */
static bool take_random(unsigned char raw[UUID_BYTES])
{
    static _Thread_local unsigned char pool[32 * UUID_BYTES];
    static _Thread_local size_t left;

    if (left == 0) {
        if (RAND_bytes(pool, sizeof(pool)) != 1) {
            return false;
        }
        left = sizeof(pool);
    }
    left -= UUID_BYTES;
    memcpy(raw, pool + left, UUID_BYTES);
    OPENSSL_cleanse(pool + left, UUID_BYTES); /* ids yet to come are secret */
    return true;
}

/* Whether a dash stands before the byte of this number. */
static bool dash_before(size_t i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

void uuid_write(char out[UUID_LEN], const unsigned char bytes[UUID_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    char *p = out;

    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (dash_before(i)) {
            *p++ = '-';
        }
        *p++ = hex[bytes[i] >> 4];
        *p++ = hex[bytes[i] & 15];
    }
}

bool uuid_read(unsigned char bytes[UUID_BYTES], pj_str_t text)
{
    const unsigned char *p = text.data;
    unsigned char all = IS_DIGIT;

    if (text.len != UUID_LEN) {
        return false;
    }
    for (size_t i = 0; i < UUID_BYTES; i++) {
        unsigned char high, low;

        if (dash_before(i) && *p++ != '-') {
            return false;
        }
        high = digit_value[*p++];
        low = digit_value[*p++];
        all &= high & low;
        bytes[i] = (unsigned char) (high << 4 | (low & 15));
    }
    return all != 0;
}

bool uuid_generate(char out[UUID_LEN + 1])
{
    unsigned char raw[UUID_BYTES];

    out[0] = '\0';
    if (!take_random(raw)) {
        return false;
    }
    raw[6] = (unsigned char) ((raw[6] & 0x0f) | 0x40); /* version 4 */
    raw[8] = (unsigned char) ((raw[8] & 0x3f) | 0x80); /* RFC 9562 variant */
    uuid_write(out, raw);
    out[UUID_LEN] = '\0';
    return true;
}
