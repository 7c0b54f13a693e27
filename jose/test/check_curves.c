/* Keys on P-256 and Ed25519: JWK, PEM and DER, what OpenSSL takes and we
 * refuse. */

#include "helpers.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>

/* -- JWK -- */

#define EC_X "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\""
#define EC_Y "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\""
#define ED_X "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\""

/* The reason why an entry with these members is ignored. */
static pj_err_t entry_error(const char *members)
{
    char json[2048];
    pj_keyset_t set = {.count = 0};
    pj_err_t err;

    snprintf(
        json, sizeof(json),
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"g\"," ED_X
        "},{\"kid\":\"k\",%s}]}",
        members);
    assert_ok(set_parse(&set, str(json)));
    ck_assert_uint_eq(set.count + set.ignored, 2);
    err = set.last_ignored;
    pj_keyset_clear(&set);
    return err;
}

TEST (test_entries_on_curves) {
    static const struct {
        const char *members;
        pj_err_t err;
    } cases[] = {
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_X "," EC_Y, PJ_OK},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"alg\":\"ES256\",\"use\":\"sig\","
         "\"d\":7," EC_X "," EC_Y,
         PJ_OK}, /* private members are not read */
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"alg\":\"EdDSA\"," EC_X "," EC_Y,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"alg\":\"RS256\"," EC_X "," EC_Y,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\",\"crv\":\"P-384\"," EC_X "," EC_Y,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\",\"crv\":\"p-256\"," EC_X "," EC_Y,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\"," EC_X "," EC_Y, PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"OKP\",\"crv\":\"P-256\"," EC_X "," EC_Y,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_X, PJ_ERR_KEY_FORMAT},
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_Y, PJ_ERR_KEY_FORMAT},
        {"\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":1," EC_Y, PJ_ERR_KEY_FORMAT},
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_Y ",\"x\":"
         "\"AH_NzidwxFwPDDx8d-2NKw9sXSlZV8Y_aQH4z4nlJq5A\"",
         PJ_ERR_KEY_FORMAT}, /* 33 bytes */
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_Y ",\"x\":"
         "\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVA\"",
         PJ_ERR_KEY_FORMAT}, /* 31 */
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_X ",\"y\":"
         "\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a1\"",
         PJ_ERR_KEY_FORMAT}, /* its last bits are not zero */
        {"\"kty\":\"EC\",\"crv\":\"P-256\"," EC_X ",\"y\":"
         "\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5aw\"",
         PJ_ERR_KEY_FORMAT}, /* not on the curve */
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\"," ED_X, PJ_OK},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"EdDSA\",\"d\":7," ED_X,
         PJ_OK},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"Ed25519\"," ED_X,
         PJ_OK},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"ES256\"," ED_X,
         PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"OKP\",\"crv\":\"X25519\"," ED_X, PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"OKP\",\"crv\":\"Ed448\"," ED_X, PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"EC\",\"crv\":\"Ed25519\"," ED_X, PJ_ERR_KEY_UNUSABLE},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\"", PJ_ERR_KEY_FORMAT},
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\","
         "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURoA\"",
         PJ_ERR_KEY_FORMAT}, /* 33 bytes */
        {"\"kty\":\"OKP\",\"crv\":\"Ed25519\","
         "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHUQ\"",
         PJ_ERR_KEY_FORMAT}, /* 31 */
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        pj_err_t err = entry_error(cases[i].members);

        ck_assert_msg(err == cases[i].err, "%s: %s", cases[i].members,
                      pj_errname(err));
    }
}

/* The y of points of small order and, from p on, other spellings of a y;
 * OpenSSL takes them all.  Each with both signs of x. */
