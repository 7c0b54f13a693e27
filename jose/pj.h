/*
 * pj: a small, strict JOSE core.
 *
 * Functions read spans and write into caller memory.  They use neither globals
 * nor files, clock or logs.  Working memory comes from an arena of the caller,
 * so the limits below bound every call.  Keys are the only objects that must be
 * freed.  Any number of threads may call any function at once unless they share
 * an arena.  OpenSSL's error queue stays unchanged.
 */

#ifndef PJ_H_INCLUDED
#define PJ_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJ_MUST_CHECK __attribute__((warn_unused_result))

/* Limits; all are enforced, and no input can raise them. */
#define PJ_RSA_MIN_BITS 2048 /* weaker keys are never used */
#define PJ_RSA_MAX_BITS 8192 /* larger ones cost too much to verify */
#define PJ_RSA_MAX_BYTES (PJ_RSA_MAX_BITS / 8)
#define PJ_RSA_MAX_EXPONENT_BITS 32 /* the exponent is odd and at least 3 */
#define PJ_SIGNATURE_MAX_BYTES PJ_RSA_MAX_BYTES
#define PJ_KID_MAX_BYTES 255      /* a longer kid makes an entry unusable */
#define PJ_KEYSET_MAX_KEYS 128    /* usable keys kept from one set */
#define PJ_KEYSET_MAX_BYTES 65536 /* size of a key-set document */
#define PJ_JSON_MAX_DEPTH 8       /* nesting, the root counts as 1 */
#define PJ_JSON_MAX_MEMBERS 256   /* members of one object */
#define PJ_JSON_MAX_VALUES 2048   /* values of one document in all */
#define PJ_THUMBPRINT_CHARS 43    /* base64url of a SHA-256 */
#define PJ_DER_MAX_BYTES 16384    /* a decoded PEM or DER key */
#define PJ_SHA256_BYTES 32
#define PJ_PROOF_MAX_BYTES 4096 /* RSA keys of 4096 bits need 2300 */
#define PJ_PROOF_JTI_MAX_BYTES 255

/* A borrowed run of bytes, not NUL-terminated. data may be NULL if len is 0. */
typedef struct {
    const unsigned char *data;
    size_t len;
} pj_str_t;

#define PJ_STR(literal)                                                        \
    ((pj_str_t){(const unsigned char *) (literal), sizeof(literal) - 1})

/* -- errors --------------------------------------------------------------- */

/* clang-format off */
/* Every error: PJ_ERR_x, its name and its phrase. */
#define PJ_ERRORS(X)                                                          \
    X(ARGUMENT, "argument", "a wrong argument inside the program")            \
    X(NO_SPACE, "no_space", "out of working memory")                          \
    X(CRYPTO, "crypto", "the cryptographic library failed")                   \
    X(BASE64, "base64", "malformed base64")                                   \
    X(JSON_SYNTAX, "json_syntax", "malformed JSON")                           \
    X(JSON_DUPLICATE, "json_duplicate", "a repeated JSON member")             \
    X(JSON_DEPTH, "json_depth", "JSON nested too deeply")                     \
    X(JSON_NUL, "json_nul", "a NUL character in JSON")                        \
    X(JSON_LIMIT, "json_limit", "too many JSON members or values")            \
    X(JSON_TYPE, "json_type", "a JSON value of the wrong type")               \
    X(KEY_FORMAT, "key_format", "not a key of a known type and format")       \
    X(KEY_WEAK, "key_weak",                                                   \
      "weak key, or RSA key size or exponent out of bounds")                  \
    X(KEY_MISMATCH, "key_mismatch", "private and public key are not a pair")  \
    X(KEY_UNUSABLE, "key_unusable", "the key is meant for another use")       \
    X(KEYSET_EMPTY, "keyset_empty", "the key set has no usable key")          \
    X(KID_UNKNOWN, "kid_unknown", "the token was signed by an unknown key")   \
    X(TOKEN_SIZE, "token_size", "too large")                                  \
    X(TOKEN_SHAPE, "token_shape", "the token is malformed")                   \
    X(TOKEN_HEADER, "token_header", "the token header is malformed")          \
    X(TOKEN_ALG, "token_alg", "the token algorithm is not accepted")          \
    X(TOKEN_TYP, "token_typ", "the token header type is not accepted")        \
    X(TOKEN_CRIT, "token_crit", "the token needs an unsupported extension")   \
    X(TOKEN_KID, "token_kid", "the key id is missing or malformed")           \
    X(TOKEN_SIGNATURE, "token_signature", "the token signature is not valid") \
    X(TOKEN_CLAIMS, "token_claims", "a token claim is missing or malformed")  \
    X(TOKEN_ISSUER, "token_issuer", "the token issuer is not accepted")       \
    X(TOKEN_AUDIENCE, "token_audience", "the token is for another audience")  \
    X(TOKEN_BOUND, "token_bound",                                             \
      "the token is bound to a key, a bearer may not use it")                 \
    X(TOKEN_NOT_YET, "token_not_yet", "the token is not valid yet")           \
    X(TOKEN_EXPIRED, "token_expired", "the token has expired")                \
    X(TOKEN_KIND, "token_kind", "the token is of an unknown kind")            \
    X(PROOF, "proof", "the proof of possession is not valid")                 \
    X(PROOF_TIME, "proof_time", "the proof is too old or from the future")
