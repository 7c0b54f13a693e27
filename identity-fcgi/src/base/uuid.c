/* UUIDs (RFC 9562): random ones, their text and their bytes. */

#include "base/uuid.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

/* Marks of a hex digit, and of one that uuid_write() writes. */
#define HEX 0x20
#define OURS 0x10

/* The value of each hex digit, with its marks. */
#define D(value) (HEX | OURS | (value))
#define CAPITAL(value) (HEX | (value))
static const unsigned char digit_value[256] = {
    ['0'] = D(0),        ['1'] = D(1),        ['2'] = D(2),
    ['3'] = D(3),        ['4'] = D(4),        ['5'] = D(5),
    ['6'] = D(6),        ['7'] = D(7),        ['8'] = D(8),
    ['9'] = D(9),        ['a'] = D(10),       ['b'] = D(11),
    ['c'] = D(12),       ['d'] = D(13),       ['e'] = D(14),
    ['f'] = D(15),       ['A'] = CAPITAL(10), ['B'] = CAPITAL(11),
    ['C'] = CAPITAL(12), ['D'] = CAPITAL(13), ['E'] = CAPITAL(14),
    ['F'] = CAPITAL(15),
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

/* The marks that all digits have; none when there is anything but digits with
 * dashes where they belong. */
static unsigned char read_digits(unsigned char bytes[UUID_BYTES],
                                 pj_str_t text)
{
    const unsigned char *p = text.data;
    unsigned char all = HEX | OURS;

    if (text.len != UUID_LEN) {
        return 0;
    }
    for (size_t i = 0; i < UUID_BYTES; i++) {
        unsigned char high, low;

        if (dash_before(i) && *p++ != '-') {
            return 0;
        }
        high = digit_value[*p++];
        low = digit_value[*p++];
        all &= high & low;
        bytes[i] = (unsigned char) (high << 4 | (low & 15));
    }
    return all;
}

bool uuid_read(unsigned char bytes[UUID_BYTES], pj_str_t text)
{
    return (read_digits(bytes, text) & OURS) != 0;
}

bool uuid_parse(unsigned char bytes[UUID_BYTES], pj_str_t text)
{
    return (read_digits(bytes, text) & HEX) != 0;
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
