/*
 * Shared by the unit tests of the core: files, keys, tokens with any header,
 * and an assertion that prints error names.
 */

#ifndef HELPERS_H_INCLUDED
#define HELPERS_H_INCLUDED

#include "pj_internal.h"
#include "testing.h"

#include <openssl/err.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX 131072

#define assert_err(expr, want)                                                 \
    do {                                                                       \
        pj_err_t got_ = (expr), want_ = (want);                                \
        ck_assert_msg(got_ == want_, "%s: got %s, want %s", #expr,             \
                      pj_errname(got_), pj_errname(want_));                    \
    } while (0)

#define assert_ok(expr) assert_err(expr, PJ_OK)

#define assert_str(got, want)                                                  \
    do {                                                                       \
        pj_str_t s_ = (got);                                                   \
        ck_assert_msg(pj_str_eq(s_, str(want)), "%s: got '%.*s', want '%s'",   \
                      #got, (int) s_.len, (const char *) s_.data, want);       \
    } while (0)

/* Every test must leave the queue empty, what it tried may fail or not. */
static inline void check_error_queue(void)
{
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

static inline pj_str_t str(const char *text)
{
    return (pj_str_t){(const unsigned char *) text, strlen(text)};
}

static inline pj_str_t bytes(const void *data, size_t len)
{
    return (pj_str_t){data, len};
}

static inline void *xmalloc(size_t len)
{
    void *mem = malloc(len == 0 ? 1 : len);

    ck_assert_ptr_nonnull(mem);
    return mem;
}

/* The content of a test data file; the caller frees .data. */
static inline pj_str_t file_read(const char *name)
{
    char path[4096];
    unsigned char *mem = xmalloc(FILE_MAX);
    FILE *f;
    size_t len;

    snprintf(path, sizeof(path), "%s/data/%s", JOSE_TEST_DATA, name);
    f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    len = fread(mem, 1, FILE_MAX, f);
    fclose(f);
    return bytes(mem, len);
}

static inline void str_free(pj_str_t s)
{
    free((void *) (uintptr_t) s.data);
}

static inline pj_key_t *key_private(const char *file, const char *kid)
{
    pj_str_t text = file_read(file);
    pj_key_t *key = NULL;

    assert_ok(pj_key_private(&key, text, str(kid)));
    str_free(text);
    return key;
}

static inline pj_err_t key_error(const char *file, bool is_private)
{
    pj_str_t text = file_read(file);
    pj_key_t *key = (pj_key_t *) (uintptr_t) 1;
    pj_err_t err = is_private ? pj_key_private(&key, text, PJ_STR("k"))
                              : pj_key_public(&key, text, PJ_STR("k"));

    ck_assert((err == PJ_OK) == (key != NULL));
    pj_key_free(key);
    str_free(text);
    return err;
}

/* A public key of any modulus and exponent, sound or not. */
static inline EVP_PKEY *pkey_from_numbers(const BIGNUM *n, const BIGNUM *e)
{
    unsigned char *nb = xmalloc((size_t) BN_num_bytes(n));
    unsigned char *eb = xmalloc((size_t) BN_num_bytes(e));
    int n_len = BN_bn2lebinpad(n, nb, BN_num_bytes(n));
    int e_len = BN_bn2lebinpad(e, eb, BN_num_bytes(e));
    OSSL_PARAM params[] = {
        {"n", OSSL_PARAM_UNSIGNED_INTEGER, nb, (size_t) n_len, 0},
        {"e", OSSL_PARAM_UNSIGNED_INTEGER, eb, (size_t) e_len, 0},
        {NULL, 0, NULL, 0, 0}};
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    EVP_PKEY *pkey = NULL;

    ck_assert_int_eq(EVP_PKEY_fromdata_init(ctx), 1);
    ck_assert_int_eq(EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params),
                     1);
    EVP_PKEY_CTX_free(ctx);
    free(nb);
    free(eb);
    return pkey;
}

/* key alone as a JWK, out of a set of one. */
static inline pj_err_t jwk_emit(const pj_key_t *key, char *dst, size_t cap,
                                size_t *len)
{
    const size_t before = strlen("{\"keys\":["), after = strlen("]}");
    pj_err_t err = pj_jwks_emit(&key, 1, dst, cap, len);

    if (err == PJ_OK) {
        *len -= before + after;
        memmove(dst, dst + before, *len);
    }
    return err;
}

typedef pj_err_t set_parser(pj_keyset_t *, pj_arena_t *, pj_str_t);

/* Fills set, with memory of its own that goes at the end. */
static inline pj_err_t set_parse_by(set_parser *parse, pj_keyset_t *set,
                                    pj_str_t json)
{
    size_t size = pj_keyset_arena_bytes(json.len);
    void *mem = xmalloc(size);
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = parse(set, &arena, json);
    free(mem);
    return err;
}

static inline pj_err_t set_parse(pj_keyset_t *set, pj_str_t json)
{
    return set_parse_by(pj_keyset_parse, set, json);
}

/* base64url of text, NUL-terminated; the caller frees it. */
static inline char *b64(pj_str_t text)
{
    size_t cap = pj_b64url_encoded_len(text.len), len;
    char *out = xmalloc(cap + 1);

    assert_ok(pj_b64url_encode(out, cap, &len, text));
    out[len] = 0;
    return out;
}

/* header.payload, both encoded; the caller frees it. */
static inline char *token_unsigned(const char *header, const char *payload)
{
    char *h = b64(str(header)), *p = b64(str(payload));
    size_t cap = strlen(h) + strlen(p) + 2;
    char *out = xmalloc(cap);

    snprintf(out, cap, "%s.%s", h, p);
    free(h);
    free(p);
    return out;
}

/* input "." signature; frees input. */
static inline char *token_join(char *input, pj_str_t signature)
{
    char *s = b64(signature);
    size_t cap = strlen(input) + strlen(s) + 2;
    char *out = xmalloc(cap);

    snprintf(out, cap, "%s.%s", input, s);
    free(input);
    free(s);
    return out;
}

/* A token signed by key, with any header. */
static inline char *token_signed(const pj_key_t *key, const char *header,
                                 const char *payload)
{
    unsigned char sig[PJ_RSA_MAX_BYTES];
    char *input = token_unsigned(header, payload);

    assert_ok(key->alg->type->sign(key, str(input), sig));
    return token_join(input, bytes(sig, key->size));
}

/* Returns true if with made the signature, ignoring the header. */
static inline pj_err_t signature_error(const pj_jws_t *jws,
                                       const pj_key_t *with)
{
    pj_jws_t copy = *jws;

    copy.alg = with->alg;
    return pj_jws_verify(&copy, with);
}

/* Splits, and reads the header with memory of its own. */
static inline pj_err_t header_read(const char *token, pj_jws_t *jws)
{
    size_t cap = pj_token_arena_bytes(strlen(token));
    void *mem = xmalloc(cap);
    pj_arena_t arena;
    pj_jws_header_t header;
    pj_err_t err = pj_jws_split(str(token), 65536, jws);

    pj_arena_init(&arena, mem, cap);
    if (err == PJ_OK)
        err = pj_jws_header(&arena, jws, false, &header);
    free(mem);
    return err;
}

static inline pj_err_t header_error(const char *token)
{
    pj_jws_t jws;

    return header_read(token, &jws);
}

/* Prepares tests without fixtures of their own. */
static inline void fill_plain(TCase *t)
{
    tcase_add_checked_fixture(t, NULL, check_error_queue);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif /* HELPERS_H_INCLUDED */