/* clang-format on */

#define PJ_ERROR_CODE(code, name, phrase) PJ_ERR_##code,

/* PJ_OK is 0, so `if (err)` works.  PJ_ERR_COUNT is the number of codes. */
typedef enum { PJ_OK = 0, PJ_ERRORS(PJ_ERROR_CODE) PJ_ERR_COUNT } pj_err_t;

/* The phrase for err.  It contains no input, so it is safe in logs and
 * headers. */
const char *pj_strerror(pj_err_t err);
const char *pj_errname(pj_err_t err);

/* -- memory --------------------------------------------------------------- */

/* A bump arena over caller memory; nothing is freed piecemeal. */
typedef struct {
    unsigned char *pos;
    unsigned char *end;
} pj_arena_t;

void pj_arena_init(pj_arena_t *arena, void *mem, size_t len);

/* Returns size bytes aligned for any type, or NULL when the arena is full. */
void *pj_arena_alloc(pj_arena_t *arena, size_t size);

/* The arena size that always suffices to read a token of token_bytes
 * (pj_jws_header() and pj_claims_parse()), or to parse a key set of len
 * bytes. */
size_t pj_token_arena_bytes(size_t token_bytes);
size_t pj_keyset_arena_bytes(size_t len);

/* -- text ----------------------------------------------------------------- */

/* The span of a C string. */
pj_str_t pj_str(const char *s);

bool pj_str_eq(pj_str_t a, pj_str_t b);

/* Compares s with the ASCII text b, ignoring letter case. s must not contain
 * NUL. */
bool pj_str_caseeq(pj_str_t s, pj_str_t b);

/* Returns the length of the UTF-8 sequence at p < end.  An ill-formed sequence
 * sets *valid to false and ends before the first byte that cannot continue
 * it. */
size_t pj_utf8_next(const unsigned char *p, const unsigned char *end,
                    bool *valid);

/* Returns the length of the character at p < end if it can affect a terminal (a
 * control character, a line separator or a change of direction), else 0. */
size_t pj_steers(const unsigned char *p, const unsigned char *end);

/* Returns true if s needs no escapes inside a JSON string: it is visible ASCII
 * and spaces without quotes and backslashes. */
bool pj_json_plain(pj_str_t s);

/* Escapes s for the inside of a JSON string and returns the length written; a
 * NULL dst only measures.  Invalid UTF-8 becomes U+FFFD. Characters that affect
 * a terminal (pj_steers()) are escaped. */
size_t pj_json_escape(char *dst, pj_str_t s);

/* -- base64 (RFC 4648) ---------------------------------------------------- */

/* The encoded length of n bytes without padding.  SIZE_MAX if n is impossibly
 * large. */
size_t pj_b64url_encoded_len(size_t n);

/* Encodes src into dst[0..cap) without padding.  Writes no NUL. */
PJ_MUST_CHECK pj_err_t pj_b64url_encode(char *dst, size_t cap, size_t *out_len,
                                        pj_str_t src);

