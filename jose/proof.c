/* Proofs of possession (DPoP, RFC 9449). */

#include "pj_internal.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <string.h>

static pj_err_t fault(pj_proof_t *proof, const char *part)
{
    proof->fault = pj_str(part);
    return PJ_ERR_PROOF;
}

/* A failure of this machine stays; any other error is that of a part. */
static pj_err_t fault_unless_local(pj_proof_t *proof, pj_err_t err,
                                   const char *part)
{
    return err == PJ_OK || err == PJ_ERR_CRYPTO || err == PJ_ERR_NO_SPACE
               ? err
               : fault(proof, part);
}

/* Returns true if text is the hash md, in base64url. */
static bool hash_is(pj_str_t text, const unsigned char md[PJ_SHA256_BYTES])
{
    unsigned char got[PJ_SHA256_BYTES];
    size_t len;

    return pj_b64url_decode(got, sizeof(got), &len, text) == PJ_OK &&
           len == sizeof(got) && CRYPTO_memcmp(got, md, len) == 0;
}

/* Reads a hash that is the single member of cnf. */
static bool confirmation(const pj_claims_t *claims, const char *name,
                         unsigned char thumbprint[PJ_SHA256_BYTES])
{
    const pj_json_t *cnf = pj_json_member(claims->root, "cnf");
    size_t len;

    return cnf != NULL && cnf->count == 1 &&
           pj_b64url_decode(thumbprint, PJ_SHA256_BYTES, &len,
                            pj_json_string(cnf, name)) == PJ_OK &&
           len == PJ_SHA256_BYTES;
}

bool pj_claims_jkt(const pj_claims_t *claims,
                   unsigned char thumbprint[PJ_SHA256_BYTES])
{
    return confirmation(claims, "jkt", thumbprint);
}

bool pj_claims_x5t(const pj_claims_t *claims,
                   unsigned char thumbprint[PJ_SHA256_BYTES])
{
    return confirmation(claims, "x5t#S256", thumbprint);
}

/* -- the header ----------------------------------------------------------- */

/* Returns false if jwk has a member of private or symmetric keys (RFC 7518
 * sections 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2). */
static bool is_public(const pj_json_t *jwk)
{
    static const char *const secrets[] = {"d",  "p",  "q",   "dp",
                                          "dq", "qi", "oth", "k"};

    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        if (pj_json_member(jwk, secrets[i]) != NULL)
            return false;
    }
    return true;
}

/* Reads the header up to the thumbprint, and sets *jwk. */
static pj_err_t header_read(pj_arena_t *arena, pj_jws_t *jws,
                            const pj_json_t **jwk, pj_proof_t *proof)
{
    const pj_json_t *root;
    pj_err_t err = pj_json_decode(arena, jws->header, &root);

    if (err != PJ_OK || root->type != PJ_JSON_OBJECT)
        return fault_unless_local(
            proof, err != PJ_OK ? err : PJ_ERR_TOKEN_HEADER, "header");
    if (!pj_str_caseeq(pj_jws_typ(root), PJ_STR("dpop+jwt")))
        return fault(proof, "typ");
    jws->alg = pj_alg_find(pj_json_string(root, "alg"));
    if (jws->alg == NULL)
        return fault(proof, "alg");
    if (pj_json_member(root, "crit") != NULL)
        return fault(proof, "crit");
    *jwk = pj_json_member(root, "jwk");
    if (*jwk == NULL || !pj_alg_is_for(jws->alg, *jwk) || !is_public(*jwk) ||
        !pj_jwk_verifies(*jwk))
        return fault(proof, "jwk");
    err = pj_jwk_thumbprint(jws->alg, *jwk, proof->thumbprint);
    return fault_unless_local(proof, err, "jwk");
}

/* -- htu ------------------------------------------------------------------ */

static pj_str_t skip(pj_str_t s, size_t n)
{
    return (pj_str_t){s.data + n, s.len - n};
}

/* Takes the next character off s.  A percent-encoded octet is its character if
 * that is unreserved, else more than 255: "%2F" is not "/", and "%2f" is "%2F"
 * (RFC 3986 section 6.2.2). */
