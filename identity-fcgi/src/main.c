/* Options and commands. */

#include "auth/keys.h"
#include "auth/password.h"
#include "base/config.h"
#include "base/log.h"
#include "base/version.h"
#include "cmd/cmd.h"
#include "server/server.h"
#include "store/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define EXIT_RUNTIME 1
#define EXIT_USAGE 2
#define ERR_MAX 512

static const char usage_text[] =
    "usage: identity-fcgi [--env-file FILE] [COMMAND]\n"
    "\n"
    "Without a command: serve FastCGI on IDENTITY_LISTEN, or on descriptor 0\n"
    "where a supervisor passes a listening socket.\n"
    "\n"
    "commands:\n";

static const char options_text[] =
    "\n"
    "options:\n"
    "  --env-file FILE  settings in systemd's EnvironmentFile syntax; they "
    "win\n"
    "                   over the environment and are read again on SIGHUP\n"
    "  --check          check all settings and keys, then exit\n"
    "  --print-config   print all settings, secrets as set or unset\n"
    "  --version        print the version\n"
    "  --help           print this text\n"
    "\n"
    "Every command takes --json, and --help, which tells more about it.\n"
    "\n"
    "exit status: 0 done, 1 failed, 2 wrong usage or settings, 3 done, but "
    "the\n"
    "audit line could not be written\n";

struct options {
    const char *env_file;
    const char *command; /* "serve" where none is given */
};

static int complain(int status, const char *line)
{
    fprintf(stderr, "identity-fcgi: %s\n", line);
    return status;
}

/* -- commands -------------------------------------------------------------
 */

/* Loads settings; 0, or the exit status after one line on stderr. */
static int load(struct config *cfg, const struct options *opt)
{
    char err[ERR_MAX];

    if (!config_load(cfg, opt->env_file, err, sizeof(err))) {
        return complain(EXIT_USAGE, err);
    }
    log_setup(cfg->app_name, cfg->app_env, cfg->log_level);
    return 0;
}

/* Takes the secrets out of what others may look at. */
static void hide_secrets(void)
{
    config_scrub_environment();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The leak checker of a sanitizer attaches to its own process. */
    (void) prctl(PR_SET_DUMPABLE, 0);
#endif
}

static int command_check(const struct options *opt)
{
    char err[ERR_MAX];
    struct config cfg;
    struct keys *keys;
    int status = load(&cfg, opt);

    if (status != 0) {
        return status;
    }
    keys = keys_load(&cfg, err, sizeof(err));
    if (keys == NULL) {
        status = complain(EXIT_USAGE, err);
    } else {
        if (cfg.warning != NULL) {
            (void) complain(0, cfg.warning);
        }
        puts("settings are good");
    }
    keys_release(keys);
    config_free(&cfg);
    return status;
}

static int command_print_config(const struct options *opt)
{
    char err[ERR_MAX];

    if (!config_print(stdout, opt->env_file, err, sizeof(err))) {
        return complain(EXIT_USAGE, err);
    }
    return 0;
}

static int migrate(const struct config *cfg, bool seed)
{
    char err[ERR_MAX];

    if (seed && !config_may_seed(cfg, err, sizeof(err))) {
        return complain(EXIT_USAGE, err);
    }
    if (!store_migrate(cfg, seed, err, sizeof(err))) {
        return complain(EXIT_RUNTIME, err);
    }
    return 0;
}

static int start(struct config *cfg, struct keys **keys,
                 struct listener *listener)
{
    char err[ERR_MAX];
    int status;

    *keys = keys_load(cfg, err, sizeof(err));
    config_wipe_private_key(cfg);
    if (*keys == NULL) {
        return complain(EXIT_USAGE, err);
    }
    if (!listener_open(listener, cfg->listen, err, sizeof(err))) {
        return complain(EXIT_RUNTIME, err);
    }
    if (cfg->warning != NULL) {
        log_line(LOG_WARN_, "config.unknown", "%s", cfg->warning);
    }
    if (cfg->db_migrate_on_start) {
        status = migrate(cfg, cfg->db_seed_on_start);
        if (status != 0) {
            return status;
        }
    }
    if (!password_setup(cfg)) {
        return complain(EXIT_RUNTIME, "cannot set up Argon2id");
    }
    return 0;
}

static int command_serve(const struct options *opt)
{
    struct listener listener = {.fd = -1};
    struct keys *keys = NULL;
    struct config cfg;
    int status = load(&cfg, opt);

    if (status != 0) {
        return status;
    }
    hide_secrets();
    server_block_signals();
    status = start(&cfg, &keys, &listener);
    if (status == 0) {
        status = serve(&cfg, keys, &listener, opt->env_file);
    } else {
        keys_release(keys);
    }
    listener_close(&listener);
    config_free(&cfg);
    return status;
}

/* -- options --------------------------------------------------------------
 */

static int usage(const char *what, const char *arg)
{
    fprintf(stderr, "identity-fcgi: %s: %s; try identity-fcgi --help\n", what,
            arg);
    return EXIT_USAGE;
}

static int command_version(const struct options *opt)
{
    (void) opt;
    puts("identity-fcgi " IDENTITY_VERSION);
    return 0;
}

static int command_help(const struct options *opt)
{
    (void) opt;
    (void) fputs(usage_text, stdout);
    cmd_list(stdout);
    (void) fputs(options_text, stdout);
    return 0;
}

/* Beside the operator's, which cmd.c knows. */
static const struct {
    const char *name;
    int (*run)(const struct options *opt);
} commands[] = {
    {"serve", command_serve},       {"help", command_help},
    {"--check", command_check},     {"--print-config", command_print_config},
    {"--version", command_version}, {"--help", command_help},
};

static int run(const struct options *opt)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(opt->command, commands[i].name) == 0) {
            return commands[i].run(opt);
        }
    }
    return usage(opt->command[0] == '-' ? "unknown option" : "unknown command",
                 opt->command);
}

/* Descriptors 0 to 2 exist, so that no socket of ours becomes one of them;
 * what was closed takes no output. */
static void open_standard_descriptors(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct options opt = {NULL, NULL};

    open_standard_descriptors();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--env-file") == 0) {
            if (i + 1 == argc) {
                return usage("needs a value", argv[i]);
            }
            opt.env_file = argv[++i];
        } else if (opt.command == NULL && cmd_is_known(argv[i])) {
            return cmd_main(opt.env_file, argc - i, argv + i);
        } else if (opt.command == NULL) {
            opt.command = argv[i];
        } else if (strcmp(opt.command, "help") == 0 && cmd_is_known(argv[i])) {
            return cmd_help(argc - i, argv + i);
        } else {
            return usage("unexpected argument", argv[i]);
        }
    }
    if (opt.command == NULL) {
        opt.command = "serve";
    }
    return run(&opt);
}
