/*
 * pj: a small, strict RS256 JOSE core.
 *
 * Spans in, spans out.  The library keeps no globals, opens no files, reads no
 * clock and logs nothing; memory comes from an arena that the caller provides,
 * so that every call is bounded by the caller's own limits.  The one object it
 * owns is a key (an OpenSSL EVP_PKEY), released with pj_key_free().
 *
 * All functions are safe to call from several threads at once as long as the
 * threads do not share an arena.  A pj_key_t is immutable once made and may be
 * shared freely.
 *
 * References: RFC 4648 (base64url), RFC 7515 (JWS), RFC 7517 (JWK), RFC 7518
 * (JWA), RFC 7519 (JWT), RFC 7638 (thumbprint), RFC 8259 (JSON), RFC 8725
 * (JWT best current practice).
 */

#ifndef PJ_H_INCLUDED
#define PJ_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PJ_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PJ_MUST_CHECK
#endif

/* Limits; each is enforced, none can be raised by input. */
#define PJ_RSA_MIN_BITS 2048 /* weaker keys are never used */
#define PJ_RSA_MAX_BITS 8192 /* larger ones cost too much to verify */
#define PJ_RSA_MAX_BYTES (PJ_RSA_MAX_BITS / 8)
#define PJ_RSA_MAX_EXPONENT_BITS 32 /* the exponent is odd and at least 3 */
#define PJ_KID_MAX_BYTES 255        /* a longer kid makes an entry unusable */
#define PJ_KEYSET_MAX_KEYS 128      /* usable keys kept from one set */
#define PJ_KEYSET_MAX_BYTES 65536   /* size of a key-set document */
#define PJ_JSON_MAX_DEPTH 8         /* nesting, the root counts as 1 */
#define PJ_JSON_MAX_MEMBERS 256     /* members of one object */
#define PJ_JSON_MAX_VALUES 2048     /* values of one document in all */
#define PJ_THUMBPRINT_CHARS 43      /* base64url of a SHA-256 */
#define PJ_DER_MAX_BYTES 16384      /* a decoded PEM or DER key */

/* A borrowed run of bytes; not NUL-terminated, data may be NULL if len is 0.
 */
typedef struct {
    const unsigned char *data;
    size_t len;
} pj_str_t;

#define PJ_STR(literal)                                                       \
    ((pj_str_t){(const unsigned char *) (literal), sizeof(literal) - 1})

/* The one channel of errors.  PJ_OK is 0, so `if (err)` reads well. */
typedef enum {
    PJ_OK = 0,
    PJ_ERR_ARGUMENT,       /* the caller broke a precondition */
    PJ_ERR_NO_SPACE,       /* arena or output buffer too small */
    PJ_ERR_CRYPTO,         /* OpenSSL failed for a reason of its own */
    PJ_ERR_BASE64,         /* not strict base64 / base64url */
    PJ_ERR_JSON_SYNTAX,    /* not RFC 8259 JSON, bad UTF-8, trailing bytes */
    PJ_ERR_JSON_DUPLICATE, /* the same member name twice in one object */
    PJ_ERR_JSON_DEPTH,     /* nested deeper than PJ_JSON_MAX_DEPTH */
    PJ_ERR_JSON_NUL,       /* a NUL byte, raw or escaped, in a string */
    PJ_ERR_JSON_LIMIT,     /* over PJ_JSON_MAX_MEMBERS, PJ_JSON_MAX_VALUES or
                              PJ_KEYSET_MAX_KEYS */
    PJ_ERR_JSON_TYPE,      /* not the JSON type this place requires */
    PJ_ERR_KEY_FORMAT,     /* not a PEM or DER RSA key */
    PJ_ERR_KEY_WEAK,       /* outside the RSA size bounds, or a bad exponent */
    PJ_ERR_KEY_MISMATCH,   /* private and public key are no pair */
    PJ_ERR_KEY_UNUSABLE,   /* a JWK for another purpose or algorithm */
    PJ_ERR_KEYSET_EMPTY,   /* a key set without one usable RSA key */
    PJ_ERR_KID_UNKNOWN,    /* no key of that id in the set */
    PJ_ERR_TOKEN_SIZE,     /* longer than the caller allows */
    PJ_ERR_TOKEN_SHAPE,    /* not three dot-separated parts */
    PJ_ERR_TOKEN_HEADER,   /* JOSE header not a JSON object we accept */
    PJ_ERR_TOKEN_ALG,      /* alg is not RS256 */
    PJ_ERR_TOKEN_TYP,      /* typ is none that the caller takes */
    PJ_ERR_TOKEN_CRIT,     /* crit present: an extension we must understand */
    PJ_ERR_TOKEN_KID,      /* kid missing, empty, too long or no string */
    PJ_ERR_TOKEN_SIGNATURE, /* the signature does not verify */
    PJ_ERR_TOKEN_CLAIMS,    /* payload not an object, or a claim is missing or
                               of the wrong type */
    PJ_ERR_TOKEN_ISSUER,    /* iss is none of the accepted ones */
    PJ_ERR_TOKEN_AUDIENCE,  /* aud does not name us */
    PJ_ERR_TOKEN_BOUND,     /* cnf: only the holder of a key may use it */
    PJ_ERR_TOKEN_EXPIRED,   /* now >= exp + leeway */
    PJ_ERR_TOKEN_NOT_YET,   /* iat or nbf in the future beyond leeway */
    PJ_ERR_TOKEN_KIND,      /* token_type / token_scope are no known pair */
    PJ_ERR_COUNT            /* number of codes, not a code */
} pj_err_t;

