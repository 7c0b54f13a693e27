/*
 * Shared by the files of the core only.
 */

#ifndef PJ_INTERNAL_H_INCLUDED
#define PJ_INTERNAL_H_INCLUDED

#include "pj.h"

#include <openssl/evp.h>

#define PJ_SHA256_BYTES 32

/* -- algorithms (alg.c) --------------------------------------------------- */

/*
 * A member that every JWK of a type of keys has: a value that is the same for
 * all of them, or a number of at most size bytes, or size bytes of the public
 * point.
 */
typedef struct {
    const char *name;
    const char *value;
    const char *param; /* the number as OpenSSL names it */
    size_t at;         /* where in the point */
    size_t size;
} pj_member_t;

#define PJ_JWK_MEMBERS 4
#define PJ_POINT_MAX_BYTES 65

/* What algorithms share whose keys are of one type. */
typedef struct {
    const char *name; /* as OpenSSL has it */

    /* In alphabetical order, as in a thumbprint (RFC 7638 section 3.3); the
     * last has no name. */
    pj_member_t members[PJ_JWK_MEMBERS + 1];

    const char *group;      /* NULL: the type has one group, or none */
    size_t point_bytes;     /* 0: the public key is numbers */
    size_t signature_bytes; /* in a token; 0: as OpenSSL says of the key */

    /* PJ_ERR_KEY_WEAK, or PJ_ERR_KEY_FORMAT for keys that are not meant. */
    pj_err_t (*check)(EVP_PKEY *pkey);

    /* sig has key->size bytes. */
    pj_err_t (*verify)(const pj_key_t *key, pj_str_t input, pj_str_t sig);
    pj_err_t (*sign)(const pj_key_t *key, pj_str_t input, unsigned char *sig);

    /* A new key, NULL on failure. */
    EVP_PKEY *(*generate)(void);
} pj_key_type_t;

struct pj_alg_s {
    const char *name; /* "alg" (RFC 7518 section 3.1) */
    const pj_key_type_t *type;
    const char *digest; /* NULL: the text itself is signed */
    int padding;        /* of RSA, else 0 */
};

/* The row that keys of this type are for; NULL: there is none. */
const pj_alg_t *pj_alg_of_key(const EVP_PKEY *pkey);

/* The row that a JWK is for; NULL: there is none. */
const pj_alg_t *pj_alg_of_jwk(const pj_json_t *jwk);

struct pj_key_s {
    const pj_alg_t *alg;
    EVP_PKEY *pkey;
    EVP_MD *md;           /* of alg; without one, neither has the key ... */
    EVP_PKEY_CTX *verify; /* ... these, initialised; operation_begin() */
    EVP_PKEY_CTX *sign;   /* likewise; NULL for a public key */
    EVP_MD_CTX *digest;   /* of a key that is one thread's alone, else NULL */
    size_t md_bytes;
    size_t size; /* of a signature, in bytes */
    bool is_private;
    size_t kid_len;
    unsigned char kid[PJ_KID_MAX_BYTES];
};

/* -- memory (json.c) ------------------------------------------------------ */

/* Arena bytes that parsing documents of len bytes in all may take; docs is
 * how many they are. */
size_t pj_json_arena_bytes(size_t len, size_t docs);

/* Decodes base64url and parses the JSON text that comes out; the arena has
 * both. */
PJ_MUST_CHECK pj_err_t pj_json_decode(pj_arena_t *arena, pj_str_t src,
                                      const pj_json_t **root);

/* -- text (text.c) -------------------------------------------------------- */

bool pj_is_space(unsigned char c);

/* True for well-formed UTF-8 without NUL. */
bool pj_utf8_valid(pj_str_t s);

/*
 * Refuses what yajl lets pass: overlong or otherwise malformed UTF-8,
 * surrogates, lone or misordered \u surrogate escapes, NUL, and control
 * characters that RFC 8259 does not count as white space.
 */
PJ_MUST_CHECK pj_err_t pj_json_text_check(pj_str_t text);

/* Text under construction in caller memory, and the first error: it is asked
 * for at the end.  Begins as {dst, 0, cap, PJ_OK}. */
typedef struct {
    char *dst;
    size_t len;
    size_t cap;
    pj_err_t err;
} pj_out_t;

/* Room for len characters, or NULL. */
char *pj_out_take(pj_out_t *out, size_t len);
void pj_out_text(pj_out_t *out, pj_str_t text);
void pj_out_b64url(pj_out_t *out, pj_str_t bytes);

/* A JSON string with its quotes. */
void pj_out_json_string(pj_out_t *out, pj_str_t s);

/* -- keys (key.c) --------------------------------------------------------- */

/*
 * Makes a key for alg of pkey, which it takes over also on failure.  Checks
 * kid (len 0: it has none), the kind and strength of the key and, where it is
 * private, that its halves fit.  PJ_ERR_KEY_FORMAT where alg is NULL or for
 * other keys.
 */
PJ_MUST_CHECK pj_err_t pj_key_wrap(pj_key_t **out, const pj_alg_t *alg,
                                   EVP_PKEY *pkey, pj_str_t kid,
                                   bool is_private);

/* pj_key_public() of a key that has no kid. */
PJ_MUST_CHECK pj_err_t pj_key_public_unnamed(pj_key_t **out, pj_str_t pem);

/* PJ_OK when kid may name a key. */
PJ_MUST_CHECK pj_err_t pj_kid_check(pj_str_t kid);

#endif /* PJ_INTERNAL_H_INCLUDED */