/* Decodes strict base64url: no padding, no white space, and zero trailing
 * bits, so that each byte string has exactly one encoding. */
PJ_MUST_CHECK pj_err_t pj_b64url_decode(unsigned char *dst, size_t cap,
                                        size_t *out_len, pj_str_t src);

/* Decodes standard base64 as used in environment variables: white space is
 * skipped and padding is optional; everything else is strict. */
PJ_MUST_CHECK pj_err_t pj_b64_decode(unsigned char *dst, size_t cap,
                                     size_t *out_len, pj_str_t src);

/* -- JSON (RFC 8259) ------------------------------------------------------ */

typedef enum {
    PJ_JSON_NULL,
    PJ_JSON_BOOL,
    PJ_JSON_NUMBER,
    PJ_JSON_STRING,
    PJ_JSON_ARRAY,
    PJ_JSON_OBJECT
} pj_json_type_t;

/* A parsed value. child is its first child, next its next sibling. */
typedef struct pj_json_s pj_json_t;
struct pj_json_s {
    pj_json_type_t type;
    bool boolean;  /* PJ_JSON_BOOL */
    pj_str_t name; /* unescaped name of a member, else empty */
    pj_str_t text; /* string: unescaped UTF-8; number: as written */
    size_t count;  /* children of an array or object */
    const pj_json_t *child;
    const pj_json_t *next;
};

/*
 * Parses exactly one JSON text.  Refuses comments, invalid UTF-8, lone
 * surrogates, NUL in any string, duplicate members, excess depth and anything
 * but white space after the value.  *root and all below it live in the arena
 * and may point into text.
 */
PJ_MUST_CHECK pj_err_t pj_json_parse(pj_arena_t *arena, pj_str_t text,
                                     const pj_json_t **root);

/* The same with a limit of the caller's instead of PJ_JSON_MAX_VALUES, and the
 * arena size that always suffices for a text of len bytes. */
PJ_MUST_CHECK pj_err_t pj_json_parse_large(pj_arena_t *arena, pj_str_t text,
                                           size_t max_values,
                                           const pj_json_t **root);
size_t pj_json_large_arena_bytes(size_t len, size_t max_values);

/* Returns the member called name, or NULL. obj may be NULL or any type. */
const pj_json_t *pj_json_member(const pj_json_t *obj, const char *name);

/* Returns the text of the member called name if it is a string, else an empty
 * span. */
pj_str_t pj_json_string(const pj_json_t *obj, const char *name);

typedef enum { PJ_ROUND_DOWN, PJ_ROUND_UP } pj_round_t;

/* Reads a NumericDate (RFC 7519 section 2).  A fraction is rounded exactly,
 * down (to the past) or up.  PJ_ERR_JSON_TYPE if node is not a number or does
 * not fit int64_t. */
PJ_MUST_CHECK pj_err_t pj_json_seconds(const pj_json_t *node, pj_round_t round,
                                       int64_t *out);

/* -- algorithms (RFC 7518) ------------------------------------------------ */

/* One object each for RS256, RS384, RS512, PS256 (RSA), ES256 (P-256), EdDSA
 * and its newer name Ed25519 (RFC 8037, RFC 9864). */
typedef struct pj_alg_s pj_alg_t;

/* Returns the algorithm whose "alg" is exactly name, or NULL. */
const pj_alg_t *pj_alg_find(pj_str_t name);
const char *pj_alg_name(const pj_alg_t *alg);

/* -- keys (RFC 7517, RFC 7518 section 6, RFC 8037) ------------------------ */

/*
 * A key for one algorithm, with its id.  It is immutable and may be shared by
 * threads, except a copy made by pj_key_copy().
 *
 * The key determines the algorithm, and the token header must agree.  A JWK
 * with "alg" is for that algorithm only.  A JWK without "alg", or a PEM or DER
 * key, is for RS256 (RSA), ES256 (P-256) or EdDSA (Ed25519).
 */
typedef struct pj_key_s pj_key_t;

