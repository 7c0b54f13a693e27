/* JWS compact serialisation: splitting, the header, signing, verifying. */

#include "pj_internal.h"

#include <string.h>

#define HEADER_MAX_BYTES (64 + 6 * PJ_KID_MAX_BYTES)

/* Removes the part before the first dot, and the dot, from rest.  Without a dot
 * both the part and rest become empty. */
static pj_str_t part_cut(pj_str_t *rest)
{
    const unsigned char *dot =
        rest->len == 0 ? NULL : memchr(rest->data, '.', rest->len);
    pj_str_t part = {rest->data, 0};

    if (dot == NULL) {
        rest->len = 0;
    } else {
        part.len = (size_t) (dot - part.data);
        *rest = (pj_str_t){dot + 1, rest->len - part.len - 1};
    }
    return part;
}

pj_err_t pj_jws_split(pj_str_t token, size_t max_bytes, pj_jws_t *jws)
{
    pj_str_t rest = token;

    if (token.len > max_bytes)
        return PJ_ERR_TOKEN_SIZE;
    jws->alg = NULL;
    jws->header = part_cut(&rest);
    jws->payload = part_cut(&rest);
    jws->signature = rest;
    if (jws->header.len == 0 || jws->payload.len == 0 || rest.len == 0 ||
        memchr(rest.data, '.', rest.len) != NULL)
        return PJ_ERR_TOKEN_SHAPE;
    jws->signing_input =
        (pj_str_t){token.data, jws->header.len + 1 + jws->payload.len};
    return PJ_OK;
}

pj_str_t pj_jws_typ(const pj_json_t *header)
{
    static const pj_str_t prefix = PJ_STR("application/");
    pj_str_t text = pj_json_string(header, "typ");

    if (text.len > prefix.len &&
        pj_str_caseeq((pj_str_t){text.data, prefix.len}, prefix)) {
        text.data += prefix.len;
        text.len -= prefix.len;
    }
    return text;
}

pj_err_t pj_jws_header(pj_arena_t *arena, pj_jws_t *jws, bool own,
                       pj_jws_header_t *header)
{
    const pj_json_t *root;
    pj_str_t typ;
    pj_err_t err = pj_json_decode(arena, jws->header, &root);

    header->root = root;
    if (err != PJ_OK)
        return err;
    if (root->type != PJ_JSON_OBJECT)
        return PJ_ERR_TOKEN_HEADER;
    jws->alg = pj_alg_find(pj_json_string(root, "alg"));
    if (jws->alg == NULL)
        return PJ_ERR_TOKEN_ALG;
    header->refresh = own && pj_str_caseeq(pj_json_string(root, "typ"),
                                           PJ_STR("refresh+jwt"));
    typ = pj_jws_typ(root);
    header->at_jwt = pj_str_caseeq(typ, PJ_STR("at+jwt"));
    if (!header->refresh && !header->at_jwt &&
        !pj_str_caseeq(typ, PJ_STR("JWT")) &&
        pj_json_member(root, "typ") != NULL)
        return PJ_ERR_TOKEN_TYP;
    if (pj_json_member(root, "crit") != NULL)
        return PJ_ERR_TOKEN_CRIT;
    header->kid = pj_json_string(root, "kid");
    return own || pj_json_member(root, "kid") != NULL
               ? pj_kid_check(header->kid)
               : PJ_OK;
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
    return key->alg->type->verify(key, jws->signing_input,
                                  (pj_str_t){sig, len});
}

pj_err_t pj_jws_sign(const pj_key_t *key, pj_typ_t typ, pj_str_t payload,
                     char *dst, size_t cap, size_t *out_len)
{
    static const pj_str_t typs[PJ_TYP_COUNT] = {
        [PJ_TYP_JWT] = PJ_STR("JWT"),
        [PJ_TYP_AT] = PJ_STR("at+jwt"),
        [PJ_TYP_REFRESH] = PJ_STR("refresh+jwt"),
        [PJ_TYP_ASSERTION] = PJ_STR("platform-assertion+jwt"),
    };
    unsigned char sig[PJ_SIGNATURE_MAX_BYTES];
    char json[HEADER_MAX_BYTES], *at;
    pj_out_t header = {json, 0, sizeof(json), PJ_OK};
    pj_out_t out = {dst, 0, cap, PJ_OK};
    size_t len = pj_b64url_encoded_len(key->size);
    pj_str_t input;
    pj_err_t err;

    if (!key->is_private)
        return PJ_ERR_ARGUMENT;
    pj_out_text(&header, PJ_STR("{\"alg\":\""));
    pj_out_text(&header, pj_str(key->alg->name));
    pj_out_text(&header, PJ_STR("\",\"typ\":\""));
    pj_out_text(&header, typs[typ]);
    pj_out_text(&header, PJ_STR("\",\"kid\":"));
    pj_out_json_string(&header, pj_key_id(key));
    pj_out_text(&header, PJ_STR("}"));
    out.err = header.err;

    pj_out_b64url(&out, (pj_str_t){(unsigned char *) json, header.len});
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, payload);
    input = (pj_str_t){(unsigned char *) dst, out.len};
    pj_out_text(&out, PJ_STR("."));
    at = pj_out_take(&out, len);
    if (at == NULL)
        return out.err; /* before the expensive part */
    err = key->alg->type->sign(key, input, sig);
    if (err != PJ_OK)
        return err;
    *out_len = out.len;
    return pj_b64url_encode(at, len, &len, (pj_str_t){sig, key->size});
}
