/*
 * account, workspace, branch and member list; account sessions.
 *
 * A list goes on after a row by the values that it is sorted by: what is added
 * or taken away meanwhile moves no other row to another page.
 */

#include "cmd/cmd.h"

#include <string.h>

#define MOST " LIMIT coalesce(:limit::int, " CMD_LIMIT ")"

/* -- options -- */

static bool is_limit(const char *text)
{
    int64_t limit;

    return parse_int(text, &limit) && limit >= 1 && limit <= 100000;
}

static bool is_account_status(const char *text)
{
    return strcmp(text, "ACTIVE") == 0 || strcmp(text, "DISABLED") == 0;
}

static bool is_status(const char *text)
{
    return strcmp(text, "ACTIVE") == 0 || strcmp(text, "INACTIVE") == 0;
}

/* What else was named and has to be there: a tenant, the row to go on after.
 */
static bool find_tenant(struct cmd *c)
{
    const char *tenant = cmd_get(c, "tenant");

    return tenant == NULL ||
           cmd_find(c, "tenant", tenant, "",
                    "SELECT tenant_id AS inTenant, tenant_name FROM tenants"
                    " WHERE tenant_id = :ref.id"
                    "    OR tenant_name COLLATE \"C\" = :ref.name");
}

static bool after_workspace(struct cmd *c)
{
    const char *after = cmd_get(c, "after");

    return find_tenant(c) &&
           (after == NULL ||
            cmd_find(c, "workspace", after, "",
                     "SELECT workspace_id AS afterId,"
                     "       workspace_name AS afterName FROM workspaces"
                     " WHERE workspace_id = :ref.id"
                     "    OR workspace_name COLLATE \"C\" = :ref.name"));
}

static bool after_branch(struct cmd *c)
{
    const char *after = cmd_get(c, "after");

    return after == NULL ||
           cmd_find(c, "branch", after, "",
                    "SELECT branch_id AS afterId, branch_name AS afterName,"
                    "       workspace_name AS afterWorkspace"
                    "  FROM branches JOIN workspaces USING (workspace_id)"
                    " WHERE (branch_id = :ref.id"
                    "        OR branch_name COLLATE \"C\" = :ref.name)"
                    "   AND workspace_id"
                    "       = coalesce(:workspaceId::uuid, workspace_id)");
}

static bool after_member(struct cmd *c)
{
    const char *after = cmd_get(c, "after");

    return after == NULL ||
           cmd_find(c, "member", after, "",
                    "SELECT member_id AS afterId, account_name AS afterName,"
                    "       workspace_name AS afterWorkspace"
                    "  FROM members JOIN accounts USING (account_id)"
                    "  JOIN workspaces USING (workspace_id)"
                    " WHERE member_id = :ref.id");
}

/* -- the lists -- */

static const char accounts_sql[] =
    "SELECT a.account_id AS accountId, a.account_type AS type, a.status,"
    "       extract(epoch FROM a.created_at) AS createdAt,"
    "       a.account_name AS account"
    "  FROM accounts a"
    " WHERE (:type.given::text IS NULL OR a.account_type = :type.given)"
    "   AND (:status.given::text IS NULL OR a.status = :status.given)"
    "   AND (:name::text IS NULL"
    "        OR a.account_name COLLATE \"C\" ^@ lower(:name COLLATE \"C\"))"
    "   AND (:workspaceId::uuid IS NULL OR EXISTS ("
    "        SELECT FROM members m WHERE m.account_id = a.account_id"
    "           AND m.workspace_id = :workspaceId AND m.status = 'ACTIVE'))"
    "   AND (:after::text IS NULL"
    "        OR a.account_name COLLATE \"C\" > lower(:after COLLATE \"C\"))"
    " ORDER BY a.account_name COLLATE \"C\"" MOST;

