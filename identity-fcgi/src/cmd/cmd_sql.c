/* The statements of a command: connection, transactions, error lines, and the
 * values that they give. */

#include "cmd/cmd.h"

#include "base/uuid.h"

#include <stdarg.h>
#include <string.h>

#define TRIES 3
/* The server's own timeout comes first: its answer is worth more. */
#define GRACE_MS 250

/* -- error lines -- */

#define NOT_MIGRATED                                                          \
    "the database is not migrated to this release: run identity-fcgi migrate"

static const struct {
    const char *what; /* a constraint or an SQLSTATE */
    const char *line;
} known[] = {
    {"accounts_name", "an account of this name exists already"},
    {"accounts_name_normalised",
     "the name of an account is 1 to 320 bytes without control characters"},
    {"branches_name_plain",
     "the name of a branch is 1 to 200 bytes without control characters"},
    {"branches_per_account",
     "an account may be granted at most 1000 active branches in all"},
    {"branches_per_member",
     "a member may be granted at most 200 active branches; revoke or "
     "deactivate some first"},
    {"member_roles_code_plain",
     "a role is 1 to 32 of the characters A-Z a-z 0-9 _ . : -"},
    {"roles_per_grant",
     "a member may hold at most 32 roles in a branch; revoke some first"},
    {"tenants_name_plain",
     "the name of a tenant is 1 to 200 bytes without control characters"},
    {"workspaces_name_plain",
     "the name of a workspace is 1 to 200 bytes without control characters"},
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

/* Turns the last error into a line, unless work has written one. */
static void explain(struct cmd *c, bool committing)
{
    if (c->line[0] != '\0') {
        return;
    }
    if (c->error.state[0] == '\0' && committing) {
        (void) cmd_refuse(c, "the database's last answer was lost: whether "
                             "the change was made is not known; look before "
                             "trying again");
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(c->error.constraint, known[i].what) == 0 ||
            strcmp(c->error.state, known[i].what) == 0) {
            (void) cmd_refuse(c, "%s", known[i].line);
            return;
        }
    }
    (void) cmd_refuse(c, "the database failed: %s; nothing was changed",
                      c->error.message);
}

bool cmd_refuse(struct cmd *c, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(c->line, sizeof(c->line), format, ap);
    va_end(ap);
    return false;
}

/* -- connection and transactions -- */

bool cmd_connect(struct cmd *c)
{
    char why[256];

    if (c->db != NULL) {
        return true;
    }
    if (!cmd_load(c)) {
        return false;
    }
    c->db = db_script_open(&c->cfg, why, sizeof(why));
    if (c->db == NULL) {
        (void) cmd_fail(c, CMD_FAILED, "cannot reach the database: %s", why);
    }
    return c->db != NULL;
}

static void forget(struct cmd *c, size_t results, size_t set)
{
    while (c->result_count > results) {
        db_rows_free(c->results[--c->result_count]);
    }
    c->set_count = set;
    c->row = 0;
}

void cmd_disconnect(struct cmd *c)
{
    forget(c, 0, 0);
    db_script_close(c->db);
}

static int64_t deadline_ms(const struct cmd *c)
{
    return db_now_ms() + c->cfg.db_statement_timeout_ms + GRACE_MS;
}

/* Deadlock and serialisation failure: the other one has gone on. */
static bool may_retry(const struct cmd *c)
{
    return c->line[0] == '\0' && strncmp(c->error.state, "40", 2) == 0;
}

bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c))
{
    size_t results = c->result_count, set = c->set_count;

    for (int i = 1;; i++) {
        struct db_error ignored;
        bool committing;

        memset(&c->error, 0, sizeof(c->error));
        c->line[0] = '\0';
        forget(c, results, set);
        committing = db_script_begin(c->db, c->cfg.db_statement_timeout_ms,
                                     deadline_ms(c), &c->error) &&
                     work(c);
        if (committing && db_script_run(c->db, "COMMIT", deadline_ms(c), NULL,
                                        0, &c->error)) {
            return true;
        }
        (void) !db_script_run(c->db, "ROLLBACK", db_now_ms() + GRACE_MS, NULL,
                              0, &ignored);
        if (i == TRIES || !may_retry(c)) {
            explain(c, committing);
            return false;
        }
    }
}

bool cmd_change(struct cmd *c, bool (*work)(struct cmd *c))
{
    if (!cmd_connect(c)) {
        return false;
    }
    if (!cmd_transact(c, work)) {
        (void) cmd_fail(c, CMD_FAILED, "%s", c->line);
        return false;
    }
    return true;
}

