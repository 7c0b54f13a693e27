/* Time-based one-time codes (RFC 6238). */

#include "auth/totp.h"

#include <liboath/oath.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 6
#define STEP_S 30

bool totp_new(unsigned char secret[FACTOR_SECRET_BYTES])
{
    return RAND_priv_bytes(secret, FACTOR_SECRET_BYTES) == 1;
}

bool totp_base32(const unsigned char secret[FACTOR_SECRET_BYTES],
                 char out[TOTP_BASE32])
{
    char *text = NULL;
    size_t len = 0;
    bool ok = oath_base32_encode((const char *) secret, FACTOR_SECRET_BYTES,
                                 &text, &len) == OATH_OK &&
              len < TOTP_BASE32;

    if (ok) {
        memcpy(out, text, len);
        out[len] = '\0';
    }
    if (text != NULL) {
        OPENSSL_cleanse(text, len);
        free(text);
    }
    return ok;
}

int64_t totp_step(const unsigned char secret[FACTOR_SECRET_BYTES],
                  pj_str_t code, int64_t now_s)
{
    int64_t found = 0;

    for (int64_t step = now_s / STEP_S - 1; step <= now_s / STEP_S + 1;
         step++) {
        char text[DIGITS + 1];

        if (oath_totp_generate2((const char *) secret, FACTOR_SECRET_BYTES,
                                step * STEP_S, STEP_S, 0, DIGITS, 0,
                                text) == OATH_OK &&
            code.len == DIGITS && CRYPTO_memcmp(text, code.data, DIGITS) == 0) {
            found = step;
        }
        OPENSSL_cleanse(text, sizeof(text));
    }
    return found;
}