static unsigned octet_take(pj_str_t *s)
{
    unsigned c = s->data[0];
    int high = -1, low = -1;

    if (c == '%' && s->len >= 3) {
        high = OPENSSL_hexchar2int(s->data[1]);
        low = OPENSSL_hexchar2int(s->data[2]);
    }
    if (high < 0 || low < 0) {
        *s = skip(*s, 1);
        return c;
    }
    *s = skip(*s, 3);
    c = (unsigned) high << 4 | (unsigned) low;
    return (c | 0x20) - 'a' < 26 || c - '0' < 10 ||
                   (c != 0 && strchr("-._~", (int) c) != NULL)
               ? c
               : 0x100 + c;
}

static bool path_eq(pj_str_t a, pj_str_t b)
{
    while (a.len > 0 && b.len > 0) {
        if (octet_take(&a) != octet_take(&b))
            return false;
    }
    return a.len == 0 && b.len == 0;
}

static bool has_port(pj_str_t origin)
{
    size_t i = origin.len;

    while (i > 0 && origin.data[i - 1] >= '0' && origin.data[i - 1] <= '9')
        i--;
    return i > 0 && origin.data[i - 1] == ':';
}

/* Removes an empty or the default port, which an origin does not have (RFC 3986
 * section 6.2.3). */
static pj_str_t port_skip(pj_str_t rest, pj_str_t origin)
{
    bool tls = pj_str_caseeq((pj_str_t){origin.data, 6}, PJ_STR("https:"));
    pj_str_t port = tls ? PJ_STR(":443") : PJ_STR(":80");

    if (has_port(origin) || rest.len == 0 || rest.data[0] != ':')
        return rest;
    return rest.len >= port.len && memcmp(rest.data, port.data, port.len) == 0
               ? skip(rest, port.len)
               : skip(rest, 1);
}

/* Compares htu with an origin and a path, without query and fragment. */
static bool htu_is(pj_str_t htu, pj_str_t origin, pj_str_t path)
{
    size_t len = 0;
    pj_str_t rest;

    if (htu.len < origin.len || origin.len < 6 ||
        !pj_str_caseeq((pj_str_t){htu.data, origin.len}, origin))
        return false;
    rest = port_skip(skip(htu, origin.len), origin);
    while (len < rest.len && rest.data[len] != '?' && rest.data[len] != '#')
        len++;
    rest.len = len;
    if (rest.len == 0)
        rest = PJ_STR("/");
    return rest.data[0] == '/' && path_eq(rest, path);
}

static bool htu_allowed(pj_str_t htu, const pj_proof_policy_t *policy)
{
    for (size_t i = 0; i < policy->origin_count; i++) {
        if (htu_is(htu, policy->origins[i], policy->path))
            return true;
    }
    return false;
}

/* -- the claims ----------------------------------------------------------- */

/* Reads iat, and finds out whether it is within the window. */
static pj_err_t iat_read(const pj_json_t *root, const pj_proof_policy_t *policy,
                         pj_proof_t *proof, bool *timely)
{
    const pj_json_t *iat = pj_json_member(root, "iat");
    int64_t from;

    if (iat == NULL || pj_json_seconds(iat, PJ_ROUND_DOWN, &from) != PJ_OK ||
        pj_json_seconds(iat, PJ_ROUND_UP, &proof->iat) != PJ_OK)
        return fault(proof, "iat");
    *timely = from >= policy->now_s - policy->window_s &&
              proof->iat <= policy->now_s + policy->window_s;
    return PJ_OK;
}

static pj_err_t jti_read(const pj_json_t *root, pj_proof_t *proof)
{
    unsigned char text[PJ_SHA256_BYTES + PJ_PROOF_JTI_MAX_BYTES];
    pj_str_t jti = pj_json_string(root, "jti");

    if (jti.len == 0 || jti.len > PJ_PROOF_JTI_MAX_BYTES)
        return fault(proof, "jti");
    memcpy(text, proof->thumbprint, PJ_SHA256_BYTES);
    memcpy(text + PJ_SHA256_BYTES, jti.data, jti.len);
    return pj_sha256(proof->id, (pj_str_t){text, PJ_SHA256_BYTES + jti.len});
}

