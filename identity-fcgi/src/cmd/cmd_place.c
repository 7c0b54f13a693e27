/* workspace and branch add, rename, activate, deactivate; member add, grant,
 * revoke */

#include "cmd/cmd.h"

#include "cmd/cmd_out.h"
#include "people/people_member.h"
#include "people/people_place.h"

#include <stdio.h>
#include <string.h>

#define WORKSPACE_COLUMNS                                                      \
    "workspaceName", "workspaceId=id", "status", "tenantName", "tenantId"
#define BRANCH_COLUMNS                                                         \
    "branchName", "branchId=id", "status", "workspaceName", "workspaceId"
#define MEMBER_COLUMNS                                                         \
    "account", "accountId", "workspaceName", "workspaceId", "memberId", "status"

#define MAX_ROLES 32

/* Results, one per process. */
static struct place place;
static struct member member;
static struct member_grant grants[CMD_MAX_BRANCHES];

/* -- workspaces and branches -- */

static enum place_kind kind_of(const struct cmd *c)
{
    return strncmp(c->spec->words, "branch", 6) == 0 ? PLACE_BRANCH
                                                     : PLACE_WORKSPACE;
}

static bool check_workspace(struct cmd *c)
{
    return !cmd_option(c, "tenant") != !cmd_option(c, "new-tenant") ||
           cmd_misused(c, "workspace add: needs one of --tenant and "
                          "--new-tenant; try identity-fcgi workspace add "
                          "--help");
}

/* Adds the option that would do to a refusal of the tenant. */
static void hint_tenant(const struct cmd *c, struct people *p,
                        enum people_outcome outcome)
{
    const char *tenant = cmd_option(c, "tenant"), *hint = "";

    if (outcome == PEOPLE_EXISTS && strcmp(p->field, "newTenant") == 0) {
        hint = ": --tenant puts the workspace there";
    } else if (outcome == PEOPLE_INVALID && tenant != NULL &&
               p->field != NULL && strcmp(p->field, "tenantId") == 0 &&
               !people_is_id(tenant)) {
        hint = ": --new-tenant makes one";
    }
    snprintf(p->line + strlen(p->line), sizeof(p->line) - strlen(p->line), "%s",
             hint);
}

static enum people_outcome show_place(struct cmd *c,
                                      enum people_outcome outcome)
{
    cmd_show(c, people_place_changed[kind_of(c)], &place, NULL);
    memcpy(c->events, place.events, sizeof(place.events));
    return outcome;
}

static enum people_outcome add_place(struct cmd *c, struct people *p)
{
    enum place_kind kind = kind_of(c);
    const struct place_change change = {
        .in = cmd_option(c, kind == PLACE_BRANCH ? "workspace" : "tenant"),
        .new_tenant = cmd_option(c, "new-tenant"),
        .name = c->operand};
    enum people_outcome outcome = people_place_add(p, kind, &change, &place);

    hint_tenant(c, p, outcome);
    return show_place(c, outcome);
}

static enum people_outcome change_place(struct cmd *c, struct people *p)
{
    const struct place_change change = {.place = c->operand,
                                        .in = cmd_option(c, "workspace"),
                                        .name = cmd_option(c, "to"),
                                        .status = c->spec->status};

    return show_place(c, people_place_change(p, kind_of(c), &change, &place));
}

/* -- members -- */

static enum people_outcome change_member(
    struct cmd *c, struct people *p,
    enum people_outcome (*change)(struct people *, const struct member_change *,
                                  struct member *))
{
    const struct member_change wanted = {
        .account = c->account, .workspace = cmd_option(c, "workspace")};
    enum people_outcome outcome = change(p, &wanted, &member);

    cmd_show(c, people_member_changed, &member, member.event);
    return outcome;
}

static enum people_outcome put_member(struct cmd *c, struct people *p)
{
    return change_member(c, p, people_member_put);
}

static enum people_outcome end_member(struct cmd *c, struct people *p)
{
    return change_member(c, p, people_member_end);
}

/* -- grants -- */

static enum people_outcome change_grants(struct cmd *c, struct people *p)
{
    enum people_outcome (*change)(struct people *, const struct grant_change *,
                                  struct member_grant *) =
        strcmp(c->spec->words, "member grant") == 0 ? people_member_grant
                                                    : people_member_revoke;
    const char *branches[CMD_MAX_BRANCHES];
    size_t count = cmd_given(c, "branch", branches, CMD_MAX_BRANCHES);
    enum people_outcome outcome = PEOPLE_DONE;

    for (size_t i = 0; outcome == PEOPLE_DONE && i < count; i++) {
        const struct grant_change wanted = {.account = c->account,
                                            .branch = branches[i],
                                            .workspace =
                                                cmd_option(c, "workspace"),
                                            .roles = c->secret};

        outcome = change(p, &wanted, &grants[i]);
    }
    return outcome;
}

