/*
 * Any bytes as a token.  An input that begins with '{' is not the token but
 * its header and, after a line end, its payload: encoded here, so that the
 * fuzzer need not learn base64 to reach what lies behind it.
 */

#include "fuzz.h"

static const char public_key[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJj\n"
    "NiuSfb4p4fAkd/wWJcyQoTbji9k0l8W26mPddxHmfHQp+Vaw+4qPCJrcS2mJPMEz\n"
    "P1Pt0Bm4d4QlL+yRT+SFd2lZS+pCgNMsD1W/YpRPEwOWvG6b32690r2jZ47soMZo\n"
    "9wGzjb/7OMg0LOL+bSf63kpaSHSXndS5z5rexMdbBYUsLA9e+KXBdQOS+UTo7WTB\n"
    "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6/I5IhlJH7aGhyxX\n"
    "FvUK+DWNmoudF8NAco9/h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXp\n"
    "oQIDAQAB\n"
    "-----END PUBLIC KEY-----\n";

static pj_key_t *key;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    FUZZ_ASSERT(pj_key_public(&key, PJ_STR(public_key), PJ_STR("k")) == PJ_OK);
    return 0;
}

/* header "\n" payload as a token with a signature of the right length. */
static size_t token_build(char *dst, size_t cap, const uint8_t *data,
                          size_t len)
{
    const uint8_t *nl = memchr(data, '\n', len);
    size_t head = nl == NULL ? len : (size_t) (nl - data);
    static const unsigned char signature[256] = {1};
    pj_out_t out = {dst, 0, cap, PJ_OK};

    pj_out_b64url(&out, (pj_str_t){data, head});
    pj_out_text(&out, PJ_STR("."));
    if (nl != NULL)
        pj_out_b64url(&out, (pj_str_t){nl + 1, len - head - 1});
    pj_out_text(&out, PJ_STR("."));
    pj_out_b64url(&out, (pj_str_t){signature, sizeof(signature)});
    FUZZ_ASSERT(out.err == PJ_OK);
    return out.len;
}

static void claims_use(const pj_claims_t *claims)
{
    pj_str_t issuer = claims->iss;
    pj_policy_t policy = {.issuers = &issuer,
                          .issuer_count = 1,
                          .audiences = &issuer,
                          .audience_count = 1,
                          .now_s = 1700000000,
                          .leeway_s = 30};

    FUZZ_ASSERT(claims->iss.len > 0 && claims->jti.len > 0);
    FUZZ_ASSERT(pj_str_eq(claims->sub, claims->account_id));
    FUZZ_ASSERT((claims->kind == PJ_TOKEN_BRANCH) ==
                (claims->branch_ids != NULL));
    FUZZ_ASSERT((claims->kind == PJ_TOKEN_REFRESH) ==
                (claims->token_scope.len == 0));
    FUZZ_ASSERT(pj_claims_check(claims, &policy) != PJ_ERR_TOKEN_ISSUER);
}

static void token_use(pj_str_t token)
{
    size_t size = pj_token_arena_bytes(token.len);
    unsigned char *mem = fuzz_alloc(size);
    pj_jws_header_t header;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_jws_t jws;
    pj_err_t err = pj_jws_split(token, token.len, &jws);

    pj_arena_init(&arena, mem, size);
    if (err == PJ_OK) {
        err = pj_jws_header(&arena, &jws, false, &header);
        FUZZ_ASSERT(err != PJ_ERR_NO_SPACE);
        if (err == PJ_OK)
            FUZZ_ASSERT(pj_utf8_valid(header.kid));
        if (err == PJ_OK)
            FUZZ_ASSERT(pj_jws_verify(&jws, key) != PJ_ERR_CRYPTO);
        err = pj_claims_parse(&arena, &jws, &claims);
        FUZZ_ASSERT(err != PJ_ERR_NO_SPACE);
        if (err == PJ_OK)
            claims_use(&claims);
    }
    FUZZ_ASSERT(ERR_peek_error() == 0);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > 0 && data[0] == '{') {
        size_t cap = pj_b64url_encoded_len(len) + 512;
        char *token = (char *) fuzz_alloc(cap);
        size_t size = token_build(token, cap, data, len);

        token_use((pj_str_t){(unsigned char *) token, size});
        free(token);
    } else {
        token_use((pj_str_t){data, len});
    }
    return 0;
}