static pj_err_t ath_check(const pj_json_t *root, pj_str_t token,
                          pj_proof_t *proof)
{
    unsigned char md[PJ_SHA256_BYTES];
    pj_err_t err = token.len == 0 ? PJ_OK : pj_sha256(md, token);

    return err != PJ_OK || token.len == 0 ||
                   hash_is(pj_json_string(root, "ath"), md)
               ? err
               : fault(proof, "ath");
}

static pj_err_t claims_check(pj_arena_t *arena, const pj_jws_t *jws,
                             const pj_proof_policy_t *policy, pj_proof_t *proof,
                             bool *timely)
{
    const pj_json_t *root;
    pj_err_t err = pj_json_decode(arena, jws->payload, &root);

    if (err != PJ_OK || root->type != PJ_JSON_OBJECT)
        return fault_unless_local(
            proof, err != PJ_OK ? err : PJ_ERR_TOKEN_CLAIMS, "payload");
    if (policy->method.len == 0 ||
        !pj_str_eq(pj_json_string(root, "htm"), policy->method))
        return fault(proof, "htm");
    if (!htu_allowed(pj_json_string(root, "htu"), policy))
        return fault(proof, "htu");
    proof->nonce = pj_json_string(root, "nonce");
    if (proof->nonce.len == 0 && pj_json_member(root, "nonce") != NULL)
        return fault(proof, "nonce");
    err = iat_read(root, policy, proof, timely);
    if (err == PJ_OK)
        err = jti_read(root, proof);
    return err == PJ_OK ? ath_check(root, policy->token, proof) : err;
}

/* -- the signature -------------------------------------------------------- */

static pj_err_t signature_check(const pj_jws_t *jws, const pj_json_t *jwk,
                                pj_key_t **kept, pj_proof_t *proof)
{
    pj_key_t *key, *own = NULL;
    pj_err_t err;

    if (kept != NULL && *kept != NULL && pj_key_alg(*kept) == jws->alg)
        return fault_unless_local(proof, pj_jws_verify(jws, *kept),
                                  "signature");
    ERR_set_mark();
    err = pj_jwk_key(&own, jws->alg, jwk, (pj_str_t){NULL, 0});
    ERR_pop_to_mark();
    if (err != PJ_OK)
        return fault_unless_local(proof, err, "jwk");
    err = pj_jws_verify(jws, own);
    if (err == PJ_OK && kept != NULL) {
        key = *kept;
        *kept = own;
        own = key;
    }
    pj_key_free(own);
    return fault_unless_local(proof, err, "signature");
}

pj_err_t pj_proof_verify(pj_arena_t *arena, pj_str_t text,
                         const pj_proof_policy_t *policy, pj_proof_t *proof)
{
    const pj_json_t *jwk = NULL;
    bool timely = false;
    pj_jws_t jws;
    pj_err_t err;

    memset(proof, 0, sizeof(*proof));
    if (policy->now_s < 0 || policy->window_s < 0 ||
        policy->window_s > INT64_MAX - policy->now_s ||
        (policy->key != NULL && policy->thumbprint == NULL))
        return PJ_ERR_ARGUMENT;
    if (pj_jws_split(text, PJ_PROOF_MAX_BYTES, &jws) != PJ_OK)
        return fault(proof, text.len > PJ_PROOF_MAX_BYTES ? "size" : "shape");
    err = header_read(arena, &jws, &jwk, proof);
    if (err == PJ_OK && policy->thumbprint != NULL &&
        memcmp(proof->thumbprint, policy->thumbprint, PJ_SHA256_BYTES) != 0)
        err = fault(proof, "key");
    if (err == PJ_OK)
        err = claims_check(arena, &jws, policy, proof, &timely);
    if (err == PJ_OK && !timely)
        err = PJ_ERR_PROOF_TIME;
    return err == PJ_OK ? signature_check(&jws, jwk, policy->key, proof) : err;
}