static bool print_grants(struct cmd *c)
{
    size_t count = cmd_given(c, "branch", NULL, 0);

    c->members = people_member_granted;
    for (size_t i = 0; i < count; i++) {
        c->item = &grants[i];
        if (grants[i].event != NULL) {
            cmd_out_audit(c, grants[i].event, NULL);
        }
        cmd_out_row(c);
    }
    return true;
}

/* Joins the roles by commas in c->secret. */
static bool check_grant(struct cmd *c)
{
    if (cmd_given(c, "branch", NULL, 0) > CMD_MAX_BRANCHES) {
        return cmd_misused(c,
                           "a member may be granted at most %d active branches",
                           CMD_MAX_BRANCHES);
    }
    return cmd_join(c, "role", MAX_ROLES, ',') ||
           cmd_misused(c, "a member may hold at most %d roles in a branch",
                       MAX_ROLES);
}

static bool check_revoke(struct cmd *c)
{
    static const struct cmd_spec end = {
        .operate = end_member,
        .columns = {MEMBER_COLUMNS, "revokedBranches"},
    };
    bool all = cmd_option(c, "all") != NULL;

    if (!check_grant(c)) {
        return false;
    }
    if (all == (cmd_option(c, "branch") != NULL) ||
        (all && (cmd_option(c, "role") != NULL ||
                 cmd_option(c, "workspace") == NULL))) {
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

#define OF_WORKSPACE .operate = change_place, .columns = {WORKSPACE_COLUMNS}
#define OF_BRANCH .operate = change_place, .columns = {BRANCH_COLUMNS}
#define OF_GRANTS \
    .operate = change_grants, .print = print_grants, .list = true, \
    .columns = {"workspaceName", "branchId", "branchName", "granted", "roles"}

const struct cmd_spec cmd_places[] = {
    {"workspace add", "NAME", "create a workspace",
     "A workspace belongs to a tenant, whose id is in the tokens.\n",
     .options = {
         {"tenant", "TENANT", .help = "an existing tenant, its name or id"},
         {"new-tenant", "NAME", .help = "create this tenant too"}},
     .check = check_workspace, .operate = add_place,
     .columns = {WORKSPACE_COLUMNS}},
    {"workspace rename", "WORKSPACE", "give it another name",
     "WORKSPACE " BY_REF,
     .options = {{"to", "NAME", .help = "the new name", CMD_NEEDED}},
     OF_WORKSPACE},
    {"workspace activate", "WORKSPACE", "allow work in it again",
     "WORKSPACE " BY_REF, OF_WORKSPACE, .status = "ACTIVE"},
    {"workspace deactivate", "WORKSPACE", "stop all work in it",
     "WORKSPACE " BY_REF OFF_MORE, OF_WORKSPACE, .status = "INACTIVE"},
    {"branch add", "NAME", "create a branch in a workspace", NULL,
     .options = {WORKSPACE}, .operate = add_place,
     .columns = {BRANCH_COLUMNS}},
    {"branch rename", "BRANCH", "give it another name", "BRANCH " BY_REF,
     .options = {
         {"to", "NAME", .help = "the new name", CMD_NEEDED}, IN_WORKSPACE},
     OF_BRANCH},
    {"branch activate", "BRANCH", "allow work in it again",
     "BRANCH " BY_REF, .options = {IN_WORKSPACE}, OF_BRANCH,
     .status = "ACTIVE"},
    {"branch deactivate", "BRANCH", "stop all work in it",
     "BRANCH " BY_REF OFF_MORE, .options = {IN_WORKSPACE}, OF_BRANCH,
     .status = "INACTIVE"},
    {"member add", NULL, "make an account a member of a workspace",
     "A new member cannot work in any branch until member grant.\n",
     .options = {ACCOUNT, WORKSPACE}, .operate = put_member,
     .columns = {MEMBER_COLUMNS}},
    {"member grant", NULL, "let a member work in branches, with roles",
     "Earlier grants stay.  At most 200 active branches per member, 1000 per\n"
     "account, 32 roles per branch.\n" REFRESH_MORE,
     .options = {
         ACCOUNT,
         {"branch", "BRANCH", "its name or id",
          .flags = CMD_NEEDED | CMD_MANY},
         ROLES},
     .check = check_grant, OF_GRANTS},
    {"member revoke", NULL, "take roles or branches away",
     "With --role only those roles are taken; with --branch alone the "
     "branches;\nwith --all every branch of the workspace, and the membership "
     "itself.\n"
     REFRESH_MORE,
     .options = {
         ACCOUNT, {"branch", "BRANCH", "its name or id", .flags = CMD_MANY},
         ROLES,
         {"all", NULL, .help = "everything in --workspace"}},
     .check = check_revoke, OF_GRANTS},
    {.words = NULL},
};
/* clang-format on */