static const char workspaces_sql[] =
    "SELECT workspace_id AS workspaceId, status,"
    "       extract(epoch FROM w.created_at) AS createdAt,"
    "       tenant_id AS tenantId, tenant_name AS tenantName,"
    "       workspace_name AS workspaceName"
    "  FROM workspaces w JOIN tenants t USING (tenant_id)"
    " WHERE (:status.given::text IS NULL OR status = :status.given)"
    "   AND (:name::text IS NULL OR workspace_name COLLATE \"C\" ^@ :name)"
    "   AND (:inTenant::uuid IS NULL OR tenant_id = :inTenant)"
    "   AND (:afterId::uuid IS NULL"
    "        OR (workspace_name COLLATE \"C\", workspace_id)"
    "           > (:afterName::text, :afterId::uuid))"
    " ORDER BY workspace_name COLLATE \"C\", workspace_id" MOST;

static const char branches_sql[] =
    "SELECT branch_id AS branchId, b.status,"
    "       extract(epoch FROM b.created_at) AS createdAt,"
    "       workspace_id AS workspaceId, workspace_name AS workspaceName,"
    "       branch_name AS branchName"
    "  FROM branches b JOIN workspaces w USING (workspace_id)"
    " WHERE (:status.given::text IS NULL OR b.status = :status.given)"
    "   AND (:name::text IS NULL OR branch_name COLLATE \"C\" ^@ :name)"
    "   AND (:workspaceId::uuid IS NULL OR workspace_id = :workspaceId)"
    "   AND (:afterId::uuid IS NULL"
    "        OR (workspace_name COLLATE \"C\", branch_name COLLATE \"C\","
    "            branch_id)"
    "           > (:afterWorkspace::text, :afterName::text, :afterId::uuid))"
    " ORDER BY workspace_name COLLATE \"C\", branch_name COLLATE \"C\","
    "          branch_id" MOST;

static const char members_sql[] =
    "SELECT member_id AS memberId, m.status,"
    "       extract(epoch FROM m.created_at) AS createdAt,"
    "       (SELECT count(*) FROM branch_grants g"
    "         WHERE g.member_id = m.member_id) AS branches,"
    "       workspace_id AS workspaceId, workspace_name AS workspaceName,"
    "       account_id AS accountId, account_name AS account"
    "  FROM members m JOIN accounts a USING (account_id)"
    "  JOIN workspaces w USING (workspace_id)"
    " WHERE (:status.given::text IS NULL OR m.status = :status.given)"
    "   AND (:accountId::uuid IS NULL OR account_id = :accountId)"
    "   AND (:workspaceId::uuid IS NULL OR workspace_id = :workspaceId)"
    "   AND (:afterId::uuid IS NULL"
    "        OR (workspace_name COLLATE \"C\", account_name COLLATE \"C\","
    "            member_id)"
    "           > (:afterWorkspace::text, :afterName::text, :afterId::uuid))"
    " ORDER BY workspace_name COLLATE \"C\", account_name COLLATE \"C\","
    "          member_id" MOST;

/* The newest of one status each, as the index has them. */
static const char sessions_sql[] =
    "SELECT s.session_id AS sessionId,"
    "       CASE WHEN s.over_at IS NOT NULL THEN 'REVOKED'"
    "            WHEN s.expires_at <= now() THEN 'EXPIRED'"
    "            ELSE 'ACTIVE' END AS status,"
    "       extract(epoch FROM s.created_at) AS createdAt,"
    "       extract(epoch FROM s.expires_at) AS expiresAt,"
    "       extract(epoch FROM s.over_at) AS revokedAt,"
    "       s.workspace_id AS workspaceId,"
    "       w.workspace_name AS workspaceName,"
    "       s.active_branch_id AS branchId, b.branch_name AS branchName"
    "  FROM (SELECT s.*, coalesce(s.revoked_at, CASE"
    "                 WHEN s.created_at <= a.sessions_valid_after"
    "                 THEN a.sessions_valid_after END) AS over_at"
    "          FROM accounts a JOIN LATERAL ("
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'ACTIVE'"
    "                AND (:all OR (expires_at > now()"
    "                     AND created_at > a.sessions_valid_after))"
    "              ORDER BY created_at DESC" MOST ")"
    "            UNION ALL"
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'REVOKED'"
    "                AND :all"
    "              ORDER BY created_at DESC" MOST ")) AS s ON true"
    "         WHERE a.account_id = :accountId) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY s.created_at DESC, s.session_id" MOST;