/*
 * A short English phrase for err ("the token has expired"): static, lower
 * case, no trailing stop, no quotes or backslashes, never any input.  Safe in
 * a log line or in a WWW-Authenticate error_description.
 */
const char *pj_strerror(pj_err_t err);

/*
 * A stable machine name for err ("token_expired"): lower case and
 * underscores; used as a log field and metric label.
 */
const char *pj_errname(pj_err_t err);

/* -- memory ------------------------------------------------------------- */

/*
 * A bump arena over caller memory.  What is taken from it lives until the
 * caller resets it or lets the memory go; nothing is freed piecemeal.
 */
typedef struct {
    unsigned char *pos;
    unsigned char *end;
} pj_arena_t;

/* Binds arena to mem[0..len). */
void pj_arena_init(pj_arena_t *arena, void *mem, size_t len);

/* size bytes aligned for any type, or NULL when the arena is spent. */
void *pj_arena_alloc(pj_arena_t *arena, size_t size);

/* An arena of this many bytes always suffices to verify and parse a token of
 * token_bytes with pj_jws_header(), pj_jws_verify() and pj_claims_parse(). */
size_t pj_token_arena_bytes(size_t token_bytes);

/* Likewise for pj_keyset_parse() of a document of len bytes. */
size_t pj_keyset_arena_bytes(size_t len);

/* -- base64 (RFC 4648) --------------------------------------------------- */

/* Characters that n bytes take in unpadded base64url (section 5). */
size_t pj_b64url_encoded_len(size_t n);

/* Upper bound of the bytes that n characters decode to. */
size_t pj_b64url_decoded_max(size_t n);

/*
 * Encodes src without padding into dst[0..cap); *out_len is set to the number
 * of characters, no NUL is added.  PJ_ERR_NO_SPACE when cap is too small.
 */
PJ_MUST_CHECK pj_err_t pj_b64url_encode(char *dst, size_t cap, size_t *out_len,
                                        pj_str_t src);

/*
 * Decodes strict base64url: the alphabet of section 5 only, no padding, no
 * white space, and zero trailing bits, so that each byte string has exactly
 * one encoding.  PJ_ERR_BASE64 or PJ_ERR_NO_SPACE; dst is unspecified then.
 */
PJ_MUST_CHECK pj_err_t pj_b64url_decode(unsigned char *dst, size_t cap,
                                        size_t *out_len, pj_str_t src);

/*
 * Decodes standard base64 (section 4) as used in environment variables: white
 * space between characters is skipped, padding may be left out, all else is
 * strict.
 */
PJ_MUST_CHECK pj_err_t pj_b64_decode(unsigned char *dst, size_t cap,
                                     size_t *out_len, pj_str_t src);

/* -- JSON (RFC 8259) ----------------------------------------------------- */

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

typedef enum { PJ_ROUND_DOWN, PJ_ROUND_UP } pj_round_t;

/*
 * The number that node holds (a NumericDate, RFC 7519 section 2), a fraction
 * rounded towards the past or the future.  Exact: no floating point takes
 * part.  PJ_ERR_JSON_TYPE for what is no number, or lies outside of int64_t.
 */
PJ_MUST_CHECK pj_err_t pj_json_seconds(const pj_json_t *node, pj_round_t round,
                                       int64_t *out);

/* -- keys (RFC 7517, RFC 7518 section 6.3) -------------------------------- */

/* An RSA key and its id; opaque, immutable, owned by whoever got it.  Any
 * number of threads may use it, unless it is a copy (pj_key_copy()). */
typedef struct pj_key_s pj_key_t;

/*
 * Parses a private key given as PEM or DER, PKCS#8 or PKCS#1.  kid is copied.
 * On PJ_OK *out is owned by the caller (pj_key_free); on error it is NULL.
 * PJ_ERR_KEY_FORMAT, PJ_ERR_KEY_WEAK, PJ_ERR_KEY_MISMATCH (its halves are no
 * pair), PJ_ERR_TOKEN_KID (empty, too long, NUL or not UTF-8).  A PEM text is
 * one block with nothing but white space around it.  Encrypted keys are
 * refused, no passphrase is ever asked for; so are RSA-PSS keys and bytes
 * behind the key.
 */