/*
 * Parses a private key in PEM or DER, as PKCS#8 or (RSA) PKCS#1, and copies
 * kid.  On error *out is NULL. PEM must be a single block, with only white
 * space around it.
 *
 * PJ_ERR_KEY_FORMAT for encrypted keys, RSA-PSS keys, other curves, curves
 * given by parameters, compressed points and trailing bytes.  PJ_ERR_TOKEN_KID
 * for a kid that is empty, too long, contains NUL or is not UTF-8.
 * PJ_ERR_KEY_WEAK for RSA keys outside the bounds above or vulnerable to ROCA,
 * and for Ed25519 keys of small order, for which anybody can forge signatures.
 */
PJ_MUST_CHECK pj_err_t pj_key_private(pj_key_t **out, pj_str_t pem_or_der,
                                      pj_str_t kid);

/* The same for a public key: SubjectPublicKeyInfo, PEM or DER (canonical). */
PJ_MUST_CHECK pj_err_t pj_key_public(pj_key_t **out, pj_str_t pem_or_der,
                                     pj_str_t kid);

/* Makes a copy that shares nothing with key, for use by a single thread.  It
 * signs faster: each use of a shared key takes a lock (OpenSSL's blinding
 * state) and allocates memory. */
PJ_MUST_CHECK pj_err_t pj_key_copy(pj_key_t **out, const pj_key_t *key);

/* PJ_ERR_KEY_MISMATCH unless both keys have the same public half. */
PJ_MUST_CHECK pj_err_t pj_key_match(const pj_key_t *a, const pj_key_t *b);

/* key may be NULL. */
void pj_key_free(pj_key_t *key);

/* Both results are valid as long as the key. */
pj_str_t pj_key_id(const pj_key_t *key);
const pj_alg_t *pj_key_alg(const pj_key_t *key);

/* Generates a private key of alg's type.  Written as PEM and read again, it is
 * for the default algorithm of that type. kid as in pj_key_private(). */
PJ_MUST_CHECK pj_err_t pj_key_generate(pj_key_t **out, const pj_alg_t *alg,
                                       pj_str_t kid);

/* Writes the private half (PKCS#8) or the public half (SubjectPublicKeyInfo) as
 * PEM, without NUL.  PJ_ERR_ARGUMENT if key lacks the private half,
 * PJ_ERR_NO_SPACE if it does not fit.  The caller wipes a private half. */
PJ_MUST_CHECK pj_err_t pj_key_pem(const pj_key_t *key, bool private_half,
                                  char *dst, size_t cap, size_t *out_len);

/* Derives len secret bytes from the private key and label by HKDF-SHA256 (RFC
 * 5869).  The result is the same on every machine.  It reveals neither the key
 * nor the bytes for other labels.  PJ_ERR_ARGUMENT for a public key. */
PJ_MUST_CHECK pj_err_t pj_key_derive(const pj_key_t *key, pj_str_t label,
                                     unsigned char *out, size_t len);

/* The typ of tokens that we sign. */
typedef enum {
    PJ_TYP_JWT,       /* "JWT" */
    PJ_TYP_AT,        /* "at+jwt" (RFC 9068) */
    PJ_TYP_REFRESH,   /* "refresh+jwt": never accepted as an access token */
    PJ_TYP_ASSERTION, /* "platform-assertion+jwt": nor is this */
    PJ_TYP_COUNT      /* number of values, not a value */
} pj_typ_t;

/* RFC 7638 SHA-256 thumbprint of the public half, base64url, no NUL. */
PJ_MUST_CHECK pj_err_t pj_key_thumbprint(const pj_key_t *key,
                                         char out[PJ_THUMBPRINT_CHARS]);

/* Writes {"keys":[...]} with the public halves of keys[0..count): the required
 * members of each kty, and use, alg and kid.  PJ_ERR_NO_SPACE if it does not
 * fit. */
PJ_MUST_CHECK pj_err_t pj_jwks_emit(const pj_key_t *const *keys, size_t count,
                                    char *dst, size_t cap, size_t *out_len);

/* A key set.  Zero-initialise it, fill it with pj_keyset_parse(), clear it with
 * pj_keyset_clear(). */
