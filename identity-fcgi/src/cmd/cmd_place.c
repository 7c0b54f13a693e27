/* workspace and branch add, rename, activate, deactivate; member add, grant,
 * revoke */

#include "cmd/cmd.h"

#include "cmd/cmd_out.h"

#include <string.h>

#define WORKSPACE_COLUMNS                                                      \
    "workspaceName", "workspaceId=id", "status", "tenantName", "tenantId",     \
        "changed="
#define BRANCH_COLUMNS                                                         \
    "branchName", "branchId=id", "status", "workspaceName", "workspaceId",     \
        "changed="
#define MEMBER_COLUMNS                                                         \
    "account", "accountId", "workspaceName", "workspaceId", "memberId",        \
        "status", "revokedBranches", "changed="

#define MAX_ROLES 32

/* -- workspaces -- */

static bool check_workspace(struct cmd *c)
{
    return !cmd_get(c, "tenant") != !cmd_get(c, "new-tenant") ||
           cmd_misused(c, "workspace add: needs one of --tenant and "
                          "--new-tenant; try identity-fcgi workspace add "
                          "--help");
}

static bool find_tenant(struct cmd *c)
{
    if (cmd_get(c, "tenant") != NULL) {
        return cmd_find(
            c, "tenant", cmd_get(c, "tenant"), ": --new-tenant makes one",
            "SELECT tenant_id AS tenantId, tenant_name AS tenantName"
            "  FROM tenants"
            " WHERE tenant_id = :ref.id OR tenant_name COLLATE \"C\" = "
            ":ref.name"
            " ORDER BY tenant_id FOR NO KEY UPDATE");
    }
    /* Names of tenants have no unique index.  The lock (an arbitrary number)
     * makes search and insertion atomic. */
    return cmd_sql(c, "SELECT pg_advisory_xact_lock(7236589412358)") &&
           cmd_sql(c, "INSERT INTO tenants (tenant_name)"
                      " SELECT :new-tenant WHERE NOT EXISTS ("
                      "   SELECT FROM tenants"
                      "    WHERE tenant_name COLLATE \"C\" = :new-tenant)"
                      " RETURNING tenant_id AS tenantId,"
                      "           tenant_name AS tenantName,"
                      "           true AS tenantAdded") &&
           (c->found > 0 ||
            cmd_fail(c,
                     "a tenant called \"%s\" exists already: --tenant puts "
                     "the workspace there",
                     cmd_get(c, "new-tenant")));
}

/* Refuses a duplicate name in the same parent, which is locked. */
static bool refuse_namesake(struct cmd *c)
{
    bool branch = strncmp(c->spec->words, "branch", 6) == 0;

    return c->found > 0 ||
           cmd_fail(c, "a %s of this name exists already in \"%s\"",
                    branch ? "branch" : "workspace",
                    cmd_get(c, branch ? "workspaceName" : "tenantName"));
}

/* -- branches -- */

static bool find_branch(struct cmd *c)
{
    static const char sql[] =
        "SELECT branch_id AS branchId, branch_name AS branchName, b.status,"
        "       workspace_id AS workspaceId, workspace_name AS workspaceName"
        "  FROM branches b JOIN workspaces w USING (workspace_id)"
        " WHERE (branch_id = :ref.id"
        "        OR branch_name COLLATE \"C\" = :ref.name)"
        "   AND (:workspaceId::uuid IS NULL OR workspace_id = :workspaceId)"
        " ORDER BY branch_id FOR NO KEY UPDATE OF b";

    return cmd_find(c, "branch", c->operand, "", sql);
}

/* -- members -- */

/* Reads the membership in the locked workspace; status "" means not a
 * member. */
static bool find_member(struct cmd *c)
{
    return cmd_sql(c, "SELECT m.member_id AS memberId, m.status"
                      "  FROM workspaces w LEFT JOIN members m"
                      "    ON m.workspace_id = w.workspace_id"
                      "   AND m.account_id = :accountId"
                      " WHERE w.workspace_id = :workspaceId") &&
           (!cmd_is(c, "status", "") ||
            strcmp(c->spec->status, "ACTIVE") == 0 ||
            cmd_fail(c, "\"%s\" is not a member of \"%s\"",
                     cmd_get(c, "account"), cmd_get(c, "workspaceName")));
}

static bool end_grants(struct cmd *c)
{
    if (!cmd_sql(c, "DELETE FROM branch_grants WHERE member_id = :memberId")) {
        return false;
    }
    cmd_setn(c, "revokedBranches", c->touched);
    c->changed = c->changed || c->touched > 0;
    return true;
}

