/* workspace add, activate, deactivate; branch add, activate, deactivate */

#include "cmd/cmd.h"

#include <string.h>

static int print_place(struct cmd *c, const struct admin_place *place,
                       bool branch)
{
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    if (branch) {
        out_text(&c->out, "branchName", "branch", 0, place->branch);
        out_text(&c->out, "branchId", "id", 0, place->branch_id);
        out_text(&c->out, "status", "status", 0, place->status);
    }
    out_text(&c->out, "workspaceName", "workspace", 0, place->workspace);
    out_text(&c->out, "workspaceId", branch ? "workspace id" : "id", 0,
             place->workspace_id);
    if (!branch) {
        out_text(&c->out, "status", "status", 0, place->status);
        out_text(&c->out, "tenantName", "tenant", 0, place->tenant);
        out_text(&c->out, "tenantId", "tenant id", 0, place->tenant_id);
    }
    out_bool(&c->out, "changed", NULL, place->changed);
    return cmd_out_close(c);
}

static void audit(const char *event, const struct admin_place *place)
{
    if (place->changed) {
        cmd_audit(event,
                  LOG_FIELDS(CMD_ID("workspaceId", place->workspace_id),
                             {"branchId",
                              place->branch_id[0] ? place->branch_id : NULL,
                              strlen(place->branch_id)}),
                  NULL, 0);
    }
}

/* -- workspaces -- */

static int add_workspace(struct cmd *c)
{
    const char *tenant = cmd_args_value(&c->args, "tenant");
    const char *new_tenant = cmd_args_value(&c->args, "new-tenant");
    struct admin_place place;

    if ((tenant == NULL) == (new_tenant == NULL)) {
        return cmd_fail(c, CMD_USAGE,
                        "workspace add: needs one of --tenant and "
                        "--new-tenant; try identity-fcgi workspace add "
                        "--help");
    }
    if (!cmd_connect(c)) {
        return c->status;
    }
    if (!admin_workspace_add(c->admin, c->args.operand,
                             tenant != NULL ? tenant : new_tenant,
                             tenant == NULL, &place)) {
        return cmd_fail_admin(c);
    }
    if (place.tenant_added) {
        cmd_audit("tenant.added",
                  LOG_FIELDS(CMD_ID("tenantId", place.tenant_id)), NULL, 0);
    }
    audit("workspace.added", &place);
    return print_place(c, &place, false);
}

static int activate_workspace(struct cmd *c, bool active)
{
    struct admin_place place;

    if (!cmd_connect(c)) {
        return c->status;
    }
    if (!admin_workspace_activate(c->admin, c->args.operand, active, &place)) {
        return cmd_fail_admin(c);
    }
    audit(active ? "workspace.activated" : "workspace.deactivated", &place);
    return print_place(c, &place, false);
}

static int workspace_on(struct cmd *c)
{
    return activate_workspace(c, true);
}

static int workspace_off(struct cmd *c)
{
    return activate_workspace(c, false);
}

/* -- branches -- */

static int add_branch(struct cmd *c)
{
    struct admin_place place;

    if (!cmd_connect(c)) {
        return c->status;
    }
    if (!admin_branch_add(c->admin, c->args.operand,
                          cmd_args_value(&c->args, "workspace"), &place)) {
        return cmd_fail_admin(c);
    }
    audit("branch.added", &place);
    return print_place(c, &place, true);
}

static int activate_branch(struct cmd *c, bool active)
{
    struct admin_place place;

    if (!cmd_connect(c)) {
        return c->status;
    }
    if (!admin_branch_activate(c->admin, c->args.operand,
                               cmd_args_value(&c->args, "workspace"), active,
                               &place)) {
        return cmd_fail_admin(c);
    }
    audit(active ? "branch.activated" : "branch.deactivated", &place);
    return print_place(c, &place, true);
}

static int branch_on(struct cmd *c)
{
    return activate_branch(c, true);
}

static int branch_off(struct cmd *c)
{
    return activate_branch(c, false);
}

#define BY_REF "is a name or an id; a name that several have needs the id.\n"
#define OFF_MORE                                                              \
    "Nothing is deleted.  Who works in it is asked to choose another "        \
    "branch\n"                                                                \
    "at the next refresh.\n"
#define IN_WORKSPACE                                                          \
    {                                                                         \
        "workspace", "WORKSPACE", "where to look for it, a name or an id",    \
            false, false                                                      \
    }

/* clang-format off */
const struct cmd_spec cmd_place_specs[] = {
    {"workspace", "add", "NAME", "make a workspace",
     "A workspace belongs to a tenant, whose id is in the tokens.\n",
     {{"tenant", "TENANT", "an existing tenant, its name or id", false, false},
      {"new-tenant", "NAME", "make this tenant along with it", false, false}},
     add_workspace},
    {"workspace", "activate", "WORKSPACE", "let it be worked in again",
     "WORKSPACE " BY_REF, {{.name = NULL}}, workspace_on},
    {"workspace", "deactivate", "WORKSPACE", "let nobody work in it",
     "WORKSPACE " BY_REF OFF_MORE, {{.name = NULL}}, workspace_off},
    {"branch", "add", "NAME", "make a branch of a workspace", NULL,
     {{"workspace", "WORKSPACE", "its name or id", true, false}},
     add_branch},
    {"branch", "activate", "BRANCH", "let it be worked in again",
     "BRANCH " BY_REF, {IN_WORKSPACE}, branch_on},
    {"branch", "deactivate", "BRANCH", "let nobody work in it",
     "BRANCH " BY_REF OFF_MORE, {IN_WORKSPACE}, branch_off},
    {.group = NULL},
};
/* clang-format on */
