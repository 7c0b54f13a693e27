/* Keys as operators supply them: PEM or DER, PKCS#8, PKCS#1 or SPKI. */

#include "pj_internal.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <string.h>

/* What a key text says it is. */
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
    {PJ_STR("-----BEGIN PRIVATE KEY-----"),
     PJ_STR("-----END PRIVATE KEY-----"), FORM_PKCS8},
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

/* Removes begin and end from s; false unless it has both. */
static bool strip(pj_str_t *s, pj_str_t begin, pj_str_t end)
{
    if (s->len < begin.len + end.len ||
        memcmp(s->data, begin.data, begin.len) != 0 ||
        memcmp(s->data + s->len - end.len, end.data, end.len) != 0)
        return false;
    s->data += begin.len;
    s->len -= begin.len + end.len;
    return true;
}

/*
 * The only block of a PEM text.  Not read by OpenSSL, whose reader may ask for
 * a passphrase and skips text around the block.  Encrypted keys fail by their
 * label or by the colon of their headers.
 */
static bool pem_decode(decoded_t *out, pj_str_t pem)
{
    for (size_t i = 0; i < sizeof(pem_kinds) / sizeof(pem_kinds[0]); i++) {
        if (strip(&pem, pem_kinds[i].begin, pem_kinds[i].end)) {
            out->form = pem_kinds[i].form;
            return pj_b64_decode(out->der, sizeof(out->der), &out->len, pem) ==
                   PJ_OK;
        }
    }
    return false;
}

static bool text_decode(decoded_t *out, pj_str_t text)
{
    pj_str_t pem = trim(text);

    if (strip(&pem, PJ_STR("-----BEGIN "), PJ_STR("")))
        return pem_decode(out, trim(text));
    if (text.len == 0 || text.len > sizeof(out->der))
        return false;
    memcpy(out->der, text.data, text.len);
    out->len = text.len;
    out->form = FORM_DER;
    return true;
}

/* Whether der is exactly one SEQUENCE. */
static bool is_one_sequence(const unsigned char *der, size_t len)
{
    const unsigned char *p = der;
    long content;
    int tag, class, bits;

    bits = ASN1_get_object(&p, &content, &tag, &class, (long) len);
    return bits == V_ASN1_CONSTRUCTED && tag == V_ASN1_SEQUENCE &&
           class == V_ASN1_UNIVERSAL && p + content == der + len;
}

static EVP_PKEY *pkcs8_key(const decoded_t *in)
{
    const unsigned char *p = in->der, *inner;
    const ASN1_OBJECT *oid;
    PKCS8_PRIV_KEY_INFO *info;
    EVP_PKEY *pkey = NULL;
    int inner_len;

    info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &p, (long) in->len);
    if (info != NULL && p == in->der + in->len &&
        PKCS8_pkey_get0(&oid, &inner, &inner_len, NULL, info) == 1 &&
        OBJ_obj2nid(oid) == NID_rsaEncryption && inner_len > 0 &&
        is_one_sequence(inner, (size_t) inner_len))
        pkey = EVP_PKCS82PKEY(info);
    PKCS8_PRIV_KEY_INFO_free(info);
    return pkey;
}

/* PKCS#1 is the inside of PKCS#8: once wrapped, both are read alike. */
static EVP_PKEY *pkcs1_key(const decoded_t *in)
{
    PKCS8_PRIV_KEY_INFO *info = NULL;
    EVP_PKEY *pkey = NULL;
    unsigned char *copy;

    if (!is_one_sequence(in->der, in->len))
        return NULL;
    copy = OPENSSL_memdup(in->der, in->len);
    info = PKCS8_PRIV_KEY_INFO_new();
    if (copy != NULL && info != NULL &&
        PKCS8_pkey_set0(info, OBJ_nid2obj(NID_rsaEncryption), 0, V_ASN1_NULL,
                        NULL, copy, (int) in->len) == 1) {
        copy = NULL; /* info's now */
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

/* Only the canonical DER form of a key is good: it encodes to itself. */
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
        err = pj_key_wrap(out, pkey, kid, is_private);
    OPENSSL_cleanse(&decoded, sizeof(decoded));
    ERR_pop_to_mark();
    return err;
}

pj_err_t pj_key_private(pj_key_t **out, pj_str_t pem_or_der, pj_str_t kid)
{
    return key_read(out, pem_or_der, kid, true);
}

pj_err_t pj_key_public(pj_key_t **out, pj_str_t pem_or_der, pj_str_t kid)
{
    return key_read(out, pem_or_der, kid, false);
}