/* -- grants -- */

/* Finds a branch by ref in the account's workspaces. */
static bool find_grantable(struct cmd *c, const char *ref)
{
    static const char sql[] =
        "SELECT branch_id AS branchId, branch_name AS branchName,"
        "       member_id AS memberId, m.status,"
        "       workspace_id AS workspaceId, workspace_name AS workspaceName"
        "  FROM members m JOIN workspaces USING (workspace_id)"
        "  JOIN branches USING (workspace_id)"
        " WHERE m.account_id = :accountId"
        "   AND (branch_id = :ref.id OR branch_name COLLATE \"C\" = :ref.name)"
        "   AND (:workspace::text IS NULL OR workspace_id = :workspace.id"
        "        OR workspace_name COLLATE \"C\" = :workspace.name)"
        " ORDER BY branch_id";
    static const char any_sql[] =
        "SELECT FROM branches WHERE branch_id = :ref.id"
        "    OR branch_name COLLATE \"C\" = :ref.name LIMIT 1";

    if (!cmd_find(c, "branch", ref, NULL, sql)) {
        return false;
    }
    if (c->found > 0) {
        return true;
    }
    if (!cmd_sql(c, any_sql)) {
        return false;
    }
    return c->found == 0
               ? cmd_fail(c, "there is no branch %s \"%s\"",
                          cmd_is_uuid(ref) ? "with the id" : "called", ref)
               : cmd_fail(c,
                          "the branch \"%s\" is in no workspace%s that "
                          "\"%s\" is a member of; run member add first",
                          ref, cmd_get(c, "workspace") ? " of that name" : "",
                          cmd_get(c, "account"));
}

static bool grant_branch(struct cmd *c)
{
    int64_t given;

    if (!cmd_is(c, "status", "ACTIVE")) {
        return cmd_fail(c,
                        "the membership of \"%s\" in \"%s\" has ended: "
                        "member add restores it",
                        cmd_get(c, "account"), cmd_get(c, "workspaceName"));
    }
    if (!cmd_sql(c, "INSERT INTO branch_grants"
                    " (member_id, branch_id, workspace_id)"
                    " VALUES (:memberId, :branchId, :workspaceId)"
                    " ON CONFLICT DO NOTHING")) {
        return false;
    }
    given = c->touched;
    if (!cmd_sql(c, "INSERT INTO member_roles (member_id, branch_id, role_code)"
                    " SELECT :memberId::uuid, :branchId::uuid,"
                    "        unnest(string_to_array(:codes, ','))"
                    " ON CONFLICT DO NOTHING")) {
        return false;
    }
    c->touched += given;
    return true;
}

/* Revokes the roles or, without --role, the branch. */
static bool revoke_branch(struct cmd *c)
{
    return cmd_sql(
        c, cmd_get(c, "role") == NULL
               ? "DELETE FROM branch_grants"
                 " WHERE member_id = :memberId AND branch_id = :branchId"
               : "DELETE FROM member_roles"
                 " WHERE member_id = :memberId AND branch_id = :branchId"
                 "   AND role_code = ANY (string_to_array(:codes, ','))");
}

/* Leaves two results per branch: its ids, and its current grants. */
static bool change(struct cmd *c)
{
    bool (*change_grant)(struct cmd *) =
        strcmp(c->spec->words, "member grant") == 0 ? grant_branch
                                                    : revoke_branch;
    static const char now_sql[] =
        "SELECT count(*) > 0 AS granted, :written::boolean AS changed,"
        "       string_agg(role_code, ',' ORDER BY role_code) AS roles"
        "  FROM branch_grants LEFT JOIN member_roles"
        " USING (member_id, branch_id)"
        " WHERE member_id = :memberId AND branch_id = :branchId";
    const char *branches[CMD_MAX_BRANCHES];
    size_t count = cmd_given(c, "branch", branches, CMD_MAX_BRANCHES);

    c->changed = false; /* audited for each row */
    for (size_t i = 0; i < count; i++) {
        if (!find_grantable(c, branches[i]) || !change_grant(c)) {
            return false;
        }
        cmd_set(c, "written", c->touched > 0 ? "t" : "f");
        if (!cmd_sql(c, now_sql)) {
            return false;
        }
    }
    return true;
}

