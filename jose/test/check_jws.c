/* JWS: the known answer, and the attacks on header and signature. */

#include "helpers.h"

#include <openssl/hmac.h>

#define GOOD_HEADER "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k\"}"
#define PAYLOAD "{\"sub\":\"x\"}"

static pj_key_t *key;   /* RFC 7515 A.2, private, kid k */
static pj_key_t *other; /* another private key of the same kid */

static void setup(void)
{
    key = key_private("rfc7515_a2.pem", "k");
    other = key_private("other.pem", "k");
}

static void teardown(void)
{
    pj_key_free(key);
    pj_key_free(other);
    check_error_queue();
}

/* The whole way of a token: split, header, the key of its kid, signature. */
static pj_err_t verify(const char *token, const pj_key_t *with)
{
    pj_jws_t jws;
    pj_err_t err = header_read(token, &jws);

    return err == PJ_OK ? pj_jws_verify(&jws, with) : err;
}

/* What a token truly signed by our key, but of this header, is refused for. */
static pj_err_t with_header(const char *header)
{
    char *token = token_signed(key, header, PAYLOAD);
    pj_err_t err = verify(token, key);

    free(token);
    return err;
}

/* The token of RFC 7515 A.2, without the line end of the file. */
static pj_str_t known_answer(void)
{
    pj_str_t token = file_read("rfc7515_a2.jws");

    token.len -= token.len > 0 && token.data[token.len - 1] == '\n';
    return token;
}

TEST (test_rfc7515_a2_verifies) {
    pj_str_t token = known_answer();
    pj_jws_t jws;

    assert_ok(pj_jws_split(token, 16384, &jws));
    assert_str(jws.header, "eyJhbGciOiJSUzI1NiJ9");
    assert_ok(signature_error(&jws, key));
    assert_err(signature_error(&jws, other), PJ_ERR_TOKEN_SIGNATURE);
    str_free(token);
}

/* A signature is not looked at before the header has named its algorithm, or
 * where it names another one than the key is for. */
TEST (test_header_and_key_agree) {
    struct pj_alg_s other_alg = *key->alg;
    char *token = token_signed(key, GOOD_HEADER, PAYLOAD);
    pj_jws_t jws;

    assert_ok(pj_jws_split(str(token), 16384, &jws));
    assert_err(pj_jws_verify(&jws, key), PJ_ERR_TOKEN_ALG);
    jws.alg = &other_alg;
    assert_err(pj_jws_verify(&jws, key), PJ_ERR_TOKEN_ALG);
    assert_ok(header_read(token, &jws));
    ck_assert_ptr_eq(jws.alg, key->alg);
    ck_assert(jws.alg != NULL && jws.alg == pj_alg_find(PJ_STR("RS256")));
    assert_ok(pj_jws_verify(&jws, key));
    free(token);
}

TEST (test_rfc7515_a2_signature_is_reproduced) {
    pj_str_t token = known_answer();
    unsigned char sig[PJ_RSA_MAX_BYTES];
    pj_jws_t jws;
    char *encoded;

    assert_ok(pj_jws_split(token, 16384, &jws));
    assert_ok(key->alg->type->sign(key, jws.signing_input, sig));
    encoded = b64(bytes(sig, key->size));
    assert_str(jws.signature, encoded);
    free(encoded);
    str_free(token);
}

TEST (test_split_shape_and_size) {
    static const char *const bad[] = {
        "",     "a",      ".",      "..",      "a.b",       "a..c", ".b.c",
        "a.b.", "a.b.c.", ".a.b.c", "a.b.c.d", "a.b.c.d.e", "...",  "....",
    };
    pj_jws_t jws;

    for (size_t i = 0; i < COUNT(bad); i++)
        assert_err(pj_jws_split(str(bad[i]), 100, &jws), PJ_ERR_TOKEN_SHAPE);
    assert_err(pj_jws_split((pj_str_t){NULL, 0}, 0, &jws), PJ_ERR_TOKEN_SHAPE);
    assert_ok(pj_jws_split(str("aa.bb.cc"), 8, &jws));
    assert_str(jws.header, "aa");
    assert_str(jws.payload, "bb");
    assert_str(jws.signature, "cc");
    assert_str(jws.signing_input, "aa.bb");
    assert_err(pj_jws_split(str("aa.bb.cc"), 7, &jws), PJ_ERR_TOKEN_SIZE);
}