typedef struct {
    pj_key_t *keys[PJ_KEYSET_MAX_KEYS];
    size_t count;          /* usable keys */
    bool of_file;          /* kid is optional in keys and tokens */
    size_t ignored;        /* ignored entries */
    pj_err_t last_ignored; /* reason for the last of them, or PJ_OK */
    const pj_key_t *twice; /* key whose kid an ignored entry repeats, or NULL */
} pj_keyset_t;

/* Parses a JWK set (RFC 7517 section 5).  Ignores and counts entries with an
 * unknown kty or crv, with another use, key_ops or alg, without kid or with a
 * repeated kid, and weak or malformed keys.  Private members are never read.
 * On error *set is empty.  PJ_ERR_CRYPTO and PJ_ERR_NO_SPACE are local
 * failures; other errors are faults of the document. */
PJ_MUST_CHECK pj_err_t pj_keyset_parse(pj_keyset_t *set, pj_arena_t *arena,
                                       pj_str_t json);

/* Parses a key file written by an operator: a JWK set in which kid is optional,
 * or public keys in PEM with only white space between the blocks.  PEM must not
 * contain two keys of the same type (PJ_ERR_TOKEN_KID), and every block must be
 * usable (else PJ_ERR_KEY_FORMAT or PJ_ERR_KEY_WEAK). */
PJ_MUST_CHECK pj_err_t pj_keyset_parse_file(pj_keyset_t *set, pj_arena_t *arena,
                                            pj_str_t text);

/* Returns the key whose id is exactly kid, or NULL. The set owns it. */
const pj_key_t *pj_keyset_find(const pj_keyset_t *set, pj_str_t kid);

/* Returns the key to verify a token with this alg and kid (empty if absent), or
 * NULL. A key with exactly this kid is preferred.  In a set read from a file,
 * if the token or the key lacks a kid, the only key of the algorithm's type is
 * used. */
const pj_key_t *pj_keyset_choose(const pj_keyset_t *set, const pj_alg_t *alg,
                                 pj_str_t kid);
void pj_keyset_clear(pj_keyset_t *set);

/* -- JWS compact serialisation (RFC 7515) --------------------------------- */

/* The pieces of a compact JWS; all point into the token. */
typedef struct {
    const pj_alg_t *alg; /* set by pj_jws_header(), NULL until then */
    pj_str_t header;     /* in base64url */
    pj_str_t payload;
    pj_str_t signature;
    pj_str_t signing_input; /* header "." payload */
} pj_jws_t;

typedef struct {
    pj_str_t kid; /* unescaped, at most PJ_KID_MAX_BYTES; empty if absent */
    bool refresh; /* typ is refresh+jwt */
    bool at_jwt;  /* typ is at+jwt (RFC 9068) */
    const pj_json_t *root; /* the whole header, NULL if it is not JSON */
} pj_jws_header_t;

/* Splits a token at its dots.  PJ_ERR_TOKEN_SIZE if it is longer than
 * max_bytes, PJ_ERR_TOKEN_SHAPE unless it has three non-empty parts. */
PJ_MUST_CHECK pj_err_t pj_jws_split(pj_str_t token, size_t max_bytes,
                                    pj_jws_t *jws);

/* Decodes and checks the JOSE header: alg must be known, crit absent, kid
 * absent or a string, and typ absent, "JWT" or "at+jwt", in any letter case,
 * with or without "application/" (RFC 7515 section 4.1.9, RFC 9068 section
 * 2.1). jwk, jku, x5u and x5c are ignored (RFC 8725 section 3.10).  With own,
 * for the issuer's own tokens, typ may also be "refresh+jwt" and kid is
 * required. */
PJ_MUST_CHECK pj_err_t pj_jws_header(pj_arena_t *arena, pj_jws_t *jws, bool own,
                                     pj_jws_header_t *header);

/* Verifies the signature, after pj_jws_header().  PJ_ERR_TOKEN_ALG unless the
 * header names the algorithm of the key (RFC 8725 section 3.1). */
PJ_MUST_CHECK pj_err_t pj_jws_verify(const pj_jws_t *jws, const pj_key_t *key);

/* Writes a token with the header {"alg":...,"typ":...,"kid":...}, without NUL.
 * PJ_ERR_NO_SPACE if it does not fit, PJ_ERR_ARGUMENT for a public key. */
