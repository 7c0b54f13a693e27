/* keys list, add, activate, retire, remove, revoke, rotate: changes to the
 * directory of keys.  The names of its files are the only state of a
 * rotation. */

#include "cmd/cmd.h"

#include "auth/token.h"
#include "cmd/cmd_ask.h"
#include "cmd/cmd_out.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Time until every process has read the directory: 5 s, and 1 s for
 * rounding. */
#define FOLLOW_S 6
#define SOFT_AGE_S 600
#define SYSTEM_TTL_S 3600
#define NO_KEY "no key has this id; keys list shows them"

enum step { ADD, ACTIVATE, RETIRE, REMOVE, REVOKE };

static const struct {
    const char *name, *event;
} steps[] = {
    [ADD] = {"add", "keys.added"},
    [ACTIVATE] = {"activate", "keys.activated"},
    [RETIRE] = {"retire", "keys.retired"},
    [REMOVE] = {"remove", "keys.removed"},
    [REVOKE] = {"revoke", "keys.revoked"},
};

static struct keys_dir dir;
static struct error gateway_error; /* of a gateway without the new key */
static bool gateways_may_lack_key; /* it is too early to insist */

/* -- the directory -- */

/* Opens the directory even if a file is bad, for keys revoke. */
static bool open_unchecked(struct cmd *c)
{
    if (!cmd_load(c)) {
        return false;
    }
    if (c->cfg.jwt_key_dir == NULL) {
        return cmd_fail_settings(c,
                                 "PLATFORM_JWT_KEY_DIR: is not set; accepted: "
                                 "the directory of the keys");
    }
    return keys_dir_open(&dir, c->cfg.jwt_key_dir, true) ||
           cmd_fail_settings(c, "%s", dir.error.text);
}

/* Refuses if a file is bad, because processes would ignore the change. */
static bool open_dir(struct cmd *c)
{
    return open_unchecked(c) && (keys_dir_is_good(&dir) ||
                                 cmd_fail_settings(c, "%s", dir.error.text));
}

static bool can_sign(void)
{
    return dir.count > 0 && dir.files[0].state == KEY_SIGNING;
}

static const struct key_file *find_kid(const char *kid)
{
    for (size_t i = 0; i < dir.count; i++) {
        if (strcmp(dir.files[i].kid, kid) == 0) {
            return &dir.files[i];
        }
    }
    return NULL;
}

static size_t count_of(enum key_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < dir.count; i++) {
        n += dir.files[i].state == state;
    }
    return n;
}

/* -- when a step is safe -- */

