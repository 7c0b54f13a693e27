/* JWK and JWK sets: writing, thumbprints, parsing (RFC 7517, RFC 7638). */

#include "pj_internal.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <string.h>

#define THUMBPRINT_INPUT_MAX (PJ_RSA_MAX_BYTES * 4 / 3 + 64)

/* -- emitting ------------------------------------------------------------- */

/* Returns the bytes of a member; a number is minimal and big-endian. */
static pj_str_t member_bytes(pj_out_t *out, const pj_key_t *key,
                             const pj_member_t *m, unsigned char *dst)
{
    BIGNUM *bn = NULL;
    size_t len = 0;

    if (m->param == NULL) {
        if (EVP_PKEY_get_octet_string_param(key->pkey, OSSL_PKEY_PARAM_PUB_KEY,
                                            dst, PJ_POINT_MAX_BYTES,
                                            &len) == 1 &&
            len == key->alg->type->point_bytes)
            return (pj_str_t){dst + m->at, m->size};
    } else if (EVP_PKEY_get_bn_param(key->pkey, m->param, &bn) == 1) {
        len = (size_t) BN_bn2bin(bn, dst);
        BN_free(bn);
        return (pj_str_t){dst, len};
    }
    out->err = PJ_ERR_CRYPTO;
    return (pj_str_t){dst, 0};
}

/* Writes the required members of a JWK, which the thumbprint covers: key's, or
 * as jwk has them if key is NULL. */
static void members_write(pj_out_t *out, const pj_key_t *key,
                          const pj_alg_t *alg, const pj_json_t *jwk)
{
    const pj_member_t *first = alg->type->members;
    unsigned char bytes[PJ_RSA_MAX_BYTES];

    for (const pj_member_t *m = first; m->name != NULL; m++) {
        pj_out_text(out, m == first ? PJ_STR("{\"") : PJ_STR(",\""));
        pj_out_text(out, pj_str(m->name));
        pj_out_text(out, PJ_STR("\":\""));
        if (m->value != NULL)
            pj_out_text(out, pj_str(m->value));
        else if (key == NULL)
            pj_out_text(out, pj_json_string(jwk, m->name));
        else
            pj_out_b64url(out, member_bytes(out, key, m, bytes));
        pj_out_text(out, PJ_STR("\""));
    }
}

pj_err_t pj_jwks_emit(const pj_key_t *const *keys, size_t count, char *dst,
                      size_t cap, size_t *out_len)
{
    pj_out_t out = {dst, 0, cap, PJ_OK};

    ERR_set_mark();
    pj_out_text(&out, PJ_STR("{\"keys\":["));
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            pj_out_text(&out, PJ_STR(","));
        members_write(&out, keys[i], keys[i]->alg, NULL);
        pj_out_text(&out, PJ_STR(",\"use\":\"sig\",\"alg\":\""));
        pj_out_text(&out, pj_str(keys[i]->alg->name));
        pj_out_text(&out, PJ_STR("\",\"kid\":"));
        pj_out_json_string(&out, pj_key_id(keys[i]));
        pj_out_text(&out, PJ_STR("}"));
    }
    pj_out_text(&out, PJ_STR("]}"));
    ERR_pop_to_mark();
    *out_len = out.len;
    return out.err;
}

static pj_err_t thumbprint(unsigned char md[PJ_SHA256_BYTES],
                           const pj_key_t *key, const pj_alg_t *alg,
                           const pj_json_t *jwk)
{
    char text[THUMBPRINT_INPUT_MAX];
    pj_out_t out = {text, 0, sizeof(text), PJ_OK};

    members_write(&out, key, alg, jwk);
    pj_out_text(&out, PJ_STR("}"));
    return out.err != PJ_OK
               ? out.err
               : pj_sha256(md, (pj_str_t){(unsigned char *) text, out.len});
}

pj_err_t pj_key_thumbprint(const pj_key_t *key, char dst[PJ_THUMBPRINT_CHARS])
{
    unsigned char md[PJ_SHA256_BYTES];
    pj_err_t err;
    size_t len;

    ERR_set_mark();
    err = thumbprint(md, key, key->alg, NULL);
    ERR_pop_to_mark();
    return err != PJ_OK ? err
                        : pj_b64url_encode(dst, PJ_THUMBPRINT_CHARS, &len,
                                           (pj_str_t){md, sizeof(md)});
}

pj_err_t pj_jwk_thumbprint(const pj_alg_t *alg, const pj_json_t *jwk,
                           unsigned char md[PJ_SHA256_BYTES])
{
    pj_err_t err = thumbprint(md, NULL, alg, jwk);

    return err == PJ_ERR_NO_SPACE ? PJ_ERR_KEY_FORMAT : err;
}

/* -- parsing -------------------------------------------------------------- */

