/* Strict JSON: what is taken, what is refused and why, and the limits. */

#include "helpers.h"

static pj_err_t parse_len(pj_str_t text)
{
    size_t cap = pj_json_arena_bytes(text.len, 1);
    unsigned char *mem = xmalloc(cap);
    const pj_json_t *root;
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem, cap);
    err = pj_json_parse(&arena, text, &root);
    ck_assert((err == PJ_OK) == (root != NULL));
    ck_assert_ptr_eq(arena.end, mem + cap); /* the scratch was given back */
    free(mem);
    return err;
}

static pj_err_t parse(const char *text)
{
    return parse_len(str(text));
}

/* Parses into memory that lives until the end of the test. */
static const pj_json_t *tree(const char *text)
{
    static unsigned char mem[1 << 20];
    const pj_json_t *root;
    pj_arena_t arena;

    pj_arena_init(&arena, mem, sizeof(mem));
    assert_ok(pj_json_parse(&arena, str(text), &root));
    return root;
}

static char *repeat(const char *before, const char *unit, size_t count,
                    const char *after)
{
    size_t n = strlen(unit), len = strlen(before);
    char *out = xmalloc(len + n * count + strlen(after) + 1);

    memcpy(out, before, len);
    for (size_t i = 0; i < count; i++, len += n)
        memcpy(out + len, unit, n);
    memcpy(out + len, after, strlen(after) + 1);
    return out;
}

TEST (test_values_of_every_type) {
    const pj_json_t *root =
        tree(" {\"s\":\"x\",\"n\":-1.5e+3,\"t\":true,\"f\":false,\"z\":null,"
             "\"a\":[1,\"two\",[]],\"o\":{\"k\":{}},\"\":\"\"}\r\n\t ");
    const pj_json_t *a = pj_json_member(root, "a");

    ck_assert_int_eq(root->type, PJ_JSON_OBJECT);
    ck_assert_uint_eq(root->count, 8);
    assert_str(root->child->name, "s");
    assert_str(pj_json_member(root, "s")->text, "x");
    ck_assert_int_eq(pj_json_member(root, "n")->type, PJ_JSON_NUMBER);
    assert_str(pj_json_member(root, "n")->text, "-1.5e+3");
    ck_assert(pj_json_member(root, "t")->boolean);
    ck_assert(!pj_json_member(root, "f")->boolean);
    ck_assert_int_eq(pj_json_member(root, "z")->type, PJ_JSON_NULL);
    ck_assert_int_eq(a->type, PJ_JSON_ARRAY);
    ck_assert_uint_eq(a->count, 3);
    assert_str(a->child->next->text, "two");
    ck_assert_uint_eq(a->child->next->next->count, 0);
    ck_assert_ptr_null(a->child->next->next->next);
    ck_assert_uint_eq(pj_json_member(pj_json_member(root, "o"), "k")->count, 0);
    ck_assert_uint_eq(pj_json_member(root, "")->text.len, 0);
    ck_assert_ptr_null(pj_json_member(root, "absent"));
    ck_assert_ptr_null(pj_json_member(a, "s"));
    ck_assert_ptr_null(pj_json_member(NULL, "s"));
}

TEST (test_scalar_roots) {
    assert_str(tree("123")->text, "123");
    assert_str(tree(" \"x\" ")->text, "x");
    assert_str(tree("\"\\u0041\"")->text, "A");
    ck_assert_int_eq(tree("null")->type, PJ_JSON_NULL);
    ck_assert(tree("true")->boolean);
}

TEST (test_escapes_are_resolved) {
    const pj_json_t *root =
        tree("{\"\\u006bid\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00"
             "\\u007f\",\"b\":\"\\u0062\"}");

    assert_str(pj_json_member(root, "kid")->text,
               "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80\x7f");
    assert_str(pj_json_member(root, "b")->text, "b");
}

TEST (test_malformed_text_refused) {
    static const char *const bad[] = {
        "",           " ",           "{",       "}",           "[",
        "]",          "[1",          "[1,",     "[1,]",        "[,1]",
        "[1 2]",      "[1}",         "{]",      "{\"a\"}",     "{\"a\":}",
        "{\"a\":1,}", "{,}",         "{a:1}",   "{'a':1}",     "{1:1}",
        "tru",        "truee",       "True",    "nul",         "nan",
        "Infinity",   "-",           "+1",      "01",          "-01",
        "1.",         ".5",          "1e",      "1e+",         "0x10",
        "1_0",        "\"",          "\"abc",   "\"\\\"",      "\"\\x41\"",
        "\"\\u12\"",  "\"\\u12g4\"", "\"\\",    "\"\\u",       "\"a\nb\"",
        "\"\t\"",     "\"\x01\"",    "\\u0041", "{\"a\":1}}",  "{}{}",
        "{} x",       "1 2",         "[] ,",    "\"a\" \"b\"", "{}/",
    };

    for (size_t i = 0; i < COUNT(bad); i++)
        ck_assert_msg(parse(bad[i]) == PJ_ERR_JSON_SYNTAX, "%s: %s", bad[i],
                      pj_errname(parse(bad[i])));
    assert_ok(parse("{\"a\":[1,0,-0,0.5,1E5,{}]}"));
}

