/* RS256 over OpenSSL: the key object, its checks, signing and verifying. */

#include "pj_internal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <string.h>

pj_err_t pj_kid_check(pj_str_t kid)
{
    if (kid.len == 0 || kid.len > PJ_KID_MAX_BYTES || !pj_utf8_valid(kid))
        return PJ_ERR_TOKEN_KID;
    return PJ_OK;
}

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

    /* Other key types, RSA-PSS among them, cannot make RS256 signatures. */
    if (EVP_PKEY_is_a(pkey, "RSA") == 1 &&
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_N, &n) == 1 &&
        EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &e) == 1)
        err = BN_num_bits(n) >= PJ_RSA_MIN_BITS &&
                      BN_num_bits(n) <= PJ_RSA_MAX_BITS && BN_is_odd(n) &&
                      BN_is_odd(e) && !BN_is_one(e) &&
                      BN_num_bits(e) <= PJ_RSA_MAX_EXPONENT_BITS &&
                      !has_roca(n)
                  ? PJ_OK
                  : PJ_ERR_KEY_WEAK;
    BN_free(n);
    BN_free(e);
    return err;
}

/*
 * A context set up for one operation of pkey.  Made once a key and then
 * copied or used again: that spares each operation the look-up of algorithms
 * by name.
 */
static EVP_PKEY_CTX *context_new(EVP_PKEY *pkey, const EVP_MD *md,
                                 int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL);

    if (ctx != NULL && md != NULL && init(ctx) == 1 &&
        EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
        EVP_PKEY_CTX_set_signature_md(ctx, md) == 1)
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

