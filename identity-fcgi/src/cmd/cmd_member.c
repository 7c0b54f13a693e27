/* member add, grant, revoke */

#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

/* -- members -- */

static int print_member(struct cmd *c, const struct admin_member *m,
                        int64_t branches)
{
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    out_text(&c->out, "account", "account", 0, m->account.name);
    out_text(&c->out, "accountId", "account id", 0, m->account.account_id);
    out_text(&c->out, "workspaceName", "workspace", 0, m->place.workspace);
    out_text(&c->out, "workspaceId", "workspace id", 0, m->place.workspace_id);
    out_text(&c->out, "memberId", "member id", 0, m->member_id);
    out_text(&c->out, "status", "status", 0, m->status);
    if (branches >= 0) {
        out_number(&c->out, "revokedBranches", "branches lost", branches);
    }
    out_bool(&c->out, "changed", NULL, m->changed);
    return cmd_out_close(c);
}

static void audit_member(const char *event, const struct admin_member *m)
{
    cmd_audit(event,
              LOG_FIELDS(CMD_ID("accountId", m->account.account_id),
                         CMD_ID("workspaceId", m->place.workspace_id),
                         CMD_ID("memberId", m->member_id)),
              NULL, 0);
}

static int add(struct cmd *c)
{
    char account[STORE_ACCOUNT_NAME_MAX + 1];
    struct admin_member m;

    if (!cmd_account_ref(c, cmd_args_value(&c->args, "account"), account) ||
        !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_member_add(c->admin, account,
                          cmd_args_value(&c->args, "workspace"), &m)) {
        return cmd_fail_admin(c);
    }
    if (m.changed) {
        audit_member("member.added", &m);
    }
    return print_member(c, &m, -1);
}

static int end(struct cmd *c, const char *account)
{
    struct admin_member m;
    int64_t branches;

    if (!cmd_connect(c)) {
        return c->status;
    }
    if (!admin_member_end(c->admin, account,
                          cmd_args_value(&c->args, "workspace"), &m,
                          &branches)) {
        return cmd_fail_admin(c);
    }
    if (m.changed || branches > 0) {
        audit_member("member.ended", &m);
    }
    return print_member(c, &m, branches);
}

/* -- grants -- */

/* Values of the options, with room for all that are accepted. */
struct given {
    struct admin_grant grant;
    char account[STORE_ACCOUNT_NAME_MAX + 1];
    const char *branches[ADMIN_MAX_BRANCHES];
    const char *roles[ADMIN_MAX_ROLES];
};

static bool is_role(const char *role)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz"
                                  "0123456789_.:-";
    size_t len = strlen(role);

    return len >= 1 && len <= ADMIN_ROLE_MAX && strspn(role, letters) == len;
}

static bool read_given(struct cmd *c, struct given *g)
{
    struct admin_grant *grant = &g->grant;

    grant->branches = g->branches;
    grant->branch_count =
        cmd_args_values(&c->args, "branch", g->branches, ADMIN_MAX_BRANCHES);
    grant->roles = g->roles;
    grant->role_count =
        cmd_args_values(&c->args, "role", g->roles, ADMIN_MAX_ROLES);
    grant->workspace = cmd_args_value(&c->args, "workspace");
    grant->account = g->account;
    if (grant->branch_count > ADMIN_MAX_BRANCHES) {
        (void) cmd_fail(c, CMD_USAGE,
                        "a member may be granted at most %d active branches",
                        ADMIN_MAX_BRANCHES);
        return false;
    }
    if (grant->role_count > ADMIN_MAX_ROLES) {
        (void) cmd_fail(c, CMD_USAGE,
                        "a member may hold at most %d roles in a branch",
                        ADMIN_MAX_ROLES);
        return false;
    }
    for (size_t i = 0; i < grant->role_count; i++) {
        if (!is_role(g->roles[i])) {
            (void) cmd_fail(c, CMD_USAGE,
                            "--role is 1 to %d of the characters A-Z a-z 0-9 "
                            "_ . : -",
                            ADMIN_ROLE_MAX);
            return false;
        }
    }
    return cmd_account_ref(c, cmd_args_value(&c->args, "account"), g->account);
}

