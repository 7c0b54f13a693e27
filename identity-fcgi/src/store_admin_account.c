/* Accounts, their sessions and failed logins, as the operator changes them. */

#include "store_admin_sql.h"

#include <stdio.h>
#include <string.h>

/* -- what transactions are given -- */

struct account_change {
    const char *ref; /* or the new account's name */
    const char *type;
    const char *hash;
    const char *session_id;
    bool enable;
    struct admin_account *out;
};

static void set_status(struct admin_account *out, const char *status)
{
    snprintf(out->status, sizeof(out->status), "%s", status);
}

/*
 * Revokes the account's sessions, or one of them.  They are locked in order
 * first: a logout that holds some of them cannot deadlock with this one.
 */
static bool revoke(struct admin *a, const struct account_change *c)
{
    struct db_params p = {0};

    store_param_uuid(&p, c->out->account_id);
    db_param_uuid_or_null(&p, c->session_id);
    return admin_execute(a,
                         "SELECT FROM auth_sessions"
                         " WHERE account_id = $1 AND status = 'ACTIVE'"
                         "   AND ($2 IS NULL OR session_id = $2)"
                         " ORDER BY session_id FOR UPDATE",
                         &p, NULL) &&
           admin_execute(a,
                         "UPDATE auth_sessions SET status = 'REVOKED',"
                         "       revoked_at = greatest(now(), created_at)"
                         " WHERE account_id = $1 AND status = 'ACTIVE'"
                         "   AND ($2 IS NULL OR session_id = $2)",
                         &p, &c->out->ended_sessions);
}

/* -- accounts -- */

static bool find(struct admin *a, void *arg)
{
    struct account_change *c = arg;

    return admin_lock_account(a, c->ref, c->out);
}

bool admin_account_find(struct admin *a, const char *ref,
                        struct admin_account *out)
{
    struct account_change c = {.ref = ref, .out = out};

    return admin_transact(a, find, &c);
}

static bool add(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    struct db_params p = {0};

    admin_param_text(&p, c->ref);
    admin_param_text(&p, c->type);
    admin_param_text(&p, c->hash);
    return admin_execute(a,
                         "INSERT INTO accounts"
                         " (account_name, account_type, credential_hash)"
                         " VALUES ($1, $2, $3)",
                         &p, NULL) &&
           admin_lock_account(a, c->ref, c->out);
}

bool admin_account_add(struct admin *a, const char *name, const char *type,
                       const char *hash, struct admin_account *out)
{
    struct account_change c = {
        .ref = name, .type = type, .hash = hash, .out = out};

    if (admin_is_uuid(name)) {
        /* Nobody could refer to it by name. */
        return admin_refuse(a, "an account's name cannot be a UUID");
    }
    if (!admin_transact(a, add, &c)) {
        return false;
    }
    out->changed = true;
    return true;
}

static bool enable_or_disable(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    const char *status = c->enable ? "ACTIVE" : "DISABLED";
    struct db_params p = {0};

    if (!admin_lock_account(a, c->ref, c->out)) {
        return false;
    }
    store_param_uuid(&p, c->out->account_id);
    admin_param_text(&p, status);
    c->out->changed = strcmp(c->out->status, status) != 0;
    if (c->out->changed &&
        !admin_execute(a,
                       "UPDATE accounts SET status = $2, updated_at = now()"
                       " WHERE account_id = $1",
                       &p, NULL)) {
        return false;
    }
    set_status(c->out, status);
    return c->enable || revoke(a, c);
}

bool admin_account_enable(struct admin *a, const char *ref, bool enable,
                          struct admin_account *out)
{
    struct account_change c = {.ref = ref, .enable = enable, .out = out};

    return admin_transact(a, enable_or_disable, &c);
}

static bool set_credential(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    struct db_params p = {0};

    if (!admin_lock_account(a, c->ref, c->out)) {
        return false;
    }
    store_param_uuid(&p, c->out->account_id);
    admin_param_text(&p, c->hash);
    c->out->changed = true;
    return admin_execute(a,
                         "UPDATE accounts"
                         "   SET credential_hash = $2, updated_at = now()"
                         " WHERE account_id = $1",
                         &p, NULL) &&
           revoke(a, c);
}

bool admin_account_credential(struct admin *a, const char *ref,
                              const char *hash, struct admin_account *out)
{
    struct account_change c = {.ref = ref, .hash = hash, .out = out};

    return admin_transact(a, set_credential, &c);
}