TEST (test_ed25519_small_order_refused) {
    static const struct {
        unsigned char first, middle, last;
        pj_err_t err;
    } cases[] = {
        {0x00, 0x00, 0x00, PJ_ERR_KEY_WEAK}, /* of order 4 */
        {0x01, 0x00, 0x00, PJ_ERR_KEY_WEAK}, /* 1, the neutral point */
        {0xec, 0xff, 0x7f, PJ_ERR_KEY_WEAK}, /* p - 1, of order 2 */
        {0xed, 0xff, 0x7f, PJ_ERR_KEY_WEAK}, /* p */
        {0xee, 0xff, 0x7f, PJ_ERR_KEY_WEAK},
        {0xff, 0xff, 0x7f, PJ_ERR_KEY_WEAK}, /* p + 18 */
        {0x02, 0x00, 0x00, PJ_OK},
        {0xeb, 0xff, 0x7f, PJ_OK},
        {0xec, 0xff, 0x7e, PJ_OK},
        {0x01, 0x00, 0x01, PJ_OK},
    };
    static const char *const order_8[] = {
        "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU",
        "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_IU",
        "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o",
        "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA_o",
    };
    char members[128];

    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        unsigned char y[32];
        EVP_PKEY *pkey;
        pj_key_t *key;

        memset(y, cases[i / 2].middle, sizeof(y));
        y[0] = cases[i / 2].first;
        y[31] = (unsigned char) (cases[i / 2].last | i % 2 << 7);
        pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, y, 32);
        ck_assert_ptr_nonnull(pkey);
        assert_err(pj_key_wrap(&key, pj_alg_find(PJ_STR("EdDSA")), pkey,
                               PJ_STR("k"), false),
                   cases[i / 2].err);
        pj_key_free(key);
    }
    for (size_t i = 0; i < COUNT(order_8); i++) {
        snprintf(members, sizeof(members),
                 "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"",
                 order_8[i]);
        assert_err(entry_error(members), PJ_ERR_KEY_WEAK);
        members[strlen(members) - 20]++;
        assert_ok(entry_error(members));
    }
}

/* -- keys as PEM and DER -- */

/* What is made of pkey, encoded by OpenSSL; takes it over. */
static pj_err_t der_error(EVP_PKEY *pkey, bool is_private)
{
    unsigned char *der = NULL;
    PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(pkey);
    pj_key_t *key;
    pj_err_t err;
    int len;

    len = is_private ? i2d_PKCS8_PRIV_KEY_INFO(info, &der)
                     : i2d_PUBKEY(pkey, &der);
    ck_assert_int_gt(len, 0);
    err = is_private
              ? pj_key_private(&key, bytes(der, (size_t) len), PJ_STR("k"))
              : pj_key_public(&key, bytes(der, (size_t) len), PJ_STR("k"));
    pj_key_free(key);
    OPENSSL_free(der);
    PKCS8_PRIV_KEY_INFO_free(info);
    EVP_PKEY_free(pkey);
    return err;
}

static EVP_PKEY *p256_with(const char *param, const char *value)
{
    EVP_PKEY *pkey = EVP_EC_gen("P-256");

    ck_assert_int_eq(EVP_PKEY_set_utf8_string_param(pkey, param, value), 1);
    return pkey;
}

TEST (test_other_curves_and_encodings_refused) {
    const char *form = OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT;

    for (int private = 0; private < 2; private ++) {
        assert_ok(der_error(EVP_EC_gen("P-256"), private));
        assert_ok(der_error(p256_with(form, "uncompressed"), private));
        assert_err(der_error(p256_with(form, "compressed"), private),
                   PJ_ERR_KEY_FORMAT);
        assert_err(der_error(p256_with(form, "hybrid"), private),
                   PJ_ERR_KEY_FORMAT);
        assert_err(der_error(p256_with(OSSL_PKEY_PARAM_EC_ENCODING,
                                       OSSL_PKEY_EC_ENCODING_EXPLICIT),
                             private),
                   PJ_ERR_KEY_FORMAT);
        assert_err(der_error(EVP_EC_gen("P-384"), private), PJ_ERR_KEY_FORMAT);
        assert_err(der_error(EVP_EC_gen("secp256k1"), private),
                   PJ_ERR_KEY_FORMAT);
        assert_ok(der_error(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), private));
        assert_err(der_error(EVP_PKEY_Q_keygen(NULL, NULL, "ED448"), private),
                   PJ_ERR_KEY_FORMAT);
        assert_err(der_error(EVP_PKEY_Q_keygen(NULL, NULL, "X25519"), private),
                   PJ_ERR_KEY_FORMAT);
    }
}

