/* Signature algorithms, implemented with OpenSSL, for three types of key. */

#include "pj_internal.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <string.h>

#define RSA_NEW_BITS 2048
#define P256_BYTES 32     /* of a coordinate, and of r and s */
#define P256_DER_BYTES 72 /* maximum size of a DER signature */
#define ED25519_BYTES 32  /* of a public key */

pj_err_t pj_sha256(unsigned char md[PJ_SHA256_BYTES], pj_str_t text)
{
    bool made;

    ERR_set_mark();
    made = EVP_Digest(text.data, text.len, md, NULL, EVP_sha256(), NULL) == 1;
    ERR_pop_to_mark();
    return made ? PJ_OK : PJ_ERR_CRYPTO;
}

/* -- signatures of a digest ----------------------------------------------- */

/* Computes md and returns the context to use: ctx itself if the key belongs to
 * this thread, else a copy. */
static EVP_PKEY_CTX *operation_begin(const pj_key_t *key, EVP_PKEY_CTX *ctx,
                                     pj_str_t input, unsigned char *md)
{
    ERR_set_mark();
    if (key->digest == NULL)
        return EVP_Digest(input.data, input.len, md, NULL, key->md, NULL) == 1
                   ? EVP_PKEY_CTX_dup(ctx)
                   : NULL;
    return EVP_DigestInit_ex(key->digest, key->md, NULL) == 1 &&
                   EVP_DigestUpdate(key->digest, input.data, input.len) == 1 &&
                   EVP_DigestFinal_ex(key->digest, md, NULL) == 1
               ? ctx
               : NULL;
}

static void operation_end(const pj_key_t *key, EVP_PKEY_CTX *ctx)
{
    if (key->digest == NULL)
        EVP_PKEY_CTX_free(ctx);
    ERR_pop_to_mark();
}

static pj_err_t digest_verify(const pj_key_t *key, pj_str_t input, pj_str_t sig)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    EVP_PKEY_CTX *ctx = operation_begin(key, key->verify, input, md);
    pj_err_t err = PJ_ERR_CRYPTO;

    if (ctx != NULL)
        err = EVP_PKEY_verify(ctx, sig.data, sig.len, md, key->md_bytes) == 1
                  ? PJ_OK
                  : PJ_ERR_TOKEN_SIGNATURE;
    operation_end(key, ctx);
    return err;
}

/* *len is the size of sig on entry and the bytes used on return. */
static bool digest_sign(const pj_key_t *key, pj_str_t input, unsigned char *sig,
                        size_t *len)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    EVP_PKEY_CTX *ctx = operation_begin(key, key->sign, input, md);
    bool made =
        ctx != NULL && EVP_PKEY_sign(ctx, sig, len, md, key->md_bytes) == 1;

    operation_end(key, ctx);
    return made;
}

/* -- RSA ------------------------------------------------------------------ */

/* Detects keys that can be factored because of CVE-2017-15361 ("ROCA"; Nemec
 * and others, "The Return of Coppersmith's Attack", 2017).  A library in smart
 * cards made primes of the form k * M + 65537^a mod M, where M is a product of
 * small primes.  So the modulus n is a power of 65537 modulo each small prime.
 * Fewer than one in 2^27 of other keys have this property. */
static bool has_roca(const BIGNUM *n)
{
    static const unsigned char primes[] = {
        3,   5,   7,   11,  13,  17,  19,  23,  29,  31,  37,  41,  43,
        47,  53,  59,  61,  67,  71,  73,  79,  83,  89,  97,  101, 103,
        107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167};

    for (size_t i = 0; i < sizeof(primes); i++) {
        BN_ULONG p = primes[i], rest = BN_mod_word(n, p), power = 1;

        do {
            power = power * 65537 % p;
        } while (power != rest && power != 1);
        if (power != rest)
            return false;
    }
    return true;
}

