/* The operator's commands: finding, help, parsing, running. */

#include "cmd/cmd_main.h"

#include "cmd/cmd_lookup.h"
#include "cmd/cmd_out.h"
#include "cmd/cmd_problem.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct cmd_option common_options[] = {
    {"json", NULL, .help = "print the result as JSON"},
    {"env-file", "FILE", .help = "read settings from FILE"},
    {"help", NULL, .help = "print this text"},
    {.name = NULL}};

/* -- finding -- */

/* Returns row n of all tables, or NULL. */
static const struct cmd_spec *spec_at(size_t n)
{
    const struct cmd_spec *const tables[] = {
        cmd_accounts, cmd_imports, cmd_places,   cmd_lookups,
        cmd_factors,  cmd_clients, cmd_services, cmd_key_files};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct cmd_spec *s = tables[i]; s->words != NULL; s++) {
            if (n-- == 0) {
                return s;
            }
        }
    }
    return NULL;
}

/* Returns the words of s after this first word, possibly "", or NULL. */
static const char *words_after(const struct cmd_spec *s, const char *word)
{
    const char *rest = s->words + strcspn(s->words, " ");
    size_t len = (size_t) (rest - s->words);

    return strlen(word) == len && memcmp(s->words, word, len) == 0
               ? rest + strspn(rest, " ")
               : NULL;
}

/* Finds a command by its group and the words after it.  Returns the group's
 * first command if second is NULL. */
static const struct cmd_spec *find(const char *group, const char *second)
{
    const struct cmd_spec *s;

    for (size_t i = 0; (s = spec_at(i)) != NULL; i++) {
        const char *rest = words_after(s, group);

        if (rest != NULL && (second == NULL || strcmp(rest, second) == 0)) {
            return s;
        }
    }
    return NULL;
}

bool cmd_main_knows(const char *word)
{
    return find(word, NULL) != NULL;
}

/* -- help -- */

static const char *join(char out[64], const char *one, const char *two)
{
    snprintf(out, 64, "%s%s%s", one, two != NULL ? " " : "",
             two != NULL ? two : "");
    return out;
}

void cmd_main_list(const char *group)
{
    const struct cmd_spec *s;
    char text[64];

    for (size_t i = 0; (s = spec_at(i)) != NULL; i++) {
        if (group == NULL || words_after(s, group) != NULL) {
            printf("  %-32s %s\n", join(text, s->words, s->operand),
                   s->purpose);
        }
    }
}

static void print_options(const struct cmd_option *o)
{
    char text[64];

    for (; o->name != NULL; o++) {
        printf("  --%-22s %s%s%s\n", join(text, o->name, o->value), o->help,
               (o->flags & CMD_NEEDED) != 0 ? " (required)" : "",
               (o->flags & CMD_MANY) != 0 ? "; may be repeated" : "");
    }
}

static void help_command(const struct cmd_spec *s)
{
    char text[64];

    printf("usage: identity-fcgi %s", join(text, s->words, s->operand));
    for (const struct cmd_option *o = s->options; o->name != NULL; o++) {
        if ((o->flags & CMD_NEEDED) != 0) {
            printf(" --%s %s", o->name, o->value);
        }
    }
    printf(" [...]\n\n%c%s.\n%s%s\noptions:\n",
           toupper((unsigned char) *s->purpose), s->purpose + 1,
           s->more != NULL ? "\n" : "", s->more != NULL ? s->more : "");
    print_options(s->options);
    print_options(common_options);
}

static bool refuse_word(struct cmd *c, const char *group)
{
    char mem[256];
    const struct cmd_spec *s;
    struct buf verbs;

    buf_init(&verbs, mem, sizeof(mem));
    for (size_t i = 0; (s = spec_at(i)) != NULL; i++) {
        if (words_after(s, group) != NULL) {
            buf_addf(&verbs, "%s%s", verbs.len > 0 ? ", " : "",
                     words_after(s, group));
        }
    }
    return cmd_misused(c, "%s: which of %.*s? try identity-fcgi %s --help",
                       group, (int) verbs.len, mem, group);
}

/* -- parsing -- */

/* Refuses an option or argument; name is "" if it must not be shown. */
static bool refuse(struct cmd *c, enum fault_code code, const char *what,
                   const char *name)
{
    bool first = c->line[0] == '\0';

    if (first) {
        (void) cmd_misused(c, "%s: %s%s; try identity-fcgi %s --help",
                           c->spec->words, what, name, c->spec->words);
    }
    fault_add(&c->faults, (struct fault){.code = code, .parameter = name});
    return false;
}