static bool print_grants(struct cmd *c)
{
    size_t count = c->result_count;

    for (size_t i = 3; i <= count; i += 2) { /* after the account's row */
        c->result_count = i;
        if (cmd_is(c, "changed", "t")) {
            cmd_out_audit(c, c->spec->event, NULL);
        }
        cmd_out_row(c);
    }
    return true;
}

static bool check_grant(struct cmd *c)
{
    const char *roles[MAX_ROLES];
    size_t count = cmd_given(c, "role", roles, MAX_ROLES);
    struct buf codes; /* joined by commas as a single parameter */

    if (cmd_given(c, "branch", NULL, 0) > CMD_MAX_BRANCHES) {
        return cmd_misused(c,
                           "a member may be granted at most %d active branches",
                           CMD_MAX_BRANCHES);
    }
    if (count > MAX_ROLES) {
        return cmd_misused(c, "a member may hold at most %d roles in a branch",
                           MAX_ROLES);
    }
    buf_init(&codes, c->secret, sizeof(c->secret));
    for (size_t i = 0; i < count; i++) {
        buf_addf(&codes, "%s%s", i > 0 ? "," : "", roles[i]);
    }
    buf_addc(&codes, '\0');
    cmd_set(c, "codes", c->secret);
    return true;
}

static bool check_revoke(struct cmd *c)
{
    static const struct cmd_spec end = {
        .lock = true,
        .find = find_member,
        .status = "INACTIVE",
        .sql = "UPDATE members SET status = :status"
               " WHERE member_id = :memberId",
        .work = end_grants,
        .event = "member.ended",
        .columns = {MEMBER_COLUMNS},
    };
    bool all = cmd_get(c, "all") != NULL;

    if (!check_grant(c)) {
        return false;
    }
    if (all == (cmd_get(c, "branch") != NULL) ||
        (all &&
         (cmd_get(c, "role") != NULL || cmd_get(c, "workspace") == NULL))) {
        return cmd_misused(c,
                           "member revoke: needs --branch, or --all with "
                           "--workspace and without --role; try identity-fcgi "
                           "member revoke --help");
    }
    c->spec = all ? &end : c->spec;
    return true;
}

/* -- the table -- */

/* clang-format off */
#define BY_REF "is a name or an id; if several have that name, the id.\n"
#define OFF_MORE \
    "Nothing is deleted.  Those who work in it have to choose another " \
    "branch\nat their next refresh.\n"
#define REFRESH_MORE \
    "Tokens already issued stay as they are until they expire; the next\n" \
    "refresh brings the change.\n"
#define ACCOUNT {"account", "ACCOUNT", "its name or id", .flags = CMD_NEEDED}
#define WORKSPACE \
    {"workspace", "WORKSPACE", "its name or id", .flags = CMD_NEEDED}
#define ROLES \
    {"role", "ROLE", "a role in each of these branches", CMD_MANY, \
     .accepted = "1 to 32 of the characters A-Z a-z 0-9 _ . : -", \
     .form = "[A-Za-z0-9_.:-]{1,32}"}, \
    {"workspace", "WORKSPACE", .help = "where to look for the branches"}
#define IN_WORKSPACE \
    {"workspace", "WORKSPACE", .help = "where to look for it, a name or an id"}

#define OF_WORKSPACE .lock = true, .columns = {WORKSPACE_COLUMNS}
#define OF_GRANTS \
    .work = change, .print = print_grants, .list = true, \
    .columns = {"accountId=", "memberId=", "workspaceId=", "workspaceName", \
                "branchId", "branchName", "granted", "roles", "changed="}
#define OF_BRANCH .lock = true, .find = find_branch, .columns = {BRANCH_COLUMNS}

/* table is for example "workspaces", row "workspace" and above "tenant". */
#define ADD(table, row, above) \
    .sql = "INSERT INTO " table " (" above "_id, " row "_name)" \
           " SELECT :" above "Id::uuid, :name" \
           "  WHERE " NO_NAMESAKE(table, row, above, ":name") \
           " RETURNING " row "_id AS " row "Id, " row "_name AS " row "Name," \
           "           status, true AS changed", \
    .work = refuse_namesake
#define RENAME(table, row, above) \
    .to = row "Name", \
    .parent = "SELECT FROM " above "s WHERE " above "_id = :" above "Id" \
              "   FOR NO KEY UPDATE", \
    .sql = "UPDATE " table " SET " row "_name = :to" \
           " WHERE " row "_id = :" row "Id" \
           "   AND " NO_NAMESAKE(table, row, above, ":to") " RETURNING 1", \
    .work = refuse_namesake
