/* Time-based one-time codes, and the encryption of their secrets.  With --judge
 * it says what it thinks of the codes of t/node/totp.mjs. */

#include "auth/totp.h"

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The secret of RFC 6238 appendix B. */
static const unsigned char rfc_secret[FACTOR_SECRET_BYTES + 1] =
    "12345678901234567890";

/* Its times, and the last six digits of its codes. */
static const struct {
    int64_t time;
    const char *code;
} vectors[] = {{1111111109, "081804"},
               {1111111111, "050471"},
               {1234567890, "005924"},
               {2000000000, "279037"},
               {20000000000, "353130"}};

TEST (test_vectors_of_rfc_6238) {
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        int64_t time = vectors[i].time;
        pj_str_t code = pj_str(vectors[i].code);

        ck_assert_int_eq(totp_step(rfc_secret, code, time), time / 30);
        ck_assert_int_eq(totp_step(rfc_secret, code, time + 30), time / 30);
        ck_assert_int_eq(totp_step(rfc_secret, code, time - 30), time / 30);
        ck_assert_int_eq(totp_step(rfc_secret, code, time / 30 * 30 + 60), 0);
        ck_assert_int_eq(totp_step(rfc_secret, code, time / 30 * 30 - 31), 0);
    }
}

TEST (test_what_is_not_six_digits) {
    static const char *const codes[] = {"",        "28708",  "2870820",
                                        "287082 ", "28708a", "000000"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        ck_assert_int_eq(totp_step(rfc_secret, pj_str(codes[i]), 59), 0);
    }
    ck_assert_int_eq(totp_step(rfc_secret, PJ_STR("287082"), 59), 1);
}

TEST (test_base32) {
    char text[TOTP_BASE32];

    ck_assert(totp_base32(rfc_secret, text));
    ck_assert_str_eq(text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
}

/* Another program's codes of each step of a day. */
TEST (test_a_day_of_oathtool) {
    const int64_t day = 1795824000 / 30; /* 2026-11-28 */
    unsigned char secret[FACTOR_SECRET_BYTES];
    char base32[TOTP_BASE32], command[256], line[16];
    int64_t step = day;
    FILE *codes;

    ck_assert(totp_new(secret) && totp_base32(secret, base32));
    snprintf(command, sizeof(command), "oathtool --totp -b -w 2879 -N @%lld %s",
             (long long) day * 30, base32);
    codes = popen(command, "r");
    ck_assert_ptr_nonnull(codes);
    while (fgets(line, sizeof(line), codes) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_int_eq(totp_step(secret, pj_str(line), step * 30 + 7), step);
        step++;
    }
    ck_assert_int_eq(pclose(codes), 0);
    ck_assert_int_eq(step, day + 2880);
}

TEST (test_a_secret_is_sealed_for_its_row) {
    static const char account[] = "11111111-1111-4111-8111-111111111111";
    static const char factor[] = "22222222-2222-4222-8222-222222222222";
    struct factor_key key = {.bytes = "a key", .id = "a"}, other = key;
    unsigned char sealed[FACTOR_SEALED_BYTES], again[FACTOR_SEALED_BYTES];
    unsigned char secret[FACTOR_SECRET_BYTES];
    pj_str_t text = {sealed, sizeof(sealed)};

    other.bytes[31] ^= 1;
    ck_assert(factor_secret_seal(&key, account, factor, rfc_secret, sealed));
    ck_assert(factor_secret_seal(&key, account, factor, rfc_secret, again));
    ck_assert_mem_ne(sealed, again, sizeof(sealed));
    ck_assert(factor_secret_open(&key, account, factor, text, secret));
    ck_assert_mem_eq(secret, rfc_secret, sizeof(secret));
    ck_assert(!factor_secret_open(&other, account, factor, text, secret));
    ck_assert(!factor_secret_open(&key, factor, factor, text, secret));
    ck_assert(!factor_secret_open(&key, account, account, text, secret));
    text.len--;
    ck_assert(!factor_secret_open(&key, account, factor, text, secret));
    text.len++;
    for (size_t i = 0; i < sizeof(sealed); i++) {
        sealed[i] ^= 1;
        ck_assert(!factor_secret_open(&key, account, factor, text, secret));
        sealed[i] ^= 1;
    }
    ck_assert(factor_secret_open(&key, account, factor, text, secret));
}

/* Reads lines "SECRET TIME CODE", with SECRET in hexadecimal, and answers each
 * by "SECRET STEP", with SECRET in base32. */
static int judge_all(void)
{
    unsigned char secret[FACTOR_SECRET_BYTES];
    char base32[TOTP_BASE32], line[256];
    long long now;
    int at;

    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof(secret); i++) {
            sscanf(line + 2 * i, "%2hhx", &secret[i]);
        }
        if (sscanf(line, "%*s %lld%n", &now, &at) != 1 || line[at] != ' ' ||
            !totp_base32(secret, base32)) {
            return EXIT_FAILURE;
        }
        printf("%s %lld\n", base32,
               (long long) totp_step(secret, pj_str(line + at + 1), now));
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--judge") == 0
               ? judge_all()
               : run_case("totp", NULL);
}
