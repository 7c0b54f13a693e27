/* Tenants, workspaces and branches, as the operator changes them. */

#include "store/store_admin_sql.h"

#include <stdio.h>
#include <string.h>

struct place_change {
    const char *ref; /* or the new row's name */
    const char *parent;
    bool new_tenant;
    bool active;
    struct admin_place *out;
};

/* -- tenants -- */

/* Names of tenants are no key: this lock makes looking and adding one step. */
#define TENANT_LOCK "SELECT pg_advisory_xact_lock(7236589412358)"

static bool add_tenant(struct admin *a, const struct place_change *c)
{
    struct db_params none = {0}, p = {0};
    struct db_rows *rows;
    size_t namesakes;

    admin_param_text(&p, c->parent);
    if (!admin_execute(a, TENANT_LOCK, &none, NULL) ||
        !admin_query(a,
                     "SELECT FROM tenants"
                     " WHERE tenant_name COLLATE \"C\" = $1",
                     &p, &rows)) {
        return false;
    }
    namesakes = db_row_count(rows);
    db_rows_free(rows);
    if (namesakes > 0) {
        return admin_refuse(a,
                            "a tenant called \"%s\" exists already: --tenant "
                            "puts the workspace there",
                            c->parent);
    }
    if (!admin_query(a,
                     "INSERT INTO tenants (tenant_name) VALUES ($1)"
                     " RETURNING tenant_id, tenant_name",
                     &p, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, c->out->tenant_id);
    store_copy_text(rows, 0, 1, c->out->tenant, sizeof(c->out->tenant));
    db_rows_free(rows);
    c->out->tenant_added = true;
    return true;
}

static bool lock_tenant(struct admin *a, const struct place_change *c)
{
    struct db_params p = {0};
    struct db_rows *rows;

    admin_param_ref(&p, c->parent);
    if (!admin_query(a,
                     "SELECT tenant_id, tenant_name FROM tenants"
                     " WHERE tenant_id = $1"
                     "    OR tenant_name COLLATE \"C\" = $2"
                     " ORDER BY tenant_id FOR NO KEY UPDATE",
                     &p, &rows)) {
        return false;
    }
    if (db_row_count(rows) == 0 && !admin_is_uuid(c->parent)) {
        db_rows_free(rows);
        return admin_refuse(a,
                            "there is no tenant called \"%s\": --new-tenant "
                            "makes one",
                            c->parent);
    }
    if (!admin_one_row(a, "tenant", c->parent, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, c->out->tenant_id);
    store_copy_text(rows, 0, 1, c->out->tenant, sizeof(c->out->tenant));
    db_rows_free(rows);
    return true;
}

/* -- workspaces -- */

bool admin_lock_workspace(struct admin *a, const char *ref,
                          struct admin_place *out)
{
    struct db_params p = {0};
    struct db_rows *rows;

    admin_param_ref(&p, ref);
    if (!admin_query(a,
                     "SELECT w.workspace_id, w.workspace_name, w.status,"
                     "       t.tenant_id, t.tenant_name"
                     "  FROM workspaces w"
                     "  JOIN tenants t ON t.tenant_id = w.tenant_id"
                     " WHERE w.workspace_id = $1"
                     "    OR w.workspace_name COLLATE \"C\" = $2"
                     " ORDER BY w.workspace_id"
                     "   FOR NO KEY UPDATE OF w",
                     &p, &rows) ||
        !admin_one_row(a, "workspace", ref, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, out->workspace_id);
    store_copy_text(rows, 0, 1, out->workspace, sizeof(out->workspace));
    store_copy_text(rows, 0, 2, out->status, sizeof(out->status));
    db_uuid(rows, 0, 3, out->tenant_id);
    store_copy_text(rows, 0, 4, out->tenant, sizeof(out->tenant));
    db_rows_free(rows);
    return true;
}

/* Under the parent's lock: two of one name could not be told apart. */
static bool refuse_namesake(struct admin *a, const char *sql,
                            const struct db_params *p, const char *what,
                            const char *where)
{
    struct db_rows *rows;
    bool found;

    if (!admin_query(a, sql, p, &rows)) {
        return false;
    }
    found = db_row_count(rows) > 0;
    db_rows_free(rows);
    return !found ||
           admin_refuse(a, "a %s of this name exists already in \"%s\"", what,
                        where);
}

static bool add_workspace(struct admin *a, void *arg)
{
    struct place_change *c = arg;
    struct db_params p = {0};
    struct db_rows *rows;

    memset(c->out, 0, sizeof(*c->out));
    if (!(c->new_tenant ? add_tenant(a, c) : lock_tenant(a, c))) {
        return false;
    }
    store_param_uuid(&p, c->out->tenant_id);
    admin_param_text(&p, c->ref);
    if (!refuse_namesake(a,
                         "SELECT FROM workspaces WHERE tenant_id = $1"
                         "   AND workspace_name COLLATE \"C\" = $2",
                         &p, "workspace", c->out->tenant) ||
        !admin_query(a,
                     "INSERT INTO workspaces (tenant_id, workspace_name)"
                     " VALUES ($1, $2)"
                     " RETURNING workspace_id, workspace_name, status",
                     &p, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, c->out->workspace_id);
    store_copy_text(rows, 0, 1, c->out->workspace, sizeof(c->out->workspace));
    store_copy_text(rows, 0, 2, c->out->status, sizeof(c->out->status));
    db_rows_free(rows);
    c->out->changed = true;
    return true;
}

bool admin_workspace_add(struct admin *a, const char *name, const char *tenant,
                         bool new_tenant, struct admin_place *out)
{
    struct place_change c = {
        .ref = name, .parent = tenant, .new_tenant = new_tenant, .out = out};

    return admin_transact(a, add_workspace, &c);
}

/* Writes the status where it is another one; $1 is the id, $2 the status. */
static bool set_status(struct admin *a, const struct place_change *c,
                       const char *sql, const char *id)
{
    const char *status = c->active ? "ACTIVE" : "INACTIVE";
    struct db_params p = {0};

    c->out->changed = strcmp(c->out->status, status) != 0;
    snprintf(c->out->status, sizeof(c->out->status), "%s", status);
    store_param_uuid(&p, id);
    admin_param_text(&p, status);
    return !c->out->changed || admin_execute(a, sql, &p, NULL);
}

static bool activate_workspace(struct admin *a, void *arg)
{
    struct place_change *c = arg;

    memset(c->out, 0, sizeof(*c->out));
    return admin_lock_workspace(a, c->ref, c->out) &&
           set_status(a, c,
                      "UPDATE workspaces SET status = $2"
                      " WHERE workspace_id = $1",
                      c->out->workspace_id);
}

bool admin_workspace_activate(struct admin *a, const char *ref, bool active,
                              struct admin_place *out)
{
    struct place_change c = {.ref = ref, .active = active, .out = out};

    return admin_transact(a, activate_workspace, &c);
}

/* -- branches -- */

static bool add_branch(struct admin *a, void *arg)
{
    struct place_change *c = arg;
    struct db_params p = {0};
    struct db_rows *rows;

    memset(c->out, 0, sizeof(*c->out));
    if (!admin_lock_workspace(a, c->parent, c->out)) {
        return false;
    }
    store_param_uuid(&p, c->out->workspace_id);
    admin_param_text(&p, c->ref);
    if (!refuse_namesake(a,
                         "SELECT FROM branches WHERE workspace_id = $1"
                         "   AND branch_name COLLATE \"C\" = $2",
                         &p, "branch", c->out->workspace) ||
        !admin_query(a,
                     "INSERT INTO branches (workspace_id, branch_name)"
                     " VALUES ($1, $2)"
                     " RETURNING branch_id, branch_name, status",
                     &p, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, c->out->branch_id);
    store_copy_text(rows, 0, 1, c->out->branch, sizeof(c->out->branch));
    store_copy_text(rows, 0, 2, c->out->status, sizeof(c->out->status));
    db_rows_free(rows);
    c->out->changed = true;
    return true;
}

bool admin_branch_add(struct admin *a, const char *name, const char *workspace,
                      struct admin_place *out)
{
    struct place_change c = {.ref = name, .parent = workspace, .out = out};

    return admin_transact(a, add_branch, &c);
}

static bool lock_branch(struct admin *a, const struct place_change *c)
{
    struct admin_place *out = c->out;
    struct db_params p = {0};
    struct db_rows *rows;

    if (c->parent != NULL && !admin_lock_workspace(a, c->parent, out)) {
        return false;
    }
    admin_param_ref(&p, c->ref);
    db_param_uuid_or_null(&p, out->workspace_id);
    if (!admin_query(a,
                     "SELECT b.branch_id, b.branch_name, b.status,"
                     "       w.workspace_id, w.workspace_name"
                     "  FROM branches b"
                     "  JOIN workspaces w ON w.workspace_id = b.workspace_id"
                     " WHERE (b.branch_id = $1"
                     "        OR b.branch_name COLLATE \"C\" = $2)"
                     "   AND ($3 IS NULL OR b.workspace_id = $3)"
                     " ORDER BY b.branch_id"
                     "   FOR NO KEY UPDATE OF b",
                     &p, &rows) ||
        !admin_one_row(a, "branch", c->ref, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, out->branch_id);
    store_copy_text(rows, 0, 1, out->branch, sizeof(out->branch));
    store_copy_text(rows, 0, 2, out->status, sizeof(out->status));
    db_uuid(rows, 0, 3, out->workspace_id);
    store_copy_text(rows, 0, 4, out->workspace, sizeof(out->workspace));
    db_rows_free(rows);
    return true;
}

static bool activate_branch(struct admin *a, void *arg)
{
    struct place_change *c = arg;

    memset(c->out, 0, sizeof(*c->out));
    return lock_branch(a, c) &&
           set_status(a, c,
                      "UPDATE branches SET status = $2 WHERE branch_id = $1",
                      c->out->branch_id);
}

bool admin_branch_activate(struct admin *a, const char *ref,
                           const char *workspace, bool active,
                           struct admin_place *out)
{
    struct place_change c = {
        .ref = ref, .parent = workspace, .active = active, .out = out};

    return admin_transact(a, activate_branch, &c);
}