static pj_err_t rsa_check(EVP_PKEY *pkey)
{
    BIGNUM *n = NULL, *e = NULL;
    pj_err_t err = PJ_ERR_KEY_FORMAT;

    if (EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_N, &n) == 1 &&
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &e) == 1)
        err = BN_num_bits(n) >= PJ_RSA_MIN_BITS &&
                      BN_num_bits(n) <= PJ_RSA_MAX_BITS && BN_is_odd(n) &&
                      BN_is_odd(e) && !BN_is_one(e) &&
                      BN_num_bits(e) <= PJ_RSA_MAX_EXPONENT_BITS && !has_roca(n)
                  ? PJ_OK
                  : PJ_ERR_KEY_WEAK;
    BN_free(n);
    BN_free(e);
    return err;
}

static pj_err_t rsa_sign(const pj_key_t *key, pj_str_t input,
                         unsigned char *sig)
{
    size_t len = key->size;

    return digest_sign(key, input, sig, &len) && len == key->size
               ? PJ_OK
               : PJ_ERR_CRYPTO;
}

static EVP_PKEY *rsa_generate(void)
{
    return EVP_RSA_gen(RSA_NEW_BITS);
}

static const pj_key_type_t rsa = {
    .name = "RSA", /* not RSA-PSS: such keys cannot sign for RS256 */
    .members = {{.name = "e",
                 .param = OSSL_PKEY_PARAM_RSA_E,
                 .size = (PJ_RSA_MAX_EXPONENT_BITS + 7) / 8},
                {.name = "kty", .value = "RSA"},
                {.name = "n",
                 .param = OSSL_PKEY_PARAM_RSA_N,
                 .size = PJ_RSA_MAX_BYTES}},
    .check = rsa_check,
    .verify = digest_verify,
    .sign = rsa_sign,
    .generate = rsa_generate,
};

/* -- ECDSA on P-256 ------------------------------------------------------- */

/* Requires an uncompressed point and a named curve.  OpenSSL also accepts other
 * encodings, and curves given by parameters.  It refuses points off the curve;
 * the point at infinity cannot be encoded uncompressed. */
static pj_err_t p256_check(EVP_PKEY *pkey)
{
    static const char *const demands[][2] = {
        {OSSL_PKEY_PARAM_GROUP_NAME, SN_X9_62_prime256v1},
        {OSSL_PKEY_PARAM_EC_ENCODING, OSSL_PKEY_EC_ENCODING_GROUP},
        {OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
         OSSL_PKEY_EC_POINT_CONVERSION_FORMAT_UNCOMPRESSED},
    };
    char text[32];

    for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++) {
        if (EVP_PKEY_get_utf8_string_param(pkey, demands[i][0], text,
                                           sizeof(text), NULL) != 1 ||
            strcmp(text, demands[i][1]) != 0)
            return PJ_ERR_KEY_FORMAT;
    }
    /* OpenSSL computes a missing public half of a private key but does not
     * write it. pj_key_derive() needs a single encoding of each key. */
    return EVP_PKEY_set_int_param(pkey, OSSL_PKEY_PARAM_EC_INCLUDE_PUBLIC, 1) ==
                   1
               ? PJ_OK
               : PJ_ERR_CRYPTO;
}

/* Whether 1 <= number < n, where n is the order of the group (FIPS 186-4
 * section 6.4). */
static bool p256_in_range(const unsigned char number[P256_BYTES])
{
    static const unsigned char zero[P256_BYTES];
    static const unsigned char n[P256_BYTES] = {
        0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17,
        0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51};

    return memcmp(number, zero, P256_BYTES) != 0 &&
           memcmp(number, n, P256_BYTES) < 0;
}