/* key_ops, if present, must contain "verify" (RFC 7517 section 4.3). */
static bool key_ops_allow(const pj_json_t *jwk)
{
    const pj_json_t *ops = pj_json_member(jwk, "key_ops");
    bool verify = false;

    if (ops == NULL || ops->type != PJ_JSON_ARRAY)
        return ops == NULL;
    for (const pj_json_t *op = ops->child; op != NULL; op = op->next) {
        if (op->type != PJ_JSON_STRING)
            return false;
        verify |= pj_str_eq(op->text, PJ_STR("verify"));
    }
    return verify;
}

/* Parses a Base64urlUInt (RFC 7518 section 2): strict base64url without a
 * leading zero octet, so a number has one spelling.  The parameter for OpenSSL
 * refers to dst. */
static pj_err_t number_parse(OSSL_PARAM *param, const pj_member_t *member,
                             unsigned char *dst, pj_str_t text)
{
    BIGNUM *bn;
    size_t len;
    pj_err_t err = pj_b64url_decode(dst, member->size, &len, text);

    if (err == PJ_ERR_NO_SPACE)
        return PJ_ERR_KEY_WEAK; /* longer than any number allowed here */
    if (err != PJ_OK || len == 0 || dst[0] == 0)
        return PJ_ERR_KEY_FORMAT;

    bn = BN_bin2bn(dst, (int) len, NULL);
    if (bn == NULL || BN_bn2nativepad(bn, dst, (int) len) < 0)
        err = PJ_ERR_CRYPTO;
    BN_free(bn);
    *param = OSSL_PARAM_construct_BN(member->param, dst, len);
    return err;
}

/* The parameters of a public key for OpenSSL. */
typedef struct {
    OSSL_PARAM params[PJ_JWK_MEMBERS + 1];
    unsigned char numbers[PJ_JWK_MEMBERS][PJ_RSA_MAX_BYTES];
    unsigned char point[PJ_POINT_MAX_BYTES];
} parts_t;

static pj_err_t parts_parse(parts_t *parts, const pj_key_type_t *type,
                            const pj_json_t *jwk)
{
    OSSL_PARAM *param = parts->params;
    pj_err_t err = PJ_OK;
    size_t len;

    parts->point[0] = POINT_CONVERSION_UNCOMPRESSED; /* x and y follow */
    for (const pj_member_t *m = type->members; m->name != NULL && !err; m++) {
        pj_str_t text = pj_json_string(jwk, m->name);

        if (m->param != NULL) {
            err = number_parse(param, m, parts->numbers[param - parts->params],
                               text);
            param++;
        } else if (m->value == NULL &&
                   (pj_b64url_decode(parts->point + m->at, m->size, &len,
                                     text) != PJ_OK ||
                    len != m->size)) {
            err = PJ_ERR_KEY_FORMAT;
        }
    }
    if (type->point_bytes != 0)
        *param++ = OSSL_PARAM_construct_octet_string(
            OSSL_PKEY_PARAM_PUB_KEY, parts->point, type->point_bytes);
    if (type->group != NULL)
        *param++ = OSSL_PARAM_construct_utf8_string(
            OSSL_PKEY_PARAM_GROUP_NAME, (char *) (uintptr_t) type->group, 0);
    *param = OSSL_PARAM_construct_end();
    return err;
}

/* OpenSSL refuses a point that is not on the curve, but accepts any numbers. */
pj_err_t pj_jwk_key(pj_key_t **out, const pj_alg_t *alg, const pj_json_t *jwk,
                    pj_str_t kid)
{
    parts_t parts;
    EVP_PKEY_CTX *ctx;
    EVP_PKEY *pkey = NULL;
    pj_err_t err = parts_parse(&parts, alg->type, jwk);

    if (err != PJ_OK)
        return err;
    ctx = EVP_PKEY_CTX_new_from_name(NULL, alg->type->name, NULL);
    if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1)
        err = PJ_ERR_CRYPTO;
    else if (EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, parts.params) !=
             1)
        err = alg->type->point_bytes != 0 ? PJ_ERR_KEY_FORMAT : PJ_ERR_CRYPTO;
    EVP_PKEY_CTX_free(ctx);
    return err != PJ_OK ? err : pj_key_wrap(out, alg, pkey, kid, false);
}

/* Returns true if the key is for signatures.  "use" is optional (RFC 7517
 * section 4.2); SPIFFE bundles use "jwt-svid". */
static bool use_allows(const pj_json_t *jwk)
{
    pj_str_t use = pj_json_string(jwk, "use");

    return pj_json_member(jwk, "use") == NULL ||
           pj_str_eq(use, PJ_STR("sig")) || pj_str_eq(use, PJ_STR("jwt-svid"));
}

bool pj_jwk_verifies(const pj_json_t *jwk)
{
    return key_ops_allow(jwk) && use_allows(jwk);
}