TEST (test_header_control) {
    assert_ok(with_header(GOOD_HEADER));
    assert_ok(with_header("{\"alg\":\"RS256\",\"kid\":\"k\"}"));
    assert_ok(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":\"jwt\"}"));
    assert_ok(
        with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":\"AT+jwt\"}"));
    assert_ok(with_header("{ \"alg\" : \"\\u0052S256\",\n\"kid\":\"k\"}"));
}

TEST (test_attack_alg_none) {
    static const char *const headers[] = {
        "{\"alg\":\"none\",\"kid\":\"k\"}",
        "{\"alg\":\"None\",\"kid\":\"k\"}",
        "{\"alg\":\"NONE\",\"kid\":\"k\"}",
        "{\"alg\":\"nOnE\",\"kid\":\"k\"}",
        "{\"alg\":\"\",\"kid\":\"k\"}",
        "{\"alg\":null,\"kid\":\"k\"}",
        "{\"alg\":[\"RS256\"],\"kid\":\"k\"}",
        "{\"alg\":{\"RS256\":1},\"kid\":\"k\"}",
        "{\"alg\":256,\"kid\":\"k\"}",
        "{\"kid\":\"k\"}",
    };

    for (size_t i = 0; i < COUNT(headers); i++) {
        char *unsigned_token = token_unsigned(headers[i], PAYLOAD);
        char *empty = token_join(unsigned_token, PJ_STR(""));

        assert_err(verify(empty, key), PJ_ERR_TOKEN_SHAPE);
        free(empty);
        assert_err(with_header(headers[i]), PJ_ERR_TOKEN_ALG);
    }
    assert_ok(with_header(GOOD_HEADER));
}

TEST (test_attack_other_algorithms) {
    static const char *const algs[] = {
        "RS512", "RS384", "PS256",  "ES256",  "HS256",  "EdDSA", "RS1",
        "rs256", "Rs256", "RS256 ", " RS256", "RS2567", "RS25",
    };
    char header[64];

    for (size_t i = 0; i < COUNT(algs); i++) {
        snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"k\"}",
                 algs[i]);
        assert_err(with_header(header), PJ_ERR_TOKEN_ALG);
    }
    assert_ok(with_header(GOOD_HEADER));
}

/* The published key as an HMAC secret, under a true and a false alg. */
TEST (test_attack_hs256_keyed_with_the_public_key) {
    static const char *const headers[] = {"{\"alg\":\"HS256\",\"kid\":\"k\"}",
                                          GOOD_HEADER};
    pj_str_t pem = file_read("rfc7515_a2.pub.pem");

    for (size_t i = 0; i < COUNT(headers); i++) {
        unsigned char mac[EVP_MAX_MD_SIZE];
        unsigned mac_len;
        char *token = token_unsigned(headers[i], PAYLOAD);

        HMAC(EVP_sha256(), pem.data, (int) pem.len, (unsigned char *) token,
             strlen(token), mac, &mac_len);
        token = token_join(token, bytes(mac, mac_len));
        assert_err(verify(token, key),
                   i == 0 ? PJ_ERR_TOKEN_ALG : PJ_ERR_TOKEN_SIGNATURE);
        free(token);
    }
    assert_ok(with_header(GOOD_HEADER));
    str_free(pem);
}

/* A PS256 or RS512 signature by the right key does not pass for RS256. */
TEST (test_attack_right_key_wrong_scheme) {
    for (int scheme = 0; scheme < 3; scheme++) {
        char *token = token_unsigned(GOOD_HEADER, PAYLOAD);
        unsigned char sig[PJ_RSA_MAX_BYTES];
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();
        EVP_PKEY_CTX *pctx;
        size_t len = sizeof(sig);

        ck_assert_int_eq(
            EVP_DigestSignInit(ctx, &pctx,
                               scheme == 2 ? EVP_sha512() : EVP_sha256(), NULL,
                               key->pkey),
            1);
        if (scheme == 1)
            ck_assert_int_eq(
                EVP_PKEY_CTX_set_rsa_padding(pctx, RSA_PKCS1_PSS_PADDING), 1);
        ck_assert_int_eq(EVP_DigestSign(ctx, sig, &len, (unsigned char *) token,
                                        strlen(token)),
                         1);
        token = token_join(token, bytes(sig, len));
        assert_err(verify(token, key),
                   scheme == 0 ? PJ_OK : PJ_ERR_TOKEN_SIGNATURE);
        free(token);
        EVP_MD_CTX_free(ctx);
    }
}

