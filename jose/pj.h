/*
 * pj: a small, strict JOSE core.
 *
 * Spans in, spans out: no globals, no files, no clock, no log.  Memory comes
 * from an arena of the caller's, so that every call is bounded by its limits;
 * keys alone are objects that are to be freed.  Threads may call anything at
 * once unless they share an arena.  OpenSSL's error queue stays as it was.
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

/* A borrowed run of bytes, without a NUL; data may be NULL if len is 0. */
typedef struct {
    const unsigned char *data;
    size_t len;
} pj_str_t;

#define PJ_STR(literal)                                                        \
    ((pj_str_t){(const unsigned char *) (literal), sizeof(literal) - 1})

/* -- errors --------------------------------------------------------------- */

/* clang-format off */
/* The one channel of errors: PJ_ERR_x, its name and its phrase. */
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
    X(TOKEN_KIND, "token_kind", "the token is of an unknown kind")
/* clang-format on */

#define PJ_ERROR_CODE(code, name, phrase) PJ_ERR_##code,

/* PJ_OK is 0, so `if (err)` reads well; PJ_ERR_COUNT is no code. */
typedef enum { PJ_OK = 0, PJ_ERRORS(PJ_ERROR_CODE) PJ_ERR_COUNT } pj_err_t;

/* The phrase: never any input, safe in a log line and in a header. */
const char *pj_strerror(pj_err_t err);
const char *pj_errname(pj_err_t err);

/* -- memory --------------------------------------------------------------- */

/* A bump arena over caller memory; nothing is freed piecemeal. */
typedef struct {
    unsigned char *pos;
    unsigned char *end;
} pj_arena_t;

void pj_arena_init(pj_arena_t *arena, void *mem, size_t len);

/* size bytes aligned for any type, or NULL when the arena is spent. */
void *pj_arena_alloc(pj_arena_t *arena, size_t size);

/* Arena bytes that always suffice to verify and parse a token of token_bytes
 * (pj_jws_header(), pj_claims_parse()), and for pj_keyset_parse() of len. */
size_t pj_token_arena_bytes(size_t token_bytes);
size_t pj_keyset_arena_bytes(size_t len);

/* -- text ----------------------------------------------------------------- */

/* s without its NUL. */
pj_str_t pj_str(const char *s);

bool pj_str_eq(pj_str_t a, pj_str_t b);

/* True when s, without NUL, is the ASCII text b, letter case aside. */
bool pj_str_caseeq(pj_str_t s, pj_str_t b);

/* Bytes of the UTF-8 sequence at p < end; an ill-formed one (*valid is false
 * then) ends before the first byte that cannot continue it. */
size_t pj_utf8_next(const unsigned char *p, const unsigned char *end,
                    bool *valid);

/* Bytes of the character at p < end if it steers a terminal: a control
 * character, the end of a line, or a change of direction.  Else 0. */
size_t pj_steers(const unsigned char *p, const unsigned char *end);

/* Whether s is itself the inside of a JSON string: visible ASCII and spaces
 * without quotes and backslashes. */
bool pj_json_plain(pj_str_t s);

/* Writes s as the inside of a JSON string and returns its length; with a NULL
 * dst only measures.  Invalid UTF-8 becomes U+FFFD, and what steers a terminal
 * an escape. */
size_t pj_json_escape(char *dst, pj_str_t s);

/* -- base64 (RFC 4648) ---------------------------------------------------- */

/* Characters that n bytes take without padding; SIZE_MAX for more bytes than
 * can be. */
size_t pj_b64url_encoded_len(size_t n);

/* Encodes src into dst[0..cap), without padding and NUL. */
PJ_MUST_CHECK pj_err_t pj_b64url_encode(char *dst, size_t cap, size_t *out_len,
                                        pj_str_t src);

/* Decodes strict base64url: no padding, no white space, and zero trailing
 * bits, so that each byte string has exactly one encoding. */
PJ_MUST_CHECK pj_err_t pj_b64url_decode(unsigned char *dst, size_t cap,
                                        size_t *out_len, pj_str_t src);

/* Decodes standard base64 as used in environment variables: white space is
 * skipped, padding may be left out, all else is strict. */
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

