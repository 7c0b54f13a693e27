/* The key that verifies a client's assertion. */

#include "auth/client_key.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RSA_MIN_BYTES (PJ_RSA_MIN_BITS / 8)
#define RSA_CHARS (PJ_RSA_MAX_BYTES * 4 / 3 + 1) /* in base64url */

/* -- types -- */

static bool is_rsa(const pj_jws_t *jws)
{
    const char *name = pj_alg_name(jws->alg); /* RS256, PS256 ... */

    return name[0] == 'R' || name[0] == 'P';
}

static bool is_ed25519(const pj_jws_t *jws)
{
    return pj_alg_name(jws->alg)[1] == 'd'; /* EdDSA, Ed25519 */
}

const char *client_key_begin(const pj_jws_t *jws)
{
    return is_rsa(jws)       ? "{\"e\":\""
           : is_ed25519(jws) ? "{\"crv\":\"Ed25519\""
                             : "{\"crv\":\"P-256\"";
}

/* -- stand-ins -- */

/* A key for each type that has points. */
static struct {
    const char *alg;
    char jwks[512];
    pj_str_t members; /* the required ones, in jwks */
} points[] = {{.alg = "ES256"}, {.alg = "EdDSA"}};

/* Forgets the private halves.  On failure a stand-in is empty, and not a key.
 */
static void make_points(void)
{
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        char *begin = points[i].jwks + strlen("{\"keys\":[{"), *end = NULL;
        const pj_key_t *emitted;
        pj_key_t *key = NULL;
        size_t len;

        if (!pj_key_generate(&key, pj_alg_find(pj_str(points[i].alg)),
                             PJ_STR("none"))) {
            emitted = key;
            if (!pj_jwks_emit(&emitted, 1, points[i].jwks,
                              sizeof(points[i].jwks) - 1, &len)) {
                end = strstr(begin, ",\"use\"");
            }
            pj_key_free(key);
        }
        if (end != NULL) {
            points[i].members =
                (pj_str_t){(unsigned char *) begin, (size_t) (end - begin)};
        }
    }
}

/* An odd number of so many bytes.  OpenSSL refuses a signature that is not less
 * than the modulus without computing, so an attacker who measures times could
 * find out the modulus.  Each stand-in has its own modulus, as clients have. */
static bool write_modulus(pj_str_t seed, size_t bytes, char *out, size_t cap)
{
    unsigned char modulus[PJ_RSA_MAX_BYTES];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t len = 0;
    bool ok = ctx != NULL &&
              EVP_DigestInit_ex(ctx, EVP_shake256(), NULL) == 1 &&
              EVP_DigestUpdate(ctx, seed.data, seed.len) == 1 &&
              EVP_DigestFinalXOF(ctx, modulus, bytes) == 1;

    EVP_MD_CTX_free(ctx);
    if (ok) {
        modulus[0] |= 0x80;
        modulus[bytes - 1] |= 1;
        ok = !pj_b64url_encode(out, cap - 1, &len, (pj_str_t){modulus, bytes});
    }
    out[len] = '\0';
    return ok;
}

/* Writes the key that stands in: of the algorithm, and of the only size that a
 * key which made this signature can have. */
static bool write_stand_in(const pj_jws_t *jws, pj_str_t seed, char *out,
                           size_t cap)
{
    const char *alg = pj_alg_name(jws->alg);
    size_t bytes = jws->signature.len * 3 / 4;
    char modulus[RSA_CHARS + 1];
    pj_str_t members;
    bool ok;

    if (is_rsa(jws)) {
        bytes = bytes < RSA_MIN_BYTES      ? RSA_MIN_BYTES
                : bytes > PJ_RSA_MAX_BYTES ? PJ_RSA_MAX_BYTES
                                           : bytes;
        ok = write_modulus(seed, bytes, modulus, sizeof(modulus));
        snprintf(out, cap,
                 "{\"e\":\"AQAB\",\"kty\":\"RSA\",\"n\":\"%s\",\"use\":\"sig\","
                 "\"alg\":\"%s\",\"kid\":\"none\"}",
                 modulus, alg);
        return ok;
    }
    members = points[is_ed25519(jws)].members;
    snprintf(out, cap, "{%.*s,\"use\":\"sig\",\"alg\":\"%s\",\"kid\":\"none\"}",
             (int) members.len, (const char *) members.data, alg);
    return true;
}

/* -- verifying -- */

/* Returns true if the key can have made the signature: it is for the algorithm
 * and of the size.  The JWK is as pj_jwks_emit() writes it. */
static bool fits(const char *jwk, const pj_jws_t *jws)
{
    static const char n[] = "\"n\":\"";
    const char *modulus = strstr(jwk, n);
    char alg[32];

    snprintf(alg, sizeof(alg), "\"alg\":\"%s\"", pj_alg_name(jws->alg));
    return strstr(jwk, alg) != NULL &&
           (!is_rsa(jws) ||
            (modulus != NULL &&
             strcspn(modulus + sizeof(n) - 1, "\"") == jws->signature.len));
}

bool client_key_verify(pj_arena_t *arena, pj_str_t seed, const char *own,
                       const pj_jws_t *jws)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char stand_in[RSA_CHARS + 256];
    size_t cap = sizeof(stand_in) + strlen(own) + 16;
    char *json = pj_arena_alloc(arena, cap);
    bool is_own = fits(own, jws), ok;
    pj_keyset_t set = {.count = 0};

    (void) pthread_once(&once, make_points);
    if (!write_stand_in(jws, seed, stand_in, sizeof(stand_in)) ||
        json == NULL) {
        return false;
    }
    snprintf(json, cap, "{\"keys\":[%s]}", is_own ? own : stand_in);
    ok = !pj_keyset_parse(&set, arena, pj_str(json)) &&
         !pj_jws_verify(jws, set.keys[0]);
    pj_keyset_clear(&set);
    return is_own && ok;
}
