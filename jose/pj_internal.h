/* Declarations shared by the files of this folder only. */

#ifndef PJ_INTERNAL_H_INCLUDED
#define PJ_INTERNAL_H_INCLUDED

#include "pj.h"

#include <openssl/evp.h>

/* -- algorithms (alg.c) --------------------------------------------------- */

/* A required member of a JWK. It is a constant (value), a number of at most
 * size bytes (param), or size bytes of the public point from offset at. */
typedef struct {
    const char *name;
    const char *value;
    const char *param; /* OpenSSL's name for the number */
    size_t at;
    size_t size;
} pj_member_t;

#define PJ_JWK_MEMBERS 4
#define PJ_POINT_MAX_BYTES 65

/* A type of key, shared by its algorithms. */
typedef struct {
    const char *name; /* OpenSSL's name */

    /* In alphabetical order, as in a thumbprint (RFC 7638 section 3.3).  The
     * name of the last is NULL. */
    pj_member_t members[PJ_JWK_MEMBERS + 1];

    const char *group;  /* NULL unless OpenSSL needs the name of the group */
    size_t point_bytes; /* 0 if the public key is numbers */
    size_t signature_bytes; /* in a token; 0 to use OpenSSL's size */

    /* PJ_ERR_KEY_WEAK, or PJ_ERR_KEY_FORMAT for an unsupported key. */
    pj_err_t (*check)(EVP_PKEY *pkey);

    /* sig has key->size bytes. */
    pj_err_t (*verify)(const pj_key_t *key, pj_str_t input, pj_str_t sig);
    pj_err_t (*sign)(const pj_key_t *key, pj_str_t input, unsigned char *sig);

    /* Returns a new key, or NULL on failure. */
    EVP_PKEY *(*generate)(void);
} pj_key_type_t;

struct pj_alg_s {
    const char *name; /* "alg" (RFC 7518 section 3.1) */
    const pj_key_type_t *type;
    const char *digest; /* NULL if the text itself is signed */
    int padding;        /* for RSA, else 0 */
};

/* Returns the default algorithm for the type of pkey, or NULL. */
const pj_alg_t *pj_alg_of_key(const EVP_PKEY *pkey);

/* Returns the algorithm for a JWK, or NULL. */
const pj_alg_t *pj_alg_of_jwk(const pj_json_t *jwk);

/* Returns true if jwk is of alg's type, and its "alg", if any, is alg. */
bool pj_alg_is_for(const pj_alg_t *alg, const pj_json_t *jwk);

PJ_MUST_CHECK pj_err_t pj_sha256(unsigned char md[PJ_SHA256_BYTES],
                                 pj_str_t text);

struct pj_key_s {
    const pj_alg_t *alg;
    EVP_PKEY *pkey;
    EVP_MD *md;           /* of alg; without it verify and sign are NULL */
    EVP_PKEY_CTX *verify; /* initialised, see operation_begin() */
    EVP_PKEY_CTX *sign;   /* NULL also for a public key */
    EVP_MD_CTX *digest;   /* of a copy (pj_key_copy()), else NULL */
    size_t md_bytes;
    size_t size; /* of a signature, in bytes */
    bool is_private;
    size_t kid_len;
    unsigned char kid[PJ_KID_MAX_BYTES];
};

/* -- memory (json.c) ------------------------------------------------------ */

/* The arena size that suffices to parse docs documents of len bytes in
 * total. */
size_t pj_json_arena_bytes(size_t len, size_t docs);

/* Decodes base64url and parses the result as JSON. Both stay in the arena. */
PJ_MUST_CHECK pj_err_t pj_json_decode(pj_arena_t *arena, pj_str_t src,
                                      const pj_json_t **root);

/* -- text (text.c) -------------------------------------------------------- */

bool pj_is_space(unsigned char c);

/* Returns true for well-formed UTF-8 without NUL. */
bool pj_utf8_valid(pj_str_t s);

/* Refuses text that yajl accepts: malformed (also overlong) UTF-8, surrogates,
 * lone or misordered \u surrogate escapes, NUL, and control characters that are
 * not white space in RFC 8259. */
PJ_MUST_CHECK pj_err_t pj_json_text_check(pj_str_t text);

/* Text under construction in caller memory.  Start with {dst, 0, cap, PJ_OK}
 * and check err once, at the end. */
typedef struct {
    char *dst;
    size_t len;
    size_t cap;
    pj_err_t err;
} pj_out_t;

/* Appends len characters for the caller to fill, or returns NULL. */
char *pj_out_take(pj_out_t *out, size_t len);
void pj_out_text(pj_out_t *out, pj_str_t text);
void pj_out_b64url(pj_out_t *out, pj_str_t bytes);

/* A JSON string with its quotes. */
void pj_out_json_string(pj_out_t *out, pj_str_t s);

/* -- keys (key.c) --------------------------------------------------------- */

/* Makes a key for alg and takes ownership of pkey, even on failure.  Checks kid
 * (may be empty), the type and strength of the key and, if it is private, that
 * the halves match.  PJ_ERR_KEY_FORMAT if alg is NULL or of another type. */
PJ_MUST_CHECK pj_err_t pj_key_wrap(pj_key_t **out, const pj_alg_t *alg,
                                   EVP_PKEY *pkey, pj_str_t kid,
                                   bool is_private);

/* Makes the key of a JWK that pj_alg_is_for() alg, for verifying. */
PJ_MUST_CHECK pj_err_t pj_jwk_key(pj_key_t **out, const pj_alg_t *alg,
                                  const pj_json_t *jwk, pj_str_t kid);

/* Returns true if "use" and "key_ops" of jwk allow verifying signatures. */
bool pj_jwk_verifies(const pj_json_t *jwk);

/* Computes the RFC 7638 thumbprint of a JWK that pj_alg_is_for() alg from its
 * members as they are written.  If pj_jwk_key() accepts them, it is that of the
 * key, since no number has two spellings. */
PJ_MUST_CHECK pj_err_t pj_jwk_thumbprint(const pj_alg_t *alg,
                                         const pj_json_t *jwk,
                                         unsigned char md[PJ_SHA256_BYTES]);

/* Like pj_key_public(), for a key without kid. */
PJ_MUST_CHECK pj_err_t pj_key_public_unnamed(pj_key_t **out, pj_str_t pem);

/* PJ_ERR_TOKEN_KID unless kid is valid. */
PJ_MUST_CHECK pj_err_t pj_kid_check(pj_str_t kid);

/* -- headers (jws.c) ------------------------------------------------------ */

/* Reads typ, a media type without its optional "application/" (RFC 7515 section
 * 4.1.9).  Empty unless it is a string. */
pj_str_t pj_jws_typ(const pj_json_t *header);

#endif /* PJ_INTERNAL_H_INCLUDED */
