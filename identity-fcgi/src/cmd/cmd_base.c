/* What every command needs: its options, its settings and keys, its end. */

#include "cmd/cmd_base.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define ERR_MAX 512

bool cmd_ends(struct cmd *c, int status, const char *format, ...)
{
    char line[sizeof(c->line)];
    va_list ap;

    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    for (char *p = line; *p != '\0'; p++) {
        *p = (unsigned char) *p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    memcpy(c->line, line, sizeof(line)); /* which may be a part of it */
    c->status = status;
    return false;
}

size_t cmd_given(const struct cmd *c, const char *name, const char **out,
                 size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < c->given_count; i++) {
        if (strcmp(c->given[i].option->name, name) == 0 && n++ < cap) {
            out[n - 1] = c->given[i].value;
        }
    }
    return n;
}

bool cmd_fold(struct cmd *c, const char *text)
{
    pj_str_t name = {(const unsigned char *) text, strlen(text)};

    if (name.len > sizeof(c->secret) ||
        account_name_fold(name, (unsigned char *) c->secret, &name) != NULL) {
        return cmd_misused(c,
                           "the name of an account is 1 to %d bytes without "
                           "control characters",
                           ACCOUNT_NAME_MAX);
    }
    c->secret[name.len] = '\0';
    return true;
}

bool cmd_load(struct cmd *c)
{
    char err[ERR_MAX];

    if (c->loaded) {
        return true;
    }
    if (!config_load(&c->cfg, c->env_file, err, sizeof(err))) {
        return cmd_misused(c, "%s", err);
    }
    c->loaded = true;
    config_scrub_environment();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The leak checker of a sanitizer attaches to its own process. */
    (void) prctl(PR_SET_DUMPABLE, 0);
#endif
    log_setup(c->cfg.app_name, c->cfg.app_env, c->cfg.log_level);
    /* Before anything is changed; who serves has one log for all. */
    return c->spec == NULL || log_audit_to(c->cfg.audit_log) ||
           cmd_fail(c, "PLATFORM_AUDIT_LOG: %s: %m", c->cfg.audit_log);
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
        return cmd_misused(c, "%s", err);
    }
    return c->spec == NULL || c->keys->signing != NULL || c->spec->keyless ||
           cmd_misused(c, "no signing key: PLATFORM_JWT_KEY_ID, "
                          "PLATFORM_JWT_PRIVATE_KEY_BASE64 and "
                          "PLATFORM_JWT_PUBLIC_KEY_BASE64 are not set");
}