/* In a token the signature is r || s (RFC 7518 section 3.4). */
static pj_err_t p256_verify(const pj_key_t *key, pj_str_t input, pj_str_t sig)
{
    unsigned char der[P256_DER_BYTES], *end = der;
    ECDSA_SIG *pair;
    BIGNUM *r, *s;
    int len = 0;

    if (!p256_in_range(sig.data) || !p256_in_range(sig.data + P256_BYTES))
        return PJ_ERR_TOKEN_SIGNATURE;
    ERR_set_mark();
    pair = ECDSA_SIG_new();
    r = BN_bin2bn(sig.data, P256_BYTES, NULL);
    s = BN_bin2bn(sig.data + P256_BYTES, P256_BYTES, NULL);
    if (pair != NULL && ECDSA_SIG_set0(pair, r, s) == 1) {
        r = s = NULL; /* owned by pair */
        len = i2d_ECDSA_SIG(pair, &end);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    ERR_pop_to_mark();
    return len > 0 ? digest_verify(key, input, (pj_str_t){der, (size_t) len})
                   : PJ_ERR_CRYPTO;
}

static pj_err_t p256_sign(const pj_key_t *key, pj_str_t input,
                          unsigned char *sig)
{
    unsigned char der[P256_DER_BYTES];
    const unsigned char *p = der;
    size_t len = sizeof(der);
    ECDSA_SIG *pair = NULL;
    bool made;

    ERR_set_mark();
    if (digest_sign(key, input, der, &len))
        pair = d2i_ECDSA_SIG(NULL, &p, (long) len);
    made =
        pair != NULL &&
        BN_bn2binpad(ECDSA_SIG_get0_r(pair), sig, P256_BYTES) > 0 &&
        BN_bn2binpad(ECDSA_SIG_get0_s(pair), sig + P256_BYTES, P256_BYTES) > 0;
    ECDSA_SIG_free(pair);
    ERR_pop_to_mark();
    return made ? PJ_OK : PJ_ERR_CRYPTO;
}

static EVP_PKEY *p256_generate(void)
{
    return EVP_EC_gen(SN_X9_62_prime256v1);
}

static const pj_key_type_t p256 = {
    .name = "EC",
    .members = {{.name = "crv", .value = "P-256"},
                {.name = "kty", .value = "EC"},
                {.name = "x", .at = 1, .size = P256_BYTES},
                {.name = "y", .at = 1 + P256_BYTES, .size = P256_BYTES}},
    .group = SN_X9_62_prime256v1,
    .point_bytes = 1 + 2 * P256_BYTES,
    .signature_bytes = 2 * P256_BYTES,
    .check = p256_check,
    .verify = p256_verify,
    .sign = p256_sign,
    .generate = p256_generate,
};

/* -- Ed25519 -------------------------------------------------------------- */

/* With a public key of small order anybody can sign any text, and OpenSSL
 * accepts such keys.  The eight points have five different y (RFC 8032 section
 * 5.1.3: little-endian, without the highest bit): 0, 1, -1 and two more. y >= p
 * is refused too, since it is another spelling of y - p. */
static pj_err_t ed25519_check(EVP_PKEY *pkey)
{
    static const struct {
        unsigned char low, high, rest[ED25519_BYTES - 1];
    } refused[] = {
        {0x00, 0x01, {0}},
        {0xec, 0xff, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
        {0x26, 0x26, {0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45,
                      0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
                      0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1,
                      0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05}},
        {0xc7, 0xc7, {0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba,
                      0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
                      0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e,
                      0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a}},
    };
    unsigned char y[ED25519_BYTES];
    size_t len = sizeof(y);

    if (EVP_PKEY_get_raw_public_key(pkey, y, &len) != 1 || len != sizeof(y))
        return PJ_ERR_KEY_FORMAT;
    y[ED25519_BYTES - 1] &= 0x7f;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (y[0] >= refused[i].low && y[0] <= refused[i].high &&
            memcmp(y + 1, refused[i].rest, ED25519_BYTES - 1) == 0)
            return PJ_ERR_KEY_WEAK;
    }
    return PJ_OK;
}

/* OpenSSL needs the whole text and a new context for each operation. */
static pj_err_t ed25519_verify(const pj_key_t *key, pj_str_t input,
                               pj_str_t sig)
{
    pj_err_t err = PJ_ERR_CRYPTO;
    EVP_MD_CTX *ctx;

    ERR_set_mark();
    ctx = EVP_MD_CTX_new();
    if (ctx != NULL &&
        EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key->pkey) == 1)
        err =
            EVP_DigestVerify(ctx, sig.data, sig.len, input.data, input.len) == 1
                ? PJ_OK
                : PJ_ERR_TOKEN_SIGNATURE;
    EVP_MD_CTX_free(ctx);
    ERR_pop_to_mark();
    return err;
}