/* -- sessions -- */

static bool revoke_sessions(struct admin *a, void *arg)
{
    struct account_change *c = arg;

    return admin_lock_account(a, c->ref, c->out) && revoke(a, c);
}

bool admin_sessions_revoke(struct admin *a, const char *ref,
                           const char *session_id, struct admin_account *out)
{
    struct account_change c = {
        .ref = ref, .session_id = session_id, .out = out};

    return admin_transact(a, revoke_sessions, &c);
}

struct session_list {
    const char *ref;
    bool all;
    int64_t limit;
    struct db_rows *rows; /* of the last try; freed by admin_sessions() */
};

static bool list_sessions(struct admin *a, void *arg)
{
    struct session_list *l = arg;
    struct admin_account account;
    struct db_params p = {0};

    if (!admin_lock_account(a, l->ref, &account)) {
        return false;
    }
    store_param_uuid(&p, account.account_id);
    db_param_bool(&p, l->all);
    db_param_int64(&p, l->limit);
    db_rows_free(l->rows);
    return admin_query(
        a,
        "SELECT s.session_id, s.status = 'REVOKED', s.expires_at <= now(),"
        "       floor(extract(epoch FROM s.created_at))::bigint,"
        "       floor(extract(epoch FROM s.expires_at))::bigint,"
        "       coalesce(floor(extract(epoch FROM s.revoked_at)), 0)::bigint,"
        "       s.workspace_id, s.active_branch_id,"
        "       coalesce(w.workspace_name, ''), coalesce(b.branch_name, '')"
        "  FROM auth_sessions s"
        "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
        "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
        " WHERE s.account_id = $1"
        "   AND ($2 OR (s.status = 'ACTIVE' AND s.expires_at > now()))"
        " ORDER BY s.created_at DESC, s.session_id LIMIT $3",
        &p, &l->rows);
}

static void copy_session(const struct db_rows *rows, size_t row,
                         struct admin_session *s)
{
    memset(s, 0, sizeof(*s));
    db_uuid(rows, row, 0, s->session_id);
    s->status = db_bool(rows, row, 1)   ? "REVOKED"
                : db_bool(rows, row, 2) ? "EXPIRED"
                                        : "ACTIVE";
    s->created_at_s = db_int64(rows, row, 3);
    s->expires_at_s = db_int64(rows, row, 4);
    s->revoked_at_s = db_int64(rows, row, 5);
    db_uuid(rows, row, 6, s->workspace_id);
    db_uuid(rows, row, 7, s->branch_id);
    store_copy_text(rows, row, 8, s->workspace, sizeof(s->workspace));
    store_copy_text(rows, row, 9, s->branch, sizeof(s->branch));
}

bool admin_sessions(struct admin *a, const char *ref, bool all, int64_t limit,
                    void (*each)(void *arg, const struct admin_session *s),
                    void *arg)
{
    struct session_list list = {ref, all, limit, NULL};
    bool ok = admin_transact(a, list_sessions, &list);

    for (size_t i = 0; ok && i < db_row_count(list.rows); i++) {
        struct admin_session s;

        copy_session(list.rows, i, &s);
        each(arg, &s);
    }
    db_rows_free(list.rows);
    return ok;
}

/* -- failed logins -- */

struct clearing {
    const struct attempt *attempt;
    bool by_address;
    int64_t *accounts, *addresses;
};

static bool clear(struct admin *a, void *arg)
{
    struct clearing *c = arg;
    struct db_params account = {0}, address = {0};

    *c->addresses = 0;
    db_param_bytes(&account, c->attempt->account_hmac,
                   sizeof(c->attempt->account_hmac));
    if (!admin_execute(a, "DELETE FROM login_attempts WHERE account_hmac = $1",
                       &account, c->accounts)) {
        return false;
    }
    db_param_inet(&address, c->attempt->address);
    return !c->by_address ||
           admin_execute(a,
                         "DELETE FROM login_attempts"
                         " WHERE account_hmac = '' AND address = $1",
                         &address, c->addresses);
}

bool admin_attempts_clear(struct admin *a, const struct attempt *attempt,
                          bool by_address, int64_t *accounts,
                          int64_t *addresses)
{
    struct clearing c = {attempt, by_address, accounts, addresses};

    return admin_transact(a, clear, &c);
}