static bool digest(const pj_key_t *key, pj_str_t input, unsigned char *md)
{
    if (key->digest == NULL)
        return EVP_Digest(input.data, input.len, md, NULL, key->sha256,
                          NULL) == 1;
    return EVP_DigestInit_ex(key->digest, key->sha256, NULL) == 1 &&
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

pj_err_t pj_rs256_verify(const pj_key_t *key, pj_str_t input,
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

pj_err_t pj_rs256_sign(const pj_key_t *key, pj_str_t input, unsigned char *sig)
{
    unsigned char md[PJ_SHA256_BYTES];
    EVP_PKEY_CTX *ctx = operation_begin(key, key->sign, input, md);
    size_t len = key->size;
    bool made =
        ctx != NULL && EVP_PKEY_sign(ctx, sig, &len, md, sizeof(md)) == 1;

    operation_end(key, ctx);
    return made && len == key->size ? PJ_OK : PJ_ERR_CRYPTO;
}

/* A signature made with the private half must verify with the public one. */
static pj_err_t pair_check(const pj_key_t *key)
{
    unsigned char sig[PJ_RSA_MAX_BYTES];
    pj_str_t probe = PJ_STR("pair check");

    if (pj_rs256_sign(key, probe, sig) != PJ_OK ||
        pj_rs256_verify(key, probe, sig) != PJ_OK)
        return PJ_ERR_KEY_MISMATCH;
    return PJ_OK;
}

/* Renders the constant JOSE header of one typ. */
static pj_err_t header_make(pj_key_t *key, pj_typ_t typ)
{
    static const pj_str_t names[PJ_TYP_COUNT] = {
        [PJ_TYP_JWT] = PJ_STR("JWT"),
        [PJ_TYP_REFRESH] = PJ_STR("refresh+jwt"),
    };
    char json[64 + 6 * PJ_KID_MAX_BYTES];
    pj_out_t out;
    size_t len, cap;
    pj_err_t err;

    pj_out_init(&out, json, sizeof(json));
    pj_out_text(&out, PJ_STR("{\"alg\":\"RS256\",\"typ\":\""));
    pj_out_text(&out, names[typ]);
    pj_out_text(&out, PJ_STR("\",\"kid\":"));
    pj_out_json_string(&out, pj_key_id(key));
    pj_out_text(&out, PJ_STR("}"));
    err = pj_out_done(&out, &len);
    if (err != PJ_OK)
        return err;

    cap = pj_b64url_encoded_len(len);
    key->headers[typ].text = OPENSSL_malloc(cap);
    if (key->headers[typ].text == NULL)
        return PJ_ERR_CRYPTO;
    return pj_b64url_encode(key->headers[typ].text, cap,
                            &key->headers[typ].len,
                            (pj_str_t){(unsigned char *) json, len});
}

static pj_err_t key_fill(pj_key_t *key, bool is_private)
{
    pj_err_t err = PJ_OK;

    key->bits = (unsigned) EVP_PKEY_get_bits(key->pkey);
    key->size = (key->bits + 7) / 8;
    key->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    key->verify = context_new(key->pkey, key->sha256, EVP_PKEY_verify_init);
    if (is_private)
        key->sign = context_new(key->pkey, key->sha256, EVP_PKEY_sign_init);
    if (key->verify == NULL || (is_private && key->sign == NULL))
        return PJ_ERR_CRYPTO;

    if (is_private)
        err = pair_check(key);
    for (pj_typ_t typ = 0; is_private && !err && typ < PJ_TYP_COUNT; typ++)
        err = header_make(key, typ);
    return err;
}

pj_err_t pj_key_wrap(pj_key_t **out, EVP_PKEY *pkey, pj_str_t kid,
                     bool is_private)
{
    pj_key_t *key = OPENSSL_zalloc(sizeof(*key));
    pj_err_t err = pj_kid_check(kid);

    *out = NULL;
    if (key == NULL) {
        EVP_PKEY_free(pkey);
        return PJ_ERR_CRYPTO;
    }
    key->pkey = pkey;
    if (err == PJ_OK)
        err = rsa_check(pkey);
    if (err == PJ_OK) {
        key->kid_len = kid.len;
        memcpy(key->kid, kid.data, kid.len);
        err = key_fill(key, is_private);
    }
    if (err == PJ_OK)
        *out = key;
    else
        pj_key_free(key);
    return err;
}

pj_err_t pj_key_copy(pj_key_t **out, const pj_key_t *key)
{
    EVP_PKEY *pkey;
    pj_err_t err = PJ_ERR_CRYPTO;

    *out = NULL;
    ERR_set_mark();
    pkey = EVP_PKEY_dup(key->pkey);
    if (pkey != NULL)
        err = pj_key_wrap(out, pkey, pj_key_id(key), key->sign != NULL);
    if (err == PJ_OK)
        (*out)->digest = EVP_MD_CTX_new(); /* goes without, too */
    ERR_pop_to_mark();
    return err;
}

void pj_key_free(pj_key_t *key)
{
    if (key == NULL)
        return;
    EVP_PKEY_CTX_free(key->verify);
    EVP_PKEY_CTX_free(key->sign);
    EVP_MD_CTX_free(key->digest);
    EVP_MD_free(key->sha256);
    EVP_PKEY_free(key->pkey);
    for (pj_typ_t typ = 0; typ < PJ_TYP_COUNT; typ++)
        OPENSSL_free(key->headers[typ].text);
    OPENSSL_free(key);
}

pj_str_t pj_key_id(const pj_key_t *key)
{
    return (pj_str_t){key->kid, key->kid_len};
}

pj_str_t pj_key_header(const pj_key_t *key, pj_typ_t typ)
{
    return (pj_str_t){(const unsigned char *) key->headers[typ].text,
                      key->headers[typ].len};
}

pj_err_t pj_key_match(const pj_key_t *a, const pj_key_t *b)
{
    int equal;

    ERR_set_mark();
    equal = EVP_PKEY_eq(a->pkey, b->pkey);
    ERR_pop_to_mark();
    return equal == 1 ? PJ_OK : PJ_ERR_KEY_MISMATCH;
}
