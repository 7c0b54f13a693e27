/* Any bytes: base64url decodes to what a second decoder says, and each value
 * has one text; base64 of settings has many, all of one value. */

#include "fuzz.h"

static void url_check(pj_str_t text)
{
    unsigned char *got = fuzz_alloc(text.len * 3 / 4);
    unsigned char *want = fuzz_alloc(text.len);
    char *again = (char *) fuzz_alloc(text.len);
    size_t len = 0, want_len = fuzz_b64url(want, text);
    pj_err_t err = pj_b64url_decode(got, text.len * 3 / 4, &len, text);

    FUZZ_ASSERT(err == (want_len == SIZE_MAX ? PJ_ERR_BASE64 : PJ_OK));
    if (err == PJ_OK) {
        FUZZ_ASSERT(len == want_len && memcmp(got, want, len) == 0);
        FUZZ_ASSERT(pj_b64url_encode(again, text.len, &want_len,
                                     (pj_str_t){got, len}) == PJ_OK);
        FUZZ_ASSERT(want_len == text.len &&
                    memcmp(again, text.data, text.len) == 0);
    }
    free(got);
    free(want);
    free(again);
}

/* In OpenSSL's words, with and without padding, and our own. */
static void bytes_check(pj_str_t bytes)
{
    size_t len = pj_b64url_encoded_len(bytes.len), n = 0;
    char *url = (char *) fuzz_alloc(len);
    unsigned char *got = fuzz_alloc(bytes.len + 3);
    char *text = (char *) fuzz_alloc(bytes.len / 3 * 4 + 5);

    FUZZ_ASSERT(pj_b64url_encode(url, len, &n, bytes) == PJ_OK && n == len);
    FUZZ_ASSERT(len == 0 ||
                pj_b64url_encode(url, len - 1, &n, bytes) == PJ_ERR_NO_SPACE);
    FUZZ_ASSERT(fuzz_b64url(got, (pj_str_t){(unsigned char *) url, len}) ==
                bytes.len);
    FUZZ_ASSERT(memcmp(got, bytes.data, bytes.len) == 0);
    EVP_EncodeBlock((unsigned char *) text, bytes.data, (int) bytes.len);
    for (int padded = 1; padded >= 0; padded--) {
        memset(got, 0, bytes.len);
        FUZZ_ASSERT(pj_b64_decode(got, bytes.len, &n, pj_str(text)) == PJ_OK);
        FUZZ_ASSERT(n == bytes.len && memcmp(got, bytes.data, n) == 0);
        text[strcspn(text, "=")] = '\0';
    }
    free(url);
    free(got);
    free(text);
}

/* What base64 is taken is, without white space and padding, the one text that
 * its value has. */
static void plain_check(pj_str_t text)
{
    unsigned char *got = fuzz_alloc(text.len * 3 / 4);
    char *again = (char *) fuzz_alloc(text.len + 1);
    size_t len, n, at = 0;

    if (pj_b64_decode(got, text.len * 3 / 4, &len, text) == PJ_OK) {
        FUZZ_ASSERT(pj_b64url_encode(again, text.len, &n,
                                     (pj_str_t){got, len}) == PJ_OK);
        for (size_t i = 0; i < text.len; i++) {
            char c = (char) text.data[i];

            if (c == '\0' || strchr(" \t\n\v\f\r=", c) != NULL)
                continue;
            FUZZ_ASSERT(at < n && again[at++] == (c == '+'   ? '-'
                                                  : c == '/' ? '_'
                                                             : c));
        }
        FUZZ_ASSERT(at == n);
    }
    free(got);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pj_str_t input = {data, len};

    url_check(input);
    bytes_check(input);
    plain_check(input);
    return 0;
}
