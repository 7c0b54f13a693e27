/*
 * Any header and payload as a proof: what is accepted obeys a second reader,
 * and what the second reader finds good is accepted.  An input is a header, a
 * payload and changes (pairs of a place and a byte), by line ends; "JWK" in the
 * header stands for the public key by which it is signed here.  Any other input
 * is the proof itself.
 */

#include "fuzz.h"

#include <ctype.h>
#include <openssl/sha.h>

#define NOW 1700000000
#define WINDOW 60

static pj_key_t *key;
static char jwk[512];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const pj_key_t *emit;
    char text[1024];
    size_t len;

    (void) argc;
    (void) argv;
    FUZZ_ASSERT(pj_key_generate(&key, pj_alg_find(PJ_STR("EdDSA")),
                                PJ_STR("k")) == PJ_OK);
    emit = key;
    FUZZ_ASSERT(pj_jwks_emit(&emit, 1, text, sizeof(text), &len) == PJ_OK);
    snprintf(jwk, sizeof(jwk), "%.*s", (int) (len - 11), text + 9);
    return 0;
}

static void header_write(pj_out_t *out, pj_str_t head)
{
    const unsigned char *at = memmem(head.data, head.len, "JWK", 3);
    size_t before = at != NULL ? (size_t) (at - head.data) : head.len;

    pj_out_text(out, (pj_str_t){head.data, before});
    if (at != NULL) {
        pj_out_text(out, pj_str(jwk));
        pj_out_text(out, (pj_str_t){at + 3, head.len - before - 3});
    }
}

static size_t proof_build(char *dst, size_t cap, pj_str_t in)
{
    char *header = (char *) fuzz_alloc(cap);
    pj_out_t out = {dst, 0, cap, PJ_OK}, text = {header, 0, cap, PJ_OK};
    pj_str_t head = fuzz_split(&in, '\n'), body = fuzz_split(&in, '\n');
    unsigned char sig[64];
    pj_str_t input;

    header_write(&text, head);
    pj_out_b64url(&out, (pj_str_t){(unsigned char *) header, text.len});
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, body);
    input = (pj_str_t){(unsigned char *) dst, out.len};
    FUZZ_ASSERT(key->alg->type->sign(key, input, sig) == PJ_OK);
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, (pj_str_t){sig, sizeof(sig)});
    FUZZ_ASSERT(text.err == PJ_OK && out.err == PJ_OK);
    free(header);
    for (; in.len >= 2; in = (pj_str_t){in.data + 2, in.len - 2})
        dst[out.len - 1 - in.data[0] % out.len] = (char) in.data[1];
    return out.len;
}

/* -- the second reader ---------------------------------------------------- */

/* A URL in its normal form, or "" for another than of the origin.  Escapes
 * stay, in capitals, unless they are of unreserved characters. */
static void url_normal(char *dst, size_t cap, pj_str_t url)
{
    static const char hex[] = "0123456789ABCDEF";
    char *text = strndup(url.len > 0 ? (const char *) url.data : "", url.len);
    char *at, *path;
    size_t n = 0;

    *dst = '\0';
    text[strcspn(text, "?#")] = '\0';
    at = strstr(text, "://");
    path = at != NULL ? at + 3 + strcspn(at + 3, "/") : text;
    if (strncasecmp(text, "https://a.test", 14) == 0 &&
        (path == text + 14 || (path - text == 15 && text[14] == ':') ||
         (path - text == 18 && memcmp(text + 14, ":443", 4) == 0))) {
        n = (size_t) snprintf(dst, cap, "%s", *path == '\0' ? "/" : "");
        for (const char *p = path; *p != '\0' && n + 4 < cap; p++) {
            unsigned c = (unsigned char) *p, byte;
            bool coded = c == '%' && isxdigit((unsigned char) p[1]) &&
                         isxdigit((unsigned char) p[2]);

            if (coded && sscanf(p + 1, "%2x", &byte) == 1) {
                p += 2;
                if (isalnum((int) byte) != 0 ||
                    (byte != 0 && strchr("-._~", (int) byte) != NULL)) {
                    dst[n++] = (char) byte;
                } else {
                    dst[n++] = '%';
                    dst[n++] = hex[byte >> 4];
                    dst[n++] = hex[byte & 15];
                }
            } else {
                dst[n++] = (char) c;
            }
        }
        dst[n] = '\0';
    }
    free(text);
}

