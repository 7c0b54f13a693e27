/* keys generate, migrate, seed, sweep */

#include "cmd/cmd.h"

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
        out_text(o, line, NULL, line + name + 1);
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

int cmd_keys_generate(struct cmd *c)
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

int cmd_migrate(struct cmd *c)
{
    static const struct out_column columns[] = {
        {"schemaVersion", "schema version", OUT_NUMBER, 0},
        {.name = NULL},
    };
    bool seed = strcmp(c->spec->words, "seed") == 0;
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
    cmd_set_number(c, "schemaVersion", store_schema_version());
    return cmd_print(c, columns);
}

/* -- sweep -- */

/* What there is of it: numbers where something was done. */
static const struct out_column sweep_columns[] = {
    {"sessions", "sessions", OUT_NUMBER, 0},
    {"rotatedTokens", "rotated tokens", OUT_NUMBER, 0},
    {"attempts", "attempts", OUT_NUMBER, 0},
    {"busy", NULL, OUT_BOOL, 0},
    {.name = NULL},
};

int cmd_sweep(struct cmd *c)
{
    const char *keep = cmd_args_value(&c->args, "older-than");
    int64_t keep_s = SWEEP_KEEP_S;
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
        keep_s = keep_ms / 1000;
    }
    if (!cmd_load(c)) {
        return c->status;
    }
    result = store_sweep(&c->cfg, keep_s, &counts, err, sizeof(err));
    cmd_set_text(c, "busy", result == SWEEP_BUSY ? "t" : "f");
    if (result != SWEEP_BUSY) {
        cmd_set_number(c, "sessions", counts.sessions);
        cmd_set_number(c, "rotatedTokens", counts.rotated_tokens);
        cmd_set_number(c, "attempts", counts.attempts);
    }
    if (counts.sessions + counts.rotated_tokens + counts.attempts > 0) {
        cmd_audit(c, c->spec->event, "sessions", "rotatedTokens", "attempts",
                  NULL);
    }
    if (result == SWEEP_FAILED) {
        return cmd_fail(c, CMD_FAILED, "%s", err);
    }
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    if (result == SWEEP_BUSY) {
        out_line(&c->out, "another process is sweeping: nothing was done");
    }
    cmd_print_values(c, sweep_columns);
    return cmd_out_close(c);
}