/* Shows an unknown option only if it looks like an option, not like a
 * secret. */
static bool unknown(struct cmd *c, const char *arg)
{
    size_t len = strcspn(arg, "=");
    char name[32];

    if (len >= sizeof(name) - 2 || len < 3 ||
        strspn(arg, "abcdefghijklmnopqrstuvwxyz-") < len) {
        return refuse(c, FAULT_UNKNOWN, "unknown option", "");
    }
    snprintf(name, sizeof(name), "%.*s ", (int) len, arg);
    if (strstr("--credential --password --secret --token ", name) != NULL) {
        return refuse(c, FAULT_NOT_ALLOWED,
                      "secrets are read from standard input, never from the "
                      "command line",
                      "");
    }
    name[len] = '\0';
    (void) cmd_misused(c, "%s: unknown option %s; try identity-fcgi %s --help",
                       c->spec->words, name, c->spec->words);
    return refuse(c, FAULT_UNKNOWN, "", "");
}

/* Accepts no abbreviations, which might become ambiguous. */
static const struct cmd_option *find_option(const struct cmd_option *o,
                                            const char *arg, size_t len)
{
    while (o->name != NULL &&
           (len != strlen(o->name) + 2 || strncmp(arg, "--", 2) != 0 ||
            memcmp(o->name, arg + 2, len - 2) != 0)) {
        o++;
    }
    return o;
}

/* Parses the option argv[*i] and its value, which may be the next argument. */
static bool parse_option(struct cmd *c, int argc, char *const *argv, int *i)
{
    const char *arg = argv[*i], *value = strchr(arg, '='), *wrong = NULL;
    size_t len = strcspn(arg, "=");
    const struct cmd_option *o = find_option(c->spec->options, arg, len);
    enum fault_code code = FAULT_MALFORMED;

    if (o->name == NULL) {
        o = find_option(common_options, arg, len);
    }
    if (o->name == NULL) {
        return unknown(c, arg);
    }
    if (o->value == NULL) {
        wrong = value != NULL ? "takes no value: --" : NULL;
        value = "t";
    } else if (value != NULL) {
        value++;
    } else if (*i + 1 < argc) {
        value = argv[++*i];
    }
    if (value == NULL || value[0] == '\0') {
        wrong = "needs a value: --";
        code = FAULT_MISSING;
    } else if ((o->flags & CMD_MANY) == 0 && cmd_get(c, o->name) != NULL) {
        wrong = "given twice: --";
    } else if (c->given_count == CMD_MAX_GIVEN) {
        wrong = "given too often: --";
    }
    if (wrong != NULL) {
        return refuse(c, code, wrong, o->name);
    }
    c->given[c->given_count].option = o;
    c->given[c->given_count++].value = value;
    return true;
}

static bool parse_operand(struct cmd *c, const char *arg)
{
    const char *operand = c->spec->operand;

    if (operand == NULL || c->operand != NULL || arg[0] == '\0') {
        return refuse(c, operand == NULL ? FAULT_UNKNOWN : FAULT_MALFORMED,
                      operand == NULL      ? "unexpected argument"
                      : c->operand != NULL ? "takes one argument: "
                                           : "may not be empty: ",
                      operand != NULL ? operand : "");
    }
    c->operand = arg;
    return true;
}

/* Checks that all required arguments are present and all values are valid.
 * The error's line is about the first fault. */
static bool check_given(struct cmd *c)
{
    if (c->spec->operand != NULL && c->spec->operand[0] != '[' &&
        c->operand == NULL) {
        (void) refuse(c, FAULT_MISSING, "needs ", c->spec->operand);
    }
    for (const struct cmd_option *o = c->spec->options; o->name != NULL; o++) {
        if ((o->flags & CMD_NEEDED) != 0 && cmd_get(c, o->name) == NULL) {
            (void) refuse(c, FAULT_MISSING, "needs --", o->name);
        }
    }
    for (size_t i = 0; i < c->given_count; i++) {
        const struct cmd_option *o = c->given[i].option;
        const char *value = c->given[i].value;
        int64_t ms;

        if (!parse_form(value, o->form, SIZE_MAX) ||
            (o->within != NULL && !parse_within(value, o->within, true, &ms)) ||
            (o->valid != NULL && !o->valid(value))) {
            if (c->line[0] == '\0') {
                (void) cmd_misused(c, "--%s is %s", o->name, o->accepted);
            }
            fault_add(&c->faults, (struct fault){.code = FAULT_MALFORMED,
                                                 .parameter = o->name});
        }
    }
    return c->line[0] == '\0';
}