TEST (test_comments_refused) {
    assert_ok(parse("{ }"));
    assert_err(parse("{/* */}"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("{}// x\n"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("/**/{}"), PJ_ERR_JSON_SYNTAX);
    assert_ok(parse("\"/* text */\""));
}

TEST (test_only_json_white_space) {
    assert_ok(parse("\t\n\r {\t\n\r }\t\n\r "));
    assert_err(parse("{\v}"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("{\f}"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("{}\f"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\xef\xbb\xbf{}"), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\xc2\xa0{}"), PJ_ERR_JSON_SYNTAX);
}

TEST (test_invalid_utf8_refused) {
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\xaf",
        "\xc1\xbf", /* overlong two */
        "\xe0\x80\xaf",
        "\xe0\x9f\xbf", /* overlong three */
        "\xf0\x80\x80\xaf",
        "\xf0\x8f\xbf\xbf", /* overlong four */
        "\xed\xa0\x80",
        "\xed\xbf\xbf",             /* surrogates */
        "\xed\xa0\xbd\xed\xb8\x80", /* CESU-8 pair */
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xfe",
        "\xff",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc3(",
        "\xe2(\xa1",
        "\xe2\x82(",
        "\xf0\x9f\x98(",
    };
    static const char *const good[] = {
        "\xc2\x80",         "\xdf\xbf",         "\xe0\xa0\x80",
        "\xed\x9f\xbf",     "\xee\x80\x80",     "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\x7f",
    };
    char text[64];

    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(text, sizeof(text), "\"%s\"", bad[i]);
        assert_err(parse(text), PJ_ERR_JSON_SYNTAX);
        snprintf(text, sizeof(text), "{\"plain text %s\":1}", bad[i]);
        assert_err(parse(text), PJ_ERR_JSON_SYNTAX);
        ck_assert(!pj_utf8_valid(str(bad[i])));
    }
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof(text), "\"%s\"", good[i]);
        assert_ok(parse(text));
        ck_assert(pj_utf8_valid(str(good[i])));
    }
}

TEST (test_lone_surrogate_escapes_refused) {
    assert_ok(parse("\"\\ud83d\\ude00\""));
    assert_ok(parse("\"\\uDBFF\\uDFFF\""));
    assert_ok(parse("\"\\ud7ff\\ue000\""));
    assert_ok(parse("\"\\\\ud800\"")); /* an escaped backslash */
    assert_err(parse("\"\\ud83d\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d \\ude00\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ude00\\ud83d\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ude00\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ude00\\ude00\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d\\ud83d\\ude00\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d\\u0041\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d\\n\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d\\ude0\""), PJ_ERR_JSON_SYNTAX);
    assert_err(parse("\"\\ud83d\\ude"), PJ_ERR_JSON_SYNTAX);
}

TEST (test_embedded_nul_refused) {
    assert_ok(parse_len(bytes("{\"kid\":\"a\"}", 11)));
    assert_err(parse_len(bytes("{\"kid\":\"a\0b\"}", 13)), PJ_ERR_JSON_NUL);
    assert_err(parse_len(bytes("{\"k\0d\":\"a\"}", 11)), PJ_ERR_JSON_NUL);
    assert_err(parse_len(bytes("{}\0", 3)), PJ_ERR_JSON_NUL);
    assert_err(parse("{\"kid\":\"a\\u0000b\"}"), PJ_ERR_JSON_NUL);
    assert_err(parse("{\"a\\u0000\":1}"), PJ_ERR_JSON_NUL);
    assert_ok(parse("\"\\\\u0000\""));
}

TEST (test_duplicate_members_refused) {
    assert_ok(parse("{\"a\":1,\"A\":2,\"b\":{\"a\":3},\"c\":[{\"a\":4},"
                    "{\"a\":5}]}"));
    assert_ok(parse("{\"b\":{\"x\":1,\"y\":2},\"x\":3,\"a\":{\"x\":4},"
                    "\"y\":[{\"b\":5}]}"));
    assert_err(parse("{\"a\":1,\"a\":1}"), PJ_ERR_JSON_DUPLICATE);
    assert_err(parse("{\"a\":1,\"b\":{},\"a\":2}"), PJ_ERR_JSON_DUPLICATE);
    assert_err(parse("{\"a\":1,\"\\u0061\":2}"), PJ_ERR_JSON_DUPLICATE);
    assert_err(parse("{\"\":1,\"\":2}"), PJ_ERR_JSON_DUPLICATE);
    assert_err(parse("[{\"x\":{\"y\":1,\"z\":2,\"y\":3}}]"),
               PJ_ERR_JSON_DUPLICATE);
    assert_err(parse("{\"a\":{\"p\":1,\"q\":2},\"b\":1,\"a\":2}"),
               PJ_ERR_JSON_DUPLICATE);
}

/* The last of 256 names collides with each of them in turn. */
TEST (test_duplicate_found_wherever_it_stands) {
    char text[256 * 12];

    for (unsigned dup = 0; dup < 255; dup++) {
        size_t len = 0;

        for (unsigned i = 0; i < 256; i++)
            len += (size_t) snprintf(text + len, sizeof(text) - len,
                                     "%c\"%u\":0", i == 0 ? '{' : ',',
                                     (i < 255 ? i : dup) * 7919 % 1009);
        snprintf(text + len, sizeof(text) - len, "}");
        assert_err(parse(text), PJ_ERR_JSON_DUPLICATE);
    }
}

static pj_err_t nested(const char *open, const char *middle, const char *shut,
                       size_t depth)
{
    char *head = repeat("", open, depth, middle);
    char *text = repeat(head, shut, depth, "");
    pj_err_t err = parse(text);

    free(head);
    free(text);
    return err;
}

TEST (test_depth_limit_and_7680_deep_nesting) {
    assert_ok(nested("[", "", "]", PJ_JSON_MAX_DEPTH));
    assert_ok(nested("[", "1", "]", PJ_JSON_MAX_DEPTH));
    assert_ok(nested("{\"a\":", "1", "}", PJ_JSON_MAX_DEPTH));
    assert_err(nested("[", "", "]", PJ_JSON_MAX_DEPTH + 1), PJ_ERR_JSON_DEPTH);
    assert_err(nested("{\"a\":", "1", "}", PJ_JSON_MAX_DEPTH + 1),
               PJ_ERR_JSON_DEPTH);
    assert_err(nested("[", "", "]", 7680), PJ_ERR_JSON_DEPTH);
    assert_err(nested("[", "", "", 65536), PJ_ERR_JSON_DEPTH);
    assert_err(nested("{\"a\":", "", "", 7680), PJ_ERR_JSON_DEPTH);
}

static pj_err_t object_of(unsigned members)
{
    size_t cap = members * 16 + 16, len = 0;
    char *text = xmalloc(cap);
    pj_err_t err;

    for (unsigned i = 0; i < members; i++)
        len += (size_t) snprintf(text + len, cap - len, "%c\"m%u\":0",
                                 i == 0 ? '{' : ',', i);
    snprintf(text + len, cap - len, "}");
    err = parse(text);
    free(text);
    return err;
}

TEST (test_member_limit) {
    assert_ok(object_of(PJ_JSON_MAX_MEMBERS));
    assert_err(object_of(PJ_JSON_MAX_MEMBERS + 1), PJ_ERR_JSON_LIMIT);
    assert_err(object_of(5000), PJ_ERR_JSON_LIMIT);
}

static pj_err_t array_of(size_t items)
{
    char *text = repeat("[0", ",0", items - 1, "]");
    pj_err_t err = parse(text);

    free(text);
    return err;
}

TEST (test_value_limit) {
    assert_ok(array_of(PJ_JSON_MAX_VALUES - 1)); /* the array counts too */
    assert_err(array_of(PJ_JSON_MAX_VALUES), PJ_ERR_JSON_LIMIT);
    assert_err(array_of(30000), PJ_ERR_JSON_LIMIT);
}

TEST (test_larger_value_limit) {
    char *text = repeat("[0", ",0", 29998, "]"); /* 30,000 values */
    size_t size = pj_json_large_arena_bytes(strlen(text), 30000);
    const pj_json_t *root;
    pj_arena_t arena;
    void *mem = malloc(size);

    ck_assert_ptr_nonnull(mem);
    pj_arena_init(&arena, mem, size);
    assert_ok(pj_json_parse_large(&arena, str(text), 30000, &root));
    ck_assert_uint_eq(root->count, 29999);
    pj_arena_init(&arena, mem, size);
    assert_err(pj_json_parse_large(&arena, str(text), 29999, &root),
               PJ_ERR_JSON_LIMIT);
    free(mem);
    free(text);
}

static void seconds_are(const char *text, int64_t down, int64_t up)
{
    int64_t got = 77;

    assert_ok(pj_json_seconds(tree(text), PJ_ROUND_DOWN, &got));
    ck_assert_int_eq(got, down);
    assert_ok(pj_json_seconds(tree(text), PJ_ROUND_UP, &got));
    ck_assert_int_eq(got, up);
}

static void no_seconds(const char *text)
{
    int64_t got;

    assert_err(pj_json_seconds(tree(text), PJ_ROUND_DOWN, &got),
               PJ_ERR_JSON_TYPE);
    assert_err(pj_json_seconds(tree(text), PJ_ROUND_UP, &got),
               PJ_ERR_JSON_TYPE);
}

TEST (test_whole_seconds) {
    int64_t out;

    seconds_are("0", 0, 0);
    seconds_are("-0", 0, 0);
    seconds_are("1700000000", 1700000000, 1700000000);
    seconds_are("-42", -42, -42);
    seconds_are("9223372036854775807", INT64_MAX, INT64_MAX);
    seconds_are("-9223372036854775808", INT64_MIN, INT64_MIN);
    seconds_are("1700000000.000", 1700000000, 1700000000);
    seconds_are("1.7e9", 1700000000, 1700000000);
    seconds_are("17E+8", 1700000000, 1700000000);
    seconds_are("17000000000e-1", 1700000000, 1700000000);
    seconds_are("0.0000000017e18", 1700000000, 1700000000);
    seconds_are("92233720368547758.07e2", INT64_MAX, INT64_MAX);
    no_seconds("9223372036854775808");
    no_seconds("-9223372036854775809");
    no_seconds("18446744073709551616");
    no_seconds("99999999999999999999999999");
    no_seconds("\"1\"");
    no_seconds("true");
    no_seconds("null");
    no_seconds("[1]");
    assert_err(pj_json_seconds(NULL, PJ_ROUND_UP, &out), PJ_ERR_JSON_TYPE);
}

TEST (test_fractions_of_a_second) {
    int64_t out;

    seconds_are("1.5", 1, 2);
    seconds_are("1700000000.0000000000000000001", 1700000000, 1700000001);
    seconds_are("15e-1", 1, 2);
    seconds_are("0.1", 0, 1);
    seconds_are("-0.1", -1, 0);
    seconds_are("-1.5", -2, -1);
    seconds_are("-0.0", 0, 0);
    assert_ok(
        pj_json_seconds(tree("9223372036854775807.5"), PJ_ROUND_DOWN, &out));
    ck_assert_int_eq(out, INT64_MAX);
    assert_err(
        pj_json_seconds(tree("9223372036854775807.5"), PJ_ROUND_UP, &out),
        PJ_ERR_JSON_TYPE);
    assert_ok(
        pj_json_seconds(tree("-9223372036854775808.5"), PJ_ROUND_UP, &out));
    ck_assert_int_eq(out, INT64_MIN);
    assert_err(
        pj_json_seconds(tree("-9223372036854775808.5"), PJ_ROUND_DOWN, &out),
        PJ_ERR_JSON_TYPE);
}

TEST (test_exponents_of_any_size) {
    char *zeros;

    no_seconds("1e19");
    no_seconds("-1e19");
    no_seconds("1e400");
    no_seconds("1e99999999999999999999999999");
    seconds_are("1e18", 1000000000000000000, 1000000000000000000);
    seconds_are("0e99999999999999999999999999", 0, 0);
    seconds_are("0.0e400", 0, 0);
    seconds_are("1e-400", 0, 1);
    seconds_are("-1e-99999999999999999999999999", -1, 0);
    zeros = repeat("0.", "0", 30000, "1e30001");
    seconds_are(zeros, 1, 1);
    free(zeros);
    zeros = repeat("1", "0", 30000, "e-30000");
    seconds_are(zeros, 1, 1);
    free(zeros);
}

TEST (test_what_is_no_number) {
    static const char *const bad[] = {"NaN", "Infinity", "-Infinity", "1.",
                                      ".5",  "1e",       "1e+",       "+1",
                                      "01",  "0x10",     "1.e5",      "--1"};

    for (size_t i = 0; i < COUNT(bad); i++)
        assert_err(parse(bad[i]), PJ_ERR_JSON_SYNTAX);
    assert_ok(parse("-1.5e+3"));
}

TEST (test_long_strings_plain_and_escaped) {
    char *plain = repeat("\"", "x", 60000, "\"");
    char *escaped = repeat("\"", "\\u00e9", 10000, "\"");
    char *unfinished = repeat("\"", "y", 60000, "");
    char *number = repeat("", "1", 60000, "");

    ck_assert_uint_eq(tree(plain)->text.len, 60000);
    ck_assert_uint_eq(tree(escaped)->text.len, 20000);
    ck_assert_uint_eq(tree(number)->text.len, 60000);
    assert_err(parse(unfinished), PJ_ERR_JSON_SYNTAX);
    free(plain);
    free(escaped);
    free(unfinished);
    free(number);
}

/* Strings without escapes point into the text: nothing is copied. */
TEST (test_plain_strings_are_borrowed) {
    static const char text[] = "{\"name\":\"value\"}";
    const pj_json_t *root = tree(text);

    ck_assert_ptr_eq(root->child->name.data, text + 2);
    ck_assert_ptr_eq(root->child->text.data, text + 9);
}

/* No line of a log steers the terminal that shows it. */
TEST (test_escape_what_steers_a_terminal) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\x1b[2J\x7f", "\\u001b[2J\\u007f"},
        {"\xc2\x80 \xc2\x9b \xc2\x9f", "\\u0080 \\u009b \\u009f"},
        {"\xd8\x9c", "\\u061c"},
        {"\xe2\x80\x8e \xe2\x80\x8f", "\\u200e \\u200f"},
        {"\xe2\x80\xa8 \xe2\x80\xae", "\\u2028 \\u202e"},
        {"\xe2\x81\xa6 \xe2\x81\xa9", "\\u2066 \\u2069"},
        /* their neighbours */
        {"\xc2\xa0 \xd8\x9b \xe2\x80\x8d \xe2\x80\x90",
         "\xc2\xa0 \xd8\x9b \xe2\x80\x8d \xe2\x80\x90"},
        {"\xe2\x80\xa7 \xe2\x80\xaf \xe2\x81\xa5 \xe2\x81\xaa",
         "\xe2\x80\xa7 \xe2\x80\xaf \xe2\x81\xa5 \xe2\x81\xaa"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char got[64], json[80];
        size_t n = pj_json_escape(got, str(cases[i].text));

        ck_assert_msg(n == strlen(cases[i].want) &&
                          memcmp(got, cases[i].want, n) == 0,
                      "%zu: %.*s", i, (int) n, got);
        ck_assert_uint_eq(pj_json_escape(NULL, str(cases[i].text)), n);
        snprintf(json, sizeof(json), "\"%.*s\"", (int) n, got);
        ck_assert(pj_str_eq(tree(json)->text, str(cases[i].text)));
    }
}

/* Text is looked at in words of eight bytes: each byte, at every place of a
 * text longer than two words, is escaped as it is alone, and parsed back. */
TEST (test_escape_every_byte_at_every_place) {
    const size_t len = 19;
    unsigned char text[19], mem[8192];
    char alone[8], want[64], got[64];

    for (int c = 0; c < 256; c++) {
        size_t n = pj_json_escape(
            alone, bytes(&(unsigned char){(unsigned char) c}, 1));

        for (size_t at = 0; at < len; at++) {
            memset(text, 'a', len);
            text[at] = (unsigned char) c;
            memset(want, 'a', sizeof(want));
            memcpy(want + at, alone, n);
            ck_assert_uint_eq(pj_json_escape(NULL, bytes(text, len)),
                              len - 1 + n);
            ck_assert_uint_eq(pj_json_escape(got, bytes(text, len)),
                              len - 1 + n);
            ck_assert_mem_eq(got, want, len - 1 + n);
            ck_assert_int_eq(pj_json_plain(bytes(text, len)), n == 1);
        }
        if (c != 0) {
            char json[80];
            const pj_json_t *root;
            pj_arena_t arena;

            snprintf(json, sizeof(json), "\"%.*s\"", (int) (len - 1 + n), got);
            pj_arena_init(&arena, mem, sizeof(mem));
            assert_ok(pj_json_parse(&arena, str(json), &root));
            ck_assert(c >= 0x80 || pj_str_eq(root->text, bytes(text, len)));
        }
    }
}

int main(void)
{
    return run_case("json", fill_plain);
}
