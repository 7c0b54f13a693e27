/* Tests of jsonw.c: the output is JSON for any input. */

#include "base/jsonw.h"
#include "testing.h"

#include <stdio.h>
#include <string.h>

static char mem[4096];
static struct buf out;
static struct jsonw w;

static void begin(void)
{
    buf_init(&out, mem, sizeof(mem));
    jsonw_init(&w, &out);
}

static void expect(const char *text)
{
    ck_assert(!out.overflow);
    out.data[out.len] = '\0';
    ck_assert_str_eq(out.data, text);
}

TEST (test_commas_and_nesting) {
    begin();
    jsonw_object(&w, NULL);
    jsonw_cstr(&w, "a", "x");
    jsonw_array(&w, "b");
    jsonw_int(&w, NULL, 1);
    jsonw_bool(&w, NULL, true);
    jsonw_null(&w, NULL);
    jsonw_object(&w, NULL);
    jsonw_object_end(&w);
    jsonw_array_end(&w);
    jsonw_bool(&w, "c", false);
    jsonw_object_end(&w);
    expect("{\"a\":\"x\",\"b\":[1,true,null,{}],\"c\":false}");
}

TEST (test_integers_to_their_bounds) {
    begin();
    jsonw_array(&w, NULL);
    jsonw_int(&w, NULL, 0);
    jsonw_int(&w, NULL, -1);
    jsonw_int(&w, NULL, INT64_MAX);
    jsonw_int(&w, NULL, INT64_MIN);
    jsonw_array_end(&w);
    expect("[0,-1,9223372036854775807,-9223372036854775808]");
}

TEST (test_escapes) {
    begin();
    jsonw_string(&w, NULL, "\"\\\n\r\t\b\0\x1f\x7f/", 10);
    expect("\"\\\"\\\\\\n\\r\\t\\u0008\\u0000\\u001f\\u007f/\"");
}

/* Text is looked at in words of eight bytes: one byte of every value, at every
 * place of a text longer than two words, comes out as it does alone. */
TESTS (test_every_byte_at_every_place, 256) {
    const size_t len = 19;
    char alone[16], text[32], want[64];

    begin();
    jsonw_string(&w, NULL, &(char){(char) _i}, 1);
    snprintf(alone, sizeof(alone), "%.*s", (int) out.len - 2, out.data + 1);
    for (size_t at = 0; at < len; at++) {
        memset(text, 'a', len);
        text[at] = (char) _i;
        snprintf(want, sizeof(want), "\"%.*s%s%.*s\"", (int) at,
                 "aaaaaaaaaaaaaaaaaaa", alone, (int) (len - at - 1),
                 "aaaaaaaaaaaaaaaaaaa");
        begin();
        jsonw_string(&w, NULL, text, len);
        expect(want);
    }
}

TEST (test_valid_utf8_passes) {
    begin();
    jsonw_cstr(&w, NULL, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    expect("\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

#define FFFD "\xef\xbf\xbd"

/* An ill-formed sequence becomes U+FFFD, up to the byte that breaks it. */
static const struct {
    const char *in;
    const char *out;
} bad_utf8[] = {
    {"\xff", "\"" FFFD "\""},
    {"\x80", "\"" FFFD "\""},
    {"\xc0\xaf", "\"" FFFD FFFD "\""},          /* overlong / */
    {"\xe0\x80\xaf", "\"" FFFD FFFD FFFD "\""}, /* overlong */
    {"\xed\xa0\x80", "\"" FFFD FFFD FFFD "\""}, /* surrogate */
    {"\xf4\x90\x80\x80", "\"" FFFD FFFD FFFD FFFD "\""},
    {"\xe2\x82", "\"" FFFD "\""},     /* cut short */
    {"\xf0\x9f\x98", "\"" FFFD "\""}, /* as long as its replacement */
    {"\xe2\x28\xa1", "\"" FFFD "(" FFFD "\""},
};

TESTS (test_invalid_utf8_is_replaced, LENGTH(bad_utf8)) {
    begin();
    jsonw_cstr(&w, NULL, bad_utf8[_i].in);
    expect(bad_utf8[_i].out);
}

TEST (test_too_deep_is_overflow) {
    begin();
    for (int i = 0; i < JSONW_MAX_DEPTH; i++) {
        jsonw_array(&w, NULL);
    }
    ck_assert(out.overflow);
}

TEST (test_unbalanced_end_is_overflow) {
    begin();
    jsonw_object(&w, NULL);
    jsonw_object_end(&w);
    ck_assert(!out.overflow);
    jsonw_object_end(&w);
    ck_assert(out.overflow);
}

/* Writes to memory of exactly this size: a longer text overflows, and nothing
 * is written behind the memory. */
TEST (test_room_to_the_byte) {
    static const char whole[] =
        "{\"name\":\"plain text\",\"\":\"\",\"b\":[\"a\\\"b\",7,\"\\n\"]}";
    const size_t len = sizeof(whole) - 1;

    for (size_t cap = 0; cap <= len; cap++) {
        memset(mem, '#', sizeof(mem));
        buf_init(&out, mem, cap);
        jsonw_init(&w, &out);
        jsonw_object(&w, NULL);
        jsonw_cstr(&w, "name", "plain text");
        jsonw_string(&w, "", NULL, 0);
        jsonw_array(&w, "b");
        jsonw_cstr(&w, NULL, "a\"b");
        jsonw_int(&w, NULL, 7);
        jsonw_cstr(&w, NULL, "\n");
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        ck_assert_int_eq(out.overflow, cap < len);
        ck_assert_uint_le(out.len, cap);
        ck_assert_int_eq(mem[cap], '#');
    }
    ck_assert(out.len == len && memcmp(mem, whole, len) == 0);
}

int main(void)
{
    return run_case("jsonw", NULL);
}
