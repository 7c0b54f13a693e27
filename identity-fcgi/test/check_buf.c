/* Tests of buf.c: bounds and the sticky overflow flag. */

#include "base/buf.h"
#include "testing.h"

TEST (test_appends_in_order) {
    char mem[32];
    struct buf b;

    buf_init(&b, mem, sizeof(mem));
    buf_add(&b, "abc", 2);
    buf_addz(&b, "-");
    buf_addc(&b, 'x');
    buf_addf(&b, "%d", 42);
    ck_assert(!b.overflow);
    ck_assert_mem_eq(b.data, "ab-x42", 6);
    ck_assert_uint_eq(b.len, 6);
}

TEST (test_exact_fit_is_no_overflow) {
    char mem[4];
    struct buf b;

    buf_init(&b, mem, sizeof(mem));
    buf_add(&b, "abcd", 4);
    ck_assert(!b.overflow);
    buf_addc(&b, 'e');
    ck_assert(b.overflow);
    ck_assert_uint_eq(b.len, 4);
}

TEST (test_overflow_sticks_until_reset) {
    char mem[4];
    struct buf b;

    buf_init(&b, mem, sizeof(mem));
    buf_add(&b, "abcde", 5);
    ck_assert(b.overflow);
    buf_addc(&b, 'x');
    ck_assert_uint_eq(b.len, 0);
    buf_reset(&b);
    buf_addc(&b, 'x');
    ck_assert(!b.overflow);
    ck_assert_uint_eq(b.len, 1);
}

TEST (test_formatted_overflow_writes_no_further) {
    char mem[8] = "ABCDEFG";
    struct buf b;

    buf_init(&b, mem, 4);
    buf_addf(&b, "%s", "123456");
    ck_assert(b.overflow);
    ck_assert_uint_eq(b.len, 0);
    ck_assert_mem_eq(mem + 4, "EFG", 3);
}

TEST (test_empty_and_null_appends) {
    struct buf b;

    buf_init(&b, NULL, 0);
    buf_add(&b, NULL, 0);
    ck_assert(!b.overflow);
    buf_addf(&b, "%s", "");
    ck_assert(b.overflow);
}

int main(void)
{
    return run_case("buf", NULL);
}
