/* JWS compact serialisation: splitting, the header, signing, verifying. */

#include "pj_internal.h"

#include <string.h>

/* The next dot between p and end, or NULL. */
static const unsigned char *dot_find(const unsigned char *p,
                                     const unsigned char *end)
{
    return p == end ? NULL : memchr(p, '.', (size_t) (end - p));
}

static pj_str_t between(const unsigned char *p, const unsigned char *end)
{
    return (pj_str_t){p, (size_t) (end - p)};
}

pj_err_t pj_jws_split(pj_str_t token, size_t max_bytes, pj_jws_t *jws)
{
    const unsigned char *start = token.data;
    const unsigned char *end = token.len == 0 ? start : start + token.len;
    const unsigned char *one = dot_find(start, end), *two;

    if (token.len > max_bytes)
        return PJ_ERR_TOKEN_SIZE;
    two = one == NULL ? NULL : dot_find(one + 1, end);
    if (two == NULL || dot_find(two + 1, end) != NULL || one == start ||
        two == one + 1 || end == two + 1)
        return PJ_ERR_TOKEN_SHAPE;
    jws->alg = NULL;
    jws->header = between(start, one);
    jws->payload = between(one + 1, two);
    jws->signature = between(two + 1, end);
    jws->signing_input = between(start, two);
    return PJ_OK;
}

/* The string member called name; len 0 where there is none. */
static pj_str_t string_member(const pj_json_t *obj, const char *name)
{
    const pj_json_t *m = pj_json_member(obj, name);

    return m != NULL && m->type == PJ_JSON_STRING ? m->text
                                                  : (pj_str_t){NULL, 0};
}

/* typ is a media type, "application/" may be left out (RFC 7515 section
 * 4.1.9). */
static bool typ_allowed(const pj_json_t *root)
{
    static const pj_str_t prefix = PJ_STR("application/");
    const pj_json_t *typ = pj_json_member(root, "typ");
    pj_str_t text;

    if (typ == NULL)
        return true;
    if (typ->type != PJ_JSON_STRING)
        return false;
    text = typ->text;
    if (text.len > prefix.len &&
        pj_str_caseeq((pj_str_t){text.data, prefix.len}, prefix)) {
        text.data += prefix.len;
        text.len -= prefix.len;
    }
    return pj_str_caseeq(text, PJ_STR("JWT")) ||
           pj_str_caseeq(text, PJ_STR("at+jwt"));
}

pj_err_t pj_jws_header(pj_arena_t *arena, pj_jws_t *jws, bool own,
                       pj_jws_header_t *header)
{
    const pj_json_t *root = NULL;
    pj_str_t json;
    pj_err_t err = pj_b64url_decode_arena(arena, jws->header, &json);

    if (err == PJ_OK)
        err = pj_json_parse(arena, json, &root);
    header->root = root;
    if (err != PJ_OK)
        return err;
    if (root->type != PJ_JSON_OBJECT)
        return PJ_ERR_TOKEN_HEADER;
    jws->alg = pj_alg_find(string_member(root, "alg"));
    if (jws->alg == NULL)
        return PJ_ERR_TOKEN_ALG;
    header->refresh = own && pj_str_caseeq(string_member(root, "typ"),
                                           PJ_STR("refresh+jwt"));
    if (!header->refresh && !typ_allowed(root))
        return PJ_ERR_TOKEN_TYP;
    if (pj_json_member(root, "crit") != NULL)
        return PJ_ERR_TOKEN_CRIT;
    header->kid = string_member(root, "kid");
    return pj_kid_check(header->kid);
}

pj_err_t pj_jws_verify(const pj_jws_t *jws, const pj_key_t *key)
{
    unsigned char sig[PJ_SIGNATURE_MAX_BYTES];
    size_t len;

    if (jws->alg != key->alg)
        return PJ_ERR_TOKEN_ALG;
    if (pj_b64url_decode(sig, sizeof(sig), &len, jws->signature) != PJ_OK ||
        len != key->size)
        return PJ_ERR_TOKEN_SIGNATURE;
    return key->alg->verify(key, jws->signing_input, sig);
}

/* The header of PJ_TYP_REFRESH is the longest. */
size_t pj_jws_sign_max(const pj_key_t *key, size_t payload_len)
{
    size_t fixed = pj_key_header(key, PJ_TYP_REFRESH).len + 2 +
                   pj_b64url_encoded_len(key->size);

    if (payload_len > SIZE_MAX / 2)
        return SIZE_MAX;
    return fixed + pj_b64url_encoded_len(payload_len);
}

pj_err_t pj_jws_sign(const pj_key_t *key, pj_typ_t typ, pj_str_t payload,
                     char *dst, size_t cap, size_t *out_len)
{
    unsigned char sig[PJ_SIGNATURE_MAX_BYTES];
    pj_str_t input = {(unsigned char *) dst, 0};
    pj_out_t out;
    pj_err_t err;

    if (key->sign == NULL)
        return PJ_ERR_ARGUMENT;
    if (cap < pj_jws_sign_max(key, payload.len))
        return PJ_ERR_NO_SPACE; /* before the costly part */

    pj_out_init(&out, dst, cap);
    pj_out_text(&out, pj_key_header(key, typ));
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, payload);
    err = pj_out_done(&out, &input.len);
    if (err == PJ_OK)
        err = key->alg->sign(key, input, sig);
    if (err != PJ_OK)
        return err;
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, (pj_str_t){sig, key->size});
    return pj_out_done(&out, out_len);
}