/* Adds an entry, or returns the reason to ignore it. */
static pj_err_t entry_add(pj_keyset_t *set, const pj_json_t *jwk)
{
    pj_str_t kid = pj_json_string(jwk, "kid");
    const pj_alg_t *alg = pj_alg_of_jwk(jwk);
    const pj_key_t *twin;
    pj_err_t err;

    if (jwk->type != PJ_JSON_OBJECT)
        return PJ_ERR_JSON_TYPE;
    if (alg == NULL || !pj_jwk_verifies(jwk))
        return PJ_ERR_KEY_UNUSABLE;
    err = set->of_file && pj_json_member(jwk, "kid") == NULL
              ? PJ_OK
              : pj_kid_check(kid);
    if (err != PJ_OK)
        return err;
    twin = pj_keyset_find(set, kid);
    if (twin != NULL) {
        set->twice = twin;
        return PJ_ERR_JSON_DUPLICATE;
    }
    if (set->count == PJ_KEYSET_MAX_KEYS)
        return PJ_ERR_JSON_LIMIT;

    err = pj_jwk_key(&set->keys[set->count], alg, jwk, kid);
    if (err == PJ_OK)
        set->count++;
    return err;
}

static pj_err_t jwks_parse(pj_keyset_t *set, pj_arena_t *arena, pj_str_t json)
{
    const pj_json_t *root, *keys;
    pj_err_t err;

    if (json.len > PJ_KEYSET_MAX_BYTES)
        return PJ_ERR_TOKEN_SIZE;
    err = pj_json_parse(arena, json, &root);
    if (err != PJ_OK)
        return err;
    keys = pj_json_member(root, "keys");
    if (keys == NULL || keys->type != PJ_JSON_ARRAY)
        return PJ_ERR_JSON_TYPE;

    /* A faulty entry is ignored.  A local failure is not, because the set would
     * silently lack a key. */
    ERR_set_mark();
    for (const pj_json_t *jwk = keys->child;
         jwk != NULL && err != PJ_ERR_CRYPTO; jwk = jwk->next) {
        err = entry_add(set, jwk);
        if (err != PJ_OK) {
            set->ignored++;
            set->last_ignored = err;
        }
    }
    ERR_pop_to_mark();
    if (err != PJ_ERR_CRYPTO)
        err = set->count == 0 ? PJ_ERR_KEYSET_EMPTY : PJ_OK;
    if (err != PJ_OK)
        pj_keyset_clear(set);
    return err;
}

pj_err_t pj_keyset_parse(pj_keyset_t *set, pj_arena_t *arena, pj_str_t json)
{
    pj_keyset_clear(set);
    return jwks_parse(set, arena, json);
}

/* Returns the key of this type if there is exactly one, else NULL. */
static const pj_key_t *only_key(const pj_keyset_t *set,
                                const pj_key_type_t *type)
{
    const pj_key_t *only = NULL;

    for (size_t i = 0; i < set->count; i++) {
        /* Below count there is a key. NOLINTNEXTLINE(*-core.NullDereference) */
        if (set->keys[i]->alg->type == type) {
            if (only != NULL)
                return NULL;
            only = set->keys[i];
        }
    }
    return only;
}

/* Two keys of one type are refused because pj_keyset_choose() could not choose
 * between them. */
static pj_err_t pem_parse(pj_keyset_t *set, pj_str_t text)
{
    static const pj_str_t begin = PJ_STR("-----BEGIN");
    const unsigned char *p = text.data, *end = p + text.len, *next;
    pj_err_t err = PJ_OK;

    for (; err == PJ_OK && p < end; p = next) {
        next = p + 1;
        while (next < end && ((size_t) (end - next) < begin.len ||
                              memcmp(next, begin.data, begin.len) != 0))
            next++;
        err = pj_key_public_unnamed(&set->keys[set->count],
                                    (pj_str_t){p, (size_t) (next - p)});
        if (err == PJ_OK) {
            set->count++;
            if (only_key(set, set->keys[set->count - 1]->alg->type) == NULL)
                err = PJ_ERR_TOKEN_KID;
        }
    }
    if (err != PJ_OK)
        pj_keyset_clear(set);
    return err;
}

pj_err_t pj_keyset_parse_file(pj_keyset_t *set, pj_arena_t *arena,
                              pj_str_t text)
{
    pj_keyset_clear(set);
    set->of_file = true;
    while (text.len > 0 && pj_is_space(text.data[0])) {
        text.data++;
        text.len--;
    }
    return text.len > 0 && text.data[0] == '-' ? pem_parse(set, text)
                                               : jwks_parse(set, arena, text);
}

const pj_key_t *pj_keyset_choose(const pj_keyset_t *set, const pj_alg_t *alg,
                                 pj_str_t kid)
{
    const pj_key_t *key = pj_keyset_find(set, kid);

    if (key != NULL || !set->of_file)
        return key;
    key = only_key(set, alg->type);
    return key != NULL && (kid.len == 0 || key->kid_len == 0) ? key : NULL;
}

const pj_key_t *pj_keyset_find(const pj_keyset_t *set, pj_str_t kid)
{
    for (size_t i = 0; kid.len > 0 && i < set->count; i++) {
        if (pj_str_eq(pj_key_id(set->keys[i]), kid))
            return set->keys[i];
    }
    return NULL;
}

void pj_keyset_clear(pj_keyset_t *set)
{
    for (size_t i = 0; i < set->count; i++)
        pj_key_free(set->keys[i]);
    *set = (pj_keyset_t){.count = 0};
}
