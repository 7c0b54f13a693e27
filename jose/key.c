/* Key objects, their checks, and parsing of PEM or DER: PKCS#8, PKCS#1,
 * SPKI. */

#include "pj_internal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <string.h>

/* -- the object ----------------------------------------------------------- */

pj_err_t pj_kid_check(pj_str_t kid)
{
    if (kid.len == 0 || kid.len > PJ_KID_MAX_BYTES || !pj_utf8_valid(kid))
        return PJ_ERR_TOKEN_KID;
    return PJ_OK;
}

/* Returns a context set up for one operation.  It is made once for a key, then
 * copied or reused, so that no operation looks up algorithms by name. */
static EVP_PKEY_CTX *context_new(const pj_key_t *key,
                                 int (*init)(EVP_PKEY_CTX *))
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);
    int padding = key->alg->padding;

    if (ctx != NULL && key->md != NULL && init(ctx) == 1 &&
        (padding == 0 || EVP_PKEY_CTX_set_rsa_padding(ctx, padding) == 1) &&
        EVP_PKEY_CTX_set_signature_md(ctx, key->md) == 1 &&
        (padding != RSA_PKCS1_PSS_PADDING ||
         EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1))
        return ctx;
    EVP_PKEY_CTX_free(ctx);
    return NULL;
}

static bool contexts_fill(pj_key_t *key)
{
    if (key->alg->digest == NULL)
        return true;
    key->md = EVP_MD_fetch(NULL, key->alg->digest, NULL);
    key->md_bytes = (size_t) EVP_MD_get_size(key->md);
    key->verify = context_new(key, EVP_PKEY_verify_init);
    if (key->is_private)
        key->sign = context_new(key, EVP_PKEY_sign_init);
    return key->verify != NULL && (!key->is_private || key->sign != NULL);
}

static pj_err_t key_fill(pj_key_t *key)
{
    static const pj_str_t probe = PJ_STR("pair check");
    const pj_key_type_t *type = key->alg->type;
    unsigned char sig[PJ_SIGNATURE_MAX_BYTES];

    key->size = type->signature_bytes != 0
                    ? type->signature_bytes
                    : (size_t) EVP_PKEY_get_size(key->pkey);
    if (!contexts_fill(key))
        return PJ_ERR_CRYPTO;

    /* A signature made with the private half must verify with the public. */
    if (key->is_private &&
        (type->sign(key, probe, sig) != PJ_OK ||
         type->verify(key, probe, (pj_str_t){sig, key->size}) != PJ_OK))
        return PJ_ERR_KEY_MISMATCH;
    return PJ_OK;
}

pj_err_t pj_key_wrap(pj_key_t **out, const pj_alg_t *alg, EVP_PKEY *pkey,
                     pj_str_t kid, bool is_private)
{
    pj_key_t *key = OPENSSL_zalloc(sizeof(*key));
    pj_err_t err = kid.len == 0 ? PJ_OK : pj_kid_check(kid);

    *out = NULL;
    if (key == NULL) {
        EVP_PKEY_free(pkey);
        return PJ_ERR_CRYPTO;
    }
    key->alg = alg;
    key->pkey = pkey;
    key->is_private = is_private;
    if (err == PJ_OK)
        err = alg != NULL && EVP_PKEY_is_a(pkey, alg->type->name) == 1
                  ? alg->type->check(pkey)
                  : PJ_ERR_KEY_FORMAT;
    if (err == PJ_OK) {
        key->kid_len = kid.len;
        if (kid.len > 0)
            memcpy(key->kid, kid.data, kid.len);
        err = key_fill(key);
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
        err = pj_key_wrap(out, key->alg, pkey, pj_key_id(key), key->is_private);
    if (err == PJ_OK)
        (*out)->digest = EVP_MD_CTX_new(); /* NULL is allowed */
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
    EVP_MD_free(key->md);
    EVP_PKEY_free(key->pkey);
    OPENSSL_free(key);
}

pj_str_t pj_key_id(const pj_key_t *key)
{
    return (pj_str_t){key->kid, key->kid_len};
}

const pj_alg_t *pj_key_alg(const pj_key_t *key)
{
    return key->alg;
}

pj_err_t pj_key_match(const pj_key_t *a, const pj_key_t *b)
{
    int equal;

    ERR_set_mark();
    equal = EVP_PKEY_eq(a->pkey, b->pkey);
    ERR_pop_to_mark();
    return equal == 1 ? PJ_OK : PJ_ERR_KEY_MISMATCH;
}

/* HKDF (RFC 5869) from the private key in DER, without a salt. */
pj_err_t pj_key_derive(const pj_key_t *key, pj_str_t label, unsigned char *out,
                       size_t len)
{
    unsigned char *der = NULL;
    OSSL_PARAM params[4];
    EVP_KDF_CTX *ctx = NULL;
    EVP_KDF *hkdf;
    bool made;
    int n;

    if (!key->is_private)
        return PJ_ERR_ARGUMENT;
    ERR_set_mark();
    hkdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    if (hkdf != NULL)
        ctx = EVP_KDF_CTX_new(hkdf);
    n = i2d_PrivateKey(key->pkey, &der);
    params[0] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
                                                 (char *) "SHA256", 0);
    params[1] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, der,
                                                  n > 0 ? (size_t) n : 0);
    params[2] = OSSL_PARAM_construct_octet_string(
        OSSL_KDF_PARAM_INFO, (void *) (uintptr_t) label.data, label.len);
    params[3] = OSSL_PARAM_construct_end();
    made = ctx != NULL && n > 0 && EVP_KDF_derive(ctx, out, len, params) == 1;
    OPENSSL_clear_free(der, params[1].data_size);
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(hkdf);
    ERR_pop_to_mark();
    return made ? PJ_OK : PJ_ERR_CRYPTO;
}

