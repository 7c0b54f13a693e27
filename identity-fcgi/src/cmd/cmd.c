/* The operator's commands: finding one, helping, and what they share. */

#include "cmd/cmd.h"

#include "base/account_name.h"

#include <ctype.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ERR_MAX 512
#define AUDIT_MAX 8

/* Of the one command that a process runs. */
static bool audit_lost;

/* -- finding -- */

/* Whether word is the first of s. */
static bool in_group(const struct cmd_spec *s, const char *word)
{
    size_t len = strcspn(s->words, " ");

    return strlen(word) == len && memcmp(s->words, word, len) == 0;
}

static const struct cmd_spec *find_group(const char *word)
{
    const struct cmd_spec *s = cmd_specs;

    while (s->words != NULL && !in_group(s, word)) {
        s++;
    }
    return s->words != NULL ? s : NULL;
}

/* The second word of s; NULL where it has one. */
static const char *verb(const struct cmd_spec *s)
{
    const char *space = strchr(s->words, ' ');

    return space != NULL ? space + 1 : NULL;
}

static const struct cmd_spec *find_verb(const char *group, const char *word)
{
    for (const struct cmd_spec *s = cmd_specs; s->words != NULL; s++) {
        if (in_group(s, group) && strcmp(verb(s), word) == 0) {
            return s;
        }
    }
    return NULL;
}

bool cmd_is_known(const char *word)
{
    return find_group(word) != NULL;
}

/* -- helping -- */

static void print_words(FILE *out, const struct cmd_spec *s, int width)
{
    int n = fprintf(out, "%s%s%s", s->words, s->operand != NULL ? " " : "",
                    s->operand != NULL ? s->operand : "");

    fprintf(out, "%*s", n < width ? width - n : 0, "");
}

static void list_commands(FILE *out, const char *group)
{
    for (const struct cmd_spec *s = cmd_specs; s->words != NULL; s++) {
        if (group == NULL || in_group(s, group)) {
            fputs("  ", out);
            print_words(out, s, 32);
            fprintf(out, " %s\n", s->purpose);
        }
    }
}

void cmd_list(FILE *out)
{
    list_commands(out, NULL);
}

static void print_options(const struct cmd_option *o)
{
    for (; o->name != NULL; o++) {
        int n = printf("  --%s%s%s", o->name, o->value != NULL ? " " : "",
                       o->value != NULL ? o->value : "");

        printf("%*s %s%s%s\n", n < 26 ? 26 - n : 0, "", o->help,
               (o->flags & CMD_NEEDED) != 0 ? " (needed)" : "",
               (o->flags & CMD_MANY) != 0 ? "; may be given again" : "");
    }
}

static int help_command(const struct cmd_spec *s)
{
    fputs("usage: identity-fcgi ", stdout);
    print_words(stdout, s, 0);
    for (const struct cmd_option *o = s->options; o->name != NULL; o++) {
        if ((o->flags & CMD_NEEDED) != 0) {
            printf(" --%s %s", o->name, o->value);
        }
    }
    printf(" [...]\n\n%c%s.\n", toupper((unsigned char) *s->purpose),
           s->purpose + 1);
    if (s->more != NULL) {
        printf("\n%s", s->more);
    }
    fputs("\noptions:\n", stdout);
    print_options(s->options);
    print_options(cmd_common_options);
    return 0;
}

static int help_group(const char *group)
{
    printf("usage: identity-fcgi %s COMMAND [...]\n\ncommands:\n", group);
    list_commands(stdout, group);
    printf("\nidentity-fcgi %s COMMAND --help tells more.\n", group);
    return 0;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
           strcmp(word, "help") == 0;
}

/* The words that would have been accepted. */
static int which(struct cmd *c, const char *group)
{
    char verbs[256] = "";
    size_t n = 0;

    for (const struct cmd_spec *s = cmd_specs; s->words != NULL; s++) {
        if (in_group(s, group) && n < sizeof(verbs)) {
            n += (size_t) snprintf(verbs + n, sizeof(verbs) - n, "%s%s",
                                   n > 0 ? ", " : "", verb(s));
        }
    }
    return cmd_fail(c, CMD_USAGE,
                    "%s: which of %s? try identity-fcgi %s --help", group,
                    verbs, group);
}

/* -- running -- */

/*
 * The exit status: a change of which there is no record is told from one that
 * was not made, whatever else went wrong since.
 */
static int account_for(struct cmd *c, int status)
{
    if (!audit_lost) {
        return status;
    }
    return cmd_fail(c, CMD_LOST,
                    "the change was made and stands, but its audit line could "
                    "not be written");
}

static void close_all(struct cmd *c)
{
    cmd_disconnect(c);
    keys_release(c->keys);
    if (c->loaded) {
        config_free(&c->cfg);
    }
}

static int run(struct cmd *c, const char *env_file, int argc,
               char *const *argv)
{
    if (!cmd_args_parse(c->spec, argc, argv, &c->args)) {
        return cmd_fail(c, CMD_USAGE, "%s", c->args.err);
    }
    if (c->args.help) {
        return help_command(c->spec);
    }
    if (c->args.env_file == NULL) {
        c->args.env_file = env_file;
    }
    return c->spec->run(c);
}

