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

static bool fail(struct cmd_args *args, const char *what, const char *name)
{
    snprintf(args->err, sizeof(args->err),
             "%s: %s%s; try identity-fcgi %s --help", args->spec->words, what,
             name, args->spec->words);
    return false;
}

/* What is no option of ours is shown only as far as it looks like one. */
static bool unknown(struct cmd_args *args, const char *arg)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
    static const char *const secrets[] = {"--credential", "--password",
                                          "--secret", "--token"};
    size_t len = strcspn(arg, "=");
    char name[32];

    if (len >= sizeof(name) || strspn(arg, letters) < len || len < 3) {
        return fail(args, "unknown option", "");
    }
    snprintf(name, sizeof(name), "%.*s", (int) len, arg);
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        if (strcmp(name, secrets[i]) == 0) {
            return fail(args,
                        "secrets are read from standard input, never from "
                        "the command line",
                        "");
        }
    }
    return fail(args, "unknown option ", name);
}

static bool keep(struct cmd_args *args, const struct cmd_option *option,
                 const char *value)
{
    if ((option->flags & CMD_MANY) == 0 && cmd_args_flag(args, option->name)) {
        return fail(args, "given twice: --", option->name);
    }
    if (args->given_count == CMD_MAX_GIVEN) {
        return fail(args, "given too often: --", option->name);
    }
    args->given[args->given_count].option = option;
    args->given[args->given_count].value = value;
    args->given_count++;
    return true;
}

static bool parse_operand(struct cmd_args *args, const char *arg)
{
    if (args->spec->operand == NULL) {
        return fail(args, "unexpected argument", "");
    }
    if (args->operand != NULL) {
        return fail(args, "takes one argument: ", args->spec->operand);
    }
    if (arg[0] == '\0') {
        return fail(args, "may not be empty: ", args->spec->operand);
    }
    args->operand = arg;
    return true;
}

static bool check_complete(struct cmd_args *args)
{
    if (args->spec->operand != NULL && args->operand == NULL) {
        return fail(args, "needs ", args->spec->operand);
    }
    for (const struct cmd_option *o = args->spec->options; o->name != NULL;
         o++) {
        if ((o->flags & CMD_NEEDED) != 0 && !cmd_args_flag(args, o->name)) {
            return fail(args, "needs --", o->name);
        }
    }
    return true;
}

/* The options of one command, as getopt_long() has them. */
static void list_options(const struct cmd_spec *spec,
                         const struct cmd_option **table, struct option *longs)
{
    int n = 0;

    for (const struct cmd_option *o = spec->options; o->name != NULL; o++) {
        table[n++] = o;
    }
    for (const struct cmd_option *o = cmd_common_options; o->name != NULL;
         o++) {
        table[n++] = o;
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
static bool parse_one(struct cmd_args *args, const struct cmd_option *option,
                      int got, const char *arg)
{
    if (got == 1) {
        return parse_operand(args, optarg);
    }
    if (option == NULL || strncmp(arg, "--", 2) != 0 ||
        strcspn(arg + 2, "=") != strlen(option->name)) {
        return unknown(args, arg);
    }
    if (got == ':' || (optarg != NULL && optarg[0] == '\0')) {
        return fail(args, "needs a value: --", option->name);
    }
    if (got == '?') {
        return fail(args, "takes no value: --", option->name);
    }
    return keep(args, option, optarg);
}

bool cmd_args_parse(const struct cmd_spec *spec, int argc, char *const *argv,
                    struct cmd_args *out)
{
    const struct cmd_option *table[CMD_MAX_OPTIONS + COMMON];
    struct option longs[CMD_MAX_OPTIONS + COMMON + 1];
    int got, at = 1;

    memset(out, 0, sizeof(*out));
    out->spec = spec;
    list_options(spec, table, longs);
    opterr = 0; /* it would repeat what was given */
    optind = 0; /* from the beginning */
    while ((got = getopt_long(argc, argv, "-:h", longs, NULL)) != -1) {
        int which = (got == ':' || got == '?' ? optopt : got) - FIRST;

        out->help = got == 'h' && strcmp(argv[at], "-h") == 0;
        if (!out->help &&
            !parse_one(out, which >= 0 ? table[which] : NULL, got, argv[at])) {
            return false;
        }
        if (out->help || cmd_args_flag(out, "help")) {
            out->help = true;
            return true;
        }
        at = optind;
    }
    for (int i = optind; i < argc; i++) {
        if (!parse_operand(out, argv[i])) {
            return false;
        }
    }
    out->json = cmd_args_flag(out, "json");
    out->env_file = cmd_args_value(out, "env-file");
    return check_complete(out);
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