static pj_err_t ed25519_sign(const pj_key_t *key, pj_str_t input,
                             unsigned char *sig)
{
    size_t len = key->size;
    EVP_MD_CTX *ctx;
    bool made;

    ERR_set_mark();
    ctx = EVP_MD_CTX_new();
    made = ctx != NULL &&
           EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) == 1 &&
           EVP_DigestSign(ctx, sig, &len, input.data, input.len) == 1 &&
           len == key->size;
    EVP_MD_CTX_free(ctx);
    ERR_pop_to_mark();
    return made ? PJ_OK : PJ_ERR_CRYPTO;
}

static EVP_PKEY *ed25519_generate(void)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
}

static const pj_key_type_t ed25519 = {
    .name = "ED25519",
    .members = {{.name = "crv", .value = "Ed25519"},
                {.name = "kty", .value = "OKP"},
                {.name = "x", .at = 0, .size = ED25519_BYTES}},
    .point_bytes = ED25519_BYTES,
    .check = ed25519_check,
    .verify = ed25519_verify,
    .sign = ed25519_sign,
    .generate = ed25519_generate,
};

/* -- the table ------------------------------------------------------------ */

/* The first row of a type is its default algorithm. */
static const pj_alg_t algs[] = {
    {"RS256", &rsa, "SHA256", RSA_PKCS1_PADDING},
    {"RS384", &rsa, "SHA384", RSA_PKCS1_PADDING},
    {"RS512", &rsa, "SHA512", RSA_PKCS1_PADDING},
    {"PS256", &rsa, "SHA256", RSA_PKCS1_PSS_PADDING},
    {"ES256", &p256, "SHA256", 0},
    {"EdDSA", &ed25519, NULL, 0},
    {"Ed25519", &ed25519, NULL, 0}, /* RFC 9864 */
    {NULL, NULL, NULL, 0},
};

const pj_alg_t *pj_alg_find(pj_str_t name)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && !pj_str_eq(pj_str(alg->name), name))
        alg++;
    return alg->name == NULL ? NULL : alg;
}

const char *pj_alg_name(const pj_alg_t *alg)
{
    return alg->name;
}

const pj_alg_t *pj_alg_of_key(const EVP_PKEY *pkey)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && EVP_PKEY_is_a(pkey, alg->type->name) != 1)
        alg++;
    return alg->name == NULL ? NULL : alg;
}

/* "alg" is optional (RFC 7517 section 4.4). */
bool pj_alg_is_for(const pj_alg_t *alg, const pj_json_t *jwk)
{
    if (pj_json_member(jwk, "alg") != NULL &&
        !pj_str_eq(pj_json_string(jwk, "alg"), pj_str(alg->name)))
        return false;
    for (const pj_member_t *m = alg->type->members; m->name != NULL; m++) {
        if (m->value != NULL &&
            !pj_str_eq(pj_json_string(jwk, m->name), pj_str(m->value)))
            return false;
    }
    return true;
}

const pj_alg_t *pj_alg_of_jwk(const pj_json_t *jwk)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && !pj_alg_is_for(alg, jwk))
        alg++;
    return alg->name == NULL ? NULL : alg;
}