int cmd_main(const char *env_file, int argc, char *const *argv)
{
    struct cmd *c = calloc(1, sizeof(*c));
    int status;

    if (c == NULL) {
        fprintf(stderr, "identity-fcgi: out of memory\n");
        return CMD_FAILED;
    }
    (void) signal(SIGPIPE, SIG_IGN); /* who went away shall be noticed */
    c->spec = find_group(argv[0]);
    if (verb(c->spec) == NULL) {
        status = run(c, env_file, argc, argv);
    } else if (argc > 1 && is_help(argv[1])) {
        status = help_group(argv[0]);
    } else {
        c->spec = argc > 1 ? find_verb(argv[0], argv[1]) : NULL;
        status = c->spec != NULL ? run(c, env_file, argc - 1, argv + 1)
                                 : which(c, argv[0]);
    }
    status = account_for(c, status);
    close_all(c);
    free(c);
    return status;
}

int cmd_help(int argc, char *const *argv)
{
    char *const words[] = {argv[0], argc > 1 ? argv[1] : (char *) "--help",
                           (char *) "--help"};

    return cmd_main(NULL, argc > 1 ? 3 : 2, words);
}

/* -- what commands share -- */

int cmd_fail(struct cmd *c, int status, const char *format, ...)
{
    char line[ERR_MAX];
    va_list ap;

    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    for (char *p = line; *p != '\0'; p++) {
        *p = (unsigned char) *p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    fprintf(stderr, "identity-fcgi: %s\n", line);
    c->status = status;
    return status;
}

bool cmd_load(struct cmd *c)
{
    char err[ERR_MAX];

    if (c->loaded) {
        return true;
    }
    if (!config_load(&c->cfg, c->args.env_file, err, sizeof(err))) {
        (void) cmd_fail(c, CMD_USAGE, "%s", err);
        return false;
    }
    c->loaded = true;
    config_scrub_environment();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The leak checker of a sanitizer attaches to its own process. */
    (void) prctl(PR_SET_DUMPABLE, 0);
#endif
    log_setup(c->cfg.app_name, c->cfg.app_env, c->cfg.log_level);
    return true;
}

bool cmd_keys(struct cmd *c)
{
    char err[ERR_MAX];

    if (!cmd_load(c)) {
        return false;
    }
    c->keys = keys_load(&c->cfg, err, sizeof(err));
    config_wipe_private_key(&c->cfg);
    if (c->keys == NULL) {
        (void) cmd_fail(c, CMD_USAGE, "%s", err);
    } else if (c->keys->signing == NULL) {
        (void) cmd_fail(c, CMD_USAGE,
                        "no signing key: PLATFORM_JWT_KEY_ID, "
                        "PLATFORM_JWT_PRIVATE_KEY_BASE64 and "
                        "PLATFORM_JWT_PUBLIC_KEY_BASE64 are not set");
    }
    return c->keys != NULL && c->keys->signing != NULL;
}

bool cmd_account_ref(struct cmd *c, const char *text)
{
    pj_str_t name = {(const unsigned char *) text, strlen(text)};
    unsigned char *folded = malloc(name.len + 1);
    bool ok;

    if (folded == NULL) {
        (void) cmd_fail(c, CMD_FAILED, "out of memory");
        return false;
    }
    name = account_name_fold(name, folded);
    ok = name.len > 0 && name.len <= STORE_ACCOUNT_NAME_MAX &&
         !account_name_has_control(name);
    if (ok) {
        memcpy(c->account, name.data, name.len);
        c->account[name.len] = '\0';
    } else {
        (void) cmd_fail(c, CMD_USAGE,
                        "the name of an account is 1 to %d bytes without "
                        "control characters",
                        STORE_ACCOUNT_NAME_MAX);
    }
    free(folded);
    return ok;
}

bool cmd_out_open(struct cmd *c, bool list)
{
    if (!out_open(&c->out, c->args.json, list)) {
        (void) cmd_fail(c, CMD_FAILED, "out of memory");
        return false;
    }
    return true;
}

int cmd_out_close(struct cmd *c)
{
    if (!out_close(&c->out)) {
        return cmd_fail(c, CMD_FAILED,
                        "standard output does not take the result");
    }
    return 0;
}

void cmd_print_values(struct cmd *c, const struct out_column *columns)
{
    const char *value;

    for (; columns->name != NULL; columns++) {
        if (cmd_has(c, columns->name, &value)) {
            out_value(&c->out, columns, value != NULL ? value : "");
        }
    }
}

int cmd_print(struct cmd *c, const struct out_column *columns)
{
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    cmd_print_values(c, columns);
    return cmd_out_close(c);
}

/* A field of text, left out where it is NULL. */
static struct log_field field(const char *name, const char *text)
{
    return (struct log_field){name, text, text != NULL ? strlen(text) : 0};
}

void cmd_audit(struct cmd *c, const char *event, ...)
{
    struct log_field fields[AUDIT_MAX + 2];
    struct log_number numbers[AUDIT_MAX];
    const struct passwd *user = getpwuid(getuid());
    size_t n = 0, number_count = 0;
    const char *name;
    va_list ap;

    va_start(ap, event);
    while ((name = va_arg(ap, const char *)) != NULL && n < AUDIT_MAX &&
           number_count < AUDIT_MAX) {
        if (cmd_number(c, name, &numbers[number_count].value)) {
            numbers[number_count++].name = name;
        } else {
            fields[n++] = field(name, cmd_get(c, name));
        }
    }
    va_end(ap);
    fields[n++] = field("operator", user != NULL ? user->pw_name : NULL);
    fields[n++] = field("sudoUser", getenv("SUDO_USER"));
    log_audit(event, NULL, fields, n, numbers, number_count);
    audit_lost = audit_lost || log_lost();
}