/* RFC 5480: a point is uncompressed, and here it is at infinity (00). */
TEST (test_point_at_infinity_refused) {
    static const unsigned char der[] = {
        0x30, 0x19, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x02, 0x00, 0x00};
    const unsigned char *p = der;
    EVP_PKEY *pkey = d2i_PUBKEY(NULL, &p, sizeof(der));
    pj_key_t *key;

    ck_assert_ptr_nonnull(pkey); /* OpenSSL takes it */
    EVP_PKEY_free(pkey);
    assert_err(pj_key_public(&key, bytes(der, sizeof(der)), PJ_STR("k")),
               PJ_ERR_KEY_FORMAT);
}

/* PKCS#8 of a key on P-256 without its public half, which is at the end, as
 * it is, and with one of another key. */
TEST (test_halves_of_p256) {
    pj_str_t label = PJ_STR("a label");
    pj_key_t *whole;
    unsigned char secrets[3][32], *der[3] = {NULL};
    EVP_PKEY *pkeys[3];
    pj_key_t *key;
    int len[3];

    assert_ok(
        pj_key_generate(&whole, pj_alg_find(PJ_STR("ES256")), PJ_STR("k")));
    pkeys[0] = whole->pkey;
    pkeys[1] = EVP_PKEY_dup(whole->pkey);
    pkeys[2] = EVP_EC_gen("P-256");
    ck_assert_int_eq(
        EVP_PKEY_set_int_param(pkeys[1], OSSL_PKEY_PARAM_EC_INCLUDE_PUBLIC, 0),
        1);
    for (size_t i = 0; i < 3; i++) {
        PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(pkeys[i]);

        len[i] = i2d_PKCS8_PRIV_KEY_INFO(info, &der[i]);
        PKCS8_PRIV_KEY_INFO_free(info);
        assert_ok(
            pj_key_private(&key, bytes(der[i], (size_t) len[i]), PJ_STR("k")));
        assert_ok(pj_key_derive(key, label, secrets[i], 32));
        ck_assert_int_eq(pj_key_match(key, whole) == PJ_OK, i < 2);
        pj_key_free(key);
    }
    ck_assert_int_lt(len[1], len[0] - 65);
    ck_assert_mem_eq(secrets[0], secrets[1], 32);
    ck_assert_mem_ne(secrets[0], secrets[2], 32);

    ck_assert_int_eq(len[0], len[2]);
    memcpy(der[2] + len[2] - 65, der[0] + len[0] - 65, 65);
    assert_err(
        pj_key_private(&key, bytes(der[2], (size_t) len[2]), PJ_STR("k")),
        PJ_ERR_KEY_MISMATCH);
    for (size_t i = 0; i < 3; i++)
        OPENSSL_free(der[i]);
    pj_key_free(whole);
    EVP_PKEY_free(pkeys[1]);
    EVP_PKEY_free(pkeys[2]);
}

/* The octet string of PKCS#8 holds the seed's octet string, nothing else. */
TEST (test_garbage_inside_pkcs8_of_ed25519_refused) {
    static const unsigned char head[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30,
                                         0x05, 0x06, 0x03, 0x2b, 0x65, 0x70,
                                         0x04, 0x22, 0x04, 0x20};
    unsigned char der[sizeof(head) + 33] = {0};
    unsigned char one[32], two[32];
    pj_key_t *key;

    for (unsigned char extra = 0; extra < 2; extra++) {
        memcpy(der, head, sizeof(head));
        der[1] = (unsigned char) (der[1] + extra);
        der[13] = (unsigned char) (der[13] + extra);
        assert_err(pj_key_private(&key, bytes(der, sizeof(head) + 32 + extra),
                                  PJ_STR("k")),
                   extra == 0 ? PJ_OK : PJ_ERR_KEY_FORMAT);
        if (extra == 0) {
            assert_ok(pj_key_derive(key, PJ_STR("a"), one, 32));
            assert_ok(pj_key_derive(key, PJ_STR("b"), two, 32));
            ck_assert_mem_ne(one, two, 32);
        }
        pj_key_free(key);
    }
}

int main(void)
{
    return run_case("curves", fill_plain);
}
