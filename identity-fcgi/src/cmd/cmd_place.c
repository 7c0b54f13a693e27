/* workspace add, activate, deactivate; branch add, activate, deactivate */

#include "cmd/cmd.h"

static const struct out_column workspace_columns[] = {
    {"workspaceName", "workspace", OUT_TEXT, 0},
    {"workspaceId", "id", OUT_TEXT, 0},
    {"status", "status", OUT_TEXT, 0},
    {"tenantName", "tenant", OUT_TEXT, 0},
    {"tenantId", "tenant id", OUT_TEXT, 0},
    {"changed", NULL, OUT_BOOL, 0},
    {.name = NULL},
};

static const struct out_column branch_columns[] = {
    {"branchName", "branch", OUT_TEXT, 0},
    {"branchId", "id", OUT_TEXT, 0},
    {"status", "status", OUT_TEXT, 0},
    {"workspaceName", "workspace", OUT_TEXT, 0},
    {"workspaceId", "workspace id", OUT_TEXT, 0},
    {"changed", NULL, OUT_BOOL, 0},
    {.name = NULL},
};

/* Makes the change and tells of it. */
static int change(struct cmd *c, bool (*work)(struct cmd *c),
                  const struct out_column *columns)
{
    if (!cmd_change(c, work)) {
        return c->status;
    }
    if (cmd_is(c, "tenantAdded", "t")) {
        cmd_audit(c, "tenant.added", "tenantId", NULL);
    }
    if (cmd_is(c, "changed", "t")) {
        cmd_audit(c, c->spec->event, "workspaceId", "branchId", NULL);
    }
    return cmd_print(c, columns);
}

/* -- tenants -- */

/* Names of tenants are no key: this lock makes looking and adding one step. */
#define TENANT_LOCK "7236589412358"

static bool add_tenant(struct cmd *c, const char *name)
{
    if (!cmd_sql(c, "SELECT pg_advisory_xact_lock($1)", TENANT_LOCK) ||
        !cmd_sql(c, "SELECT FROM tenants WHERE tenant_name COLLATE \"C\" = $1",
                 name)) {
        return false;
    }
    if (c->found > 0) {
        return cmd_refuse(c,
                          "a tenant called \"%s\" exists already: --tenant "
                          "puts the workspace there",
                          name);
    }
    return cmd_sql(c,
                   "INSERT INTO tenants (tenant_name) VALUES ($1)"
                   " RETURNING tenant_id AS tenantId,"
                   "           tenant_name AS tenantName,"
                   "           true AS tenantAdded",
                   name);
}

static bool lock_tenant(struct cmd *c, const char *ref)
{
    if (!cmd_sql(c,
                 "SELECT tenant_id AS tenantId, tenant_name AS tenantName"
                 "  FROM tenants"
                 " WHERE tenant_id = $1 OR tenant_name COLLATE \"C\" = $2"
                 " ORDER BY tenant_id FOR NO KEY UPDATE",
                 CMD_REF(ref))) {
        return false;
    }
    if (c->found == 0 && !cmd_is_uuid(ref)) {
        return cmd_refuse(c,
                          "there is no tenant called \"%s\": --new-tenant "
                          "makes one",
                          ref);
    }
    return cmd_one(c, "tenant", ref);
}

/* -- workspaces -- */

/* Under the parent's lock: two of one name could not be told apart. */
static bool refuse_namesake(struct cmd *c, const char *sql, const char *what,
                            const char *id, const char *where)
{
    return cmd_sql(c, sql, id, c->args.operand) &&
           (c->found == 0 ||
            cmd_refuse(c, "a %s of this name exists already in \"%s\"", what,
                       where));
}

static bool add_workspace(struct cmd *c)
{
    const char *tenant = cmd_args_value(&c->args, "tenant");

    return (tenant != NULL
                ? lock_tenant(c, tenant)
                : add_tenant(c, cmd_args_value(&c->args, "new-tenant"))) &&
           refuse_namesake(c,
                           "SELECT FROM workspaces WHERE tenant_id = $1"
                           "   AND workspace_name COLLATE \"C\" = $2",
                           "workspace", cmd_get(c, "tenantId"),
                           cmd_get(c, "tenantName")) &&
           cmd_sql(c,
                   "INSERT INTO workspaces (tenant_id, workspace_name)"
                   " VALUES ($1, $2)"
                   " RETURNING workspace_id AS workspaceId,"
                   "           workspace_name AS workspaceName, status,"
                   "           true AS changed",
                   cmd_get(c, "tenantId"), c->args.operand);
}

int cmd_workspace_add(struct cmd *c)
{
    if ((cmd_args_value(&c->args, "tenant") == NULL) ==
        (cmd_args_value(&c->args, "new-tenant") == NULL)) {
        return cmd_fail(c, CMD_USAGE,
                        "workspace add: needs one of --tenant and "
                        "--new-tenant; try identity-fcgi workspace add "
                        "--help");
    }
    return change(c, add_workspace, workspace_columns);
}

static bool set_workspace(struct cmd *c)
{
    return cmd_lock_workspace(c, c->args.operand) &&
           (!cmd_new_status(c) ||
            cmd_sql(c,
                    "UPDATE workspaces SET status = $2"
                    " WHERE workspace_id = $1",
                    cmd_get(c, "workspaceId"), c->spec->status));
}

int cmd_workspace_status(struct cmd *c)
{
    return change(c, set_workspace, workspace_columns);
}

/* -- branches -- */

static bool add_branch(struct cmd *c)
{
    return cmd_lock_workspace(c, cmd_args_value(&c->args, "workspace")) &&
           refuse_namesake(c,
                           "SELECT FROM branches WHERE workspace_id = $1"
                           "   AND branch_name COLLATE \"C\" = $2",
                           "branch", cmd_get(c, "workspaceId"),
                           cmd_get(c, "workspaceName")) &&
           cmd_sql(c,
                   "INSERT INTO branches (workspace_id, branch_name)"
                   " VALUES ($1, $2)"
                   " RETURNING branch_id AS branchId,"
                   "           branch_name AS branchName, status,"
                   "           true AS changed",
                   cmd_get(c, "workspaceId"), c->args.operand);
}

int cmd_branch_add(struct cmd *c)
{
    return change(c, add_branch, branch_columns);
}

static bool set_branch(struct cmd *c)
{
    const char *workspace = cmd_args_value(&c->args, "workspace");

    return (workspace == NULL || cmd_lock_workspace(c, workspace)) &&
           cmd_sql(c,
                   "SELECT b.branch_id AS branchId,"
                   "       b.branch_name AS branchName, b.status,"
                   "       w.workspace_id AS workspaceId,"
                   "       w.workspace_name AS workspaceName"
                   "  FROM branches b"
                   "  JOIN workspaces w ON w.workspace_id = b.workspace_id"
                   " WHERE (b.branch_id = $1"
                   "        OR b.branch_name COLLATE \"C\" = $2)"
                   "   AND ($3::uuid IS NULL OR b.workspace_id = $3)"
                   " ORDER BY b.branch_id"
                   "   FOR NO KEY UPDATE OF b",
                   CMD_REF(c->args.operand), cmd_get(c, "workspaceId")) &&
           cmd_one(c, "branch", c->args.operand) &&
           (!cmd_new_status(c) ||
            cmd_sql(c, "UPDATE branches SET status = $2 WHERE branch_id = $1",
                    cmd_get(c, "branchId"), c->spec->status));
}

int cmd_branch_status(struct cmd *c)
{
    return change(c, set_branch, branch_columns);
}
