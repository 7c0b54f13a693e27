/* Tests of uuid.c. */

#include "base/uuid.h"
#include "testing.h"

#define TEXT "00ff1a2b-3c4d-5e6f-7089-9abcdef01234"

static const unsigned char raw[UUID_BYTES] = {
    0x00, 0xff, 0x1a, 0x2b, 0x3c, 0x4d, 0x5e, 0x6f,
    0x70, 0x89, 0x9a, 0xbc, 0xde, 0xf0, 0x12, 0x34};

TEST (test_uuids_do_not_repeat) {
    static char seen[1000][UUID_LEN + 1];

    for (int i = 0; i < 1000; i++) {
        ck_assert(uuid_generate(seen[i]));
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(seen[i], seen[j]);
        }
    }
}

TEST (test_uuid_shape) {
    char a[UUID_LEN + 1], b[UUID_LEN + 1];

    ck_assert(uuid_generate(a));
    ck_assert(uuid_generate(b));
    ck_assert_uint_eq(strlen(a), UUID_LEN);
    ck_assert_str_ne(a, b);
    for (int i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        ck_assert((a[i] == '-') == dash);
        ck_assert(dash || strchr("0123456789abcdef", a[i]) != NULL);
    }
    ck_assert_int_eq(a[14], '4');
    ck_assert_ptr_nonnull(strchr("89ab", a[19]));
}

TEST (test_text_and_bytes) {
    char text[UUID_LEN + 1] = "";
    unsigned char bytes[UUID_BYTES];

    uuid_write(text, raw);
    ck_assert_str_eq(text, TEXT);
    ck_assert(uuid_read(bytes, str(TEXT)));
    ck_assert_mem_eq(bytes, raw, UUID_BYTES);
}

TEST (test_only_what_is_written_is_read) {
    static const char *const bad[] = {
        "",
        "00ff1a2b-3c4d-5e6f-7089-9abcdef0123",
        "00ff1a2b-3c4d-5e6f-7089-9abcdef012345",
        "00ff1a2b3c4d5e6f70899abcdef01234",
        "{0ff1a2b-3c4d-5e6f-7089-9abcdef0123}",
        "00FF1A2B-3C4D-5E6F-7089-9ABCDEF01234",
    };
    char text[UUID_LEN + 1] = TEXT;
    unsigned char bytes[UUID_BYTES];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert(!uuid_read(bytes, str(bad[i])));
        /* The last one is well formed, in capital letters. */
        ck_assert_int_eq(uuid_parse(bytes, str(bad[i])), i == 5);
    }
    ck_assert_mem_eq(bytes, raw, UUID_BYTES);
    for (size_t i = 0; i < UUID_LEN; i++) {
        for (int c = 0; c < 256; c++) {
            bool dash = TEXT[i] == '-';
            bool good =
                dash ? c == '-' : c != '\0' && strchr("0123456789abcdef", c);

            text[i] = (char) c;
            ck_assert_int_eq(
                uuid_read(bytes, (pj_str_t){(unsigned char *) text, UUID_LEN}),
                good);
            good = good || (!dash && c != '\0' && strchr("ABCDEF", c));
            ck_assert_int_eq(
                uuid_parse(bytes, (pj_str_t){(unsigned char *) text, UUID_LEN}),
                good);
        }
        text[i] = TEXT[i];
    }
}

int main(void)
{
    return run_case("uuid", NULL);
}