PJ_MUST_CHECK pj_err_t pj_key_private(pj_key_t **out, pj_str_t pem_or_der,
                                      pj_str_t kid);

/* The same for a public key: SubjectPublicKeyInfo, PEM or DER (canonical). */
PJ_MUST_CHECK pj_err_t pj_key_public(pj_key_t **out, pj_str_t pem_or_der,
                                     pj_str_t kid);

/*
 * A copy of key that shares nothing with it, for one thread at a time: unlike
 * any other key it is not to be used by two at once.  OpenSSL keeps the state
 * of blinding within a key and under a lock, and each use of a shared key sets
 * up memory of its own: threads that sign much each want a copy, made in the
 * thread that is going to use it.  PJ_ERR_CRYPTO when OpenSSL fails.
 */
PJ_MUST_CHECK pj_err_t pj_key_copy(pj_key_t **out, const pj_key_t *key);

/* PJ_OK when b is the public half of a (or the same key); else
 * PJ_ERR_KEY_MISMATCH. */
PJ_MUST_CHECK pj_err_t pj_key_match(const pj_key_t *a, const pj_key_t *b);

/* Releases key; NULL is allowed. */
void pj_key_free(pj_key_t *key);

/* The key's id; lives as long as the key. */
pj_str_t pj_key_id(const pj_key_t *key);

/* The typ of tokens that we sign. */
typedef enum {
    PJ_TYP_JWT,     /* "JWT" */
    PJ_TYP_REFRESH, /* "refresh+jwt": nobody takes it for an access token */
    PJ_TYP_COUNT    /* number of values, not a value */
} pj_typ_t;

/* The first part of every token of that typ that a private key signs,
 * base64url; empty for a public key.  Lives as long as the key. */
pj_str_t pj_key_header(const pj_key_t *key, pj_typ_t typ);

/* Modulus size in bits. */
unsigned pj_key_bits(const pj_key_t *key);

/*
 * RFC 7638 SHA-256 thumbprint of the public half, base64url, into
 * out[0..PJ_THUMBPRINT_CHARS); no NUL is added.
 */
PJ_MUST_CHECK pj_err_t pj_key_thumbprint(const pj_key_t *key,
                                         char out[PJ_THUMBPRINT_CHARS]);

/*
 * Writes the public half as one JWK object with the members kty, use, alg,
 * kid, n, e into dst[0..cap).  PJ_ERR_NO_SPACE when it does not fit.
 */
PJ_MUST_CHECK pj_err_t pj_jwk_emit(const pj_key_t *key, char *dst, size_t cap,
                                   size_t *out_len);

/* Writes {"keys":[...]} of the public halves of keys[0..count). */
PJ_MUST_CHECK pj_err_t pj_jwks_emit(const pj_key_t *const *keys, size_t count,
                                    char *dst, size_t cap, size_t *out_len);

/* A key set; zero-initialise, fill with pj_keyset_parse(), then clear. */
typedef struct {
    pj_key_t *keys[PJ_KEYSET_MAX_KEYS];
    size_t count;          /* usable keys */
    size_t ignored;        /* entries passed over */
    pj_err_t last_ignored; /* why the last of them was, or PJ_OK */
} pj_keyset_t;

/*
 * Parses a JWK set (RFC 7517 section 5).  Entries of an unknown kty, for
 * another use, key_ops or alg, weak or malformed ones, those without kid and
 * repeats of a kid are ignored and counted; private members are never read.
 * PJ_ERR_KEYSET_EMPTY when no usable key is left, PJ_ERR_JSON_* or
 * PJ_ERR_TOKEN_SIZE for a document that is none.  PJ_ERR_CRYPTO or
 * PJ_ERR_NO_SPACE where we failed and not the document.  On error *set is
 * empty.
 */
PJ_MUST_CHECK pj_err_t pj_keyset_parse(pj_keyset_t *set, pj_arena_t *arena,
                                       pj_str_t json);

/* The key whose id is exactly kid, or NULL.  Owned by the set. */
const pj_key_t *pj_keyset_find(const pj_keyset_t *set, pj_str_t kid);

/* Frees every key and zeroes *set. */
void pj_keyset_clear(pj_keyset_t *set);

/* -- JWS compact serialisation (RFC 7515) --------------------------------- */

/* The pieces of a compact JWS; all point into the token. */
typedef struct {
    pj_str_t header;        /* base64url */
    pj_str_t payload;       /* base64url */
    pj_str_t signature;     /* base64url */
    pj_str_t signing_input; /* header "." payload */
} pj_jws_t;

