/* The parts that commands share: options, settings, keys, statements and
 * values. */

#include "cmd/cmd.h"

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
#define SQL_MAX 4096
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-."

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

bool cmd_name_is_free(struct cmd *c)
{
    return !cmd_is_uuid(cmd_get(c, "folded")) ||
           cmd_fail_as(c, "REQUEST_INVALID",
                       "an account's name cannot be a UUID");
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
                    error->message);
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
    struct error why;

    if (c->db != NULL) {
        return true;
    }
    if (!cmd_load(c)) {
        return false;
    }
    c->db = db_script_open(&c->cfg, c->cfg.db_statement_timeout_ms, &why);
    return c->db != NULL || cmd_no_database(c, why.text);
}

void cmd_keep(struct cmd *c, size_t results)
{
    while (c->result_count > results) {
        db_rows_free(c->results[--c->result_count]);
    }
    c->row = 0;
}

bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c))
{
    size_t results = c->result_count, set = c->set_count;

    for (int i = 1;; i++) {
        bool committing;

        c->line[0] = '\0';
        cmd_keep(c, results);
        c->set_count = set;
        c->changed = true;
        committing = db_script_begin(c->db) && work(c);
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

/* -- statements -- */

/* Returns the value of a parameter, whose kinds are described at cmd_sql(). */
static const char *parameter(const struct cmd *c, const char *text, size_t len)
{
    const char *value = NULL;
    char name[32], *kind = name;

    snprintf(name, sizeof(name), "%.*s", (int) len, text);
    (void) strsep(&kind, ".");
    if (kind != NULL && strcmp(kind, "given") == 0) {
        (void) cmd_given(c, name, &value, 1);
        return value;
    }
    value = cmd_get(c, name);
    return kind == NULL || value == NULL ||
                   cmd_is_uuid(value) == (strcmp(kind, "id") == 0)
               ? value
               : NULL;
}

/* Replaces the parameters in sql by $1, $2 ... */
static void bind(const struct cmd *c, const char *sql, struct buf *out,
                 struct db_params *params)
{
    for (; *sql != '\0'; sql++) {
        size_t len = *sql == ':' ? strspn(sql + 1, NAME_LETTERS) : 0;

        if (strncmp(sql, "::", 2) == 0) { /* a cast */
            buf_addz(out, "::");
            sql++;
        } else if (len > 0 && params->count < DB_MAX_PARAMS) {
            db_params(params, db_any(parameter(c, sql + 1, len)));
            buf_addf(out, "$%zu", params->count);
            sql += len;
        } else {
            buf_addc(out, *sql);
        }
    }
    buf_addc(out, '\0');
}

bool cmd_sql(struct cmd *c, const char *sql)
{
    struct db_params params = {0};
    struct db_rows *rows;
    char mem[SQL_MAX];
    struct buf text;

    buf_init(&text, mem, sizeof(mem));
    bind(c, sql, &text, &params);
    if (text.overflow || c->result_count == CMD_MAX_RESULTS) {
        return cmd_fail(c, "too many statements; nothing was changed");
    }
    if (!db_script_query(c->db, mem, &params, &rows)) {
        return false;
    }
    c->touched = (int64_t) db_affected(rows);
    c->found = db_row_count(rows);
    if (c->found > 0) {
        c->results[c->result_count++] = rows;
    } else {
        db_rows_free(rows);
    }
    return true;
}

const char *cmd_option(const struct cmd *c, const char *name)
{
    const char *value = NULL;

    (void) cmd_given(c, name, &value, 1);
    return value;
}

void cmd_people_init(struct cmd *c, struct people *p, struct store *st,
                     pj_arena_t *arena)
{
    *st = (struct store){.script = c->db};
    pj_arena_init(arena, c->arena, sizeof(c->arena));
    *p = (struct people){.store = st, .arena = arena, .may = PEOPLE_ANY};
}

static bool operate(struct cmd *c)
{
    struct people p;
    struct store st;
    pj_arena_t arena;

    cmd_people_init(c, &p, &st, &arena);
    c->item = NULL;
    memset(c->events, 0, sizeof(c->events));
    return store_actor_set(c->db, NULL) && c->spec->operate(c, &p);
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

bool cmd_find(struct cmd *c, const char *what, const char *ref,
              const char *hint, const char *sql)
{
    const struct db_rows *rows;

    cmd_set(c, "ref", ref);
    if (!cmd_sql(c, sql)) {
        return false;
    }
    if (c->found == 0) {
        return hint == NULL ||
               (cmd_is_uuid(ref)
                    ? cmd_fail_as(c, "RESOURCE_NOT_FOUND",
                                  "there is no %s with the id %s", what, ref)
                    : cmd_fail_as(c, "RESOURCE_NOT_FOUND",
                                  "there is no %s called \"%s\"%s", what, ref,
                                  hint));
    }
    rows = c->results[c->result_count - 1];
    return c->found == 1 ||
           cmd_fail_as(c, "REQUEST_INVALID",
                       "more than one %s is called \"%s\": give its id instead "
                       "(%s, %s%s)",
                       what, ref, db_text(rows, 0, 0, NULL),
                       db_text(rows, 1, 0, NULL), c->found > 2 ? ", ..." : "");
}

/* -- values -- */

/* Returns the text of a member of c->item, "" for null, or NULL if it has no
 * such member.  A number's text is valid until the next call. */
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
    for (size_t i = c->result_count; i-- > 0;) {
        size_t row = i + 1 == c->result_count ? c->row : 0;
        int col = db_column(c->results[i], name);

        if (col >= 0) {
            return db_text(c->results[i], row, col, NULL); /* "" for null */
        }
    }
    if (cmd_given(c, name, &value, 1) == 0 && c->spec->operand != NULL &&
        strcasecmp(c->spec->operand, name) == 0) {
        value = c->operand;
    }
    return value;
}

bool cmd_is(const struct cmd *c, const char *name, const char *text)
{
    const char *value = cmd_get(c, name);

    return value != NULL && strcmp(value, text) == 0;
}

/* Returns the index of an existing or new value.  Aborts if the table is full,
 * because a missing value would be null and remove a condition from a
 * statement. */
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

/* -- the transaction -- */

#define ACCOUNT_SQL                                                            \
    "SELECT account_id AS accountId, account_name AS account,"                 \
    "       account_type AS type, account_type AS accountType, status"         \
    "  FROM accounts"                                                          \
    " WHERE account_id = :ref.id OR account_name COLLATE \"C\" = :ref.name"

#define WORKSPACE_SQL                                                          \
    "SELECT workspace_id AS workspaceId, workspace_name AS workspaceName,"     \
    "       w.status, tenant_id AS tenantId, tenant_name AS tenantName"        \
    "  FROM workspaces w JOIN tenants t USING (tenant_id)"                     \
    " WHERE workspace_id = :ref.id"                                            \
    "    OR workspace_name COLLATE \"C\" = :ref.name"                          \
    " ORDER BY workspace_id"

/* Locks the rows that the command may change, the account first, so that
 * changes are serialised and commands cannot deadlock. */
bool cmd_work(struct cmd *c)
{
    const struct cmd_spec *s = c->spec;
    const char *workspace = s->lock ? cmd_get(c, "workspace") : NULL;
    const char *what = s->to != NULL ? s->to : "status";
    const char *to = s->to != NULL ? cmd_get(c, "to") : s->status;
    bool writes = s->event != NULL;

    if (s->operate != NULL) {
        return operate(c);
    }
    if (!s->list && !store_actor_set(c->db, s->event)) {
        return false;
    }
    if (cmd_get(c, "account") != NULL &&
        !cmd_find(c, "account", c->account, "",
                  writes ? ACCOUNT_SQL " FOR NO KEY UPDATE" : ACCOUNT_SQL)) {
        return false;
    }
    if (writes && cmd_is(c, "status", "DELETED") && !s->keyless) {
        return cmd_fail_as(c, "RESOURCE_NOT_FOUND", "this account is deleted");
    }
    if ((workspace != NULL &&
         !cmd_find(c, "workspace", workspace, "",
                   writes ? WORKSPACE_SQL " FOR NO KEY UPDATE OF w"
                          : WORKSPACE_SQL)) ||
        (s->find != NULL && !s->find(c))) {
        return false;
    }
    if (to != NULL) {
        c->changed = !cmd_is(c, what, to);
        cmd_set(c, "changed", c->changed ? "t" : "f");
        cmd_set(c, what, to);
    }
    return (s->sql == NULL || !c->changed || cmd_sql(c, s->sql)) &&
           (s->work == NULL || s->work(c));
}