/* -- the table -- */

/* clang-format off */
#define LIMIT \
    {"limit", "N", "at most so many (" CMD_LIMIT ")", 0, is_limit, \
     "1 to 100000"}
#define STATUS \
    {"status", "STATUS", "only ACTIVE or INACTIVE ones", 0, is_status, \
     "one of ACTIVE, INACTIVE"}
#define NAME {"name", "PREFIX", .help = "only those whose name begins so"}
#define WORKSPACE \
    {"workspace", "WORKSPACE", .help = "only those of it, a name or an id"}
#define AFTER(value) \
    {"after", value, .help = "go on after this one, a name or an id"}

const struct cmd_spec cmd_lookups[] = {
    {"account list", NULL, "list accounts by name", NULL,
     .options = {
         {"type", "TYPE", "only CUSTOMER, OPERATOR or SYSTEM", 0,
          cmd_is_type, "one of CUSTOMER, OPERATOR, SYSTEM"},
         {"status", "STATUS", "only ACTIVE or DISABLED ones", 0,
          is_account_status, "one of ACTIVE, DISABLED"},
         NAME,
         {"workspace", "WORKSPACE", .help = "only members of it"},
         {"after", "NAME", .help = "go on after this name"}, LIMIT},
     .lock = true, .sql = accounts_sql, .print = cmd_rows, .list = true,
     .columns = {"accountId=id", "type", "status", "createdAt", "account"}},
    {"account sessions", "ACCOUNT", "list sessions, newest first",
     "ACCOUNT is a name or an id.\n",
     .options = {{"all", NULL, .help = "ended ones too"}, LIMIT},
     .sql = sessions_sql, .print = cmd_rows, .list = true,
     .columns = {"sessionId", "status", "createdAt", "expiresAt",
                 "revokedAt=", "workspaceId=", "workspaceName", "branchId=",
                 "branchName"}},
    {"workspace list", NULL, "list workspaces by name", NULL,
     .options = {
         STATUS, NAME,
         {"tenant", "TENANT", .help = "only those of it, a name or an id"},
         AFTER("WORKSPACE"), LIMIT},
     .find = after_workspace, .sql = workspaces_sql, .print = cmd_rows,
     .list = true,
     .columns = {"workspaceId=id", "status", "createdAt", "tenantId=",
                 "tenantName", "workspaceName"}},
    {"branch list", NULL, "list branches by workspace and name", NULL,
     .options = {STATUS, NAME, WORKSPACE, AFTER("BRANCH"), LIMIT},
     .lock = true, .find = after_branch, .sql = branches_sql,
     .print = cmd_rows, .list = true,
     .columns = {"branchId=id", "status", "createdAt", "workspaceId=",
                 "workspaceName", "branchName"}},
    {"member list", NULL, "list members by workspace and name", NULL,
     .options = {
         {"account", "ACCOUNT", .help = "only its memberships"}, WORKSPACE,
         STATUS,
         {"after", "ID", "go on after this member", 0, cmd_is_uuid, "a UUID"},
         LIMIT},
     .lock = true, .find = after_member, .sql = members_sql,
     .print = cmd_rows, .list = true,
     .columns = {"memberId", "status", "createdAt", "branches",
                 "workspaceId=", "workspaceName", "accountId=", "account"}},
    {.words = NULL},
};
/* clang-format on */