static const pj_json_t *part_read(pj_arena_t *arena, pj_str_t part)
{
    unsigned char *text = pj_arena_alloc(arena, part.len + 1);
    size_t len = fuzz_b64url(text, part);
    const pj_json_t *root;

    return len != SIZE_MAX &&
                   pj_json_parse(arena, (pj_str_t){text, len}, &root) ==
                       PJ_OK &&
                   root->type == PJ_JSON_OBJECT
               ? root
               : NULL;
}

/* Returns true if the claims fit the request. */
static bool claims_good(const pj_json_t *root)
{
    pj_str_t htu = pj_json_string(root, "htu");
    pj_str_t jti = pj_json_string(root, "jti");
    const pj_json_t *iat = pj_json_member(root, "iat");
    const pj_json_t *nonce = pj_json_member(root, "nonce");
    char got[8192], number[64];
    double seconds = -1;

    if (root == NULL || htu.len > 4096 || iat == NULL ||
        iat->type != PJ_JSON_NUMBER || iat->text.len >= sizeof(number))
        return false;
    snprintf(number, sizeof(number), "%.*s", (int) iat->text.len,
             (const char *) iat->text.data);
    seconds = strtod(number, NULL);
    url_normal(got, sizeof(got), htu);
    return pj_str_eq(pj_json_string(root, "htm"), PJ_STR("GET")) &&
           strcmp(got, "/x%2Fy~") == 0 && jti.len > 0 && jti.len <= 255 &&
           (nonce == NULL ||
            (nonce->type == PJ_JSON_STRING && nonce->text.len > 0)) &&
           seconds >= NOW - WINDOW && seconds <= NOW + WINDOW;
}

/* -- */

static void proof_use(pj_str_t text)
{
    static const pj_str_t origin = PJ_STR("https://a.test");
    const pj_proof_policy_t policy = {.method = PJ_STR("GET"),
                                      .origins = &origin,
                                      .origin_count = 1,
                                      .path = PJ_STR("/x%2fy%7E"),
                                      .now_s = NOW,
                                      .window_s = WINDOW};
    size_t size = pj_token_arena_bytes(PJ_PROOF_MAX_BYTES);
    unsigned char *mem = fuzz_alloc(size), *more = fuzz_alloc(2 * size);
    unsigned char md[PJ_SHA256_BYTES];
    pj_str_t rest = text, head = fuzz_split(&rest, '.');
    pj_str_t body = fuzz_split(&rest, '.');
    const pj_json_t *header, *payload;
    pj_arena_t arena, second;
    pj_proof_t proof;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = pj_proof_verify(&arena, text, &policy, &proof);
    FUZZ_ASSERT(err == PJ_OK || err == PJ_ERR_PROOF ||
                err == PJ_ERR_PROOF_TIME);
    FUZZ_ASSERT((err == PJ_ERR_PROOF) == (proof.fault.len > 0));
    if (text.len <= PJ_PROOF_MAX_BYTES) {
        pj_arena_init(&second, more, 2 * size);
        header = part_read(&second, head);
        payload = part_read(&second, body);
        FUZZ_ASSERT(err != PJ_OK || claims_good(payload));
        FUZZ_ASSERT(err != PJ_ERR_PROOF ||
                    !pj_str_eq(proof.fault, PJ_STR("htu")) ||
                    !claims_good(payload));
        if (err == PJ_OK) {
            pj_str_t x = pj_json_string(pj_json_member(header, "jwk"), "x");
            char canonical[256];
            int len = snprintf(canonical, sizeof(canonical),
                               "{\"crv\":\"Ed25519\",\"kty\":\"OKP\","
                               "\"x\":\"%.*s\"}",
                               (int) x.len, (const char *) x.data);

            SHA256((unsigned char *) canonical, (size_t) len, md);
            FUZZ_ASSERT(pj_json_member(header, "crit") == NULL);
            FUZZ_ASSERT(pj_json_member(pj_json_member(header, "jwk"), "d") ==
                        NULL);
            FUZZ_ASSERT(memcmp(md, proof.thumbprint, sizeof(md)) == 0);
            FUZZ_ASSERT(proof.iat >= NOW - WINDOW && proof.iat <= NOW + WINDOW);
        }
    }
    FUZZ_ASSERT(ERR_peek_error() == 0);
    free(more);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_built((pj_str_t){data, len}, proof_build, proof_use);
    return 0;
}