struct printing {
    struct cmd *c;
    const char *event;
};

static void print_granted(void *arg, const struct admin_granted *g)
{
    struct printing *p = arg;
    struct out *o = &p->c->out;

    if (g->changed) {
        cmd_audit(
            p->event,
            LOG_FIELDS(CMD_ID("accountId", g->member.account.account_id),
                       CMD_ID("workspaceId", g->member.place.workspace_id),
                       CMD_ID("memberId", g->member.member_id),
                       CMD_ID("branchId", g->branch_id),
                       CMD_ID("roles", g->roles)),
            NULL, 0);
    }
    out_row(o);
    out_text(o, "accountId", NULL, 0, g->member.account.account_id);
    out_text(o, "memberId", NULL, 0, g->member.member_id);
    out_text(o, "workspaceId", NULL, 0, g->member.place.workspace_id);
    out_text(o, "workspaceName", "workspace", 16, g->member.place.workspace);
    out_text(o, "branchId", "branch id", STORE_UUID - 1, g->branch_id);
    out_text(o, "branchName", "branch", 16, g->branch);
    out_bool(o, "granted", "granted", g->granted);
    out_list(o, "roles", "roles", g->roles);
    out_bool(o, "changed", NULL, g->changed);
    out_row_end(o);
}

static int change(struct cmd *c, struct given *g, bool give)
{
    struct printing p = {c, give ? "member.granted" : "member.revoked"};
    bool ok;

    if (!cmd_connect(c) || !cmd_out_open(c, true)) {
        return c->status;
    }
    ok = give ? admin_member_grant(c->admin, &g->grant, print_granted, &p)
              : admin_member_revoke(c->admin, &g->grant, print_granted, &p);
    if (!ok) {
        out_discard(&c->out);
        return cmd_fail_admin(c);
    }
    return cmd_out_close(c);
}

static int grant(struct cmd *c)
{
    struct given g;

    return read_given(c, &g) ? change(c, &g, true) : c->status;
}

static int revoke(struct cmd *c)
{
    bool all = cmd_args_flag(&c->args, "all");
    struct given g;

    if (!read_given(c, &g)) {
        return c->status;
    }
    if (all == (g.grant.branch_count > 0) ||
        (all && (g.grant.role_count > 0 || g.grant.workspace == NULL))) {
        return cmd_fail(c, CMD_USAGE,
                        "member revoke: needs --branch, or --all with "
                        "--workspace and without --role; try identity-fcgi "
                        "member revoke --help");
    }
    return all ? end(c, g.account) : change(c, &g, false);
}

#define ACCOUNT                                                               \
    {                                                                         \
        "account", "ACCOUNT", "its name or id", true, false                   \
    }
#define REFRESH_MORE                                                          \
    "Tokens that are out keep saying what they say until they expire; the\n"  \
    "next refresh tells the change.\n"

/* clang-format off */
const struct cmd_spec cmd_member_specs[] = {
    {"member", "add", NULL, "make an account a member of a workspace",
     "A member can work in no branch before member grant.\n",
     {ACCOUNT,
      {"workspace", "WORKSPACE", "its name or id", true, false}},
     add},
    {"member", "grant", NULL, "let a member work in branches, with roles",
     "What is granted already stays.  At most 200 active branches a member,\n"
     "1000 an account, 32 roles a branch.\n" REFRESH_MORE,
     {ACCOUNT,
      {"branch", "BRANCH", "its name or id", true, true},
      {"role", "ROLE", "a role in each of these branches", false, true},
      {"workspace", "WORKSPACE", "where to look for the branches", false,
       false}},
     grant},
    {"member", "revoke", NULL, "take roles or branches away",
     "With --role only the roles go; with --branch alone the branches go; with\n"
     "--all every branch of the workspace, and the membership ends.\n"
     REFRESH_MORE,
     {ACCOUNT,
      {"branch", "BRANCH", "its name or id", false, true},
      {"role", "ROLE", "a role in each of these branches", false, true},
      {"workspace", "WORKSPACE", "where to look for the branches", false,
       false},
      {"all", NULL, "everything in --workspace", false, false}},
     revoke},
    {.group = NULL},
};
/* clang-format on */
