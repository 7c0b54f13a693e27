/* The arguments of an operator's command: one table each, one parser. */

#include "cmd/cmd_args.h"

#include <stdio.h>
#include <string.h>

const struct cmd_option cmd_common_options[] = {
    {"json", NULL, "print the result as JSON", false, false},
    {"env-file", "FILE", "settings, as for serving", false, false},
    {"help", NULL, "print this text", false, false},
    {.name = NULL},
};

struct parser {
    const struct cmd_spec *spec;
    struct cmd_args *out;
    char *err;
    size_t err_cap;
};

static bool fail(const struct parser *p, const char *what, const char *name)
{
    bool verb = p->spec->verb != NULL;

    snprintf(p->err, p->err_cap,
             "%s%s%s: %s%s; try identity-fcgi %s%s%s --help", p->spec->group,
             verb ? " " : "", verb ? p->spec->verb : "", what, name,
             p->spec->group, verb ? " " : "", verb ? p->spec->verb : "");
    return false;
}

static const struct cmd_option *find(const struct cmd_option *table,
                                     const char *name, size_t len)
{
    for (size_t i = 0; i < CMD_MAX_OPTIONS && table[i].name != NULL; i++) {
        if (strlen(table[i].name) == len &&
            memcmp(table[i].name, name, len) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* What is no option of ours is shown only as far as it looks like one. */
static bool unknown(const struct parser *p, const char *arg, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
    static const char *const secrets[] = {"--credential", "--password",
                                          "--secret", "--token"};
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

    if (!option->many && is_given(out, option)) {
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

/* One option at argv[*i]; takes the next argument where that is its value. */
static bool parse_option(const struct parser *p, int argc, char *const *argv,
                         int *i)
{
    const char *arg = argv[*i];
    size_t len = strcspn(arg, "=");
    const char *value = arg[len] == '=' ? arg + len + 1 : NULL;
    const struct cmd_option *option = NULL;

    if (strcmp(arg, "-h") == 0) {
        arg = "--help";
        len = strlen(arg);
    }
    if (len > 2 && arg[1] == '-') {
        option = find(p->spec->options, arg + 2, len - 2);
        if (option == NULL) {
            option = find(cmd_common_options, arg + 2, len - 2);
        }
    }
    if (option == NULL) {
        return unknown(p, arg, len);
    }
    if (option->value == NULL) {
        return value == NULL ? keep(p, option, NULL)
                             : fail(p, "takes no value: --", option->name);
    }
    if (value == NULL && *i + 1 < argc) {
        value = argv[++*i];
    }
    return value != NULL && value[0] != '\0'
               ? keep(p, option, value)
               : fail(p, "needs a value: --", option->name);
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

        if (option->required && !is_given(p->out, option)) {
            return fail(p, "needs --", option->name);
        }
    }
    return true;
}

bool cmd_args_parse(const struct cmd_spec *spec, int argc, char *const *argv,
                    struct cmd_args *out, char *err, size_t err_cap)
{
    struct parser p = {spec, out, err, err_cap};
    bool options = true;

    memset(out, 0, sizeof(*out));
    for (int i = 0; i < argc; i++) {
        bool is_option = options && argv[i][0] == '-' && argv[i][1] != '\0';

        if (is_option && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (!(is_option ? parse_option(&p, argc, argv, &i)
                               : parse_operand(&p, argv[i]))) {
            return false;
        }
        if (cmd_args_flag(out, "help")) {
            out->help = true;
            return true;
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
