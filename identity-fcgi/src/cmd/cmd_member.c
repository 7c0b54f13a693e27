/* member add, grant, revoke */

#include "cmd/cmd.h"

#include <string.h>

#define MAX_ROLES 32
#define ROLE_MAX 32 /* bytes */

static const struct out_column columns[] = {
    {"account", "account", OUT_TEXT, 0},
    {"accountId", "account id", OUT_TEXT, 0},
    {"workspaceName", "workspace", OUT_TEXT, 0},
    {"workspaceId", "workspace id", OUT_TEXT, 0},
    {"memberId", "member id", OUT_TEXT, 0},
    {"status", "status", OUT_TEXT, 0},
    {"revokedBranches", "branches lost", OUT_NUMBER, 0},
    {"changed", NULL, OUT_BOOL, 0},
    {.name = NULL},
};

/* -- members -- */

/* Locks the account and then the workspace, and finds the membership: a
 * status of "" is none. */
static bool find_member(struct cmd *c)
{
    return cmd_lock_account(c) &&
           cmd_lock_workspace(c, cmd_args_value(&c->args, "workspace")) &&
           cmd_sql(c,
                   "SELECT m.member_id AS memberId,"
                   "       coalesce(m.status, '') AS status"
                   "  FROM workspaces w LEFT JOIN members m"
                   "    ON m.workspace_id = w.workspace_id"
                   "   AND m.account_id = $1"
                   " WHERE w.workspace_id = $2",
                   cmd_get(c, "accountId"), cmd_get(c, "workspaceId"));
}

static bool add(struct cmd *c)
{
    return find_member(c) &&
           (!cmd_new_status(c) ||
            cmd_sql(c,
                    "INSERT INTO members (account_id, workspace_id)"
                    " VALUES ($1, $2)"
                    " ON CONFLICT (account_id, workspace_id)"
                    " DO UPDATE SET status = 'ACTIVE'"
                    " RETURNING member_id AS memberId",
                    cmd_get(c, "accountId"), cmd_get(c, "workspaceId")));
}

int cmd_member_add(struct cmd *c)
{
    if (!cmd_account_ref(c, cmd_args_value(&c->args, "account")) ||
        !cmd_change(c, add)) {
        return c->status;
    }
    if (cmd_is(c, "changed", "t")) {
        cmd_audit(c, c->spec->event, "accountId", "workspaceId", "memberId",
                  NULL);
    }
    return cmd_print(c, columns);
}

static bool end(struct cmd *c)
{
    if (!find_member(c)) {
        return false;
    }
    if (cmd_is(c, "status", "")) {
        return cmd_refuse(c, "\"%s\" is no member of \"%s\"",
                          cmd_get(c, "account"), cmd_get(c, "workspaceName"));
    }
    if ((cmd_new_status(c) && !cmd_sql(c,
                                       "UPDATE members SET status = 'INACTIVE'"
                                       " WHERE member_id = $1",
                                       cmd_get(c, "memberId"))) ||
        !cmd_sql(c, "DELETE FROM branch_grants WHERE member_id = $1",
                 cmd_get(c, "memberId"))) {
        return false;
    }
    cmd_set_number(c, "revokedBranches", c->touched);
    return true;
}

static int end_membership(struct cmd *c)
{
    if (!cmd_change(c, end)) {
        return c->status;
    }
    if (cmd_is(c, "changed", "t") || !cmd_is(c, "revokedBranches", "0")) {
        cmd_audit(c, "member.ended", "accountId", "workspaceId", "memberId",
                  NULL);
    }
    return cmd_print(c, columns);
}

/* -- grants -- */

static const struct out_column grant_columns[] = {
    {"accountId", NULL, OUT_TEXT, 0},
    {"memberId", NULL, OUT_TEXT, 0},
    {"workspaceId", NULL, OUT_TEXT, 0},
    {"workspaceName", "workspace", OUT_TEXT, 16},
    {"branchId", "branch id", OUT_TEXT, STORE_UUID - 1},
    {"branchName", "branch", OUT_TEXT, 16},
    {"granted", "granted", OUT_BOOL, 0},
    {"roles", "roles", OUT_LIST, 0},
    {"changed", NULL, OUT_BOOL, 0},
    {.name = NULL},
};