TEST (test_attack_crit_and_unencoded_payload) {
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"crit\":[\"x\"],"
                           "\"x\":1}"),
               PJ_ERR_TOKEN_CRIT);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\","
                           "\"crit\":[\"b64\"],\"b64\":false}"),
               PJ_ERR_TOKEN_CRIT);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"crit\":[]}"),
               PJ_ERR_TOKEN_CRIT);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"crit\":null}"),
               PJ_ERR_TOKEN_CRIT);
    assert_ok(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"x\":1}"));
}

/* A token that brings its own key, or says where to find it, signed by that
 * key: ours decides, and the hints are not even read. */
TEST (test_attack_key_in_the_header_ignored) {
    char jwk[1024], header[4096];
    size_t len;
    char *token;

    assert_ok(jwk_emit(other, jwk, sizeof(jwk), &len));
    snprintf(header, sizeof(header),
             "{\"alg\":\"RS256\",\"kid\":\"k\",\"jwk\":%.*s,"
             "\"jku\":\"http://127.0.0.1:1/keys\",\"x5u\":7,"
             "\"x5c\":[\"AAAA\"]}",
             (int) len, jwk);
    token = token_signed(other, header, PAYLOAD);
    assert_err(verify(token, key), PJ_ERR_TOKEN_SIGNATURE);
    assert_ok(verify(token, other));
    free(token);
    assert_ok(with_header(header));
}

TEST (test_attack_embedded_nul) {
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\\u0000x\"}"),
               PJ_ERR_JSON_NUL);
    assert_err(with_header("{\"alg\":\"RS256\\u0000\",\"kid\":\"k\"}"),
               PJ_ERR_JSON_NUL);
    assert_err(with_header("{\"alg\\u0000\":\"none\",\"alg\":\"RS256\","
                           "\"kid\":\"k\"}"),
               PJ_ERR_JSON_NUL);
    assert_ok(with_header("{\"alg\":\"RS256\",\"kid\":\"k\\u0001x\"}"));
}

TEST (test_attack_duplicate_members) {
    assert_err(
        with_header("{\"alg\":\"none\",\"alg\":\"RS256\",\"kid\":\"k\"}"),
        PJ_ERR_JSON_DUPLICATE);
    assert_err(
        with_header("{\"alg\":\"RS256\",\"alg\":\"none\",\"kid\":\"k\"}"),
        PJ_ERR_JSON_DUPLICATE);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"k\",\"kid\":\"k\"}"),
               PJ_ERR_JSON_DUPLICATE);
    assert_err(
        with_header("{\"alg\":\"RS256\",\"\\u0061lg\":\"none\",\"kid\":\"k\"}"),
        PJ_ERR_JSON_DUPLICATE);
    assert_ok(
        with_header("{\"alg\":\"RS256\",\"Alg\":\"none\",\"kid\":\"k\"}"));
}

TEST (test_header_typ) {
    static const char *const bad[] = {
        "\"JWE\"", "\"\"",     "null",        "1",
        "[]",      "\"JWT \"", "\"at+jwt2\"", "\"refresh+jwt\""};
    char header[128];

    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(header, sizeof(header),
                 "{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":%s}", bad[i]);
        assert_err(with_header(header), PJ_ERR_TOKEN_TYP);
    }
    assert_ok(with_header(GOOD_HEADER));
}

