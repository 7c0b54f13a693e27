/* The table of commands: what each is called, takes and tells of itself. */

#include "cmd/cmd.h"

#define ACCOUNT_MORE "ACCOUNT is a name or an id.\n"
#define CREDENTIAL_MORE                                                       \
    "The credential is one line on standard input; on a terminal it is "      \
    "asked\n"                                                                 \
    "for, without echo.  It is never an argument.\n"
#define BY_REF "is a name or an id; a name that several have needs the id.\n"
#define OFF_MORE                                                              \
    "Nothing is deleted.  Who works in it is asked to choose another "        \
    "branch\n"                                                                \
    "at the next refresh.\n"
#define REFRESH_MORE                                                          \
    "Tokens that are out keep saying what they say until they expire; the\n"  \
    "next refresh tells the change.\n"

/* clang-format off */
#define ACCOUNT {"account", "ACCOUNT", "its name or id", CMD_NEEDED}
#define ROLES \
    {"role", "ROLE", "a role in each of these branches", CMD_MANY}, \
    {"workspace", "WORKSPACE", "where to look for the branches", 0}
#define IN_WORKSPACE \
    {"workspace", "WORKSPACE", "where to look for it, a name or an id", 0}

const struct cmd_spec cmd_specs[] = {
    {"account add", "NAME", "make an account", CREDENTIAL_MORE,
     cmd_account_add,
     {{"type", "TYPE", "CUSTOMER (default), OPERATOR or SYSTEM", 0},
      {"no-login", NULL, "nobody can log in until a credential is set", 0}},
     "account.added", NULL},
    {"account disable", "ACCOUNT", "refuse logins, end all sessions",
     ACCOUNT_MORE
     "Access tokens that are out work at the gateway until they expire.\n",
     cmd_account_status, {{.name = NULL}},
     "account.disabled", "DISABLED"},
    {"account enable", "ACCOUNT", "allow logins again", ACCOUNT_MORE,
     cmd_account_status, {{.name = NULL}},
     "account.enabled", "ACTIVE"},
    {"account set-credential", "ACCOUNT",
     "replace the credential, end all sessions", ACCOUNT_MORE CREDENTIAL_MORE,
     cmd_account_set_credential, {{.name = NULL}},
     "account.credential_set", NULL},
    {"account unlock", "ACCOUNT", "forget failed logins", ACCOUNT_MORE
     "Needs the signing key, as what is counted is kept under an HMAC of it.\n",
     cmd_account_unlock,
     {{"address", "IP", "also forget all that was counted for this address",
       0}},
     "account.unlocked", NULL},
    {"account sessions", "ACCOUNT", "list sessions, newest first",
     ACCOUNT_MORE, cmd_account_sessions,
     {{"all", NULL, "ended ones too", 0},
      {"limit", "N", "at most so many (100)", 0}}, NULL, NULL},
    {"account revoke-sessions", "ACCOUNT", "end sessions", ACCOUNT_MORE,
     cmd_account_revoke_sessions,
     {{"session", "UUID", "only this one", 0}},
     "account.sessions_revoked", NULL},
    {"sessions revoke", NULL, "end everybody's sessions, after data loss",
     "For a database that may have lost its last commits (a failover, a\n"
     "crash): tokens that were logged out or replaced may work again, and\n"
     "which ones nobody can tell.  So every account with a session that was\n"
     "not over at TIME is logged out everywhere.  TIME is a moment before the\n"
     "first commit that may be lost; if in doubt, an earlier one.\n",
     cmd_sessions_revoke,
     {{"since", "TIME", "in UTC, like 2026-11-21T10:15:00Z", CMD_NEEDED}},
     "sessions.revoked", NULL},

    {"workspace add", "NAME", "make a workspace",
     "A workspace belongs to a tenant, whose id is in the tokens.\n",
     cmd_workspace_add,
     {{"tenant", "TENANT", "an existing tenant, its name or id", 0},
      {"new-tenant", "NAME", "make this tenant along with it", 0}},
     "workspace.added", NULL},
    {"workspace activate", "WORKSPACE", "let it be worked in again",
     "WORKSPACE " BY_REF, cmd_workspace_status, {{.name = NULL}},
     "workspace.activated", "ACTIVE"},
    {"workspace deactivate", "WORKSPACE", "let nobody work in it",
     "WORKSPACE " BY_REF OFF_MORE, cmd_workspace_status, {{.name = NULL}},
     "workspace.deactivated", "INACTIVE"},
    {"branch add", "NAME", "make a branch of a workspace", NULL,
     cmd_branch_add,
     {{"workspace", "WORKSPACE", "its name or id", CMD_NEEDED}},
     "branch.added", NULL},
    {"branch activate", "BRANCH", "let it be worked in again",
     "BRANCH " BY_REF, cmd_branch_status, {IN_WORKSPACE},
     "branch.activated", "ACTIVE"},
    {"branch deactivate", "BRANCH", "let nobody work in it",
     "BRANCH " BY_REF OFF_MORE, cmd_branch_status, {IN_WORKSPACE},
     "branch.deactivated", "INACTIVE"},

    {"member add", NULL, "make an account a member of a workspace",
     "A member can work in no branch before member grant.\n", cmd_member_add,
     {ACCOUNT, {"workspace", "WORKSPACE", "its name or id", CMD_NEEDED}},
     "member.added", "ACTIVE"},
    {"member grant", NULL, "let a member work in branches, with roles",
     "What is granted already stays.  At most 200 active branches a member,\n"
     "1000 an account, 32 roles a branch.\n" REFRESH_MORE,
     cmd_member_grant,
     {ACCOUNT,
      {"branch", "BRANCH", "its name or id", CMD_NEEDED | CMD_MANY},
      ROLES},
     "member.granted", NULL},
    {"member revoke", NULL, "take roles or branches away",
     "With --role only the roles go; with --branch alone the branches go; with\n"
     "--all every branch of the workspace, and the membership ends.\n"
     REFRESH_MORE,
     cmd_member_revoke,
     {ACCOUNT,
      {"branch", "BRANCH", "its name or id", CMD_MANY},
      ROLES,
      {"all", NULL, "everything in --workspace", 0}},
     "member.revoked", "INACTIVE"},

    {"token system", NULL, "print a system token of an account",
     "It opens what the gateway guards by \"system\".  It cannot be revoked:\n"
     "keep its time short.\n",
     cmd_token_system,
     {{"account", "ACCOUNT", "an enabled account, its name or id", CMD_NEEDED},
      {"ttl", "TIME", "how long it works, 1h at most", CMD_NEEDED}},
     "token.system_issued", NULL},
    {"token inspect", NULL, "show what a token says, and verify it",
     "The token is read from standard input.  Exit status 1 where it does not\n"
     "verify with these keys and this issuer, now.\n",
     cmd_token_inspect, {{.name = NULL}}, NULL, NULL},

    {"keys generate", NULL, "print a new signing key as three settings",
     "A 2048-bit RSA key.  The private key is among what is printed: keep it\n"
     "where only the service can read it.\n",
     cmd_keys_generate,
     {{"kid", "ID", "its id (default: its RFC 7638 thumbprint)", 0}}, NULL, NULL},
    {"migrate", NULL, "apply pending database migrations",
     "Does nothing where there are none.\n", cmd_migrate, {{.name = NULL}}, NULL, NULL},
    {"seed", NULL, "migrate, load local data (APP_ENV=local)", NULL, cmd_migrate,
     {{.name = NULL}}, NULL, NULL},
    {"sweep", NULL, "delete what ended long ago",
     "Sessions that expired or were revoked over 7 days ago, and failed logins\n"
     "and rotated-out tokens that no longer count.  The service does the same\n"
     "every PLATFORM_SWEEP_INTERVAL.\n",
     cmd_sweep,
     {{"older-than", "TIME", "ended sessions are kept so long (7d)", 0}},
     "sweep.done", NULL},
    {.words = NULL},
};
/* clang-format on */