/* Why ref names no branch of a membership of the account's. */
static bool refuse_branch(struct cmd *c, const char *ref)
{
    if (!cmd_sql(c,
                 "SELECT FROM branches WHERE branch_id = $1"
                 "    OR branch_name COLLATE \"C\" = $2 LIMIT 1",
                 CMD_REF(ref))) {
        return false;
    }
    if (c->found == 0) {
        return cmd_refuse(c, "there is no branch %s \"%s\"",
                          cmd_is_uuid(ref) ? "with the id" : "called", ref);
    }
    return cmd_refuse(
        c,
        "the branch \"%s\" is in no workspace%s that \"%s\" is "
        "a member of: member add comes first",
        ref,
        cmd_args_value(&c->args, "workspace") != NULL ? " of that name" : "",
        cmd_get(c, "account"));
}

/* The branch that ref names within the account's memberships. */
static bool find_branch(struct cmd *c, const char *ref)
{
    const char *workspace = cmd_args_value(&c->args, "workspace");

    if (!cmd_sql(c,
                 "SELECT b.branch_id AS branchId,"
                 "       b.branch_name AS branchName,"
                 "       m.member_id AS memberId, m.status,"
                 "       w.workspace_id AS workspaceId,"
                 "       w.workspace_name AS workspaceName"
                 "  FROM members m"
                 "  JOIN workspaces w ON w.workspace_id = m.workspace_id"
                 "  JOIN branches b ON b.workspace_id = m.workspace_id"
                 " WHERE m.account_id = $1"
                 "   AND (b.branch_id = $2"
                 "        OR b.branch_name COLLATE \"C\" = $3)"
                 "   AND ($6 OR w.workspace_id = $4"
                 "        OR w.workspace_name COLLATE \"C\" = $5)"
                 " ORDER BY b.branch_id",
                 cmd_get(c, "accountId"), CMD_REF(ref), CMD_REF(workspace),
                 workspace == NULL ? "true" : "false")) {
        return false;
    }
    return c->found == 0 ? refuse_branch(c, ref) : cmd_one(c, "branch", ref);
}

static bool give(struct cmd *c, const char *roles, bool *changed)
{
    const char *member = cmd_get(c, "memberId");
    const char *branch = cmd_get(c, "branchId");

    if (!cmd_is(c, "status", "ACTIVE")) {
        return cmd_refuse(c,
                          "the membership of \"%s\" in \"%s\" has ended: "
                          "member add begins it again",
                          cmd_get(c, "account"), cmd_get(c, "workspaceName"));
    }
    if (!cmd_sql(c,
                 "INSERT INTO branch_grants"
                 " (member_id, branch_id, workspace_id)"
                 " VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                 member, branch, cmd_get(c, "workspaceId"))) {
        return false;
    }
    *changed = c->touched > 0;
    if (!cmd_sql(c,
                 "INSERT INTO member_roles (member_id, branch_id, role_code)"
                 " SELECT $1::uuid, $2::uuid, code"
                 "   FROM unnest(string_to_array($3, ',')) AS code"
                 " ON CONFLICT DO NOTHING",
                 member, branch, roles)) {
        return false;
    }
    *changed = *changed || c->touched > 0;
    return true;
}

/* Away: the roles, or without any the branch. */
static bool take(struct cmd *c, const char *roles, bool *changed)
{
    const char *member = cmd_get(c, "memberId");
    const char *branch = cmd_get(c, "branchId");
    bool ok = roles[0] == '\0'
                  ? cmd_sql(c,
                            "DELETE FROM branch_grants"
                            " WHERE member_id = $1 AND branch_id = $2",
                            member, branch)
                  : cmd_sql(c,
                            "DELETE FROM member_roles"
                            " WHERE member_id = $1 AND branch_id = $2"
                            "   AND role_code ="
                            "       ANY (string_to_array($3, ','))",
                            member, branch, roles);

    *changed = ok && c->touched > 0;
    return ok;
}

/* Leaves two rows a branch: which one it is, and what is granted in it now. */
static bool change(struct cmd *c, bool away)
{
    const char *branches[CMD_MAX_BRANCHES], *given[MAX_ROLES];
    size_t count =
        cmd_args_values(&c->args, "branch", branches, CMD_MAX_BRANCHES);
    size_t role_count = cmd_args_values(&c->args, "role", given, MAX_ROLES);
    /* Role codes have no comma: one parameter holds them all. */
    char roles[MAX_ROLES * (ROLE_MAX + 1) + 1] = "";
    size_t n = 0;
    bool changed;

    for (size_t i = 0; i < role_count && n < sizeof(roles); i++) {
        n += (size_t) snprintf(roles + n, sizeof(roles) - n, "%s%s",
                               i > 0 ? "," : "", given[i]);
    }
    if (!cmd_lock_account(c)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!find_branch(c, branches[i]) ||
            !(away ? take : give)(c, roles, &changed) ||
            !cmd_sql(c,
                     "SELECT count(g.branch_id) > 0 AS granted,"
                     "       coalesce(string_agg(r.role_code, ','"
                     "                ORDER BY r.role_code), '') AS roles,"
                     "       $3::boolean AS changed"
                     "  FROM branch_grants g"
                     "  LEFT JOIN member_roles r"
                     "    ON r.member_id = g.member_id"
                     "   AND r.branch_id = g.branch_id"
                     " WHERE g.member_id = $1 AND g.branch_id = $2",
                     cmd_get(c, "memberId"), cmd_get(c, "branchId"),
                     changed ? "true" : "false")) {
            return false;
        }
    }
    return true;
}

