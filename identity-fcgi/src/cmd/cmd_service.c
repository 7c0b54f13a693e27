/* keys generate, migrate, seed, sweep */

#include "cmd/cmd.h"

#include "base/config_parse.h"
#include "store/store_sweep.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* -- keys generate -- */

/* The NAME=value lines of text as members. */
static void print_settings(struct out *o, char *text)
{
    char *line = text;

    while (*line != '\0') {
        size_t name = strcspn(line, "=");
        size_t end = strcspn(line, "\n");

        if (line[end] == '\0' || name > end) {
            return;
        }
        line[name] = '\0';
        line[end] = '\0';
        out_text(o, line, NULL, 0, line + name + 1);
        line += end + 1;
    }
}

static int generate_json(struct cmd *c, const char *kid)
{
    char err[160] = "out of memory";
    char *text = NULL;
    size_t len = 0;
    FILE *lines = open_memstream(&text, &len);
    bool ok = lines != NULL && keys_generate(lines, kid, err, sizeof(err));

    if (lines != NULL && fclose(lines) != 0) {
        ok = false;
    }
    if (!ok) {
        (void) cmd_fail(c, CMD_FAILED, "%s", err);
    } else if (cmd_out_open(c, false)) {
        print_settings(&c->out, text);
        c->status = cmd_out_close(c);
    }
    if (text != NULL) {
        OPENSSL_cleanse(text, len);
    }
    free(text);
    return c->status;
}

static int generate(struct cmd *c)
{
    const char *kid = cmd_args_value(&c->args, "kid");
    char err[160];

    if (kid != NULL && !parse_kid(kid)) {
        return cmd_fail(c, CMD_USAGE, "--kid is " PARSE_KID_ACCEPTED);
    }
    if (c->args.json) {
        return generate_json(c, kid);
    }
    if (!keys_generate(stdout, kid, err, sizeof(err))) {
        return cmd_fail(c, CMD_FAILED, "%s", err);
    }
    return 0;
}

/* -- migrate, seed -- */

static int migrate_and(struct cmd *c, bool seed)
{
    char err[512];

    if (!cmd_load(c)) {
        return c->status;
    }
    if (seed && !config_may_seed(&c->cfg, err, sizeof(err))) {
        return cmd_fail(c, CMD_USAGE, "%s", err);
    }
    if (!store_migrate(&c->cfg, seed, err, sizeof(err))) {
        return cmd_fail(c, CMD_FAILED, "%s", err);
    }
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    out_number(&c->out, "schemaVersion", "schema version",
               store_schema_version());
    return cmd_out_close(c);
}

static int migrate(struct cmd *c)
{
    return migrate_and(c, false);
}

static int seed(struct cmd *c)
{
    return migrate_and(c, true);
}

/* -- sweep -- */

static int print_sweep(struct cmd *c, const struct sweep_counts *counts,
                       bool busy)
{
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    if (busy) {
        out_line(&c->out, "another process is sweeping: nothing was done");
        out_bool(&c->out, "busy", NULL, true);
        return cmd_out_close(c);
    }
    out_number(&c->out, "sessions", "sessions", counts->sessions);
    out_number(&c->out, "rotatedTokens", "rotated tokens",
               counts->rotated_tokens);
    out_number(&c->out, "attempts", "attempts", counts->attempts);
    out_bool(&c->out, "busy", NULL, false);
    return cmd_out_close(c);
}

static void audit(const struct sweep_counts *counts)
{
    const struct log_number numbers[] = {
        {"sessions", counts->sessions},
        {"rotatedTokens", counts->rotated_tokens},
        {"attempts", counts->attempts},
    };

    cmd_audit("sweep.done", NULL, 0, numbers, 3);
}

static int sweep(struct cmd *c)
{
    const char *keep = cmd_args_value(&c->args, "older-than");
    struct sweep_plan plan = {.keep_s = SWEEP_KEEP_S};
    struct sweep_counts counts;
    enum sweep_result result;
    int64_t keep_ms;
    char err[320];

    if (keep != NULL) {
        if (!parse_duration(keep, &keep_ms) ||
            keep_ms > INT64_C(3650) * 86400000) {
            return cmd_fail(c, CMD_USAGE,
                            "--older-than is integer seconds or a number "
                            "with s, m, h or d, at most 3650d");
        }
        plan.keep_s = keep_ms / 1000;
    }
    if (!cmd_load(c)) {
        return c->status;
    }
    result = store_sweep(&c->cfg, &plan, &counts, err, sizeof(err));
    if (counts.sessions + counts.rotated_tokens + counts.attempts > 0) {
        audit(&counts);
    }
    if (result == SWEEP_FAILED) {
        return cmd_fail(c, CMD_FAILED, "%s", err);
    }
    return print_sweep(c, &counts, result == SWEEP_BUSY);
}

/* clang-format off */
const struct cmd_spec cmd_service_specs[] = {
    {"keys", "generate", NULL, "print a new signing key as three settings",
     "A 2048-bit RSA key.  The private key is among what is printed: keep it\n"
     "where only the service can read it.\n",
     {{"kid", "ID", "its id (default: its RFC 7638 thumbprint)",
       false, false}},
     generate},
    {"migrate", NULL, NULL, "apply pending database migrations",
     "Does nothing where there are none.\n", {{.name = NULL}}, migrate},
    {"seed", NULL, NULL, "migrate, load local data (APP_ENV=local)",
     NULL, {{.name = NULL}}, seed},
    {"sweep", NULL, NULL, "delete what ended long ago",
     "Sessions that expired or were revoked over 7 days ago, and failed logins\n"
     "and rotated-out tokens that no longer count.  The service does the same\n"
     "every PLATFORM_SWEEP_INTERVAL.\n",
     {{"older-than", "TIME", "ended sessions are kept so long (7d)", false,
       false}},
     sweep},
    {.group = NULL},
};
/* clang-format on */