/* A parsed value; a tree linked by child (first) and next (sibling). */
typedef struct pj_json_s pj_json_t;
struct pj_json_s {
    pj_json_type_t type;
    bool boolean;  /* PJ_JSON_BOOL */
    pj_str_t name; /* member name, unescaped; empty elsewhere */
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

/* The member of obj called name, or NULL; NULL too if obj is no object. */
const pj_json_t *pj_json_member(const pj_json_t *obj, const char *name);

/* The string that the member of obj called name is; len 0 where there is no
 * such member, or it is no string. */
pj_str_t pj_json_string(const pj_json_t *obj, const char *name);

typedef enum { PJ_ROUND_DOWN, PJ_ROUND_UP } pj_round_t;

/* The number that node holds (a NumericDate, RFC 7519 section 2), a fraction
 * rounded towards the past or the future, exactly.  PJ_ERR_JSON_TYPE for what
 * is no number, or lies outside of int64_t. */
PJ_MUST_CHECK pj_err_t pj_json_seconds(const pj_json_t *node, pj_round_t round,
                                       int64_t *out);

/* -- algorithms (RFC 7518) ------------------------------------------------ */

/* RS256, RS384, RS512, PS256 (RSA), ES256 (P-256), EdDSA and its newer name
 * Ed25519 (RFC 8037, RFC 9864); there is one object for each. */
typedef struct pj_alg_s pj_alg_t;

/* The algorithm whose "alg" is exactly name; NULL: it is not accepted. */
const pj_alg_t *pj_alg_find(pj_str_t name);
const char *pj_alg_name(const pj_alg_t *alg);

/* -- keys (RFC 7517, RFC 7518 section 6, RFC 8037) ------------------------ */

/*
 * A key for one algorithm, and its id, immutable.  Any number of threads may
 * use it, unless it is a copy (pj_key_copy()).
 *
 * The key chooses the algorithm, and a token's header has to agree: a JWK is
 * for the one that its "alg" names and for no other of its type.  Without
 * "alg", and as PEM or DER, an RSA key is for RS256, one on P-256 for ES256
 * and one on Ed25519 for EdDSA.
 */
typedef struct pj_key_s pj_key_t;

/* Parses a private key given as PEM or DER, PKCS#8 or (RSA) PKCS#1, and copies
 * kid; on error *out is NULL.  A PEM text is one block with nothing but white
 * space around it.  Refused are encrypted keys (no passphrase is ever asked
 * for), RSA-PSS keys, other curves and curves without a name, compressed
 * points, bytes behind the key, and a kid that is empty, too long, has a NUL
 * or is not UTF-8.  PJ_ERR_KEY_WEAK: the bounds above, an RSA key weak to
 * ROCA, or an Ed25519 key of small order, which anybody could sign with. */
PJ_MUST_CHECK pj_err_t pj_key_private(pj_key_t **out, pj_str_t pem_or_der,
                                      pj_str_t kid);

/* The same for a public key: SubjectPublicKeyInfo, PEM or DER (canonical). */
PJ_MUST_CHECK pj_err_t pj_key_public(pj_key_t **out, pj_str_t pem_or_der,
                                     pj_str_t kid);

/* A copy that shares nothing with key, for the one thread that makes it and
 * signs much: a shared key has a lock (OpenSSL's state of blinding), and each
 * use of it sets up memory of its own. */
PJ_MUST_CHECK pj_err_t pj_key_copy(pj_key_t **out, const pj_key_t *key);

/* PJ_OK, or PJ_ERR_KEY_MISMATCH unless their public halves are the same. */
PJ_MUST_CHECK pj_err_t pj_key_match(const pj_key_t *a, const pj_key_t *b);

/* NULL is allowed. */
void pj_key_free(pj_key_t *key);

/* Lives as long as the key. */
pj_str_t pj_key_id(const pj_key_t *key);
const pj_alg_t *pj_key_alg(const pj_key_t *key);

/* Makes a new private key of alg's type, for the algorithm that it will be for
 * when it is read again; kid as in pj_key_private(). */
PJ_MUST_CHECK pj_err_t pj_key_generate(pj_key_t **out, const pj_alg_t *alg,
                                       pj_str_t kid);

/* Writes the private half (PKCS#8) or the public one (SubjectPublicKeyInfo) as
 * PEM, no NUL.  PJ_ERR_ARGUMENT for the private half of a public key,
 * PJ_ERR_NO_SPACE when it does not fit.  The caller wipes a private half. */
PJ_MUST_CHECK pj_err_t pj_key_pem(const pj_key_t *key, bool private_half,
                                  char *dst, size_t cap, size_t *out_len);

/* Derives len secret bytes from the private key (HKDF-SHA256, RFC 5869): the
 * same wherever key and label are, and of no use for finding the key or what
 * another label gives.  PJ_ERR_ARGUMENT for a public key. */
PJ_MUST_CHECK pj_err_t pj_key_derive(const pj_key_t *key, pj_str_t label,
                                     unsigned char *out, size_t len);

/* The typ of tokens that we sign. */
typedef enum {
    PJ_TYP_JWT,     /* "JWT" */
    PJ_TYP_AT,      /* "at+jwt" (RFC 9068) */
    PJ_TYP_REFRESH, /* "refresh+jwt": nobody takes it for an access token */
    PJ_TYP_COUNT    /* number of values, not a value */
} pj_typ_t;

/* RFC 7638 SHA-256 thumbprint of the public half, base64url, no NUL. */
PJ_MUST_CHECK pj_err_t pj_key_thumbprint(const pj_key_t *key,
                                         char out[PJ_THUMBPRINT_CHARS]);

/* Writes {"keys":[...]} of the public halves of keys[0..count), each with the
 * required members of its kty, use, alg, kid.  PJ_ERR_NO_SPACE when it does
 * not fit. */
PJ_MUST_CHECK pj_err_t pj_jwks_emit(const pj_key_t *const *keys, size_t count,
                                    char *dst, size_t cap, size_t *out_len);

/* A key set; zero-initialise, fill with pj_keyset_parse(), then clear. */
typedef struct {
    pj_key_t *keys[PJ_KEYSET_MAX_KEYS];
    size_t count;          /* usable keys */
    bool of_file;          /* keys and tokens may be without a kid */
    size_t ignored;        /* entries passed over */
    pj_err_t last_ignored; /* why the last of them was, or PJ_OK */
    const pj_key_t *twice; /* its kid is that of an ignored one, too; or NULL */
} pj_keyset_t;

/* Parses a JWK set (RFC 7517 section 5).  Entries of an unknown kty or crv,
 * for another use, key_ops or alg, weak or malformed ones, those without kid
 * and repeats of a kid are ignored and counted; private members are never
 * read. On error *set has no keys; PJ_ERR_CRYPTO and PJ_ERR_NO_SPACE say that
 * we failed and not the document. */
PJ_MUST_CHECK pj_err_t pj_keyset_parse(pj_keyset_t *set, pj_arena_t *arena,
                                       pj_str_t json);

/*
 * The same of a file that an operator wrote: also of public keys in PEM, one
 * block after the other and nothing but white space between them, and with
 * keys that have no kid.  PJ_ERR_KEY_FORMAT, PJ_ERR_KEY_WEAK for such a text
 * with any other block; PJ_ERR_TOKEN_KID: two keys of one type.
 */
PJ_MUST_CHECK pj_err_t pj_keyset_parse_file(pj_keyset_t *set, pj_arena_t *arena,
                                            pj_str_t text);

/* The key whose id is exactly kid, or NULL; it goes with the set. */
const pj_key_t *pj_keyset_find(const pj_keyset_t *set, pj_str_t kid);

/*
 * The key that a token with this alg and kid (len 0: none) was signed with, or
 * NULL.  That is the one with the id.  In a set of a file, if token or key has
 * no id, it is the only one of the algorithm's type, whatever that one's id.
 */
const pj_key_t *pj_keyset_choose(const pj_keyset_t *set, const pj_alg_t *alg,
                                 pj_str_t kid);
void pj_keyset_clear(pj_keyset_t *set);

/* -- JWS compact serialisation (RFC 7515) --------------------------------- */

/* The pieces of a compact JWS; all point into the token. */
typedef struct {
    const pj_alg_t *alg; /* that the header names; NULL: it was not read */
    pj_str_t header;     /* base64url, as the next two */
    pj_str_t payload;
    pj_str_t signature;
    pj_str_t signing_input; /* header "." payload */
} pj_jws_t;

typedef struct {
    pj_str_t kid;          /* unescaped, at most PJ_KID_MAX_BYTES bytes; len 0:
                              there is none */
    bool refresh;          /* typ is refresh+jwt: the issuer's own */
    bool at_jwt;           /* typ is at+jwt (RFC 9068) */
    const pj_json_t *root; /* all of it; NULL: it is no JSON */
} pj_jws_header_t;

/* PJ_ERR_TOKEN_SIZE over max_bytes, PJ_ERR_TOKEN_SHAPE unless it has three
 * non-empty parts. */
PJ_MUST_CHECK pj_err_t pj_jws_split(pj_str_t token, size_t max_bytes,
                                    pj_jws_t *jws);

/*
 * Decodes and checks the JOSE header: alg must be known, typ absent, "JWT" or
 * "at+jwt" (in any case, with or without "application/": RFC 7515 section
 * 4.1.9, RFC 9068 section 2.1), crit absent, kid absent or a string.  jwk,
 * jku, x5u and x5c are never looked at (RFC 8725 section 3.10).  The issuer
 * itself (own) takes typ "refresh+jwt", too, and no token without kid.
 */
PJ_MUST_CHECK pj_err_t pj_jws_header(pj_arena_t *arena, pj_jws_t *jws, bool own,
                                     pj_jws_header_t *header);

/* Verifies the signature, after pj_jws_header().  PJ_ERR_TOKEN_ALG unless the
 * header names the algorithm of the key (RFC 8725 section 3.1). */
PJ_MUST_CHECK pj_err_t pj_jws_verify(const pj_jws_t *jws, const pj_key_t *key);

/* Writes a token, no NUL, whose header is {"alg":...,"typ":...,"kid":...}.
 * PJ_ERR_NO_SPACE when it does not fit, PJ_ERR_ARGUMENT for a public key. */
PJ_MUST_CHECK pj_err_t pj_jws_sign(const pj_key_t *key, pj_typ_t typ,
                                   pj_str_t payload, char *dst, size_t cap,
                                   size_t *out_len);

/* -- JWT claims (RFC 7519) ------------------------------------------------ */

/* The kinds of token, each of one token_type and token_scope (empty for
 * refresh tokens). */
typedef enum {
    PJ_TOKEN_ACCOUNT,
    PJ_TOKEN_BRANCH,
    PJ_TOKEN_SYSTEM,
    PJ_TOKEN_REFRESH,
    PJ_TOKEN_FOREIGN /* of an issuer whose tokens know no kinds */
} pj_token_kind_t;

/* Not of a foreign one. */
pj_str_t pj_token_type(pj_token_kind_t kind);
pj_str_t pj_token_scope(pj_token_kind_t kind);

/* Verified or not, the claims of a payload in their types.  A string that the
 * kind does not carry has len 0; an array that it does not carry is NULL. */
typedef struct {
    pj_token_kind_t kind;
    int64_t iat; /* seconds; a fraction of one is rounded towards refusal */
    int64_t exp;
    int64_t nbf; /* 0: none */
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
    pj_str_t fault; /* name of the claim that PJ_ERR_TOKEN_CLAIMS is about */
} pj_claims_t;

typedef struct {
    const pj_str_t *issuers;   /* accepted iss values, compared exactly */
    size_t issuer_count;       /* at least 1 */
    const pj_str_t *audiences; /* any of these must be in aud ... */
    size_t audience_count;     /* ... unless 0: aud is then not looked at */
    int64_t now_s;             /* seconds since the epoch */
    int64_t leeway_s;          /* 0 to 300 */
    bool allow_confirmation;   /* whether a token with cnf (RFC 7800) passes
                                  without proof of its key */
} pj_policy_t;

/* Which claims of a foreign issuer's tokens say what is asked of all. */
typedef struct {
    const char *subject; /* a string that is not empty; required */
    const char *session; /* such a string, or NULL: no claim says it */
} pj_names_t;

/*
 * Decodes the payload: sets root, and iss where that is a string.  Nothing
 * else may be read of the claims before pj_claims_read() or
 * pj_claims_read_foreign().  PJ_ERR_TOKEN_CLAIMS for a payload that is no
 * object, PJ_ERR_JSON_* or PJ_ERR_BASE64.
 */
PJ_MUST_CHECK pj_err_t pj_claims_decode(pj_arena_t *arena, const pj_jws_t *jws,
                                        pj_claims_t *claims);

/*
 * Reads the claims of a foreign issuer's token (RFC 7519 section 4.1): iss,
 * the subject and exp are required, iat and nbf are optional, and each has its
 * type.  account_id is the subject, session_id the session, where the token
 * says it.  PJ_ERR_TOKEN_CLAIMS, with claims->fault.
 */
PJ_MUST_CHECK pj_err_t pj_claims_read_foreign(pj_claims_t *claims,
                                              const pj_names_t *names);

/*
 * pj_claims_decode(), then reads the claims by kind.  Every claim that the
 * kind requires must be there with its type; strings non-empty, arrays of
 * (non-empty) strings possibly empty; sub equal to account_id; typ of an
 * access token "access".  nbf and aud are optional, but not of another type.
 * PJ_ERR_TOKEN_CLAIMS (claims->fault has len 0 for a payload that is no
 * object), PJ_ERR_TOKEN_KIND, PJ_ERR_JSON_* or PJ_ERR_BASE64; root is set
 * where the payload is JSON.  Neither signature nor time is looked at.
 */
PJ_MUST_CHECK pj_err_t pj_claims_parse(pj_arena_t *arena, const pj_jws_t *jws,
                                       pj_claims_t *claims);
PJ_MUST_CHECK pj_err_t pj_claims_read(pj_claims_t *claims);

/* Refused when now >= exp + leeway, when iat or nbf > now + leeway.  Order:
 * issuer, audience, cnf, not-yet, expired, so that a foreign token is never
 * reported as merely expired. */
PJ_MUST_CHECK pj_err_t pj_claims_check(const pj_claims_t *claims,
                                       const pj_policy_t *policy);

/* A set of errors: the bit of err. */
#define PJ_FAULT(err) (UINT64_C(1) << (err))

/* The set of all faults for which pj_claims_check() refuses the claims. */
PJ_MUST_CHECK uint64_t pj_claims_faults(const pj_claims_t *claims,
                                        const pj_policy_t *policy);

#endif /* PJ_H_INCLUDED */
