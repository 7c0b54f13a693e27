/* Proofs and bound tokens: the examples of RFC 9449. */

#include "helpers.h"

#define WINDOW 60
#define TOKEN "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
#define RFC_HEADER                                                             \
    "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6" \
    "Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZF" \
    "NGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2" \
    "In19."

static const struct {
    const char *proof, *method, *origin, *path, *token;
    int64_t iat;
} rfc9449[] = {
    /* Section 4.1, and the token request of section 5. */
    {RFC_HEADER
     "eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8"
     "vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ."
     "2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK7"
     "0nfbV37xRZT3Lg",
     "POST", "https://server.example.com", "/token", "", 1562262616},
    /* The refresh of section 5. */
    {RFC_HEADER
     "eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8"
     "vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjY1Mjk2fQ."
     "pAqut2IRDm_De6PR93SYmGBPXpwrAk90e8cP2hjiaG5QsGSuKDYW7_X620BxqhvYC8ynrrvZ"
     "LTk41mSRroapUA",
     "POST", "https://server.example.com", "/token", "", 1562265296},
    /* Section 7.1. */
    {RFC_HEADER
     "eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9"
     "yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjY"
     "xOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ"
     "9."
     "2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-j"
     "fxSYoMxhAJpLjA",
     "GET", "https://resource.example.org", "/protectedresource", TOKEN,
     1562262618},
};

static pj_err_t verify(pj_str_t text, const pj_proof_policy_t *with,
                       pj_proof_t *proof)
{
    static unsigned char mem[1 << 18];
    pj_arena_t arena;

    pj_arena_init(&arena, mem, sizeof(mem));
    return pj_proof_verify(&arena, text, with, proof);
}

TESTS (test_rfc9449, COUNT(rfc9449)) {
    const pj_str_t origin = str(rfc9449[_i].origin);
    pj_proof_policy_t with = {.method = str(rfc9449[_i].method),
                              .origins = &origin,
                              .origin_count = 1,
                              .path = str(rfc9449[_i].path),
                              .token = str(rfc9449[_i].token),
                              .now_s = rfc9449[_i].iat,
                              .window_s = WINDOW};
    unsigned char jkt[PJ_SHA256_BYTES];
    pj_proof_t proof;
    size_t len;

    /* Section 6.1 has the thumbprint. */
    assert_ok(pj_b64url_decode(
        jkt, sizeof(jkt), &len,
        PJ_STR("0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")));
    with.thumbprint = jkt;
    assert_ok(verify(str(rfc9449[_i].proof), &with, &proof));
    ck_assert_mem_eq(proof.thumbprint, jkt, sizeof(jkt));
    ck_assert_int_eq(proof.iat, rfc9449[_i].iat);
    ck_assert_uint_eq(proof.nonce.len, 0);

    with.now_s += WINDOW + 1;
    assert_err(verify(str(rfc9449[_i].proof), &with, &proof),
               PJ_ERR_PROOF_TIME);
}

/* Section 6.1. */
TEST (test_confirmation) {
    static const struct {
        const char *cnf;
        bool good;
        bool certificate;
    } cases[] = {
        {"{\"jkt\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"}", true,
         false},
        {"{\"x5t#S256\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"}",
         false, true},
        {"{\"x5t#S256\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4\"}", false,
         false},
        {"{\"x5t\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"}", false,
         false},
        {"{\"jkt\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4J\"}", false,
         false},
        {"{\"jkt\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4\"}", false,
         false},
        {"{\"jkt\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4IA\"}", false,
         false},
        {"{\"jkt\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\","
         "\"x5t#S256\":\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"}",
         false, false},
        {"{\"jwk\":{}}", false, false},
        {"{\"jkt\":1}", false, false},
        {"[\"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I\"]", false, false},
        {"\"jkt\"", false, false},
        {"{}", false, false},
        {"null", false, false},
    };
    unsigned char mem[8192], jkt[PJ_SHA256_BYTES];

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[256];
        pj_claims_t claims = {.root = NULL};
        pj_arena_t arena;

        snprintf(text, sizeof(text), "{\"cnf\":%s}", cases[i].cnf);
        pj_arena_init(&arena, mem, sizeof(mem));
        assert_ok(pj_json_parse(&arena, str(text), &claims.root));
        ck_assert_msg(pj_claims_jkt(&claims, jkt) == cases[i].good, "%s",
                      cases[i].cnf);
        ck_assert_msg(pj_claims_x5t(&claims, jkt) == cases[i].certificate, "%s",
                      cases[i].cnf);
    }
    ck_assert(!pj_claims_jkt(&(pj_claims_t){.root = NULL}, jkt));
}

int main(void)
{
    return run_case("proof_rfc", fill_plain);
}
