/* Reads any text as the hash of an imported account.  An accepted hash is
 * within bounds, and its parts written again are the same text.  Where that is
 * cheap, libsodium and libcrypt come to the same verdict. */

#include "fuzz.h"

#include "auth/password.h"

#include <crypt.h>
#include <sodium.h>

#define CHEAP 4096

static pj_str_t credential = {(const unsigned char *) "secret", 6};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    FUZZ_ASSERT(sodium_init() >= 0);
    return 0;
}

static char *b64(char *p, const unsigned char *bytes, size_t len)
{
    *p++ = '$';
    sodium_bin2base64(p, 256, bytes, len,
                      sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    return p + strlen(p);
}

/* What was read, as its maker writes it: passlib has "." for "+", and leaves
 * the names out. */
static void write_again(const struct stored *s, const char *text)
{
    bool passlib = strstr(text, "$i=") == NULL;
    char again[1024], *p = again;
    char fixed[PASSWORD_STORED_MAX + 1];

    if (s->form == STORED_PBKDF2)
        p += snprintf(p, 128,
                      passlib ? "$pbkdf2-sha256$%lu"
                              : "$pbkdf2-sha256$i=%lu,l=%zu",
                      s->rounds, s->hash_len);
    else
        p += snprintf(p, 128, "$argon2%s$v=19$m=%lu,t=%lu,p=%lu",
                      s->form == STORED_ARGON2I ? "i" : "id", s->memory_kib,
                      s->rounds, s->lanes);
    p = b64(b64(p, s->salt, s->salt_len), s->hash, s->hash_len);
    snprintf(fixed, sizeof(fixed), "%s", text);
    for (p = fixed; passlib && *p != '\0'; p++)
        *p = *p == '.' ? '+' : *p;
    FUZZ_ASSERT(strcmp(again, fixed) == 0);
    FUZZ_ASSERT(s->salt_len >= 8 && s->hash_len >= 16);
}

static void verdict_check(const struct stored *s, const char *text)
{
    enum password_result verdict = password_compare(s, credential);
    struct crypt_data data = {0};
    const char *made;

    if (s->form == STORED_ARGON2ID || s->form == STORED_ARGON2I) {
        FUZZ_ASSERT((verdict == PASSWORD_OK) ==
                    (crypto_pwhash_str_verify(text, "secret", 6) == 0));
    } else if (s->form == STORED_CRYPT) {
        made = crypt_r("secret", text, &data);
        FUZZ_ASSERT(made != NULL && verdict != PASSWORD_UNUSABLE);
        FUZZ_ASSERT((verdict == PASSWORD_OK) == (strcmp(made, text) == 0));
        FUZZ_ASSERT(strlen(made) == strlen(text) || made[0] == '*');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = (char *) fuzz_alloc(len + 1);
    struct stored s;

    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    if (password_parse(text, &s) == NULL) {
        FUZZ_ASSERT(strlen(text) < PASSWORD_STORED_MAX);
        FUZZ_ASSERT(s.text == text && s.rounds > 0 && s.rounds <= 2000000 &&
                    s.memory_kib <= PASSWORD_MAX_MEMORY_KIB);
        if (s.form != STORED_CRYPT)
            write_again(&s, text);
        if (s.rounds * (s.memory_kib + 1) <= CHEAP)
            verdict_check(&s, text);
    }
    free(text);
    return 0;
}