#define NO_NAMESAKE(table, row, above, name) \
    "NOT EXISTS (SELECT FROM " table " WHERE " above "_id = :" above "Id" \
    "               AND " row "_name COLLATE \"C\" = " name ")"
#define SET_STATUS(table, row) \
    .sql = "UPDATE " table " SET status = :status WHERE " row "_id = :" row "Id"

const struct cmd_spec cmd_places[] = {
    {"workspace add", "NAME", "create a workspace",
     "A workspace belongs to a tenant, whose id is in the tokens.\n",
     .options = {
         {"tenant", "TENANT", .help = "an existing tenant, its name or id"},
         {"new-tenant", "NAME", .help = "create this tenant too"}},
     .check = check_workspace, .find = find_tenant,
     ADD("workspaces", "workspace", "tenant"),
     .event = "workspace.added", .columns = {WORKSPACE_COLUMNS}},
    {"workspace rename", "WORKSPACE", "give it another name",
     "WORKSPACE " BY_REF,
     .options = {{"to", "NAME", .help = "the new name", CMD_NEEDED}},
     OF_WORKSPACE, RENAME("workspaces", "workspace", "tenant"),
     .event = "workspace.renamed"},
    {"workspace activate", "WORKSPACE", "allow work in it again",
     "WORKSPACE " BY_REF, OF_WORKSPACE, SET_STATUS("workspaces", "workspace"),
     .status = "ACTIVE", .event = "workspace.activated"},
    {"workspace deactivate", "WORKSPACE", "stop all work in it",
     "WORKSPACE " BY_REF OFF_MORE, OF_WORKSPACE,
     SET_STATUS("workspaces", "workspace"),
     .status = "INACTIVE", .event = "workspace.deactivated"},
    {"branch add", "NAME", "create a branch in a workspace", NULL,
     .options = {WORKSPACE}, .lock = true,
     ADD("branches", "branch", "workspace"),
     .event = "branch.added", .columns = {BRANCH_COLUMNS}},
    {"branch rename", "BRANCH", "give it another name", "BRANCH " BY_REF,
     .options = {
         {"to", "NAME", .help = "the new name", CMD_NEEDED}, IN_WORKSPACE},
     OF_BRANCH, RENAME("branches", "branch", "workspace"),
     .event = "branch.renamed"},
    {"branch activate", "BRANCH", "allow work in it again",
     "BRANCH " BY_REF, .options = {IN_WORKSPACE}, OF_BRANCH,
     SET_STATUS("branches", "branch"),
     .status = "ACTIVE", .event = "branch.activated"},
    {"branch deactivate", "BRANCH", "stop all work in it",
     "BRANCH " BY_REF OFF_MORE, .options = {IN_WORKSPACE}, OF_BRANCH,
     SET_STATUS("branches", "branch"),
     .status = "INACTIVE", .event = "branch.deactivated"},
    {"member add", NULL, "make an account a member of a workspace",
     "A new member cannot work in any branch until member grant.\n",
     .options = {ACCOUNT, WORKSPACE}, .lock = true, .find = find_member,
     .status = "ACTIVE",
     .sql = "INSERT INTO members (account_id, workspace_id)"
            " VALUES (:accountId, :workspaceId)"
            " ON CONFLICT (account_id, workspace_id)"
            " DO UPDATE SET status = 'ACTIVE'"
            " RETURNING member_id AS memberId",
     .event = "member.added", .columns = {MEMBER_COLUMNS}},
    {"member grant", NULL, "let a member work in branches, with roles",
     "Earlier grants stay.  At most 200 active branches per member, 1000 per\n"
     "account, 32 roles per branch.\n" REFRESH_MORE,
     .options = {
         ACCOUNT,
         {"branch", "BRANCH", "its name or id",
          .flags = CMD_NEEDED | CMD_MANY},
         ROLES},
     .check = check_grant, .event = "member.granted", OF_GRANTS},
    {"member revoke", NULL, "take roles or branches away",
     "With --role only those roles are taken; with --branch alone the "
     "branches;\nwith --all every branch of the workspace, and the membership "
     "itself.\n"
     REFRESH_MORE,
     .options = {
         ACCOUNT, {"branch", "BRANCH", "its name or id", .flags = CMD_MANY},
         ROLES,
         {"all", NULL, .help = "everything in --workspace"}},
     .check = check_revoke, .event = "member.revoked", OF_GRANTS},
    {.words = NULL},
};
/* clang-format on */
