/*
 * Shared by the files of the core only.
 */

#ifndef PJ_INTERNAL_H_INCLUDED
#define PJ_INTERNAL_H_INCLUDED

#include "pj.h"

#include <openssl/evp.h>

#define PJ_SHA256_BYTES 32

struct pj_key_s {
    EVP_PKEY *pkey;
    EVP_MD *sha256;
    EVP_PKEY_CTX *verify; /* initialised; see operation_begin() */
    EVP_PKEY_CTX *sign;   /* likewise; NULL for a public key */
    EVP_MD_CTX *digest;   /* of a key that is one thread's alone, else NULL */
    unsigned bits;
    size_t size; /* of the modulus, hence of a signature, in bytes */
    struct {
        char *text; /* base64url; private keys only */
        size_t len;
    } headers[PJ_TYP_COUNT];
    size_t kid_len;
    unsigned char kid[PJ_KID_MAX_BYTES];
};

/* -- memory (json.c) ------------------------------------------------------ */

/* Arena bytes that parsing documents of len bytes in all may take; docs is
 * how many they are. */
size_t pj_json_arena_bytes(size_t len, size_t docs);

/* Decodes base64url into fresh bytes of the arena. */
PJ_MUST_CHECK pj_err_t pj_b64url_decode_arena(pj_arena_t *arena, pj_str_t src,
                                              pj_str_t *out);

/* -- text (text.c) -------------------------------------------------------- */

bool pj_str_eq(pj_str_t a, pj_str_t b);

bool pj_is_space(unsigned char c);

/* True when s, without NUL, is the ASCII text b, letter case aside. */
bool pj_str_caseeq(pj_str_t s, pj_str_t b);

/* True for well-formed UTF-8 without NUL. */
bool pj_utf8_valid(pj_str_t s);

/*
 * Refuses what yajl lets pass: overlong or otherwise malformed UTF-8,
 * surrogates, lone or misordered \u surrogate escapes, NUL, and control
 * characters that RFC 8259 does not count as white space.
 */
PJ_MUST_CHECK pj_err_t pj_json_text_check(pj_str_t text);

/* Text under construction in caller memory, and the first error. */
typedef struct {
    char *dst;
    size_t len;
    size_t cap;
    pj_err_t err;
} pj_out_t;

void pj_out_init(pj_out_t *out, char *dst, size_t cap);
void pj_out_text(pj_out_t *out, pj_str_t text);
void pj_out_b64url(pj_out_t *out, pj_str_t bytes);

/* A JSON string with its quotes. */
void pj_out_json_string(pj_out_t *out, pj_str_t s);

/* The first error, or PJ_OK and the length. */
PJ_MUST_CHECK pj_err_t pj_out_done(const pj_out_t *out, size_t *len);

/* -- RS256 (alg.c) -------------------------------------------------------- */

/*
 * Makes a key of pkey, which it takes over also on failure.  Checks kid, the
 * kind and strength of the key and, where it is private, that its halves fit.
 */
PJ_MUST_CHECK pj_err_t pj_key_wrap(pj_key_t **out, EVP_PKEY *pkey,
                                   pj_str_t kid, bool is_private);

/* PJ_OK when kid may name a key. */
PJ_MUST_CHECK pj_err_t pj_kid_check(pj_str_t kid);

/* sig has key->size bytes. */
PJ_MUST_CHECK pj_err_t pj_rs256_verify(const pj_key_t *key, pj_str_t input,
                                       const unsigned char *sig);
PJ_MUST_CHECK pj_err_t pj_rs256_sign(const pj_key_t *key, pj_str_t input,
                                     unsigned char *sig);

#endif /* PJ_INTERNAL_H_INCLUDED */