pj_err_t pj_key_generate(pj_key_t **out, const pj_alg_t *alg, pj_str_t kid)
{
    EVP_PKEY *pkey;
    pj_err_t err = pj_kid_check(kid);

    *out = NULL;
    if (err != PJ_OK)
        return err;
    err = PJ_ERR_CRYPTO;
    ERR_set_mark();
    pkey = alg->type->generate();
    if (pkey != NULL)
        err = pj_key_wrap(out, pj_alg_of_key(pkey), pkey, kid, true);
    ERR_pop_to_mark();
    return err;
}

pj_err_t pj_key_pem(const pj_key_t *key, bool private_half, char *dst,
                    size_t cap, size_t *out_len)
{
    pj_out_t out = {dst, 0, cap, PJ_ERR_CRYPTO};
    unsigned char *pem;
    BIO *bio;
    long len;

    if (private_half && !key->is_private)
        return PJ_ERR_ARGUMENT;
    ERR_set_mark();
    bio = BIO_new(BIO_s_secmem()); /* wiped when it is freed */
    if (bio != NULL &&
        (private_half ? PEM_write_bio_PKCS8PrivateKey(bio, key->pkey, NULL,
                                                      NULL, 0, NULL, NULL)
                      : PEM_write_bio_PUBKEY(bio, key->pkey)) == 1 &&
        (len = BIO_get_mem_data(bio, &pem)) > 0) {
        out.err = PJ_OK;
        pj_out_text(&out, (pj_str_t){pem, (size_t) len});
    }
    BIO_free(bio);
    ERR_pop_to_mark();
    *out_len = out.len;
    return out.err;
}

/* -- reading -------------------------------------------------------------- */

/* The format of a key, known from its PEM label. */
typedef enum { FORM_DER, FORM_PKCS8, FORM_PKCS1, FORM_SPKI } form_t;

typedef struct {
    form_t form;
    size_t len;
    unsigned char der[PJ_DER_MAX_BYTES];
} decoded_t;

static const struct {
    pj_str_t begin;
    pj_str_t end;
    form_t form;
} pem_kinds[] = {
    {PJ_STR("-----BEGIN PRIVATE KEY-----"), PJ_STR("-----END PRIVATE KEY-----"),
     FORM_PKCS8},
    {PJ_STR("-----BEGIN RSA PRIVATE KEY-----"),
     PJ_STR("-----END RSA PRIVATE KEY-----"), FORM_PKCS1},
    {PJ_STR("-----BEGIN PUBLIC KEY-----"), PJ_STR("-----END PUBLIC KEY-----"),
     FORM_SPKI},
};

static pj_str_t trim(pj_str_t s)
{
    for (; s.len > 0 && pj_is_space(s.data[0]); s.len--)
        s.data++;
    while (s.len > 0 && pj_is_space(s.data[s.len - 1]))
        s.len--;
    return s;
}

/* Decodes PEM with a single block, or copies DER. OpenSSL's PEM reader is not
 * used because it may prompt for a passphrase and skips text around the block.
 * Encrypted keys fail because of their label, or the colon of their headers. */
static bool text_decode(decoded_t *out, pj_str_t text)
{
    pj_str_t pem = trim(text);

    for (size_t i = 0; i < sizeof(pem_kinds) / sizeof(pem_kinds[0]); i++) {
        pj_str_t begin = pem_kinds[i].begin, end = pem_kinds[i].end;

        if (pem.len >= begin.len + end.len &&
            memcmp(pem.data, begin.data, begin.len) == 0 &&
            memcmp(pem.data + pem.len - end.len, end.data, end.len) == 0) {
            out->form = pem_kinds[i].form;
            pem.data += begin.len;
            pem.len -= begin.len + end.len;
            return pj_b64_decode(out->der, sizeof(out->der), &out->len, pem) ==
                   PJ_OK;
        }
    }
    if (text.len == 0 || text.len > sizeof(out->der))
        return false;
    memcpy(out->der, text.data, text.len);
    out->len = text.len;
    out->form = FORM_DER;
    return true;
}