TEST (test_header_typ_as_a_media_type) {
    static const char *const good[] = {"JWT",
                                       "jwt",
                                       "at+jwt",
                                       "AT+JWT",
                                       "application/jwt",
                                       "application/JWT",
                                       "application/at+jwt",
                                       "APPLICATION/AT+jwt"};
    static const char *const bad[] = {"application/",
                                      "application/jwe",
                                      "application/application/jwt",
                                      "application/jwt;x=y",
                                      "application/jwt ",
                                      "application",
                                      "applicationjwt",
                                      "/jwt",
                                      "text/jwt",
                                      "application/dpop+jwt",
                                      "dpop+jwt",
                                      "refresh+jwt"};
    char header[128];

    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(header, sizeof(header),
                 "{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":\"%s\"}", good[i]);
        assert_ok(with_header(header));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(header, sizeof(header),
                 "{\"alg\":\"RS256\",\"kid\":\"k\",\"typ\":\"%s\"}", bad[i]);
        assert_err(with_header(header), PJ_ERR_TOKEN_TYP);
    }
}

TEST (test_header_kid) {
    char header[512], kid[PJ_KID_MAX_BYTES + 1];

    memset(kid, 'k', sizeof(kid));
    kid[PJ_KID_MAX_BYTES] = 0;
    snprintf(header, sizeof(header), "{\"alg\":\"RS256\",\"kid\":\"%s\"}", kid);
    assert_ok(with_header(header));
    snprintf(header, sizeof(header), "{\"alg\":\"RS256\",\"kid\":\"%sk\"}",
             kid);
    assert_err(with_header(header), PJ_ERR_TOKEN_KID);
    assert_ok(with_header("{\"alg\":\"RS256\"}")); /* but not for the issuer */
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":\"\"}"),
               PJ_ERR_TOKEN_KID);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":1}"), PJ_ERR_TOKEN_KID);
    assert_err(with_header("{\"alg\":\"RS256\",\"kid\":null}"),
               PJ_ERR_TOKEN_KID);
}

TEST (test_header_that_is_no_object) {
    assert_err(with_header("[]"), PJ_ERR_TOKEN_HEADER);
    assert_err(with_header("\"RS256\""), PJ_ERR_TOKEN_HEADER);
    assert_err(with_header("null"), PJ_ERR_TOKEN_HEADER);
    assert_err(with_header("{"), PJ_ERR_JSON_SYNTAX);
    assert_err(with_header(GOOD_HEADER "x"), PJ_ERR_JSON_SYNTAX);
    assert_err(verify("e30.e30.!", key), PJ_ERR_TOKEN_ALG);
    assert_err(verify("e3!.e30.AA", key), PJ_ERR_BASE64);
    assert_err(verify("e31.e30.AA", key), PJ_ERR_BASE64);
    assert_err(verify("e30=.e30.AA", key), PJ_ERR_BASE64);
}

static pj_err_t nested_header(size_t depth)
{
    size_t head = strlen("{\"alg\":\"RS256\",\"kid\":\"k\",\"x\":");
    char *header = xmalloc(head + 2 * depth + 2);
    pj_err_t err;

    memcpy(header, "{\"alg\":\"RS256\",\"kid\":\"k\",\"x\":", head);
    memset(header + head, '[', depth);
    memset(header + head + depth, ']', depth);
    memcpy(header + head + 2 * depth, "}", 2);
    err = with_header(header);
    free(header);
    return err;
}

TEST (test_attack_7680_deep_nesting) {
    assert_ok(nested_header(PJ_JSON_MAX_DEPTH - 1));
    assert_err(nested_header(PJ_JSON_MAX_DEPTH), PJ_ERR_JSON_DEPTH);
    assert_err(nested_header(7680), PJ_ERR_JSON_DEPTH);
}

TEST (test_attack_swapped_parts) {
    char *a = token_signed(key, GOOD_HEADER, "{\"sub\":\"a\"}");
    char *b = token_signed(key, GOOD_HEADER, "{\"sub\":\"b\"}");
    const char *sig_b = strrchr(b, '.');
    size_t head = (size_t) (strrchr(a, '.') - a);
    char *mixed = xmalloc(strlen(a) + strlen(b));

    assert_ok(verify(a, key));
    assert_ok(verify(b, key));
    memcpy(mixed, a, head);
    memcpy(mixed + head, sig_b, strlen(sig_b) + 1);
    assert_err(verify(mixed, key), PJ_ERR_TOKEN_SIGNATURE);
    free(a);
    free(b);
    free(mixed);
}

