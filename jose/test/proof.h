/* A policy for proofs, and what makes and changes them. */

#ifndef PROOF_H_INCLUDED
#define PROOF_H_INCLUDED

#include "helpers.h"

#define NOW 1000000
#define WINDOW 60
#define TOKEN "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
#define PAYLOAD                                                                \
    "{\"jti\":\"one\",\"htm\":\"POST\",\"iat\":1000000,"                       \
    "\"htu\":\"https://api.example.com/a/b\","                                 \
    "\"ath\":\"fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo\"}"

static const pj_str_t origins[] = {PJ_STR("http://127.0.0.1:8080"),
                                   PJ_STR("https://api.example.com"),
                                   PJ_STR("http://[::1]")};

static pj_proof_policy_t policy(void)
{
    return (pj_proof_policy_t){.method = PJ_STR("POST"),
                               .origins = origins,
                               .origin_count = COUNT(origins),
                               .path = PJ_STR("/a/b"),
                               .token = PJ_STR(TOKEN),
                               .now_s = NOW,
                               .window_s = WINDOW};
}

static pj_err_t verify(pj_str_t text, const pj_proof_policy_t *with,
                       pj_proof_t *proof)
{
    size_t size = pj_token_arena_bytes(PJ_PROOF_MAX_BYTES);
    void *mem = xmalloc(size);
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = pj_proof_verify(&arena, text, with, proof);
    ck_assert((err == PJ_ERR_PROOF) == (proof->fault.len > 0));
    free(mem);
    return err;
}

/* {"typ":"dpop+jwt","alg":...,"jwk":...} of key. */
static void header_write(const pj_key_t *key, const char *alg, char *dst,
                         size_t cap)
{
    char jwk[4096];
    size_t len;

    assert_ok(jwk_emit(key, jwk, sizeof(jwk), &len));
    snprintf(dst, cap, "{\"typ\":\"dpop+jwt\",\"alg\":\"%s\",\"jwk\":%.*s}",
             alg, (int) len, jwk);
}

static pj_key_t *key_new(const char *alg)
{
    pj_key_t *key;

    assert_ok(pj_key_generate(&key, pj_alg_find(str(alg)), PJ_STR("k")));
    return key;
}

/* Replaces the only from in text, which has cap bytes, by to. */
static void replace(char *text, size_t cap, const char *from, const char *to)
{
    char *at = strstr(text, from), *rest;

    ck_assert_msg(at != NULL && strstr(at + 1, from) == NULL, "%s in %s", from,
                  text);
    rest = strdup(at + strlen(from));
    snprintf(at, cap - (size_t) (at - text), "%s%s", to, rest);
    free(rest);
}

#endif
