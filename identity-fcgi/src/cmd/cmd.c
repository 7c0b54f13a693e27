/* The parts that commands share: options, settings, keys, transactions and
 * values. */

#include "cmd/cmd.h"

#include "auth/password.h"
#include "base/log.h"
#include "base/uuid.h"
#include "store/store_actor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TRIES 3
#define RESULTS_BYTES (16 * 1024 * 1024)

bool cmd_ends(struct cmd *c, int status, const char *format, ...)
{
    char line[sizeof(c->line)], *to;
    const unsigned char *end;
    bool first = c->line[0] == '\0'; /* otherwise its cause has a code */
    va_list ap;

    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    to = c->line; /* an argument may point into c->line */
    end = (unsigned char *) line + strlen(line);
    for (const unsigned char *p = (unsigned char *) line; p < end;) {
        size_t len = pj_steers(p, end);

        *to++ = len > 0 ? '?' : (char) *p;
        p += len > 0 ? len : 1;
    }
    *to = '\0';
    c->status = status;
    if (first) {
        c->code = status == CMD_USAGE ? "REQUEST_INVALID" : "COMMAND_FAILED";
        c->faults.count = 0;
    }
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

bool cmd_join(struct cmd *c, const char *name, size_t most, char between)
{
    struct buf out;
    size_t n = 0;

    buf_init(&out, c->secret, sizeof(c->secret));
    for (size_t i = 0; i < c->given_count; i++) {
        if (strcmp(c->given[i].option->name, name) == 0) {
            if (n++ > 0) {
                buf_addc(&out, between);
            }
            buf_addz(&out, c->given[i].value);
        }
    }
    buf_addc(&out, '\0');
    return (n <= most && !out.overflow) ||
           cmd_misused(c, "--%s is given too often", name);
}

bool cmd_fold(struct cmd *c, const char *text)
{
    pj_str_t name = pj_str(text);

    if (name.len > sizeof(c->secret) ||
        parse_account_name(name, (unsigned char *) c->secret, &name) != NULL) {
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
    struct error e;

    if (c->loaded) {
        return true;
    }
    if (!config_load(&c->cfg, c->env_file, &e)) {
        return cmd_fail_settings(c, "%s", e.text);
    }
    c->loaded = true;
    config_scrub_environment();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The leak checker must attach to this process. */
    (void) prctl(PR_SET_DUMPABLE, 0);
#endif
    log_setup(c->cfg.app_name, c->cfg.app_env, c->cfg.log_level);
    /* Open it before changing anything.  A serving process uses its only
     * log. */
    return c->spec == NULL || log_audit_to(c->cfg.audit_log) ||
           cmd_fail(c, "PLATFORM_AUDIT_LOG: %s: %m", c->cfg.audit_log);
}

bool cmd_hashing(struct cmd *c)
{
    return cmd_load(c) && (password_setup(&c->cfg) ||
                           cmd_fail(c, "the credential could not be hashed"));
}

bool cmd_keys(struct cmd *c)
{
    struct error e;

    if (!cmd_load(c)) {
        return false;
    }
    c->keys = keys_load(&c->cfg, &e);
    config_wipe_private_key(&c->cfg);
    if (c->keys == NULL) {
        return cmd_fail_settings(c, "%s", e.text);
    }
    return c->spec == NULL || c->keys->signing != NULL || c->spec->keyless ||
           cmd_fail_settings(c, "no signing key: PLATFORM_JWT_KEY_ID, "
                                "PLATFORM_JWT_PRIVATE_KEY_BASE64 and "
                                "PLATFORM_JWT_PUBLIC_KEY_BASE64 are not set");
}

/* -- error lines -- */

#define LOST                                                                   \
    "the database's last answer was lost: whether the change was made is not " \
    "known; look before trying again"
#define NOT_MIGRATED                                                           \
    "the database is not migrated to this release: run identity-fcgi migrate"

static const struct {
    const char *state, *line; /* SQLSTATE */
} known[] = {
    {"22021", "what was given is not valid UTF-8"},
    {"25006", "this database server is a standby; nothing was changed"},
    {"42501", "the database role may not do this: it needs the rights of "
              "platform_operator (db/roles.sql); nothing was changed"},
    {"42703", NOT_MIGRATED},
    {"42883", NOT_MIGRATED},
    {"42P01", "the database is not migrated: run identity-fcgi migrate"},
    {"57014", "the database did not finish within "
              "PLATFORM_DB_STATEMENT_TIMEOUT; nothing was changed"},
};

/* Sets the error from the last error of the database, unless it is set already.
 * Returns false. */
static bool explain(struct cmd *c, bool committing)
{
    const struct db_error *error = db_script_error(c->db);
    enum people_outcome outcome;
    struct people p;

    if (c->line[0] != '\0') {
        return false;
    }
    outcome = people_violated(&p, error->constraint);
    if (outcome != PEOPLE_FAILED) {
        return cmd_people(c, &p, outcome);
    }
    (void) cmd_fail(c, "the database failed: %s; nothing was changed",
                    error->message[0] != '\0' ? error->message
                                              : "its answer is too large");
    if (error->state[0] == '\0' && committing) {
        (void) cmd_fail(c, LOST);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(error->state, known[i].state) == 0) {
            (void) cmd_fail(c, "%s", known[i].line);
        }
    }
    c->code = strcmp(error->state, "22021") == 0 ? "REQUEST_INVALID"
                                                 : "DATABASE_UNAVAILABLE";
    return false;
}

/* -- connection and transactions -- */

bool cmd_no_database(struct cmd *c, const char *why)
{
    bool forgotten = c->env_file == NULL && c->cfg.db_user == NULL;

    return cmd_fail_as(c, "DATABASE_UNAVAILABLE", "%s%s", why,
                       forgotten
                           ? "; PLATFORM_DB_USER is not set: settings are "
                             "read from --env-file FILE, which is not given"
                           : "");
}

bool cmd_connect(struct cmd *c)
{
    static unsigned char results[RESULTS_BYTES];
    struct error why;

    if (c->db != NULL) {
        return true;
    }
    if (!cmd_load(c)) {
        return false;
    }
    pj_arena_init(&c->results, results, sizeof(results));
    c->db = db_script_open(&c->cfg, c->cfg.db_statement_timeout_ms, &why);
    return c->db != NULL || cmd_no_database(c, why.text);
}

bool cmd_transact(struct cmd *c, cmd_work_fn *work, void *state)
{
    struct store st = {.script = c->db};
    struct people p = {.store = &st, .arena = &c->results, .may = PEOPLE_ANY};
    unsigned char *free = c->results.pos;

    for (int i = 1;; i++) {
        bool committing;

        c->line[0] = '\0';
        c->results.pos = free;
        committing = db_script_begin(c->db) && store_actor_set(c->db, NULL) &&
                     cmd_people(c, &p, work(&p, state));
        if (committing && db_script_run(c->db, "COMMIT", NULL, 0)) {
            return true;
        }
        (void) !db_script_run(c->db, "ROLLBACK", NULL, 0);
        /* Retry deadlocks and serialisation failures. */
        if (i == TRIES || c->line[0] != '\0' ||
            strncmp(db_script_error(c->db)->state, "40", 2) != 0) {
            return explain(c, committing);
        }
    }
}

const char *cmd_option(const struct cmd *c, const char *name)
{
    const char *value = NULL;

    (void) cmd_given(c, name, &value, 1);
    return value;
}

void cmd_show(struct cmd *c, const struct people_member *members,
              const void *item, const char *event)
{
    c->members = members;
    c->item = item;
    c->events[0] = event;
    c->events[1] = NULL;
}

bool cmd_people(struct cmd *c, const struct people *p,
                enum people_outcome outcome)
{
    static const char *const codes[] = {
        [PEOPLE_INVALID] = "REQUEST_INVALID",
        [PEOPLE_NOT_FOUND] = "RESOURCE_NOT_FOUND",
        [PEOPLE_EXISTS] = "RESOURCE_EXISTS",
        [PEOPLE_LIMIT] = "RESOURCE_LIMIT_REACHED",
        [PEOPLE_CONFLICT] = "RESOURCE_CONFLICT",
        [PEOPLE_NOT_ALLOWED] = "RESOURCE_CONFLICT"};

    if (outcome == PEOPLE_DONE || outcome == PEOPLE_FAILED) {
        return outcome == PEOPLE_DONE;
    }
    (void) cmd_fail_as(c, codes[outcome], "%s", p->line);
    if (outcome == PEOPLE_INVALID && p->field != NULL) {
        snprintf(c->pointer, sizeof(c->pointer), "/%s", p->field);
        fault_add(&c->faults, (struct fault){.code = FAULT_NOT_ALLOWED,
                                             .pointer = c->pointer});
    }
    return false;
}

bool cmd_is_uuid(const char *text)
{
    unsigned char bytes[UUID_BYTES];

    return uuid_parse(bytes, pj_str(text));
}

bool cmd_is_time(const char *text)
{
    return parse_time(text, &(int64_t){0});
}

/* -- values -- */

/* Returns the text of a member of c->item, or "" for null.  Returns NULL if
 * the item lacks this member.  A number's text is valid until the next call. */
static const char *member(const struct cmd *c, const char *name)
{
    static char number[24];
    const struct people_member *m = c->members;
    const char *text;
    int64_t n;

    while (m->name != NULL && strcmp(m->name, name) != 0) {
        m++;
    }
    if (m->name == NULL || m->type == PEOPLE_ROWS) {
        return NULL;
    }
    if (m->type == PEOPLE_BOOL) {
        return *((const char *) c->item + m->offset) != 0 ? "t" : "f";
    }
    if (m->type == PEOPLE_NUMBER || m->type == PEOPLE_TIME) {
        memcpy(&n, (const char *) c->item + m->offset, sizeof(n));
        snprintf(number, sizeof(number), "%lld",
                 (long long) (m->type == PEOPLE_TIME ? n / 1000000 : n));
        return number;
    }
    memcpy(&text, (const char *) c->item + m->offset, sizeof(text));
    return text != NULL ? text : "";
}

const char *cmd_get(const struct cmd *c, const char *name)
{
    const char *value = c->item != NULL ? member(c, name) : NULL;

    if (value != NULL) {
        return value;
    }
    for (size_t i = 0; i < c->set_count; i++) {
        if (strcmp(c->set[i].name, name) == 0) {
            return c->set[i].text;
        }
    }
    if (cmd_given(c, name, &value, 1) == 0 && c->spec->operand != NULL &&
        strcasecmp(c->spec->operand, name) == 0) {
        value = c->operand;
    }
    return value;
}

/* Returns the index of an existing or new value.  Aborts if the table is
 * full. */
static size_t set_index(struct cmd *c, const char *name)
{
    size_t i = 0;

    while (i < c->set_count && strcmp(c->set[i].name, name) != 0) {
        i++;
    }
    if (i == CMD_MAX_SET) {
        abort();
    }
    c->set_count += i == c->set_count;
    c->set[i].name = name;
    return i;
}

void cmd_set(struct cmd *c, const char *name, const char *text)
{
    c->set[set_index(c, name)].text = text;
}

void cmd_setf(struct cmd *c, const char *name, const char *format, ...)
{
    size_t i = set_index(c, name);
    va_list ap;

    va_start(ap, format);
    vsnprintf(c->set[i].copy, sizeof(c->set[i].copy), format, ap);
    va_end(ap);
    c->set[i].text = c->set[i].copy;
}
