/* New signing keys for the command "keys generate". */

#include "auth/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* One half of key as base64 of PEM, on one line. */
static bool write_half(const pj_key_t *key, bool private_half, char *out,
                       size_t cap)
{
    char pem[PJ_DER_MAX_BYTES];
    size_t len;
    bool ok = !pj_key_pem(key, private_half, pem, sizeof(pem), &len) &&
              len * 4 / 3 + 5 <= cap &&
              EVP_EncodeBlock((unsigned char *) out,
                              (const unsigned char *) pem, (int) len) > 0;

    OPENSSL_cleanse(pem, sizeof(pem));
    return ok;
}

bool keys_generate(const char *kid, struct new_keys *out)
{
    pj_key_t *key = NULL;
    bool ok =
        !pj_key_generate(&key, pj_alg_find(PJ_STR("RS256")),
                         PJ_STR("unnamed")) &&
        !pj_key_thumbprint(key, out->kid) &&
        write_half(key, true, out->private_text, sizeof(out->private_text)) &&
        write_half(key, false, out->public_text, sizeof(out->public_text));

    out->kid[PJ_THUMBPRINT_CHARS] = '\0';
    if (kid != NULL) {
        snprintf(out->kid, sizeof(out->kid), "%s", kid);
    }
    pj_key_free(key);
    return ok;
}
