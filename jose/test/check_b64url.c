/* Strict base64url and the lenient-in-white-space base64 of variables. */

#include "helpers.h"

static void round_trip(const char *plain, const char *encoded)
{
    char enc[64];
    unsigned char dec[64];
    size_t len;

    assert_ok(pj_b64url_encode(enc, sizeof(enc), &len, str(plain)));
    assert_str(bytes(enc, len), encoded);
    ck_assert_uint_eq(len, pj_b64url_encoded_len(strlen(plain)));
    assert_ok(pj_b64url_decode(dec, sizeof(dec), &len, str(encoded)));
    assert_str(bytes(dec, len), plain);
}

static pj_err_t url_error(const char *text)
{
    unsigned char out[64];
    size_t len;

    return pj_b64url_decode(out, sizeof(out), &len, str(text));
}

static pj_err_t std_error(const char *text)
{
    unsigned char out[64];
    size_t len;

    return pj_b64_decode(out, sizeof(out), &len, str(text));
}

TEST (test_rfc4648_vectors) {
    round_trip("", "");
    round_trip("f", "Zg");
    round_trip("fo", "Zm8");
    round_trip("foo", "Zm9v");
    round_trip("foob", "Zm9vYg");
    round_trip("fooba", "Zm9vYmE");
    round_trip("foobar", "Zm9vYmFy");
}

TEST (test_every_byte_value_round_trips) {
    unsigned char in[256], out[256];
    char enc[400];
    size_t enc_len, len;

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char) i;
    for (size_t n = 0; n <= sizeof(in); n++) {
        assert_ok(pj_b64url_encode(enc, sizeof(enc), &enc_len,
                                   bytes(in + 256 - n, n)));
        assert_ok(pj_b64url_decode(out, n, &len, bytes(enc, enc_len)));
        ck_assert_uint_eq(len, n);
        ck_assert_int_eq(memcmp(out, in + 256 - n, n), 0);
    }
}

TEST (test_only_the_64_characters) {
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "abcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char out[3];
    size_t len;

    for (unsigned c = 0; c < 256; c++) {
        bool ok = c != 0 && strchr(allowed, (int) c) != NULL;

        for (size_t at = 0; at < 4; at++) {
            unsigned char text[4] = {'A', 'A', 'A', 'A'};

            text[at] = (unsigned char) c;
            assert_err(pj_b64url_decode(out, 3, &len, bytes(text, 4)),
                       ok ? PJ_OK : PJ_ERR_BASE64);
        }
    }
}

TEST (test_padding_and_white_space_refused) {
    assert_ok(url_error("Zg"));
    assert_err(url_error("Zg=="), PJ_ERR_BASE64);
    assert_err(url_error("Zm8="), PJ_ERR_BASE64);
    assert_err(url_error(" Zg"), PJ_ERR_BASE64);
    assert_err(url_error("Zg\n"), PJ_ERR_BASE64);
    assert_err(url_error("Zm9v\nZm9v"), PJ_ERR_BASE64);
    assert_err(url_error("Z"), PJ_ERR_BASE64);
    assert_err(url_error("Zm9vZ"), PJ_ERR_BASE64);
}

/* Spellings that differ only in unused bits: a single one is accepted. */
TEST (test_non_canonical_trailing_bits_refused) {
    const char *a = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "abcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t i = 0; i < 64; i++) {
        char two[3] = {'Z', a[i], 0};
        char three[4] = {'Z', 'm', a[i], 0};

        assert_err(url_error(two), i % 16 == 0 ? PJ_OK : PJ_ERR_BASE64);
        assert_err(url_error(three), i % 4 == 0 ? PJ_OK : PJ_ERR_BASE64);
    }
    assert_ok(std_error("Zg"));
    assert_err(std_error("Zh"), PJ_ERR_BASE64);
    assert_err(std_error("Zh=="), PJ_ERR_BASE64);
    assert_err(std_error("Zm9"), PJ_ERR_BASE64);
}

TEST (test_capacity_is_respected) {
    char enc[8];
    unsigned char dec[8];
    size_t len;

    for (size_t cap = 0; cap <= 8; cap++) {
        char *exact = xmalloc(cap);

        assert_err(pj_b64url_encode(exact, cap, &len, PJ_STR("fooba")),
                   cap < 7 ? PJ_ERR_NO_SPACE : PJ_OK);
        assert_err(pj_b64url_decode((unsigned char *) exact, cap, &len,
                                    PJ_STR("Zm9vYmE")),
                   cap < 5 ? PJ_ERR_NO_SPACE : PJ_OK);
        assert_err(pj_b64_decode((unsigned char *) exact, cap, &len,
                                 PJ_STR("Zm9vYmE=")),
                   cap < 5 ? PJ_ERR_NO_SPACE : PJ_OK);
        free(exact);
    }
    assert_ok(pj_b64url_encode(enc, 0, &len, (pj_str_t){NULL, 0}));
    ck_assert_uint_eq(len, 0);
    assert_ok(pj_b64url_decode(dec, 0, &len, (pj_str_t){NULL, 0}));
    ck_assert_uint_eq(len, 0);
    assert_err(
        pj_b64url_encode(enc, sizeof(enc), &len, (pj_str_t){dec, SIZE_MAX}),
        PJ_ERR_NO_SPACE);
}

TEST (test_standard_base64_of_variables) {
    unsigned char out[16];
    size_t len;

    assert_ok(
        pj_b64_decode(out, sizeof(out), &len, PJ_STR(" Zm9v\r\n\tYm\nFy \n")));
    assert_str(bytes(out, len), "foobar");
    assert_ok(pj_b64_decode(out, sizeof(out), &len, PJ_STR("+/+/")));
    ck_assert_int_eq(memcmp(out, "\xfb\xff\xbf", 3), 0);
    assert_ok(std_error("Zg=="));
    assert_ok(std_error("Zg = = \n"));
    assert_ok(std_error("Zg"));
    assert_ok(std_error(""));

    assert_err(std_error("Zg="), PJ_ERR_BASE64);
    assert_err(std_error("Zg==="), PJ_ERR_BASE64);
    assert_err(std_error("Zm9v="), PJ_ERR_BASE64);
    assert_err(std_error("Zg==Zg=="), PJ_ERR_BASE64);
    assert_err(std_error("-_-_"), PJ_ERR_BASE64);
    assert_err(std_error("Zm9v!"), PJ_ERR_BASE64);
    assert_err(std_error("Z"), PJ_ERR_BASE64);
    assert_err(std_error("="), PJ_ERR_BASE64);
    assert_err(pj_b64_decode(out, sizeof(out), &len, bytes("Zm9v\0Zm9v", 9)),
               PJ_ERR_BASE64);
}

int main(void)
{
    return run_case("b64url", fill_plain);
}
