/* The keys of PLATFORM_AUTH_FACTOR_KEYS. */

#include "base/factor_key.h"

#include "base/parse.h"

#include <openssl/crypto.h>
#include <string.h>

#define KEYS_MAX 16

/* Reads the item at text and sets *rest to the next one, or NULL. */
static bool read_item(const char *text, struct factor_key *key,
                      const char **rest)
{
    unsigned char bytes[FACTOR_KEY_BYTES + 3];
    size_t len = strcspn(text, ","), id_len = strcspn(text, "="), size;
    bool ok;

    *rest = text[len] == ',' ? text + len + 1 : NULL;
    if (id_len >= len || id_len > FACTOR_KEY_ID_MAX) {
        return false;
    }
    memcpy(key->id, text, id_len);
    key->id[id_len] = '\0';
    ok = parse_kid(key->id) &&
         pj_b64_decode(bytes, sizeof(bytes), &size,
                       (pj_str_t){(const unsigned char *) text + id_len + 1,
                                  len - id_len - 1}) == PJ_OK &&
         size == FACTOR_KEY_BYTES;
    memcpy(key->bytes, bytes, FACTOR_KEY_BYTES);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return ok;
}

bool factor_key_check(const char *text)
{
    struct factor_key key;
    char ids[KEYS_MAX][FACTOR_KEY_ID_MAX + 1];
    size_t count = 0;
    bool ok = true;

    do {
        ok = count < KEYS_MAX && read_item(text, &key, &text);
        for (size_t i = 0; ok && i < count; i++) {
            ok = strcmp(ids[i], key.id) != 0;
        }
        if (ok) {
            memcpy(ids[count++], key.id, sizeof(key.id));
        }
    } while (ok && text != NULL);
    OPENSSL_cleanse(&key, sizeof(key));
    return ok;
}

bool factor_key_find(const char *text, const char *id, struct factor_key *out)
{
    while (text != NULL) {
        if (read_item(text, out, &text) &&
            (id == NULL || strcmp(out->id, id) == 0)) {
            return true;
        }
    }
    OPENSSL_cleanse(out, sizeof(*out));
    return false;
}