/* Returns true if der is exactly one value of the universal class. */
static bool is_one_value(const unsigned char *der, size_t len)
{
    const unsigned char *p = der;
    long content;
    int tag, class, bits;

    bits = ASN1_get_object(&p, &content, &tag, &class, (long) len);
    return (bits == 0 || bits == V_ASN1_CONSTRUCTED) &&
           class == V_ASN1_UNIVERSAL && p + content == der + len;
}

static EVP_PKEY *pkcs8_key(const decoded_t *in)
{
    const unsigned char *p = in->der, *inner;
    PKCS8_PRIV_KEY_INFO *info;
    EVP_PKEY *pkey = NULL;
    int len;

    info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &p, (long) in->len);
    if (info != NULL && p == in->der + in->len &&
        PKCS8_pkey_get0(NULL, &inner, &len, NULL, info) == 1 && len > 0 &&
        is_one_value(inner, (size_t) len))
        pkey = EVP_PKCS82PKEY(info);
    PKCS8_PRIV_KEY_INFO_free(info);
    return pkey;
}

/* Wraps PKCS#1 as PKCS#8, so that OpenSSL reads both the same way. */
static EVP_PKEY *pkcs1_key(const decoded_t *in)
{
    PKCS8_PRIV_KEY_INFO *info = NULL;
    EVP_PKEY *pkey = NULL;
    unsigned char *copy;

    if (!is_one_value(in->der, in->len))
        return NULL;
    copy = OPENSSL_memdup(in->der, in->len);
    info = PKCS8_PRIV_KEY_INFO_new();
    if (copy != NULL && info != NULL &&
        PKCS8_pkey_set0(info, OBJ_nid2obj(NID_rsaEncryption), 0, V_ASN1_NULL,
                        NULL, copy, (int) in->len) == 1) {
        copy = NULL; /* owned by info */
        pkey = EVP_PKCS82PKEY(info);
    }
    OPENSSL_clear_free(copy, in->len);
    PKCS8_PRIV_KEY_INFO_free(info);
    return pkey;
}

static EVP_PKEY *private_key(const decoded_t *in)
{
    EVP_PKEY *pkey = NULL;

    if (in->form == FORM_PKCS8 || in->form == FORM_DER)
        pkey = pkcs8_key(in);
    if (pkey == NULL && (in->form == FORM_PKCS1 || in->form == FORM_DER))
        pkey = pkcs1_key(in);
    return pkey;
}

/* Accepts canonical DER only: encoding the key again gives the same bytes. */
static EVP_PKEY *public_key(const decoded_t *in)
{
    const unsigned char *p = in->der;
    unsigned char *again = NULL;
    EVP_PKEY *pkey;
    int len;

    if (in->form != FORM_SPKI && in->form != FORM_DER)
        return NULL;
    pkey = d2i_PUBKEY(NULL, &p, (long) in->len);
    if (pkey == NULL)
        return NULL;
    len = i2d_PUBKEY(pkey, &again);
    if (len <= 0 || (size_t) len != in->len ||
        memcmp(again, in->der, in->len) != 0) {
        EVP_PKEY_free(pkey);
        pkey = NULL;
    }
    OPENSSL_free(again);
    return pkey;
}

static pj_err_t key_read(pj_key_t **out, pj_str_t text, pj_str_t kid,
                         bool is_private)
{
    decoded_t decoded;
    EVP_PKEY *pkey = NULL;
    pj_err_t err = PJ_ERR_KEY_FORMAT;

    *out = NULL;
    ERR_set_mark();
    if (text_decode(&decoded, text))
        pkey = is_private ? private_key(&decoded) : public_key(&decoded);
    if (pkey != NULL)
        err = pj_key_wrap(out, pj_alg_of_key(pkey), pkey, kid, is_private);
    OPENSSL_cleanse(&decoded, sizeof(decoded));
    ERR_pop_to_mark();
    return err;
}

static pj_err_t named_key_read(pj_key_t **out, pj_str_t text, pj_str_t kid,
                               bool is_private)
{
    pj_err_t err = pj_kid_check(kid);

    *out = NULL;
    return err != PJ_OK ? err : key_read(out, text, kid, is_private);
}

pj_err_t pj_key_private(pj_key_t **out, pj_str_t pem_or_der, pj_str_t kid)
{
    return named_key_read(out, pem_or_der, kid, true);
}

pj_err_t pj_key_public(pj_key_t **out, pj_str_t pem_or_der, pj_str_t kid)
{
    return named_key_read(out, pem_or_der, kid, false);
}

pj_err_t pj_key_public_unnamed(pj_key_t **out, pj_str_t pem)
{
    return key_read(out, pem, (pj_str_t){NULL, 0}, false);
}
