/* Options, serving, and the operator's commands. */

#include "auth/password.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "server/server.h"

#include <fcntl.h>
#include <pj_version.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool command_check(struct cmd *c)
{
    if (!cmd_keys(c)) {
        return false;
    }
    if (c->cfg.warning != NULL) {
        fprintf(stderr, "identity-fcgi: %s\n", c->cfg.warning);
    }
    puts("settings are good");
    return true;
}

static bool command_print_config(struct cmd *c)
{
    char err[512];

    return config_print(stdout, c->env_file, err, sizeof(err)) ||
           cmd_misused(c, "%s", err);
}

static bool start(struct cmd *c, struct listener *listener)
{
    char err[512];

    if (!cmd_keys(c)) {
        return false;
    }
    if (!listener_open(listener, c->cfg.listen, err, sizeof(err))) {
        return cmd_fail(c, "%s", err);
    }
    if (c->cfg.warning != NULL) {
        log_line(LOG_WARN_, "config.unknown", "%s", c->cfg.warning);
    }
    if (c->cfg.db_migrate_on_start &&
        !cmd_migrate(c, c->cfg.db_seed_on_start)) {
        return false;
    }
    return password_setup(&c->cfg) || cmd_fail(c, "cannot set up Argon2id");
}

static bool command_serve(struct cmd *c)
{
    struct listener listener = {.fd = -1};

    if (!cmd_load(c)) {
        return false;
    }
    server_block_signals();
    if (start(c, &listener)) {
        c->status = serve(&c->cfg, c->keys, &listener, c->env_file);
        c->keys = NULL;
    }
    listener_close(&listener);
    return c->status == 0;
}

static bool command_version(struct cmd *c)
{
    (void) c;
    puts("identity-fcgi " PLATFORM_VERSION);
    return true;
}

/* clang-format off */
static const char usage_text[] =
    "usage: identity-fcgi [--env-file FILE] [COMMAND]\n"
    "\n"
    "Without a command: serve FastCGI on IDENTITY_LISTEN, or on descriptor 0\n"
    "where a supervisor passes a listening socket.\n"
    "\n"
    "commands:";

static const char options_text[] =
    "\n"
    "options:\n"
    "  --env-file FILE  settings in systemd's EnvironmentFile syntax; they win\n"
    "                   over the environment; SIGHUP reads the keys in it again\n"
    "  --check          check all settings and keys, then exit\n"
    "  --print-config   print all settings; of secrets only whether they are set\n"
    "  --version        print the version\n"
    "  --help           print this text\n"
    "\n"
    "Every command takes --json, and --help for more about it.\n"
    "\n"
    "exit status: 0 done, 1 failed, 2 wrong usage or settings, 3 done, but the\n"
    "audit line could not be written";
/* clang-format on */

static bool command_help(struct cmd *c)
{
    (void) c;
    puts(usage_text);
    cmd_list(NULL);
    puts(options_text);
    return true;
}

/* Options of the program itself; cmd.c has the operator's. */
static const struct {
    const char *name;
    bool (*run)(struct cmd *c);
} commands[] = {
    {"serve", command_serve},       {"help", command_help},
    {"--check", command_check},     {"--print-config", command_print_config},
    {"--version", command_version}, {"--help", command_help},
};

static bool usage(struct cmd *c, const char *what, const char *arg)
{
    return cmd_misused(c, "%s: %s; try identity-fcgi --help", what, arg);
}

/* Opens those of descriptors 0 to 2 that are closed, without access, so that
 * no socket of ours becomes one of them. */
static void open_standard_descriptors(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {
    }
    (void) close(fd);
}

static bool run(struct cmd *c, int argc, char *const *argv)
{
    const char *command = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--env-file") == 0) {
            if (i + 1 == argc) {
                return usage(c, "needs a value", argv[i]);
            }
            c->env_file = argv[++i];
        } else if (command == NULL && cmd_is_known(argv[i])) {
            return cmd_main(c, argc - i, argv + i);
        } else if (command == NULL) {
            command = argv[i];
        } else if (strcmp(command, "help") == 0 && cmd_is_known(argv[i])) {
            c->help = true;
            return cmd_main(c, argc - i, argv + i);
        } else {
            return usage(c, "unexpected argument", argv[i]);
        }
    }
    command = command != NULL ? command : "serve";
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(command, commands[i].name) == 0) {
            return commands[i].run(c);
        }
    }
    return usage(c, command[0] == '-' ? "unknown option" : "unknown command",
                 command);
}

int main(int argc, char **argv)
{
    static struct cmd c;

    open_standard_descriptors();
    (void) run(&c, argc, argv);
    return cmd_end(&c);
}
