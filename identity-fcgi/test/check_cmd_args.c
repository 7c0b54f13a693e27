/* The arguments of commands, account names, parts of a sweep. */

#include "base/parse.h"
#include "cmd/cmd_main.h"
#include "store/sweep.h"
#include "testing.h"

#include <stdio.h>

#define ARGS(...)                                                              \
    (char *const[])                                                            \
    {                                                                          \
        (char *) "thing", __VA_ARGS__, NULL                                    \
    }

static const struct cmd_spec thing_add = {
    .words = "thing add",
    .operand = "NAME",
    .options = {{"size", "N", "", CMD_NEEDED},
                {"tag", "TAG", "", CMD_MANY},
                {"quick", NULL, "", 0}},
};

static const struct cmd_spec bare = {.words = "bare"};

static struct cmd args;

static bool parse_count(const struct cmd_spec *spec, int argc,
                        char *const *argv)
{
    memset(&args, 0, sizeof(args));
    args.spec = spec;
    return cmd_main_parse(&args, argc, argv);
}

static bool parse(const struct cmd_spec *spec, char *const *argv)
{
    int argc = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    return parse_count(spec, argc, argv);
}

TEST (test_options_stand_anywhere) {
    const char *tags[3] = {NULL, NULL, NULL};

    ck_assert(parse(&thing_add, ARGS("--size", "3", "n", "--tag=a", "--quick",
                                     "--tag", "b=c", "--json")));
    ck_assert_str_eq(args.operand, "n");
    ck_assert_str_eq(cmd_get(&args, "size"), "3");
    ck_assert_uint_eq(cmd_given(&args, "tag", tags, 3), 2);
    ck_assert_str_eq(tags[0], "a");
    ck_assert_str_eq(tags[1], "b=c");
    ck_assert_str_eq(cmd_get(&args, "quick"), "t");
    ck_assert(args.json);
    ck_assert_ptr_null(cmd_get(&args, "env-file"));
}

TEST (test_what_was_not_given_is_not_there) {
    ck_assert(parse(&thing_add, ARGS("n", "--size=1")));
    ck_assert(!args.json);
    ck_assert_ptr_null(cmd_get(&args, "quick"));
    ck_assert_ptr_null(cmd_get(&args, "tag"));
    ck_assert(parse(&bare, ARGS("--env-file", "f")));
    ck_assert_str_eq(cmd_get(&args, "env-file"), "f");
    ck_assert_ptr_null(args.operand);
}

TEST (test_two_dashes_end_options) {
    ck_assert(parse(&thing_add, ARGS("--size", "1", "--", "--quick")));
    ck_assert_str_eq(args.operand, "--quick");
    ck_assert_ptr_null(cmd_get(&args, "quick"));
    ck_assert(parse(&thing_add, ARGS("--size", "1", "-")));
    ck_assert_str_eq(args.operand, "-");
    /* The value of an option may look like one. */
    ck_assert(parse(&thing_add, ARGS("n", "--size", "--quick")));
    ck_assert_str_eq(cmd_get(&args, "size"), "--quick");
}

TEST (test_help_leaves_the_rest_unchecked) {
    ck_assert(parse(&thing_add, ARGS("--help")));
    ck_assert(args.help);
    ck_assert(parse(&thing_add, ARGS("n", "-h", "--frob")));
    ck_assert(args.help);
}

/* One line that has what, and none of the values "SECRET". */
static void refused(const struct cmd_spec *spec, char *const *argv,
                    const char *what)
{
    ck_assert(!parse(spec, argv));
    ck_assert_msg(strstr(args.line, what) != NULL, "%s: %s", what, args.line);
    ck_assert_ptr_null(strstr(args.line, "SECRET"));
    ck_assert_ptr_null(strchr(args.line, '\n'));
}

TEST (test_mistakes_are_named) {
    refused(&thing_add, ARGS("--size", "1"), "thing add: needs NAME; try");
    refused(&thing_add, ARGS("n"), "needs --size");
    refused(&thing_add, ARGS("n", "--size"), "needs a value: --size");
    refused(&thing_add, ARGS("n", "--size="), "needs a value: --size");
    refused(&thing_add, ARGS("n", "--quick=SECRET"), "takes no value: --quick");
    refused(&thing_add, ARGS("n", "--size=1", "--size=SECRET"),
            "given twice: --size");
    refused(&thing_add, ARGS("n", "--quick", "--quick"),
            "given twice: --quick");
    refused(&thing_add, ARGS(""), "may not be empty: NAME");
    refused(&bare, ARGS("SECRET"), "bare: unexpected argument; try");
    refused(&bare, ARGS("--size=SECRET"), "unknown option --size");
}

