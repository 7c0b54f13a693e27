/* The test vectors of Project Wycheproof: data/README. */

#include "helpers.h"

#include <ctype.h>

static pj_keyset_t keys;

/* What comes before the next space; *rest goes behind it. */
static char *word(char **rest)
{
    char *token = strsep(rest, " ");

    ck_assert_ptr_nonnull(token);
    return token;
}

/* The bytes of hex digits, in place; "-" is none. */
static pj_str_t unhex(char *hex)
{
    size_t len = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], 0};

        ck_assert(isxdigit(digits[0]) && isxdigit(digits[1]));
        ((unsigned char *) hex)[i] = (unsigned char) strtoul(digits, NULL, 16);
    }
    return bytes(hex, len);
}

/* Reads the keys named in the file; each vector must be accepted or refused as
 * listed. */
static void vectors(const char *file, void (*keys_read)(char *),
                    bool (*accepted)(char *), size_t valid, size_t all)
{
    pj_str_t text = file_read(file);
    char *copy = xmalloc(text.len + 1), *rest = copy, *line;

    ck_assert_uint_lt(text.len, FILE_MAX);
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    for (; (line = strsep(&rest, "\n")) != NULL && *line != 0;) {
        char *name, *result;
        bool good;

        if (*line == '#')
            continue;
        name = word(&line);
        if (strcmp(name, "key") == 0 || strcmp(name, "set") == 0) {
            keys_read(line);
            continue;
        }
        result = word(&line);
        good = strcmp(result, "valid") == 0;
        ck_assert_msg(accepted(line) == good, "%s: %s is not %s", file, name,
                      result);
        check_error_queue();
        valid -= good;
        all--;
    }
    ck_assert_uint_eq(valid, 0);
    ck_assert_uint_eq(all, 0);
    pj_keyset_clear(&keys);
    free(copy);
    str_free(text);
}

/* -- signatures of bytes -- */

/* Makes a set of one of a JWK's members but for x and y, and these in hex. */
static void key_of(const char *members, char *hex)
{
    pj_str_t raw = unhex(hex);
    char json[512], *x = b64(bytes(raw.data, 32)),
                    *y = b64(bytes(raw.data + 32, raw.len - 32));

    pj_keyset_clear(&keys);
    snprintf(json, sizeof(json),
             "{\"keys\":[{%s,\"kid\":\"k\",\"x\":\"%s\",\"y\":\"%s\"}]}",
             members, x, y);
    assert_ok(set_parse(&keys, str(json)));
    free(x);
    free(y);
}

static void es256_key(char *hex)
{
    key_of("\"kty\":\"EC\",\"crv\":\"P-256\"", hex);
}

static void eddsa_key(char *hex)
{
    key_of("\"kty\":\"OKP\",\"crv\":\"Ed25519\"", hex);
}

static bool signature_accepted(char *line)
{
    pj_str_t input = unhex(word(&line)), sig = unhex(word(&line));
    char *encoded = b64(sig);
    pj_jws_t jws = {.alg = keys.keys[0]->alg,
                    .signing_input = input,
                    .signature = str(encoded)};
    pj_err_t err = pj_jws_verify(&jws, keys.keys[0]);

    free(encoded);
    if (err != PJ_OK)
        assert_err(err, PJ_ERR_TOKEN_SIGNATURE);
    return err == PJ_OK;
}

TEST (test_es256) {
    vectors("wycheproof_es256.txt", es256_key, signature_accepted, 173, 262);
}

TEST (test_eddsa) {
    vectors("wycheproof_eddsa.txt", eddsa_key, signature_accepted, 88, 151);
}

/* -- tokens, the whole way -- */

static void set_read(char *json)
{
    pj_err_t err = set_parse(&keys, str(json));

    ck_assert(err == PJ_OK || err == PJ_ERR_KEYSET_EMPTY);
}

static bool token_accepted(char *line)
{
    const char *token = word(&line);
    size_t size = pj_token_arena_bytes(strlen(token));
    void *mem = xmalloc(size);
    pj_jws_header_t header;
    const pj_key_t *key = NULL;
    pj_arena_t arena;
    pj_jws_t jws;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = pj_jws_split(str(token), 65536, &jws);
    if (err == PJ_OK)
        err = pj_jws_header(&arena, &jws, false, &header);
    if (err == PJ_OK)
        key = pj_keyset_find(&keys, header.kid);
    if (key != NULL)
        err = pj_jws_verify(&jws, key);
    free(mem);
    return key != NULL && err == PJ_OK;
}

TEST (test_jws) {
    vectors("wycheproof_jws.txt", set_read, token_accepted, 21, 232);
}

/* -- public keys -- */

static bool key_accepted(char *line)
{
    char *text = word(&line), json[1024];
    pj_key_t *key = NULL;
    pj_err_t err;

    if (*text != '{') {
        err = pj_key_public(&key, unhex(text), PJ_STR("k"));
        pj_key_free(key);
        if (err != PJ_OK)
            assert_err(err, PJ_ERR_KEY_FORMAT);
        return err == PJ_OK;
    }
    snprintf(json, sizeof(json), "{\"keys\":[%s]}", text);
    err = set_parse(&keys, str(json));
    pj_keyset_clear(&keys);
    if (err != PJ_OK)
        assert_err(err, PJ_ERR_KEYSET_EMPTY);
    return err == PJ_OK;
}

TEST (test_keys) {
    vectors("wycheproof_keys.txt", NULL, key_accepted, 6, 162);
}

int main(void)
{
    return run_case("wycheproof", fill_plain);
}
