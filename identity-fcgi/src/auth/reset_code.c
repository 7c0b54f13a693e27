/* Codes that let a person set a credential. */

#include "auth/reset_code.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#define CODE_BITS 80
#define GROUP 4

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; /* RFC 4648 */

static bool sha256(const char *text, size_t len,
                   unsigned char hash[RESET_CODE_BYTES])
{
    return EVP_Digest(text, len, hash, NULL, EVP_sha256(), NULL) == 1;
}

bool reset_code_new(char code[RESET_CODE_CHARS + 1],
                    unsigned char hash[RESET_CODE_BYTES])
{
    unsigned char random[CODE_BITS / 8];
    size_t len = 0;
    bool ok = RAND_priv_bytes(random, sizeof(random)) == 1;

    for (unsigned bit = 0; bit < CODE_BITS; bit += 5) {
        unsigned byte = bit / 8, shift = bit % 8;
        unsigned two = (unsigned) random[byte] << 8 |
                       (byte + 1 < sizeof(random) ? random[byte + 1] : 0);

        if (bit > 0 && bit / 5 % GROUP == 0) {
            code[len++] = '-';
        }
        code[len++] = alphabet[two >> (11 - shift) & 31];
    }
    code[len] = '\0';
    OPENSSL_cleanse(random, sizeof(random));
    return reset_code_hash(pj_str(code), hash) && ok;
}

bool reset_code_hash(pj_str_t text, unsigned char hash[RESET_CODE_BYTES])
{
    char plain[CODE_BITS / 5 + 1]; /* one more, to tell a longer text */
    size_t len = 0;
    bool ok;

    for (size_t i = 0; i < text.len && len < sizeof(plain); i++) {
        if (text.data[i] != '-' && text.data[i] != ' ') {
            plain[len++] = (char) toupper(text.data[i]);
        }
    }
    ok = sha256(plain, len, hash);
    OPENSSL_cleanse(plain, sizeof(plain));
    return ok;
}
