/* Proofs that a client has the key of its tokens (DPoP, RFC 9449).  No proof is
 * remembered: see docs/architecture.md. */

#include "auth/proof.h"

#include <web.h>

/* Sets *origins to the origins in text, which are separated by blanks, without
 * default ports.  text may be NULL, for none.  Returns the number of origins;
 * *origins is NULL if memory is short. */
static size_t read_origins(const char *text, pj_arena_t *arena,
                           pj_str_t **origins)
{
    pj_str_t rest = pj_str(text != NULL ? text : ""), word;
    web_origin_t origin;
    size_t count = 0;

    *origins = pj_arena_alloc(arena, (rest.len / 2 + 1) * sizeof(**origins));
    while (*origins != NULL && (rest = web_trim(rest)).len > 0) {
        size_t len = 0;

        while (len < rest.len && rest.data[len] != ' ' &&
               rest.data[len] != '\t') {
            len++;
        }
        word = (pj_str_t){rest.data, len};
        web_origin_set(&origin, word);
        (*origins)[count++] = origin.text;
        rest = web_skip(rest, len);
    }
    return count;
}

pj_err_t proof_verify(const struct config *cfg, const struct http_request *req,
                      pj_arena_t *arena, int64_t now_s, pj_str_t access_token,
                      const unsigned char *thumbprint,
                      char jkt[PJ_THUMBPRINT_CHARS + 1], pj_str_t *fault)
{
    pj_str_t *origins, query;
    size_t count = read_origins(cfg->public_origins, arena, &origins);
    pj_proof_policy_t policy = {.method = req->method,
                                .origins = origins,
                                .origin_count = count,
                                .path = web_split(req->uri, '?', &query),
                                .token = access_token,
                                .now_s = now_s,
                                .window_s = PROOF_WINDOW_S,
                                .thumbprint = thumbprint};
    pj_proof_t proof;
    pj_err_t err;
    size_t len;

    if (origins == NULL) {
        return PJ_ERR_NO_SPACE;
    }
    err = pj_proof_verify(arena, req->dpop, &policy, &proof);
    *fault = err == PJ_ERR_PROOF_TIME ? PJ_STR("iat") : proof.fault;
    if (!err) {
        err = pj_b64url_encode(
            jkt, PJ_THUMBPRINT_CHARS, &len,
            (pj_str_t){proof.thumbprint, sizeof(proof.thumbprint)});
    }
    jkt[err ? 0 : PJ_THUMBPRINT_CHARS] = '\0';
    return err;
}

bool proof_is_bound(const pj_claims_t *claims)
{
    return pj_json_member(claims->root, "cnf") != NULL;
}