TEST (test_secrets_in_the_wrong_place_are_not_repeated) {
    refused(&thing_add, ARGS("n", "SECRET"), "takes one argument: NAME");
    refused(&thing_add, ARGS("n", "--credential=SECRET"), "standard input");
    refused(&thing_add, ARGS("n", "--token", "SECRET"), "standard input");
    refused(&thing_add, ARGS("n", "--SECRET"), "unknown option;");
    refused(&thing_add, ARGS("n", "-pSECRET"), "unknown option;");
    refused(&thing_add, ARGS("n", "--frob=SECRET"), "unknown option --frob;");
    refused(&thing_add, ARGS("n", "--size=1", "--", "SECRET"),
            "takes one argument: NAME");
}

TEST (test_options_are_not_abbreviated) {
    refused(&thing_add, ARGS("n", "--si=1"), "unknown option --si;");
    refused(&thing_add, ARGS("n", "--size=1", "--qui"),
            "unknown option --qui;");
    refused(&thing_add, ARGS("n", "--ta", "SECRET"), "unknown option --ta;");
    refused(&thing_add, ARGS("n", "--ta"), "unknown option --ta;");
    refused(&thing_add, ARGS("n", "-h="), "unknown option;");
    refused(&thing_add, ARGS("n", "-h2SECRET"), "unknown option;");
}

TEST (test_many_values_are_bounded) {
    char *argv[CMD_MAX_GIVEN + 4] = {(char *) "add", (char *) "n",
                                     (char *) "--size=1"};
    const char *tags[2];

    for (int i = 3; i < CMD_MAX_GIVEN + 3; i++) {
        argv[i] = (char *) "--tag=t";
    }
    ck_assert(!parse_count(&thing_add, CMD_MAX_GIVEN + 3, argv));
    ck_assert_ptr_nonnull(strstr(args.line, "given too often: --tag"));
    ck_assert(parse_count(&thing_add, CMD_MAX_GIVEN + 2, argv));
    ck_assert_uint_eq(cmd_given(&args, "tag", tags, 2), CMD_MAX_GIVEN - 1);
}

TEST (test_account_names_fold) {
    static const struct {
        const char *given, *folded, *wrong;
    } names[] = {
        {" \t\r\nAb C\n", "ab c", NULL},
        {"\xc3\x84@[`{Z", "\xc3\x84@[`{z", NULL},
        {"a b\xc3\x84\xc2\xa0", "a b\xc3\x84\xc2\xa0", NULL},
        {" \n", "", "be 1 to 320 bytes"},
        {"a\tb", "a\tb", "not hold control characters"},
        {"a\x7f", "a\x7f", "not hold control characters"},
        {"a\xc2\x85", "a\xc2\x85", "not hold control characters"},
    };
    unsigned char mem[ACCOUNT_NAME_MAX + 1], text[ACCOUNT_NAME_MAX + 1];
    pj_str_t long_name = {text, sizeof(text)}, name;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *wrong = parse_account_name(str(names[i].given), mem, &name);

        ck_assert(is(name, names[i].folded));
        ck_assert_pstr_eq(wrong, names[i].wrong);
    }
    memset(text, 'a', sizeof(text));
    ck_assert_str_eq(parse_account_name(long_name, mem, &name),
                     "be 1 to 320 bytes");
    long_name.len--;
    ck_assert_ptr_null(parse_account_name(long_name, mem, &name));
}

/* Parts follow each other and cover every block once. */
static unsigned cover(uint64_t blocks)
{
    uint64_t cursor = 0, first, count;
    unsigned parts = 0;

    do {
        sweep_part(blocks, cursor, &first, &count);
        ck_assert_uint_eq(first, cursor);
        ck_assert(count > 0 && first + count <= blocks);
        cursor = first + count;
        parts++;
    } while (cursor < blocks);
    return parts;
}

TEST (test_sweep_parts_cover_the_table) {
    uint64_t first, count;

    ck_assert_uint_eq(cover(1), 1);
    ck_assert_uint_eq(cover(4096), 1);
    ck_assert_uint_eq(cover(4097), 2);
    ck_assert_uint_eq(cover(1000001), 65);
    ck_assert_uint_eq(cover(64000000), 64);
    sweep_part(0, 77, &first, &count);
    ck_assert_uint_eq(count, 0);
    /* A small table goes whole, wherever the cursor is. */
    sweep_part(100, 99, &first, &count);
    ck_assert_uint_eq(first, 0);
    ck_assert_uint_eq(count, 100);
    /* A cursor from anywhere is one of the table's. */
    sweep_part(10000, 25000, &first, &count);
    ck_assert_uint_eq(first, 5000);
    ck_assert_uint_eq(count, 4096);
}

int main(void)
{
    return run_case("cmd_args", NULL);
}
