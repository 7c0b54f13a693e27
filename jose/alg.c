/* Signature algorithms over OpenSSL: a table with a row each. */

#include "pj_internal.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

#define RSA_NEW_BITS 2048

/* -- signatures of a digest ----------------------------------------------- */

static bool digest(const pj_key_t *key, pj_str_t input, unsigned char *md)
{
    if (key->digest == NULL)
        return EVP_Digest(input.data, input.len, md, NULL, key->md, NULL) == 1;
    return EVP_DigestInit_ex(key->digest, key->md, NULL) == 1 &&
           EVP_DigestUpdate(key->digest, input.data, input.len) == 1 &&
           EVP_DigestFinal_ex(key->digest, md, NULL) == 1;
}

/* Fills md and returns the context to use: ctx itself if no other thread can
 * be using it. */
static EVP_PKEY_CTX *operation_begin(const pj_key_t *key, EVP_PKEY_CTX *ctx,
                                     pj_str_t input, unsigned char *md)
{
    ERR_set_mark();
    if (!digest(key, input, md))
        return NULL;
    return key->digest != NULL ? ctx : EVP_PKEY_CTX_dup(ctx);
}

static void operation_end(const pj_key_t *key, EVP_PKEY_CTX *ctx)
{
    if (key->digest == NULL)
        EVP_PKEY_CTX_free(ctx);
    ERR_pop_to_mark();
}

static pj_err_t digest_verify(const pj_key_t *key, pj_str_t input,
                              const unsigned char *sig)
{
    unsigned char md[PJ_SHA256_BYTES];
    EVP_PKEY_CTX *ctx = operation_begin(key, key->verify, input, md);
    pj_err_t err = PJ_ERR_CRYPTO;

    if (ctx != NULL)
        err = EVP_PKEY_verify(ctx, sig, key->size, md, sizeof(md)) == 1
                  ? PJ_OK
                  : PJ_ERR_TOKEN_SIGNATURE;
    operation_end(key, ctx);
    return err;
}

static pj_err_t digest_sign(const pj_key_t *key, pj_str_t input,
                            unsigned char *sig)
{
    unsigned char md[PJ_SHA256_BYTES];
    EVP_PKEY_CTX *ctx = operation_begin(key, key->sign, input, md);
    size_t len = key->size;
    bool made =
        ctx != NULL && EVP_PKEY_sign(ctx, sig, &len, md, sizeof(md)) == 1;

    operation_end(key, ctx);
    return made && len == key->size ? PJ_OK : PJ_ERR_CRYPTO;
}

/* -- RSA ------------------------------------------------------------------ */

/*
 * Whether the modulus n has the fingerprint of CVE-2017-15361 (Nemec and
 * others, "The Return of Coppersmith's Attack", 2017), "ROCA": such keys can
 * be factored.  A library in chips made primes of the form
 * k * M + 65537^a mod M, where M is a product of small primes, so modulo each
 * of these n is a power of 65537; of other keys fewer than one in 2^27 is.
 */
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

static pj_err_t rsa_check(const EVP_PKEY *pkey)
{
    BIGNUM *n = NULL, *e = NULL;
    pj_err_t err = PJ_ERR_KEY_FORMAT;

    if (EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_N, &n) == 1 &&
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &e) == 1)
        err = BN_is_odd(n) && BN_is_odd(e) && !BN_is_one(e) &&
                      BN_num_bits(e) <= PJ_RSA_MAX_EXPONENT_BITS && !has_roca(n)
                  ? PJ_OK
                  : PJ_ERR_KEY_WEAK;
    BN_free(n);
    BN_free(e);
    return err;
}

static bool rsa_pkcs1_prepare(EVP_PKEY_CTX *ctx, const EVP_MD *md)
{
    return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
           EVP_PKEY_CTX_set_signature_md(ctx, md) == 1;
}

static EVP_PKEY *rsa_generate(void)
{
    return EVP_RSA_gen(RSA_NEW_BITS);
}

/* -- the table ------------------------------------------------------------ */

/* Of rows for one type of key the first is that of keys that name none. */
static const pj_alg_t algs[] = {
    {
        .name = "RS256",
        .type = "RSA", /* not RSA-PSS: such keys cannot sign so */
        .members = {{.name = "e",
                     .param = OSSL_PKEY_PARAM_RSA_E,
                     .max = (PJ_RSA_MAX_EXPONENT_BITS + 7) / 8},
                    {.name = "kty", .value = "RSA"},
                    {.name = "n",
                     .param = OSSL_PKEY_PARAM_RSA_N,
                     .max = PJ_RSA_MAX_BYTES}},
        .min_bits = PJ_RSA_MIN_BITS,
        .max_bits = PJ_RSA_MAX_BITS,
        .digest = "SHA256",
        .check = rsa_check,
        .prepare = rsa_pkcs1_prepare,
        .size = EVP_PKEY_get_size, /* as the modulus: RFC 8017 section 8.2.1 */
        .verify = digest_verify,
        .sign = digest_sign,
        .generate = rsa_generate,
    },
    {.name = NULL},
};

const pj_alg_t *pj_alg_find(pj_str_t name)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && !pj_str_eq(pj_str(alg->name), name))
        alg++;
    return alg->name == NULL ? NULL : alg;
}

const pj_alg_t *pj_alg_of_key(const EVP_PKEY *pkey)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && EVP_PKEY_is_a(pkey, alg->type) != 1)
        alg++;
    return alg->name == NULL ? NULL : alg;
}

/* "alg" may be absent (RFC 7517 section 4.4). */
static bool is_for(const pj_alg_t *alg, const pj_json_t *jwk)
{
    if (pj_json_member(jwk, "alg") != NULL &&
        !pj_str_eq(pj_json_string(jwk, "alg"), pj_str(alg->name)))
        return false;
    for (const pj_member_t *m = alg->members; m->name != NULL; m++) {
        if (m->value != NULL &&
            !pj_str_eq(pj_json_string(jwk, m->name), pj_str(m->value)))
            return false;
    }
    return true;
}

const pj_alg_t *pj_alg_of_jwk(const pj_json_t *jwk)
{
    const pj_alg_t *alg = algs;

    while (alg->name != NULL && !is_for(alg, jwk))
        alg++;
    return alg->name == NULL ? NULL : alg;
}
