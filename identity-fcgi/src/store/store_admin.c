/* The operator's store: its connection, transactions and error lines. */

#include "store/store_admin_sql.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 3
/* The server's own timeout comes first: its answer is worth more. */
#define GRACE_MS 250

struct admin {
    const struct config *cfg;
    struct db_script *db;
    struct db_error error; /* of the statement that failed */
    char line[512];        /* set where work refused by itself */
};

/* -- error lines -- */

static const struct {
    const char *constraint;
    const char *line;
} violations[] = {
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
};

static const struct {
    const char *state;
    const char *line;
} states[] = {
    {"22021", "what was given is not valid UTF-8"},
    {"25006", "this database server is a standby; nothing was changed"},
    {"42501", "the database role may not do this: it needs the rights of "
              "platform_operator (db/roles.sql); nothing was changed"},
    {"42703", "the database is not migrated to this release: run "
              "identity-fcgi migrate"},
    {"42883", "the database is not migrated to this release: run "
              "identity-fcgi migrate"},
    {"42P01", "the database is not migrated: run identity-fcgi migrate"},
    {"57014", "the database did not finish within "
              "PLATFORM_DB_STATEMENT_TIMEOUT; nothing was changed"},
};

static const char *known_line(const struct db_error *error)
{
    for (size_t i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
        if (strcmp(error->constraint, violations[i].constraint) == 0) {
            return violations[i].line;
        }
    }
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(error->state, states[i].state) == 0) {
            return states[i].line;
        }
    }
    return NULL;
}

/* Turns the last error into a line, unless work has written one. */
static void explain(struct admin *a, bool committing)
{
    const char *line = known_line(&a->error);

    if (a->line[0] != '\0') {
        return;
    }
    if (a->error.state[0] == '\0' && committing) {
        line = "the database's last answer was lost: whether the change was "
               "made is not known; look before trying again";
    }
    if (line != NULL) {
        snprintf(a->line, sizeof(a->line), "%s", line);
    } else {
        snprintf(a->line, sizeof(a->line),
                 "the database failed: %s; nothing was changed",
                 a->error.message);
    }
}

const char *admin_error(const struct admin *a)
{
    return a->line;
}

bool admin_refuse(struct admin *a, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(a->line, sizeof(a->line), format, ap);
    va_end(ap);
    return false;
}

/* -- connection -- */

struct admin *admin_open(const struct config *cfg, char *err, size_t err_cap)
{
    struct admin *a = calloc(1, sizeof(*a));
    char why[256];

    if (a == NULL) {
        snprintf(err, err_cap, "out of memory");
        return NULL;
    }
    a->cfg = cfg;
    a->db = db_script_open(cfg, why, sizeof(why));
    if (a->db == NULL) {
        snprintf(err, err_cap, "cannot reach the database: %s", why);
        free(a);
        return NULL;
    }
    return a;
}

void admin_close(struct admin *a)
{
    if (a != NULL) {
        db_script_close(a->db);
        free(a);
    }
}

/* -- statements -- */

static int64_t deadline_ms(const struct admin *a)
{
    return db_now_ms() + a->cfg->db_statement_timeout_ms + GRACE_MS;
}

bool admin_query(struct admin *a, const char *sql,
                 const struct db_params *params, struct db_rows **rows)
{
    return db_script_query(a->db, sql, params, deadline_ms(a), rows,
                           &a->error);
}

bool admin_execute(struct admin *a, const char *sql,
                   const struct db_params *params, int64_t *touched)
{
    struct db_rows *rows;

    if (!admin_query(a, sql, params, &rows)) {
        return false;
    }
    if (touched != NULL) {
        *touched = (int64_t) db_affected(rows);
    }
    db_rows_free(rows);
    return true;
}

static bool begin(struct admin *a)
{
    return db_script_begin(a->db, a->cfg->db_statement_timeout_ms,
                           deadline_ms(a), &a->error);
}

/* Deadlock and serialisation failure: the other one has gone on. */
static bool may_retry(const struct admin *a)
{
    return a->line[0] == '\0' && strncmp(a->error.state, "40", 2) == 0;
}

bool admin_transact(struct admin *a, bool (*work)(struct admin *a, void *arg),
                    void *arg)
{
    const struct db_params none = {0};

    for (int i = 1;; i++) {
        bool committing = false;
        struct db_error ignored;
        struct db_rows *rows;

        memset(&a->error, 0, sizeof(a->error));
        a->line[0] = '\0';
        if (begin(a) && work(a, arg)) {
            committing = true;
            if (admin_execute(a, "COMMIT", &none, NULL)) {
                return true;
            }
        }
        if (db_script_query(a->db, "ROLLBACK", &none, db_now_ms() + GRACE_MS,
                            &rows, &ignored)) {
            db_rows_free(rows);
        }
        if (i == TRIES || !may_retry(a)) {
            explain(a, committing);
            return false;
        }
    }
}

/* -- references -- */

bool admin_is_uuid(const char *text)
{
    struct db_params p = {0};

    store_param_uuid(&p, text);
    return !p.bad_uuid;
}

void admin_param_text(struct db_params *p, const char *text)
{
    db_param_text(p, text, strlen(text));
}

void admin_param_ref(struct db_params *p, const char *ref)
{
    bool uuid = admin_is_uuid(ref);

    db_param_uuid_or_null(p, uuid ? ref : NULL);
    if (uuid) {
        db_param_text(p, "", 0); /* no row has an empty name */
    } else {
        admin_param_text(p, ref);
    }
}

bool admin_one_row(struct admin *a, const char *what, const char *ref,
                   struct db_rows **rows)
{
    size_t n = db_row_count(*rows);

    if (n == 1) {
        return true;
    }
    if (n == 0 && admin_is_uuid(ref)) {
        (void) admin_refuse(a, "there is no %s with the id %s", what, ref);
    } else if (n == 0) {
        (void) admin_refuse(a, "there is no %s called \"%s\"", what, ref);
    } else {
        char first[STORE_UUID], second[STORE_UUID];

        db_uuid(*rows, 0, 0, first);
        db_uuid(*rows, 1, 0, second);
        (void) admin_refuse(a,
                            "more than one %s is called \"%s\": give its id "
                            "instead (%s, %s%s)",
                            what, ref, first, second, n > 2 ? ", ..." : "");
    }
    db_rows_free(*rows);
    *rows = NULL;
    return false;
}

bool admin_lock_account(struct admin *a, const char *ref,
                        struct admin_account *out)
{
    struct db_params p = {0};
    struct db_rows *rows;

    memset(out, 0, sizeof(*out));
    admin_param_ref(&p, ref);
    if (!admin_query(a,
                     "SELECT account_id, account_name, account_type, status"
                     "  FROM accounts"
                     " WHERE account_id = $1"
                     "    OR account_name COLLATE \"C\" = $2"
                     "   FOR NO KEY UPDATE",
                     &p, &rows) ||
        !admin_one_row(a, "account", ref, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, out->account_id);
    store_copy_text(rows, 0, 1, out->name, sizeof(out->name));
    store_copy_text(rows, 0, 2, out->type, sizeof(out->type));
    store_copy_text(rows, 0, 3, out->status, sizeof(out->status));
    db_rows_free(rows);
    return true;
}