static bool grant(struct cmd *c)
{
    return change(c, false);
}

static bool revoke(struct cmd *c)
{
    return change(c, true);
}

static int change_branches(struct cmd *c, bool (*work)(struct cmd *c))
{
    size_t count;

    if (!cmd_change(c, work) || !cmd_out_open(c, true)) {
        return c->status;
    }
    count = c->result_count;
    for (size_t i = 3; i <= count; i += 2) { /* after the account's row */
        c->result_count = i;
        if (cmd_is(c, "changed", "t")) {
            cmd_audit(c, c->spec->event, "accountId", "workspaceId",
                      "memberId", "branchId", "roles", NULL);
        }
        out_row(&c->out);
        cmd_print_values(c, grant_columns);
        out_row_end(&c->out);
    }
    return cmd_out_close(c);
}

/* -- arguments of both -- */

static bool is_role(const char *role)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.:-";
    size_t len = strlen(role);

    return len >= 1 && len <= ROLE_MAX && strspn(role, letters) == len;
}

static bool check_given(struct cmd *c)
{
    const char *roles[MAX_ROLES];
    size_t count = cmd_args_values(&c->args, "role", roles, MAX_ROLES);

    if (cmd_args_values(&c->args, "branch", NULL, 0) > CMD_MAX_BRANCHES) {
        (void) cmd_fail(c, CMD_USAGE,
                        "a member may be granted at most %d active branches",
                        CMD_MAX_BRANCHES);
        return false;
    }
    if (count > MAX_ROLES) {
        (void) cmd_fail(c, CMD_USAGE,
                        "a member may hold at most %d roles in a branch",
                        MAX_ROLES);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_role(roles[i])) {
            (void) cmd_fail(c, CMD_USAGE,
                            "--role is 1 to %d of the characters A-Z a-z 0-9 "
                            "_ . : -",
                            ROLE_MAX);
            return false;
        }
    }
    return cmd_account_ref(c, cmd_args_value(&c->args, "account"));
}

int cmd_member_grant(struct cmd *c)
{
    return check_given(c) ? change_branches(c, grant) : c->status;
}

int cmd_member_revoke(struct cmd *c)
{
    bool all = cmd_args_flag(&c->args, "all");

    if (!check_given(c)) {
        return c->status;
    }
    if (all == cmd_args_flag(&c->args, "branch") ||
        (all && (cmd_args_flag(&c->args, "role") ||
                 !cmd_args_flag(&c->args, "workspace")))) {
        return cmd_fail(c, CMD_USAGE,
                        "member revoke: needs --branch, or --all with "
                        "--workspace and without --role; try identity-fcgi "
                        "member revoke --help");
    }
    return all ? end_membership(c) : change_branches(c, revoke);
}