PJ_MUST_CHECK pj_err_t pj_jws_sign(const pj_key_t *key, pj_typ_t typ,
                                   pj_str_t payload, char *dst, size_t cap,
                                   size_t *out_len);

/* -- JWT claims (RFC 7519) ------------------------------------------------ */

/* Kinds of token, each with its own token_type and token_scope (empty for
 * refresh tokens). */
typedef enum {
    PJ_TOKEN_ACCOUNT,
    PJ_TOKEN_BRANCH,
    PJ_TOKEN_SYSTEM,
    PJ_TOKEN_REFRESH,
    PJ_TOKEN_FOREIGN /* of another issuer, without a kind */
} pj_token_kind_t;

/* kind must not be PJ_TOKEN_FOREIGN. */
pj_str_t pj_token_type(pj_token_kind_t kind);
pj_str_t pj_token_scope(pj_token_kind_t kind);

/* The typed claims of a payload, verified or not.  A string that the kind does
 * not have is empty, such an array is NULL. */
typedef struct {
    pj_token_kind_t kind;
    int64_t iat; /* times are in seconds, rounded towards refusal */
    int64_t exp;
    int64_t nbf; /* 0 if absent */
    pj_str_t iss;
    pj_str_t sub;
    pj_str_t jti;
    pj_str_t account_id;
    pj_str_t session_id;
    pj_str_t account_type;
    pj_str_t token_type;
    pj_str_t token_scope;
    pj_str_t workspace_id;
    pj_str_t tenant_id;
    pj_str_t member_id;
    pj_str_t active_branch_id;
    const pj_json_t *branch_ids; /* array of strings */
    const pj_json_t *roles;      /* array of strings */
    const pj_json_t *root;       /* the whole payload object */
    pj_str_t fault;              /* the claim that caused PJ_ERR_TOKEN_CLAIMS */
} pj_claims_t;

typedef struct {
    const pj_str_t *issuers;   /* accepted iss values, compared exactly */
    size_t issuer_count;       /* at least 1 */
    const pj_str_t *audiences; /* aud must contain at least one of them */
    size_t audience_count;     /* if 0, aud is not checked */
    int64_t now_s;             /* seconds since the epoch */
    int64_t leeway_s;          /* 0 to 300 */
    bool allow_confirmation; /* accept a token with cnf (RFC 7800) without proof
                                of possession of its key */
} pj_policy_t;

/* The names of claims in a foreign issuer's tokens. */
typedef struct {
    const char *subject; /* required, a non-empty string */
    const char *session; /* optional, a non-empty string; NULL if not used */
} pj_names_t;

/* Decodes the payload and sets root, and iss if it is a string.  Other claims
 * must not be used until pj_claims_read() or pj_claims_read_foreign() returns
 * PJ_OK. PJ_ERR_TOKEN_CLAIMS if the payload is not an object; PJ_ERR_JSON_* or
 * PJ_ERR_BASE64. */
PJ_MUST_CHECK pj_err_t pj_claims_decode(pj_arena_t *arena, const pj_jws_t *jws,
                                        pj_claims_t *claims);

/* Reads the claims of a foreign issuer's token (RFC 7519 section 4.1): iss, the
 * subject and exp are required, iat, nbf and the session are optional.  Sets
 * account_id to the subject and session_id to the session.  PJ_ERR_TOKEN_CLAIMS
 * with claims->fault. */
PJ_MUST_CHECK pj_err_t pj_claims_read_foreign(pj_claims_t *claims,
                                              const pj_names_t *names);

/*
 * Like pj_claims_decode(), then reads the claims by kind; pj_claims_read() does
 * only the latter.  Every claim that the kind requires must be present with its
 * type: strings and the elements of arrays are non-empty, arrays may be empty.
 * sub must equal account_id, and typ of an access token must be "access". nbf
 * and aud are optional.
 *
 * PJ_ERR_TOKEN_CLAIMS with claims->fault (empty if the payload is not an
 * object), PJ_ERR_TOKEN_KIND, PJ_ERR_JSON_* or PJ_ERR_BASE64. root is set if
 * the payload is JSON. Signature and times are not checked.
 */
