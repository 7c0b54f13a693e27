/* UUIDs (RFC 9562): generating, reading, writing; hexadecimal digits. */

#include "base/uuid.h"

#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>

/* True if a dash precedes byte i. */
#define DASH_BEFORE(i) ((i) == 4 || (i) == 6 || (i) == 8 || (i) == 10)

char *uuid_hex(char *out, const unsigned char *bytes, size_t n)
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *out++ = hex[bytes[i] >> 4];
        *out++ = hex[bytes[i] & 15];
    }
    *out = '\0';
    return out;
}

void uuid_write(char out[UUID_LEN + 1], const unsigned char bytes[UUID_BYTES])
{
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (DASH_BEFORE(i)) {
            *out++ = '-';
        }
        out = uuid_hex(out, &bytes[i], 1);
    }
}

bool uuid_parse(unsigned char bytes[UUID_BYTES], pj_str_t text)
{
    const unsigned char *p = text.data;
    bool ok = text.len == UUID_LEN;

    for (size_t i = 0; ok && i < UUID_BYTES; i++, p += 2) {
        int high, low;

        ok = !DASH_BEFORE(i) || *p++ == '-';
        high = OPENSSL_hexchar2int(p[0]);
        low = OPENSSL_hexchar2int(p[1]);
        ok = ok && high >= 0 && low >= 0;
        bytes[i] = (unsigned char) (high * 16 + low);
    }
    return ok;
}

bool uuid_read(unsigned char bytes[UUID_BYTES], pj_str_t text)
{
    char again[UUID_LEN + 1];

    if (!uuid_parse(bytes, text)) {
        return false;
    }
    uuid_write(again, bytes);
    return memcmp(again, text.data, UUID_LEN) == 0;
}

bool uuid_generate(char out[UUID_LEN + 1])
{
    unsigned char raw[UUID_BYTES];

    out[0] = '\0';
    /* The kernel's generator is several times faster than OpenSSL's, which also
     * takes a lock shared by all threads. */
    if (getrandom(raw, sizeof(raw), 0) != sizeof(raw)) {
        return false;
    }
    raw[6] = (unsigned char) ((raw[6] & 0x0f) | 0x40); /* version 4 */
    raw[8] = (unsigned char) ((raw[8] & 0x3f) | 0x80); /* RFC 9562 variant */
    uuid_write(out, raw);
    return true;
}