bool cmd_main_parse(struct cmd *c, int argc, char *const *argv)
{
    bool ended = false; /* by "--" */

    for (int i = 1; i < argc && !c->help; i++) {
        bool option = !ended && argv[i][0] == '-' && argv[i][1] != '\0';

        if (option && strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (option && (strcmp(argv[i], "-h") == 0 ||
                              strcmp(argv[i], "--help") == 0)) {
            c->help = true;
        } else if (!(option ? parse_option(c, argc, argv, &i)
                            : parse_operand(c, argv[i]))) {
            return false;
        }
    }
    c->json = cmd_get(c, "json") != NULL;
    return c->help || check_given(c);
}

/* -- running -- */

/* Normalises the account that the command is about, if there is one. */
static bool fold_account(struct cmd *c)
{
    const struct cmd_spec *s = c->spec;
    const char *account = cmd_option(c, "account");

    if (account == NULL && c->operand != NULL && s->operand[0] != '[' &&
        (words_after(s, "account") != NULL ||
         words_after(s, "client") != NULL)) {
        account = c->operand;
    }
    if (account == NULL) {
        return true;
    }
    if (!cmd_fold(c, account)) {
        return false;
    }
    memcpy(c->account, c->secret, sizeof(c->account));
    return true;
}

static enum people_outcome operate(struct people *p, void *state)
{
    struct cmd *c = state;

    return c->spec->operate(c, p);
}

static bool run(struct cmd *c)
{
    const struct cmd_spec *s = c->spec;

    if (cmd_option(c, "env-file") != NULL) {
        c->env_file = cmd_option(c, "env-file");
    }
    if (!fold_account(c) || (s->check != NULL && !s->check(c))) {
        return false;
    }
    s = c->spec; /* check may have replaced it */
    cmd_out_open(c);
    if ((s->before != NULL && !s->before(c)) ||
        (s->operate != NULL &&
         !(cmd_connect(c) && cmd_transact(c, operate, c)))) {
        return false;
    }
    for (const char **event = c->events; *event != NULL; event++) {
        cmd_out_audit(c, *event,
                      strcmp(*event, "tenant.added") == 0 ? "tenantId" : NULL);
    }
    return (s->after == NULL || s->after(c)) &&
           (s->pages != NULL   ? cmd_lookup_pages
            : s->print != NULL ? s->print
                               : cmd_out_values)(c) &&
           cmd_out_close(c);
}

bool cmd_main(struct cmd *c, int argc, char *const *argv)
{
    const char *group = argv[0], *word = argc > 1 ? argv[1] : "", *rest;
    char text[64];

    /* Get EPIPE and EFBIG instead of a signal. */
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGXFSZ, SIG_IGN);
    for (int i = 1; i < argc; i++) { /* for errors before it is parsed */
        c->json |= strcmp(argv[i], "--json") == 0;
    }
    c->spec = find(group, NULL);
    rest = c->spec != NULL ? words_after(c->spec, group) : NULL;
    if (rest != NULL && rest[0] != '\0') {
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
            strcmp(word, "help") == 0 || (c->help && argc == 1)) {
            printf("usage: identity-fcgi %s COMMAND [...]\n\ncommands:\n",
                   group);
            cmd_main_list(group);
            printf("\nidentity-fcgi %s COMMAND --help tells more.\n", group);
            return true;
        }
        c->spec = find(group, word);
        if (c->spec == NULL && argc > 2) { /* as "client secret add" */
            c->spec = find(group, join(text, word, argv[2]));
            argc--;
            argv++;
        }
        argc--;
        argv++;
    }
    if (c->spec == NULL) {
        return refuse_word(c, group);
    }
    if (!c->help && !cmd_main_parse(c, argc, argv)) {
        return false;
    }
    if (c->help) {
        help_command(c->spec);
        return true;
    }
    return run(c);
}

int cmd_main_end(struct cmd *c)
{
    int status = c->status;

    if (status != 0 && c->line[0] != '\0') {
        cmd_problem_print(c, NULL);
    }
    if (c->audit_lost) {
        /* This exit status takes precedence over later failures. */
        c->line[0] = '\0';
        (void) cmd_fail_as(c, "AUDIT_LOST",
                           "the change was made and stands, but its audit "
                           "line could not be written");
        cmd_problem_print(c, NULL);
        status = CMD_LOST;
    }
    db_script_close(c->db);
    keys_release(c->keys);
    if (c->loaded) {
        config_free(&c->cfg);
    }
    OPENSSL_cleanse(c, sizeof(*c));
    return status;
}