PJ_MUST_CHECK pj_err_t pj_claims_parse(pj_arena_t *arena, const pj_jws_t *jws,
                                       pj_claims_t *claims);
PJ_MUST_CHECK pj_err_t pj_claims_read(pj_claims_t *claims);

/* Refuses the claims when now >= exp + leeway, or iat or nbf > now + leeway.
 * Checks issuer, audience, cnf, not-yet and expired in this order, so a foreign
 * token is never reported as merely expired. */
PJ_MUST_CHECK pj_err_t pj_claims_check(const pj_claims_t *claims,
                                       const pj_policy_t *policy);

/* The bit of err in a set of errors. */
#define PJ_FAULT(err) (UINT64_C(1) << (err))

/* Returns the set of all faults for which pj_claims_check() refuses the
 * claims. */
PJ_MUST_CHECK uint64_t pj_claims_faults(const pj_claims_t *claims,
                                        const pj_policy_t *policy);

/* -- proofs of possession (DPoP, RFC 9449) ------------------------------- */

/* The algorithms of proofs, for "algs" of a challenge. */
#define PJ_PROOF_ALGS "ES256 EdDSA Ed25519 RS256 RS384 RS512 PS256"

/* Reads the confirmation of decoded claims (RFC 9449 section 6.1): cnf with the
 * single member jkt.  False if it is absent, has another form or other members;
 * a token with such a cnf must be refused. */
PJ_MUST_CHECK bool pj_claims_jkt(const pj_claims_t *claims,
                                 unsigned char thumbprint[PJ_SHA256_BYTES]);

/* The same for the single member x5t#S256, the hash of a certificate (RFC 8705
 * section 3.1). */
PJ_MUST_CHECK bool pj_claims_x5t(const pj_claims_t *claims,
                                 unsigned char thumbprint[PJ_SHA256_BYTES]);

/* What a proof must prove (RFC 9449 section 4.3). */
typedef struct {
    pj_str_t method; /* htm, compared exactly */
    /* The scheme and authority of htu must be one of these origins, which are
     * in lower case and without the default port. */
    const pj_str_t *origins;
    size_t origin_count;
    /* The path that the client requested, without the query.  The path of htu
     * must have the same characters; dot segments are characters like others.
     */
    pj_str_t path;
    pj_str_t token; /* ath must be its hash; if empty, ath is ignored */
    int64_t now_s;
    int64_t window_s; /* the largest difference of iat and now_s */
    /* The thumbprint of the key, PJ_SHA256_BYTES, or NULL for any key. */
    const unsigned char *thumbprint;
    /* NULL, or where the caller keeps the key with that thumbprint, at first
     * NULL.  A good proof leaves its key there, which makes the next proof
     * cheaper.  The caller frees the key. */
    pj_key_t **key;
} pj_proof_policy_t;

typedef struct {
    unsigned char thumbprint[PJ_SHA256_BYTES]; /* of jwk (RFC 7638) */
    /* SHA-256 of thumbprint and jti: identifies a proof that may be used
     * once. */
    unsigned char id[PJ_SHA256_BYTES];
    int64_t iat;    /* rounded up */
    pj_str_t nonce; /* in the arena; empty if absent, the caller decides */
    pj_str_t fault; /* a constant: the part that caused PJ_ERR_PROOF */
} pj_proof_t;

/*
 * Verifies a proof, the expensive signature last: the header (typ is
 * "dpop+jwt", no crit, jwk is a public key alone), the thumbprint, the claims,
 * the key, the signature.  exp and nbf are ignored.
 *
 * PJ_ERR_PROOF with proof->fault, or PJ_ERR_PROOF_TIME if iat is outside of the
 * window. PJ_ERR_NO_SPACE, PJ_ERR_CRYPTO and PJ_ERR_ARGUMENT are not the fault
 * of the proof.  An arena of pj_token_arena_bytes(PJ_PROOF_MAX_BYTES) always
 * suffices.
 */
PJ_MUST_CHECK pj_err_t pj_proof_verify(pj_arena_t *arena, pj_str_t text,
                                       const pj_proof_policy_t *policy,
                                       pj_proof_t *proof);

#endif /* PJ_H_INCLUDED */