bool cmd_query(struct cmd *c, const char *sql, const char *const *params,
               size_t count)
{
    struct db_rows *rows;

    if (c->result_count == CMD_MAX_RESULTS) {
        return cmd_refuse(c, "too many statements; nothing was changed");
    }
    if (!db_script_text(c->db, sql, params, count, deadline_ms(c), &rows,
                        &c->error)) {
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

void cmd_drop(struct cmd *c)
{
    forget(c, c->result_count - (c->found > 0), c->set_count);
}

/* -- values -- */

bool cmd_has(const struct cmd *c, const char *name, const char **value)
{
    for (size_t i = c->set_count; i-- > 0;) {
        if (strcmp(c->set[i].name, name) == 0) {
            *value =
                c->set[i].text != NULL ? c->set[i].text : c->set[i].digits;
            return true;
        }
    }
    for (size_t i = c->result_count; i-- > 0;) {
        size_t row = i + 1 == c->result_count ? c->row : 0;
        int col = db_column(c->results[i], name);

        if (col >= 0) {
            *value = db_is_null(c->results[i], row, col)
                         ? NULL
                         : db_text(c->results[i], row, col, NULL);
            return true;
        }
    }
    *value = NULL;
    return false;
}

const char *cmd_get(const struct cmd *c, const char *name)
{
    const char *value;

    (void) cmd_has(c, name, &value);
    return value;
}

bool cmd_is(const struct cmd *c, const char *name, const char *text)
{
    const char *value = cmd_get(c, name);

    return value != NULL && strcmp(value, text) == 0;
}

static void set(struct cmd *c, const char *name, const char *text,
                int64_t number)
{
    if (c->set_count < CMD_MAX_SET) {
        c->set[c->set_count].name = name;
        c->set[c->set_count].text = text;
        c->set[c->set_count].number = number;
        snprintf(c->set[c->set_count].digits, sizeof(c->set[0].digits), "%lld",
                 (long long) number);
        c->set_count++;
    }
}

void cmd_set_text(struct cmd *c, const char *name, const char *text)
{
    set(c, name, text, 0);
}

void cmd_set_number(struct cmd *c, const char *name, int64_t number)
{
    set(c, name, NULL, number);
}

bool cmd_number(const struct cmd *c, const char *name, int64_t *number)
{
    for (size_t i = c->set_count; i-- > 0;) {
        if (strcmp(c->set[i].name, name) == 0 && c->set[i].text == NULL) {
            *number = c->set[i].number;
            return true;
        }
    }
    return false;
}

bool cmd_new_status(struct cmd *c)
{
    bool changed = !cmd_is(c, "status", c->spec->status);

    cmd_set_text(c, "changed", changed ? "t" : "f");
    cmd_set_text(c, "status", c->spec->status);
    return changed;
}

/* -- references -- */

bool cmd_is_uuid(const char *text)
{
    unsigned char bytes[UUID_BYTES];

    return uuid_parse(bytes,
                      (pj_str_t){(const unsigned char *) text, strlen(text)});
}

const char *cmd_ref_id(const char *ref)
{
    return ref != NULL && cmd_is_uuid(ref) ? ref : NULL;
}

const char *cmd_ref_name(const char *ref)
{
    return ref != NULL && cmd_is_uuid(ref) ? NULL : ref;
}

bool cmd_one(struct cmd *c, const char *what, const char *ref)
{
    const struct db_rows *rows;

    if (c->found == 1) {
        return true;
    }
    if (c->found == 0) {
        return cmd_is_uuid(ref)
                   ? cmd_refuse(c, "there is no %s with the id %s", what, ref)
                   : cmd_refuse(c, "there is no %s called \"%s\"", what, ref);
    }
    rows = c->results[c->result_count - 1];
    return cmd_refuse(c,
                      "more than one %s is called \"%s\": give its id instead "
                      "(%s, %s%s)",
                      what, ref, db_text(rows, 0, 0, NULL),
                      db_text(rows, 1, 0, NULL), c->found > 2 ? ", ..." : "");
}

bool cmd_lock_account(struct cmd *c)
{
    return cmd_sql(c,
                   "SELECT account_id AS accountId, account_name AS account,"
                   "       account_type AS type, status"
                   "  FROM accounts"
                   " WHERE account_id = $1"
                   "    OR account_name COLLATE \"C\" = $2"
                   "   FOR NO KEY UPDATE",
                   CMD_REF(c->account)) &&
           cmd_one(c, "account", c->account);
}

bool cmd_lock_workspace(struct cmd *c, const char *ref)
{
    return cmd_sql(c,
                   "SELECT w.workspace_id AS workspaceId,"
                   "       w.workspace_name AS workspaceName, w.status,"
                   "       t.tenant_id AS tenantId,"
                   "       t.tenant_name AS tenantName"
                   "  FROM workspaces w"
                   "  JOIN tenants t ON t.tenant_id = w.tenant_id"
                   " WHERE w.workspace_id = $1"
                   "    OR w.workspace_name COLLATE \"C\" = $2"
                   " ORDER BY w.workspace_id"
                   "   FOR NO KEY UPDATE OF w",
                   CMD_REF(ref)) &&
           cmd_one(c, "workspace", ref);
}