/* Any one bit of the signature, of the payload and of the header counts. */
TEST (test_attack_flipped_bits) {
    char *token = token_signed(key, GOOD_HEADER, PAYLOAD);
    unsigned char sig[PJ_RSA_MAX_BYTES];
    pj_jws_t jws;
    size_t len;

    assert_ok(pj_jws_split(str(token), 65536, &jws));
    assert_ok(pj_b64url_decode(sig, sizeof(sig), &len, jws.signature));
    assert_ok(key->alg->type->verify(key, jws.signing_input, bytes(sig, len)));
    for (size_t bit = 0; bit < len * 8; bit++) {
        sig[bit / 8] ^= (unsigned char) (1u << bit % 8);
        assert_err(
            key->alg->type->verify(key, jws.signing_input, bytes(sig, len)),
            PJ_ERR_TOKEN_SIGNATURE);
        sig[bit / 8] ^= (unsigned char) (1u << bit % 8);
    }
    for (size_t i = 0; i < jws.signing_input.len; i++) {
        token[i] ^= 1;
        assert_err(signature_error(&jws, key), PJ_ERR_TOKEN_SIGNATURE);
        token[i] ^= 1;
    }
    assert_ok(signature_error(&jws, key));
    free(token);
}

static pj_err_t with_signature(pj_str_t sig)
{
    char *token = token_join(token_unsigned(GOOD_HEADER, PAYLOAD), sig);
    pj_err_t err = verify(token, key);

    free(token);
    return err;
}

TEST (test_attack_signature_of_another_length) {
    unsigned char sig[2 * PJ_RSA_MAX_BYTES] = {0};
    char *input = token_unsigned(GOOD_HEADER, PAYLOAD);

    assert_ok(key->alg->type->sign(key, str(input), sig + 1));
    assert_ok(with_signature(bytes(sig + 1, key->size)));
    assert_err(with_signature(bytes(sig, key->size + 1)),
               PJ_ERR_TOKEN_SIGNATURE); /* the same number, a zero in front */
    assert_err(with_signature(bytes(sig + 1, key->size + 1)),
               PJ_ERR_TOKEN_SIGNATURE);
    assert_err(with_signature(bytes(sig + 1, key->size - 1)),
               PJ_ERR_TOKEN_SIGNATURE);
    assert_err(with_signature(bytes(sig + 1, 1)), PJ_ERR_TOKEN_SIGNATURE);
    assert_err(with_signature(bytes(sig, sizeof(sig))), PJ_ERR_TOKEN_SIGNATURE);
    free(input);
}

/* Zero, one, and numbers not below the modulus. */
TEST (test_attack_degenerate_signatures) {
    unsigned char sig[PJ_RSA_MAX_BYTES] = {0};

    assert_err(with_signature(bytes(sig, key->size)), PJ_ERR_TOKEN_SIGNATURE);
    sig[key->size - 1] = 1;
    assert_err(with_signature(bytes(sig, key->size)), PJ_ERR_TOKEN_SIGNATURE);
    memset(sig, 0xff, sizeof(sig));
    assert_err(with_signature(bytes(sig, key->size)), PJ_ERR_TOKEN_SIGNATURE);
}

/* The last character of a 256-byte signature has four bits that do not
 * count: the other fifteen spellings of them are other tokens. */
TEST (test_attack_non_canonical_signature_spelling) {
    char *token = token_signed(key, GOOD_HEADER, PAYLOAD);
    size_t last = strlen(token) - 1;
    const char right = token[last];
    const char *all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "abcdefghijklmnopqrstuvwxyz0123456789-_=+/ .";
    size_t accepted = 0;

    assert_ok(verify(token, key));
    for (; *all != 0; all++) {
        token[last] = *all;
        accepted += verify(token, key) == PJ_OK;
        ck_assert((verify(token, key) == PJ_OK) == (*all == right));
    }
    ck_assert_uint_eq(accepted, 1);
    free(token);
}

TEST (test_callers_openssl_errors_survive) {
    char *token = token_signed(other, GOOD_HEADER, PAYLOAD);

    ERR_raise(ERR_LIB_USER, 42);
    assert_err(verify(token, key), PJ_ERR_TOKEN_SIGNATURE);
    assert_ok(verify(token, other));
    ck_assert_int_eq(ERR_GET_REASON(ERR_get_error()), 42);
    ck_assert_uint_eq(ERR_peek_error(), 0);
    free(token);
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("jws", fill);
}