typedef struct {
    pj_str_t kid; /* unescaped, 1 to PJ_KID_MAX_BYTES bytes */
    bool refresh; /* typ is refresh+jwt: only pj_jws_header_own() says so */
    const pj_json_t *root; /* all of it; NULL: it is no JSON */
} pj_jws_header_t;

/*
 * Splits token at its two dots and bounds it: PJ_ERR_TOKEN_SIZE over
 * max_bytes, PJ_ERR_TOKEN_SHAPE unless three non-empty parts.
 */
PJ_MUST_CHECK pj_err_t pj_jws_split(pj_str_t token, size_t max_bytes,
                                    pj_jws_t *jws);

/*
 * Decodes and checks the JOSE header: alg must be RS256, typ absent, "JWT" or
 * "at+jwt" (in any case, with or without "application/": RFC 7515 section
 * 4.1.9, RFC 9068 section 2.1), crit absent, kid a string.  jwk, jku, x5u and
 * x5c are never looked at (RFC 8725 section 3.10). PJ_ERR_BASE64 or
 * PJ_ERR_JSON_* for a header that is no JSON at all.
 */
PJ_MUST_CHECK pj_err_t pj_jws_header(pj_arena_t *arena, const pj_jws_t *jws,
                                     pj_jws_header_t *header);

/* The same for the issuer itself: typ may be "refresh+jwt", too. */
PJ_MUST_CHECK pj_err_t pj_jws_header_own(pj_arena_t *arena,
                                         const pj_jws_t *jws,
                                         pj_jws_header_t *header);

/*
 * Verifies the RS256 signature with key: PJ_OK or PJ_ERR_TOKEN_SIGNATURE
 * (also for a signature whose length is not the modulus').
 */
PJ_MUST_CHECK pj_err_t pj_jws_verify(const pj_jws_t *jws, const pj_key_t *key);

/* Upper bound of the characters of a token with payload_len bytes of payload
 * signed by key. */
size_t pj_jws_sign_max(const pj_key_t *key, size_t payload_len);

/*
 * Signs payload: the header is exactly {"alg":"RS256","typ":...,"kid":...}.
 * Writes the token into dst[0..cap), no NUL; cap must be pj_jws_sign_max() or
 * more, else PJ_ERR_NO_SPACE.  key must be private (PJ_ERR_ARGUMENT
 * otherwise).
 */
PJ_MUST_CHECK pj_err_t pj_jws_sign(const pj_key_t *key, pj_typ_t typ,
                                   pj_str_t payload, char *dst, size_t cap,
                                   size_t *out_len);

/* -- JWT claims (RFC 7519) -------------------------------------------------
 */

/* The four kinds of token and the claim pairs that make them. */
typedef enum {
    PJ_TOKEN_ACCOUNT, /* token_type account,   token_scope ACCOUNT */
    PJ_TOKEN_BRANCH,  /* token_type workspace, token_scope BRANCH */
    PJ_TOKEN_SYSTEM,  /* token_type system,    token_scope SYSTEM */
    PJ_TOKEN_REFRESH  /* token_type refresh,   no token_scope */
} pj_token_kind_t;

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

/*
 * Decodes the payload and reads the claims by kind.  Every claim that the kind
 * requires must be there with its type; strings non-empty, arrays of
 * (non-empty) strings possibly empty; sub equal to account_id; typ of an
 * access token "access".  nbf and aud are optional, but not of another type.
 * PJ_ERR_TOKEN_CLAIMS (claims->fault is the first claim at fault, len 0 for a
 * payload that is no object), PJ_ERR_TOKEN_KIND, PJ_ERR_JSON_* or
 * PJ_ERR_BASE64; root is set where the payload is JSON.  It says nothing about
 * signature or time: call pj_jws_verify() and pj_claims_check() too.
 */
PJ_MUST_CHECK pj_err_t pj_claims_parse(pj_arena_t *arena, const pj_jws_t *jws,
                                       pj_claims_t *claims);

/*
 * Checks time, issuer, audience and cnf: refused when now >= exp + leeway,
 * when iat or nbf > now + leeway.  Order: issuer, audience, cnf, not-yet,
 * expired, so that a foreign token is never reported as merely expired.
 */
PJ_MUST_CHECK pj_err_t pj_claims_check(const pj_claims_t *claims,
                                       const pj_policy_t *policy);

/* A set of errors: the bit of err. */
#define PJ_FAULT(err) (UINT64_C(1) << (err))

/* The set of all that pj_claims_check() would refuse claims for; 0: nothing.
 */
PJ_MUST_CHECK uint64_t pj_claims_faults(const pj_claims_t *claims,
                                        const pj_policy_t *policy);

#endif /* PJ_H_INCLUDED */
