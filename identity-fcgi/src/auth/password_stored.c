/* Stored credentials: ours, and those that were brought along. */

#include "auth/password.h"

#include <crypt.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SALT_MIN 8
#define HASH_MIN 16
/* About two seconds each on a slow machine.  SHA-crypt takes longer the longer
 * the credential is; bcrypt looks at its first 72 bytes. */
#define MOST_BCRYPT (1 << 14)
#define MOST_SHA_CRYPT 1000000
#define MOST_PBKDF2 2000000
#define CRYPT_CREDENTIAL_MAX 128

/* Reads base64 at *p and the character after it. */
static bool read_bytes(const char **p, char after, size_t min,
                       unsigned char bytes[STORED_PART_MAX], size_t *len)
{
    const char *end;

    if (sodium_base642bin(bytes, STORED_PART_MAX, *p, strlen(*p), NULL, len,
                          &end,
                          sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0 ||
        *end != after || *len < min) {
        return false;
    }
    *p = end + 1;
    return true;
}

/* Reads start at *p.  As it was written of the numbers that were read, only
 * one text of them is good: no signs, blanks or zeros. */
static bool read_start(const char **p, const char *start)
{
    size_t len = strlen(start);
    bool same = strncmp(*p, start, len) == 0;

    *p += same ? len : 0;
    return same;
}

static bool parse_argon2(const char *text, struct stored *s)
{
    char kind[3], start[PASSWORD_STORED_MAX];

    if (sscanf(text, "$argon2%2[id]$v=19$m=%lu,t=%lu,p=%lu$", kind,
               &s->memory_kib, &s->rounds, &s->lanes) != 4 ||
        (strcmp(kind, "id") != 0 && strcmp(kind, "i") != 0)) {
        return false;
    }
    s->form = kind[1] == 'd' ? STORED_ARGON2ID : STORED_ARGON2I;
    s->most = PASSWORD_MOST_ITERATIONS;
    (void) snprintf(start, sizeof(start), "$argon2%s$v=19$m=%lu,t=%lu,p=%lu$",
                    kind, s->memory_kib, s->rounds, s->lanes);
    return read_start(&text, start) &&
           read_bytes(&text, '$', SALT_MIN, s->salt, &s->salt_len) &&
           read_bytes(&text, '\0', HASH_MIN, s->hash, &s->hash_len) &&
           s->lanes >= 1 && s->lanes <= s->memory_kib / 8;
}

/* As PHC strings have it, or as passlib does, with "." for "+". */
static bool parse_pbkdf2(const char *text, struct stored *s)
{
    char start[PASSWORD_STORED_MAX], copy[PASSWORD_STORED_MAX];
    unsigned long len = 0;
    const char *p = copy;

    if (sscanf(text, "$pbkdf2-sha256$i=%lu,l=%lu$", &s->rounds, &len) == 2) {
        (void) snprintf(start, sizeof(start), "$pbkdf2-sha256$i=%lu,l=%lu$",
                        s->rounds, len);
    } else if (sscanf(text, "$pbkdf2-sha256$%lu$", &s->rounds) == 1) {
        (void) snprintf(start, sizeof(start), "$pbkdf2-sha256$%lu$",
                        s->rounds);
    } else {
        return false;
    }
    (void) snprintf(copy, sizeof(copy), "%s", text);
    for (char *dot = copy; len == 0 && (dot = strchr(dot, '.')) != NULL;) {
        *dot = '+';
    }
    s->form = STORED_PBKDF2;
    s->most = MOST_PBKDF2;
    return read_start(&p, start) &&
           read_bytes(&p, '$', SALT_MIN, s->salt, &s->salt_len) &&
           read_bytes(&p, '\0', HASH_MIN, s->hash, &s->hash_len) &&
           s->hash_len <= 32 && (len == 0 || len == s->hash_len);
}

/* Only what crypt() would write is good: else nobody could log in with it. */
static bool parse_crypt(const char *text, struct stored *s)
{
#define LETTER "[./0-9A-Za-z]"
#define ROUNDS_SALT "(rounds=[1-9][0-9]{3,8}\\$)?" LETTER "{1,16}\\$" LETTER
    const char *rounds;

    s->form = STORED_CRYPT;
    if (parse_form(text,
                   "\\$2[aby]\\$(0[4-9]|[12][0-9]|3[01])\\$" LETTER
                   "{21}[.Oeu]" LETTER "{31}",
                   60)) {
        s->rounds = 1ul << strtoul(text + 4, NULL, 10);
        s->most = MOST_BCRYPT;
        return true;
    }
    rounds = strstr(text, "$rounds=");
    s->rounds = rounds != NULL ? strtoul(rounds + 8, NULL, 10) : 5000;
    s->most = MOST_SHA_CRYPT;
    return parse_form(text,
                      "\\$(5\\$" ROUNDS_SALT "{43}|6\\$" ROUNDS_SALT "{86})",
                      PASSWORD_STORED_MAX - 1);
}

const char *stored_parse(const char *text, struct stored *s)
{
    *s = (struct stored){.text = text};
    if (strlen(text) >= PASSWORD_STORED_MAX ||
        !(parse_argon2(text, s) || parse_pbkdf2(text, s) ||
          parse_crypt(text, s))) {
        return "it is no Argon2id, Argon2i, bcrypt, SHA-crypt or "
               "PBKDF2-SHA256 hash in a known form";
    }
    return s->rounds >= 1 && s->rounds <= s->most &&
                   s->memory_kib <= PASSWORD_MOST_MEMORY_KIB
               ? NULL
               : "it takes longer to verify than a login may";
}

/*
 * libsodium's own comparison tells a lack of memory as a mismatch, which
 * would be counted as a failed login.  So what libsodium made is computed
 * here; only strings of other makers, which crypto_pwhash() cannot compute,
 * are left to it, while there is as much memory as they take.
 */
static enum password_result compare_argon2(const struct stored *s,
                                           pj_str_t credential)
{
    const bool id = s->form == STORED_ARGON2ID;
    const char *text = (const char *) credential.data;
    unsigned char hash[STORED_PART_MAX];
    size_t memory = (size_t) s->memory_kib * 1024;
    void *room;
    bool same;

    if (s->lanes != 1 || s->salt_len != crypto_pwhash_SALTBYTES ||
        (!id && s->rounds < crypto_pwhash_argon2i_OPSLIMIT_MIN)) {
        room = mmap(NULL, memory, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            return PASSWORD_BUSY;
        }
        (void) munmap(room, memory);
        same = crypto_pwhash_str_verify(s->text, text, credential.len) == 0;
    } else if (crypto_pwhash(hash, s->hash_len, text, credential.len, s->salt,
                             s->rounds, memory,
                             id ? crypto_pwhash_ALG_ARGON2ID13
                                : crypto_pwhash_ALG_ARGON2I13) != 0) {
        return PASSWORD_BUSY;
    } else {
        same = sodium_memcmp(hash, s->hash, s->hash_len) == 0;
        sodium_memzero(hash, sizeof(hash));
    }
    return same ? PASSWORD_OK : PASSWORD_WRONG;
}

static enum password_result compare_pbkdf2(const struct stored *s,
                                           pj_str_t credential)
{
    unsigned char hash[STORED_PART_MAX];
    bool same;

    if (PKCS5_PBKDF2_HMAC((const char *) credential.data, (int) credential.len,
                          s->salt, (int) s->salt_len, (int) s->rounds,
                          EVP_sha256(), (int) s->hash_len, hash) != 1) {
        return PASSWORD_BUSY;
    }
    same = sodium_memcmp(hash, s->hash, s->hash_len) == 0;
    sodium_memzero(hash, sizeof(hash));
    return same ? PASSWORD_OK : PASSWORD_WRONG;
}

/* What crypt() would not take whole is wrong, after the same work; of bcrypt
 * the end never counts. */
static enum password_result compare_crypt(const struct stored *s,
                                          pj_str_t credential)
{
    struct crypt_data data = {0};
    char phrase[CRYPT_CREDENTIAL_MAX + 1];
    bool whole = credential.len < sizeof(phrase) || s->text[1] == '2';
    size_t len =
        credential.len < sizeof(phrase) ? credential.len : sizeof(phrase) - 1;
    enum password_result result;
    const char *made;

    memcpy(phrase, credential.data, len);
    phrase[len] = '\0';
    whole = whole && strlen(phrase) == len;
    made = crypt_rn(phrase, s->text, &data, sizeof(data));
    if (made == NULL) {
        result = PASSWORD_UNUSABLE; /* not of this libcrypt's */
    } else {
        result = whole && strlen(made) == strlen(s->text) &&
                         sodium_memcmp(made, s->text, strlen(made)) == 0
                     ? PASSWORD_OK
                     : PASSWORD_WRONG;
    }
    sodium_memzero(phrase, sizeof(phrase));
    sodium_memzero(&data, sizeof(data));
    return result;
}

enum password_result stored_compare(const struct stored *s,
                                    pj_str_t credential)
{
    switch (s->form) {
    case STORED_CRYPT:
        return compare_crypt(s, credential);
    case STORED_PBKDF2:
        return compare_pbkdf2(s, credential);
    default:
        return compare_argon2(s, credential);
    }
}