static int64_t seconds_of(const struct cmd *c, const char *option,
                          int64_t preset)
{
    const char *text = cmd_get(c, option);
    int64_t ms;

    return text != NULL && parse_duration(text, &ms) ? (ms + 999) / 1000
                                                     : preset;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The time at which every gateway should have a published key. */
static int64_t known_from(const struct cmd *c, const struct key_file *f)
{
    return f->since + FOLLOW_S + seconds_of(c, "soft-age", SOFT_AGE_S);
}

/* Sets the next step of a key; returns the time from which it is safe, or 0. */
static int64_t next_step(const struct cmd *c, const struct key_file *f,
                         enum step *step)
{
    const struct config *cfg = &c->cfg;
    int64_t refresh_s = cfg->refresh_ttl_s;

    if (f->state == KEY_PUBLISHED) {
        *step = ACTIVATE;
        return !can_sign()                        ? 0
               : cmd_given(c, "ask", NULL, 0) > 0 ? f->since + FOLLOW_S
                                                  : known_from(c, f);
    }
    if (f->state == KEY_REPLACED) {
        *step = RETIRE;
        return f->since + FOLLOW_S + TOKEN_LEEWAY_S +
               later_of(cfg->access_ttl_s,
                        seconds_of(c, "system-ttl", SYSTEM_TTL_S));
    }
    if (cfg->session_max_lifetime_s > 0 &&
        cfg->session_max_lifetime_s < refresh_s) {
        refresh_s = cfg->session_max_lifetime_s;
    }
    *step = REMOVE;
    return f->since + FOLLOW_S + refresh_s;
}

/* Returns true if all URLs of --ask have the key.  Otherwise sets
 * gateway_error. */
static bool gateways_have_key(const struct cmd *c, const struct key_file *f)
{
    size_t keys = dir.count - count_of(KEY_REFRESH);
    const char *urls[CMD_MAX_GIVEN];
    size_t n = can_sign() ? cmd_given(c, "ask", urls, CMD_MAX_GIVEN) : 0;

    for (size_t i = 0; i < n; i++) {
        enum cmd_asked answer =
            cmd_ask(urls[i], f->kid, f->since + FOLLOW_S, keys, &gateway_error);

        if (answer != ASKED_HAS) {
            gateways_may_lack_key = answer == ASKED_MISSING &&
                                    (int64_t) time(NULL) < known_from(c, f);
            return false;
        }
    }
    gateways_may_lack_key = false;
    gateway_error.text[0] = '\0';
    return true;
}

/* -- steps -- */

/* Returns the algorithm for a new key: --algorithm, or that of the signing
 * key. */
static const pj_alg_t *algorithm(const struct cmd *c)
{
    const char *name = cmd_get(c, "algorithm");
    const pj_alg_t *alg = pj_alg_find(pj_str(name != NULL ? name : "RS256"));
    pj_key_t *public = NULL;

    if (name == NULL && can_sign() &&
        keys_dir_parse(&dir, &dir.files[0], &public, NULL)) {
        alg = pj_key_alg(public);
    }
    pj_key_free(public);
    return alg;
}

/* Makes a key and returns its id, or NULL. */
static const char *make_key(struct cmd *c, enum key_state state, int64_t after)
{
    static struct new_keys made; /* its id is returned */
    unsigned char text[sizeof(made.private_text) + sizeof(made.public_text)];
    const char *const parts[] = {made.private_text, made.public_text};
    const char *kid = cmd_get(c, "kid");
    const pj_alg_t *alg = algorithm(c);
    size_t len = 0, n = 0;
    bool ok;

    /* A key that replaces a revoked one always has room. */
    if (dir.count + (state == KEY_PUBLISHED) >= KEYS_DIR_MAX) {
        (void) cmd_fail_as(c, "RESOURCE_LIMIT_REACHED",
                           "there are %zu keys already: remove one first",
                           dir.count);
        return NULL;
    }
    do { /* avoid ids that look like options */
        ok = keys_generate(kid, alg, &made);
    } while (ok && kid == NULL && made.kid[0] == '-');
    for (int i = 0; ok && i < 2; i++, len += n) {
        ok = pj_b64_decode(text + len, sizeof(text) - len, &n,
                           pj_str(parts[i])) == PJ_OK;
    }
    if (!ok) {
        (void) cmd_fail(c, "the key could not be made");
    } else if (!keys_dir_put(&dir, made.kid, state, after,
                             (pj_str_t){text, len})) {
        ok = cmd_fail(c, "%s", dir.error.text);
    }
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(made.private_text, sizeof(made.private_text));
    return ok ? made.kid : NULL;
}

static bool report_step(struct cmd *c, enum step step, const char *kid,
                        int64_t due, bool done)
{
    cmd_set(c, "step", steps[step].name);
    cmd_set(c, "kid", kid != NULL ? kid : "");
    cmd_set(c, "done", done ? "t" : "f");
    cmd_setn(c, "dueAt", (done ? 0 : due));
    if (done) {
        cmd_out_audit(c, steps[step].event, "kid");
    }
    if (c->spec->list) {
        cmd_out_row(c);
    }
    return true;
}

/* Executes a step, or prints it with --dry-run.  A key starts to sign later
 * than the previous key, even if the clock was set back. */
static bool execute_step(struct cmd *c, enum step step,
                         const struct key_file *f)
{
    int64_t now = (int64_t) time(NULL);
    int64_t since = can_sign() ? later_of(now, dir.files[0].since + 1) : now;
    const char *kid = f != NULL ? f->kid : cmd_get(c, "kid");
    bool ok = true;

    if (cmd_get(c, "dry-run") != NULL) {
        return report_step(c, step, kid, now, false);
    }
    if (step == ADD) {
        kid = make_key(c, KEY_PUBLISHED, 0);
        return kid != NULL && report_step(c, ADD, kid, 0, true);
    }
    if (step == ACTIVATE) {
        ok = keys_dir_check(&dir, f, true) &&
             keys_dir_move(&dir, f, KEY_SIGNING, since);
    } else if (step == RETIRE) {
        ok = keys_dir_strip(&dir, f) &&
             keys_dir_move(&dir, f, KEY_REFRESH, f->since);
    } else {
        ok = keys_dir_remove(&dir, f);
    }
    return ok ? report_step(c, step, kid, 0, true)
              : cmd_fail(c, "%s", dir.error.text);
}

/* -- the commands -- */

static bool add(struct cmd *c)
{
    const char *kid = cmd_get(c, "kid");

    return kid != NULL && find_kid(kid) != NULL
               ? cmd_fail_as(c, "RESOURCE_EXISTS",
                             "a key of this id exists already")
               : execute_step(c, ADD, NULL);
}

/* Executes the step of this command for the operand. */
static bool change(struct cmd *c)
{
    const struct key_file *f = find_kid(c->operand);
    bool force = cmd_get(c, "force") != NULL;
    const char *verb = strchr(c->spec->words, ' ') + 1;
    enum step step = ACTIVATE, safe;
    char at[32];
    int64_t due;

    if (f == NULL) {
        return cmd_fail_as(c, "RESOURCE_NOT_FOUND", NO_KEY);
    }
    while (strcmp(steps[step].name, verb) != 0) {
        step++;
    }
    if (f->state == KEY_SIGNING) {
        return cmd_fail_as(c, "RESOURCE_CONFLICT",
                           "this key signs: activate another one first, or "
                           "revoke it if it is no longer secret");
    }
    due = next_step(c, f, &safe);
    /* The first never signed; every gateway has the second. */
    if ((f->state == KEY_PUBLISHED && step == REMOVE) ||
        (f->state == KEY_REPLACED && step == ACTIVATE)) {
        return execute_step(c, step, f);
    }
    if (step != safe) {
        return cmd_fail_as(c, "RESOURCE_CONFLICT",
                           "this key is in the state \"%s\", whose next step "
                           "is keys %s",
                           keys_dir_states[f->state], steps[safe].name);
    }
    if (!force && due > (int64_t) time(NULL)) {
        cmd_setn(c, "due", due);
        cmd_out_time(cmd_get(c, "due"), at, sizeof(at));
        return cmd_fail_as(
            c, "RESOURCE_CONFLICT", "not before %s: %s; wait, or --force", at,
            step == ACTIVATE ? "not every gateway may have the key"
            : step == RETIRE ? "access tokens of this key may still be valid"
                             : "refresh tokens of this key may still be valid");
    }
    if (!force && step == ACTIVATE && !gateways_have_key(c, f)) {
        return cmd_fail(c, "%s; wait, or --force", gateway_error.text);
    }
    return execute_step(c, step, f);
}

/* Makes another key of the directory sign; returns its id, or NULL.  A rename
 * is enough and works on a full disk. */
static const char *sign_with_other(struct cmd *c, int64_t after)
{
    int64_t now = (int64_t) time(NULL);

    for (size_t i = dir.count; i-- > 1;) { /* published keys first */
        const struct key_file *f = &dir.files[i];

        if (f->state != KEY_REFRESH && keys_dir_check(&dir, f, true) &&
            keys_dir_move(&dir, f, KEY_SIGNING, later_of(now, after + 1))) {
            c->line[0] = '\0'; /* error of making a new key */
            c->status = 0;
            return f->kid;
        }
    }
    return NULL;
}

/* Revokes a key.  If it signs, a new key signs first.  Gateways do not have the
 * new key, so they fetch the key set as soon as they see a token signed by
 * it. */
static bool end_key(struct cmd *c)
{
    const char *revoked = c->operand;
    const struct key_file *f = find_kid(revoked);
    const char *kid;

    if (f == NULL) {
        return cmd_fail_as(c, "RESOURCE_NOT_FOUND", NO_KEY);
    }
    if (f->state == KEY_SIGNING && cmd_get(c, "dry-run") == NULL) {
        c->operand = NULL; /* not the new key's id */
        kid = make_key(c, KEY_SIGNING, f->since);
        if (kid == NULL) {
            kid = sign_with_other(c, f->since);
        }
        if (kid == NULL) {
            return cmd_fail(c,
                            "%s; and no other key can sign: this one still "
                            "does",
                            c->line);
        }
        (void) report_step(c, ACTIVATE, kid, 0, true);
    }
    if (!execute_step(c, REVOKE, f)) {
        return false;
    }
    cmd_set(c, "kid", revoked); /* open_dir() overwrites the file list */
    keys_dir_close(&dir);
    return cmd_get(c, "dry-run") != NULL || open_dir(c) ||
           cmd_fail(c, "revoked, but running services cannot load the keys: %s",
                    dir.error.text);
}

/* Returns the time at which to start a rotation, or 0 during a rotation. */
static int64_t rotation_start(const struct cmd *c)
{
    bool every = cmd_get(c, "every") != NULL;

    if (count_of(KEY_PUBLISHED) + count_of(KEY_REPLACED) > 0 ||
        (can_sign() && !every && count_of(KEY_REFRESH) > 0)) {
        return 0;
    }
    return !can_sign() ? 1 : dir.files[0].since + seconds_of(c, "every", 0);
}

/* Executes the first step that is safe.  If there is none, sets *due to the
 * time of the next step, and prints the steps if report is set. */
static bool execute_safe_step(struct cmd *c, bool report, bool *executed,
                              int64_t *due)
{
    int64_t now = (int64_t) time(NULL);
    bool dry = cmd_get(c, "dry-run") != NULL;
    enum step step;

    *executed = false;
    *due = INT64_MAX;
    for (size_t i = 0; i < dir.count; i++) {
        const struct key_file *f = &dir.files[i];
        int64_t at = f->state != KEY_SIGNING ? next_step(c, f, &step) : 0;

        /* Only one rotation at a time. */
        if (f->state == KEY_SIGNING ||
            (step == ACTIVATE && count_of(KEY_REPLACED) > 0)) {
            continue;
        }
        if (at <= now && !dry &&
            (step != ACTIVATE || gateways_have_key(c, f))) {
            *executed = true;
            return execute_step(c, step, f);
        }
        *due = at < *due ? at : *due;
        if (report) {
            at = gateways_may_lack_key && step == ACTIVATE ? known_from(c, f)
                                                           : at;
            (void) report_step(c, step, f->kid, later_of(at, now), false);
        }
    }
    return true;
}

static bool rotate(struct cmd *c)
{
    int64_t until = (int64_t) time(NULL) + seconds_of(c, "wait", 0);
    int64_t at = rotation_start(c), due = 0;
    bool executed = false, report = cmd_get(c, "dry-run") != NULL;

    if (at > 0 && at <= (int64_t) time(NULL)) {
        if (!execute_step(c, ADD, NULL)) {
            return false;
        }
        at = 0;
    }
    for (;;) {
        keys_dir_close(&dir); /* let other commands take steps */
        if (!open_dir(c) || !execute_safe_step(c, report, &executed, &due)) {
            return false;
        }
        if (report) {
            break;
        }
        if (!executed && (due > until || (int64_t) time(NULL) >= until)) {
            report = true; /* report the remaining steps */
        } else if (!executed) {
            keys_dir_close(&dir);
            sleep(1);
        }
    }
    if (at > 0) {
        (void) report_step(c, ADD, NULL, at, false);
    }
    return gateway_error.text[0] == '\0' || gateways_may_lack_key ||
           cmd_fail(c, "%s", gateway_error.text);
}

static bool list(struct cmd *c)
{
    for (size_t i = 0; i < dir.count; i++) {
        const struct key_file *f = &dir.files[i];
        enum step step = ADD;
        int64_t due = f->state != KEY_SIGNING ? next_step(c, f, &step) : 0;

        cmd_set(c, "kid", f->kid);
        cmd_set(c, "state", keys_dir_states[f->state]);
        cmd_setn(c, "stateSince", f->since);
        cmd_set(c, "step", step != ADD ? steps[step].name : "");
        cmd_setn(c, "dueAt", due);
        cmd_out_row(c);
    }
    return true;
}

/* -- the table -- */

/* clang-format off */
#define A_TIME \
    .within = "0 to 999999999d", \
    .accepted = "integer seconds or a number with s, m, h or d"
#define DRY_RUN \
    {"dry-run", NULL, .help = "tell what would be done, and do nothing"}
#define FORCE {"force", NULL, .help = "do it although it is not safe yet"}
#define SOFT_AGE \
    {"soft-age", "TIME", "how soon gateways have a new key (default 10m)", \
     A_TIME}
#define SYSTEM_TTL \
    {"system-ttl", "TIME", "longest life of system tokens (default 1h)", A_TIME}
#define ASK \
    {"ask", "URL", "metrics of a gateway, or a key set", CMD_MANY, \
     NULL, "http://HOST[:PORT]/PATH", CMD_ASK_URL}
#define ALGORITHM \
    {"algorithm", "ALG", "how it signs (default: as the key that signs now)", \
     CMD_ALGORITHM}
#define TOOK .columns = {"step", "kid", "done", "dueAt"}

const struct cmd_spec cmd_key_files[] = {
    {"keys list", NULL, "list the keys of PLATFORM_JWT_KEY_DIR",
     "Each with its state, its next step, and when that becomes safe.\n",
     .check = open_dir, .print = list, .list = true,
     .columns = {"kid", "state", "stateSince", "step", "dueAt"}},
    {"keys add", NULL, "make a key and publish it",
     "It is in the key set, but does not sign yet.\n",
     .options = {
         {"kid", "ID", "its id (default: its RFC 7638 thumbprint)", 0,
          parse_kid, .accepted = PARSE_KID_ACCEPTED},
         ALGORITHM, DRY_RUN},
     .check = open_dir, .after = add, TOOK},
    {"keys activate", "KID", "sign with a published key",
     "Refused until every gateway has it: as soon as all given by --ask say "
     "so,\nelse when the soft age has passed.\n",
     .options = {ASK, SOFT_AGE, FORCE, DRY_RUN},
     .check = open_dir, .after = change, TOOK},
    {"keys retire", "KID", "keep a key for refresh tokens alone",
     "It leaves the key set, and its private part is deleted.  Refused until "
     "the\nlast access token that it signed has expired.\n",
     .options = {SYSTEM_TTL, FORCE, DRY_RUN},
     .check = open_dir, .after = change, TOOK},
    {"keys remove", "KID", "delete a key",
     "Refused until the last refresh token that it signed has expired.\n",
     .options = {FORCE, DRY_RUN},
     .check = open_dir, .after = change, TOOK},
    {"keys revoke", "KID", "end a key that is no longer secret, at once",
     "If it signs, a new key signs from now on; one that is published "
     "already, if\nno new one can be written.  Whoever has tokens that it "
     "signed must log in\nagain.  Gateways drop it within their soft age.\n",
     .options = {DRY_RUN},
     .check = open_unchecked, .after = end_key, TOOK},
    {"keys rotate", NULL, "replace the signing key, step by step",
     "Takes the steps that are safe now and tells when the next ones are: run "
     "it\nagain then, or by a timer with --every.  Without --every a new key "
     "is made\nonly when no rotation is under way.\n",
     .options = {
         {"every", "TIME", "when the signing key is that old", A_TIME},
         {"wait", "TIME", "wait for steps that fall due in this time", A_TIME},
         ALGORITHM,
         ASK, SOFT_AGE, SYSTEM_TTL, DRY_RUN},
     .check = open_dir, .print = rotate, .list = true, TOOK},
    {.words = NULL},
};
/* clang-format on */
