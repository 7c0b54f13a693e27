/* The arguments of an operator's command: one table each, one parser. */

#include "cmd/cmd.h"

#include <getopt.h>
#include <string.h>

#define COMMON 3
#define FIRST 256 /* what getopt_long() calls the first option */

const struct cmd_option cmd_common_options[COMMON + 1] = {
    {"json", NULL, "print the result as JSON", 0},
    {"env-file", "FILE", "settings, as for serving", 0},
    {"help", NULL, "print this text", 0},
};

struct parser {
    const struct cmd_spec *spec;
    struct cmd_args *out;
    char *err;
    size_t err_cap;
};

static bool fail(const struct parser *p, const char *what, const char *name)
{
    snprintf(p->err, p->err_cap, "%s: %s%s; try identity-fcgi %s --help",
             p->spec->words, what, name, p->spec->words);
    return false;
}

/* What is no option of ours is shown only as far as it looks like one. */
static bool unknown(const struct parser *p, const char *arg)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
    static const char *const secrets[] = {"--credential", "--password",
                                          "--secret", "--token"};
    size_t len = strcspn(arg, "=");
    char name[32];

    if (len >= sizeof(name) || strspn(arg, letters) < len || len < 3) {
        return fail(p, "unknown option", "");
    }
    snprintf(name, sizeof(name), "%.*s", (int) len, arg);
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        if (strcmp(name, secrets[i]) == 0) {
            return fail(p,
                        "secrets are read from standard input, never from "
                        "the command line",
                        "");
        }
    }
    return fail(p, "unknown option ", name);
}

static bool is_given(const struct cmd_args *args,
                     const struct cmd_option *option)
{
    for (size_t i = 0; i < args->given_count; i++) {
        if (args->given[i].option == option) {
            return true;
        }
    }
    return false;
}

static bool keep(const struct parser *p, const struct cmd_option *option,
                 const char *value)
{
    struct cmd_args *out = p->out;

    if ((option->flags & CMD_MANY) == 0 && is_given(out, option)) {
        return fail(p, "given twice: --", option->name);
    }
    if (out->given_count == CMD_MAX_GIVEN) {
        return fail(p, "given too often: --", option->name);
    }
    out->given[out->given_count].option = option;
    out->given[out->given_count].value = value;
    out->given_count++;
    return true;
}

static bool parse_operand(const struct parser *p, const char *arg)
{
    if (p->spec->operand == NULL) {
        return fail(p, "unexpected argument", "");
    }
    if (p->out->operand != NULL) {
        return fail(p, "takes one argument: ", p->spec->operand);
    }
    if (arg[0] == '\0') {
        return fail(p, "may not be empty: ", p->spec->operand);
    }
    p->out->operand = arg;
    return true;
}

static bool check_complete(const struct parser *p)
{
    if (p->spec->operand != NULL && p->out->operand == NULL) {
        return fail(p, "needs ", p->spec->operand);
    }
    for (size_t i = 0; i < CMD_MAX_OPTIONS && p->spec->options[i].name != NULL;
         i++) {
        const struct cmd_option *option = &p->spec->options[i];

        if ((option->flags & CMD_NEEDED) != 0 && !is_given(p->out, option)) {
            return fail(p, "needs --", option->name);
        }
    }
    return true;
}

/* The options of one command, as getopt_long() has them. */
static void list_options(const struct cmd_spec *spec,
                         const struct cmd_option **table, struct option *longs)
{
    int n = 0;

    for (int i = 0; i < CMD_MAX_OPTIONS && spec->options[i].name != NULL;
         i++) {
        table[n++] = &spec->options[i];
    }
    for (int i = 0; i < COMMON; i++) {
        table[n++] = &cmd_common_options[i];
    }
    for (int i = 0; i < n; i++) {
        longs[i] = (struct option){table[i]->name,
                                   table[i]->value != NULL ? required_argument
                                                           : no_argument,
                                   NULL, FIRST + i};
    }
    longs[n] = (struct option){NULL, 0, NULL, 0};
}

/* What getopt_long() returned for arg, and of which option that is.  Options
 * have to be written out: an abbreviation may mean another one tomorrow. */
static bool parse_one(const struct parser *p, const struct cmd_option *option,
                      int got, const char *arg)
{
    if (got == 1) {
        return parse_operand(p, optarg);
    }
    if (option == NULL || strncmp(arg, "--", 2) != 0 ||
        strcspn(arg + 2, "=") != strlen(option->name)) {
        return unknown(p, arg);
    }
    if (got == ':' || (optarg != NULL && optarg[0] == '\0')) {
        return fail(p, "needs a value: --", option->name);
    }
    if (got == '?') {
        return fail(p, "takes no value: --", option->name);
    }
    return keep(p, option, optarg);
}

bool cmd_args_parse(const struct cmd_spec *spec, int argc, char *const *argv,
                    struct cmd_args *out, char *err, size_t err_cap)
{
    const struct cmd_option *table[CMD_MAX_OPTIONS + COMMON];
    struct option longs[CMD_MAX_OPTIONS + COMMON + 1];
    struct parser p = {spec, out, err, err_cap};
    int got, at = 1;

    memset(out, 0, sizeof(*out));
    list_options(spec, table, longs);
    opterr = 0; /* it would repeat what was given */
    optind = 0; /* from the beginning */
    while ((got = getopt_long(argc, argv, "-:h", longs, NULL)) != -1) {
        int which = (got == ':' || got == '?' ? optopt : got) - FIRST;

        out->help = got == 'h' && strcmp(argv[at], "-h") == 0;
        if (!out->help &&
            !parse_one(&p, which >= 0 ? table[which] : NULL, got, argv[at])) {
            return false;
        }
        if (out->help || cmd_args_flag(out, "help")) {
            out->help = true;
            return true;
        }
        at = optind;
    }
    for (int i = optind; i < argc; i++) {
        if (!parse_operand(&p, argv[i])) {
            return false;
        }
    }
    out->json = cmd_args_flag(out, "json");
    out->env_file = cmd_args_value(out, "env-file");
    return check_complete(&p);
}

const char *cmd_args_value(const struct cmd_args *args, const char *name)
{
    const char *value = NULL;

    return cmd_args_values(args, name, &value, 1) > 0 ? value : NULL;
}

bool cmd_args_flag(const struct cmd_args *args, const char *name)
{
    return cmd_args_values(args, name, NULL, 0) > 0;
}

size_t cmd_args_values(const struct cmd_args *args, const char *name,
                       const char **out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < args->given_count; i++) {
        if (strcmp(args->given[i].option->name, name) != 0) {
            continue;
        }
        if (n < cap) {
            out[n] = args->given[i].value;
        }
        n++;
    }
    return n;
}
