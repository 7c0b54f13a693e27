/*
 * account show, list and sessions; workspace, branch, member and audit list.
 *
 * A list continues after a row by its sort values, so concurrent changes do not
 * move other rows to another page.
 */

#include "cmd/cmd_lookup.h"

#include "auth/auth_attempt.h"
#include "cmd/cmd_out.h"
#include "people/people_audit.h"
#include "people/people_member.h"
#include "people/people_place.h"
#include "people/people_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- options to queries -- */

/* Finds the account of the command, if there is one. */
static enum people_outcome find_account(const struct cmd *c, struct people *p,
                                        const char **id)
{
    struct account_item account = {NULL};
    enum people_outcome outcome =
        c->account[0] != '\0' ? people_account_find(p, c->account, &account)
                              : PEOPLE_DONE;

    *id = account.account_id;
    return outcome;
}

static enum people_outcome read_accounts(const struct cmd *c, struct people *p,
                                         const char *cursor, int64_t limit,
                                         struct people_rows *rows)
{
    const char *workspace = cmd_option(c, "workspace");
    struct account_query query = {.name = cmd_option(c, "name"),
                                  .type = cmd_option(c, "type"),
                                  .status = cmd_option(c, "status"),
                                  .after_name = cmd_option(c, "after"),
                                  .after = cursor,
                                  .limit = limit};
    struct place place;

    if (workspace != NULL) {
        enum people_outcome outcome =
            people_place_find(p, PLACE_WORKSPACE, workspace, NULL, &place);

        if (outcome != PEOPLE_DONE) {
            return outcome;
        }
        query.workspace_id = place.id;
    }
    return people_account_list(p, &query, rows);
}

static enum people_outcome read_sessions(const struct cmd *c, struct people *p,
                                         const char *cursor, int64_t limit,
                                         struct people_rows *rows)
{
    struct session_query query = {
        .all = cmd_get(c, "all") != NULL, .after = cursor, .limit = limit};
    enum people_outcome outcome = find_account(c, p, &query.account_id);

    return outcome == PEOPLE_DONE ? people_session_list(p, &query, rows)
                                  : outcome;
}

static enum people_outcome read_places(const struct cmd *c, struct people *p,
                                       const char *cursor, int64_t limit,
                                       struct people_rows *rows)
{
    bool branch = c->spec->pages->members == people_place_members[PLACE_BRANCH];
    const struct place_query query = {
        .in = cmd_option(c, branch ? "workspace" : "tenant"),
        .name = cmd_option(c, "name"),
        .status = cmd_option(c, "status"),
        .after = cmd_option(c, "after"),
        .cursor = cursor,
        .limit = limit};

    return people_place_list(p, branch ? PLACE_BRANCH : PLACE_WORKSPACE, &query,
                             rows);
}

static enum people_outcome read_members(const struct cmd *c, struct people *p,
                                        const char *cursor, int64_t limit,
                                        struct people_rows *rows)
{
    struct member_query query = {.workspace = cmd_option(c, "workspace"),
                                 .status = cmd_option(c, "status"),
                                 .after = cmd_option(c, "after"),
                                 .cursor = cursor,
                                 .limit = limit};
    enum people_outcome outcome = find_account(c, p, &query.account);

    return outcome == PEOPLE_DONE ? people_member_list(p, &query, rows)
                                  : outcome;
}

static int64_t time_of(const struct cmd *c, const char *name)
{
    const char *value = cmd_option(c, name);
    int64_t s = 0;

    return value != NULL && parse_time(value, &s) ? s * 1000000 : 0;
}

static enum people_outcome read_audit(const struct cmd *c, struct people *p,
                                      const char *cursor, int64_t limit,
                                      struct people_rows *rows)
{
    const char *after = cursor != NULL ? cursor : cmd_option(c, "after");
    struct audit_query query = {
        .event = cmd_option(c, "event"),
        .since_us = time_of(c, "since"),
        .until_us = time_of(c, "until"),
        .after = after != NULL ? strtoll(after, NULL, 10) : 0,
        .limit = limit};
    enum people_outcome outcome = find_account(c, p, &query.account_id);

    return outcome == PEOPLE_DONE ? people_audit_list(p, &query, rows)
                                  : outcome;
}

static const struct cmd_pages accounts = {read_accounts, people_account_cursor,
                                          people_account_members};
static const struct cmd_pages sessions = {read_sessions, people_session_cursor,
                                          people_session_members};
static const struct cmd_pages workspaces = {
    read_places, people_place_cursor, people_place_members[PLACE_WORKSPACE]};
static const struct cmd_pages branches = {read_places, people_place_cursor,
                                          people_place_members[PLACE_BRANCH]};
static const struct cmd_pages members = {read_members, people_member_cursor,
                                         people_member_members};
static const struct cmd_pages audit = {read_audit, people_audit_cursor,
                                       people_audit_members};

/* -- lists in pages -- */

/* The list that is printed, one per process. */
static struct {
    const struct cmd *c;
    const struct cmd_pages *of;
    struct people_rows rows;
    int64_t limit;
    const char *cursor; /* of the next page, or NULL */
    char text[1024];    /* of the cursor */
} page;

static enum people_outcome read_page(struct people *p, void *none)
{
    enum people_outcome outcome =
        page.of->read(page.c, p, page.cursor, page.limit, &page.rows);
    const char *cursor;

    (void) none;
    if (outcome != PEOPLE_DONE || !page.rows.more) {
        return outcome;
    }
    cursor = page.of->cursor(p, (const char *) page.rows.items +
                                    (page.rows.count - 1) * page.rows.size);
    if (cursor == NULL || strlen(cursor) >= sizeof(page.text)) {
        return PEOPLE_FAILED;
    }
    memcpy(page.text, cursor, strlen(cursor) + 1);
    return outcome;
}

/* Prints at most this many rows, and the heading of a part before them.  No
 * transaction is open while it prints. */
static bool print_pages(struct cmd *c, const struct cmd_pages *of, int64_t left)
{
    unsigned char *free = c->results.pos;

    page.c = c;
    page.of = of;
    page.cursor = NULL;
    do {
        c->results.pos = free;
        page.limit = left < PEOPLE_PAGE_MAX ? left : PEOPLE_PAGE_MAX;
        if (!cmd_transact(c, read_page, NULL)) {
            return false;
        }
        if (page.cursor == NULL) {
            cmd_out_list(c, page.rows.count > 0);
        }
        page.cursor = page.text;
        cmd_out_rows(c, of->members, &page.rows);
        left -= (int64_t) page.rows.count;
    } while (page.rows.more && left > 0);
    return true;
}

bool cmd_lookup_pages(struct cmd *c)
{
    const char *limit = cmd_option(c, "limit");

    if (!cmd_connect(c) ||
        !print_pages(c, c->spec->pages,
                     limit != NULL ? strtoll(limit, NULL, 10) : CMD_LIMIT)) {
        return false;
    }
    if (page.rows.more && !c->json) {
        fprintf(stderr, "identity-fcgi: there may be more: see --help\n");
    }
    return true;
}

/* -- all data about an account -- */

#define MEMBERS                                                                \
    "memberId", "status", "createdAt", "branches",                             \
        "workspaceId=", "workspaceName", "accountId=", "account"
#define SESSIONS                                                               \
    "sessionId", "status", "createdAt", "usedAt", "expiresAt",                 \
        "revokedAt=", "bound", "address", "loginAddress",                      \
        "workspaceId=", "workspaceName", "branchId=", "branchName", "agent",   \
        "loginAgent"
static const struct cmd_spec account_spec = {
    .part = true,
    .columns = {"account", "accountId=id", "type", "status", "createdAt",
                "updatedAt", "sessionsValidAfter", "deletedAt",
                "hasCredential=", "factorRequired", "recoveryCodesLeft"}};

static const struct cmd_spec failures_part = {
    "failedLogins", .part = true, .list = true,
    .columns = {"address", "failures", "until"}};
static const struct cmd_spec lists[] =
    {/* of people_account_lists */
     {"memberships", .part = true, .list = true, .columns = {MEMBERS}},
     {"grants", .part = true, .list = true,
      .columns = {"workspaceName", "workspaceId=", "branchId", "branchName",
                  "roles"}},
     {"factors", .part = true, .list = true,
      .columns = {"factorId", "type", "name", "createdAt", "usedAt"}}};
static const struct cmd_spec sessions_part = {
    "sessions", .part = true, .list = true, .columns = {SESSIONS}};

/* What is held about the account, one per process. */
static struct end_held held;

struct end_attempts cmd_lookup_attempts(const struct cmd *c)
{
    bool counted = c->keys->signing != NULL;

    return (struct end_attempts){counted ? auth_attempt_hmac : NULL, c->keys};
}

static enum people_outcome read_held(struct people *p, void *state)
{
    const struct cmd *c = state;
    const struct end_attempts attempts = cmd_lookup_attempts(c);

    return people_end_hold(p, c->account, &attempts, &held);
}

bool cmd_lookup_account(struct cmd *c)
{
    const struct cmd_spec *saved = c->spec;
    const struct people_member *list = people_account_lists;
    bool ok;

    if (!cmd_connect(c) || !cmd_transact(c, read_held, c)) {
        return false;
    }
    c->spec = &account_spec;
    cmd_show(c, people_account_whole_members, &held.account, NULL);
    (void) cmd_out_values(c);
    if (c->keys->signing != NULL) {
        cmd_out_part(c, &failures_part, people_end_members, &held);
    }
    for (size_t i = 0; list[i].name != NULL; i++) {
        cmd_out_part(c, &lists[i], &list[i], &held.account);
    }
    cmd_set(c, "all", "t");
    c->spec = &sessions_part;
    ok = print_pages(c, &sessions, INT64_MAX);
    cmd_out_part_end(c);
    c->spec = saved;
    return ok;
}

/* -- the table -- */

#define LIMIT                                                                  \
    {                                                                          \
        "limit", "N", "show at most N (default 100)",                          \
            .accepted = "1 to 100000", .form = "[1-9][0-9]{0,4}|100000"        \
    }
#define STATUS                                                                 \
    {                                                                          \
        "status", "STATUS", "only those with this status",                     \
            .accepted = "one of ACTIVE, INACTIVE, DISABLED, DELETED",          \
            .form = "ACTIVE|INACTIVE|DISABLED|DELETED"                         \
    }
#define NAME                                                                   \
    {                                                                          \
        "name", "PREFIX", .help = "only those whose name begins with it"       \
    }
#define WORKSPACE                                                              \
    {                                                                          \
        "workspace", "WORKSPACE", .help = "only those in it, a name or an id"  \
    }
#define AFTER(value)                                                           \
    {                                                                          \
        "after", value, .help = "go on after this one, a name or an id"        \
    }

#define A_TIME "a time in UTC, like 2026-11-21T10:15:00Z"

const struct cmd_spec cmd_lookups[] = {
    {"account list", NULL, "list accounts by name",
     "Deleted ones are shown only with --status DELETED.\n",
     .options = {{"type", "TYPE", "only CUSTOMER, OPERATOR or SYSTEM",
                  CMD_TYPE},
                 STATUS,
                 NAME,
                 {"workspace", "WORKSPACE",
                  .help = "only active members of it"},
                 {"after", "NAME", .help = "go on after this name"},
                 LIMIT},
     .pages = &accounts, .list = true,
     .columns = {"accountId=id", "type", "status", "createdAt", "account"}},
    {"account show", "ACCOUNT", "show all that is held about it",
     "ACCOUNT is a name or an id.  Failed logins are shown only with the "
     "signing\nkey, since they are counted under an HMAC that is made with "
     "it.\n",
     .check = cmd_keys, .keyless = true, .before = cmd_lookup_account},
    {"account sessions", "ACCOUNT", "list sessions, newest first",
     "ACCOUNT is a name or an id.\n",
     .options = {{"all", NULL, .help = "include ended ones"}, LIMIT},
     .pages = &sessions, .list = true, .columns = {SESSIONS}},
    {"workspace list", NULL, "list workspaces by tenant and name", NULL,
     .options = {STATUS,
                 NAME,
                 {"tenant", "TENANT", .help = "only those of this tenant"},
                 AFTER("WORKSPACE"),
                 LIMIT},
     .pages = &workspaces, .list = true,
     .columns = {"workspaceId=id", "status", "createdAt", "tenantName",
                 "workspaceName"}},
    {"branch list", NULL, "list branches by workspace and name", NULL,
     .options = {STATUS, NAME, WORKSPACE, AFTER("BRANCH"), LIMIT},
     .pages = &branches, .list = true,
     .columns = {"branchId=id", "status", "createdAt", "workspaceName",
                 "branchName"}},
    {"member list", NULL, "list members by workspace and account", NULL,
     .options = {STATUS,
                 {"account", "ACCOUNT", .help = "only its memberships"},
                 WORKSPACE,
                 AFTER("MEMBER"),
                 LIMIT},
     .pages = &members, .list = true, .columns = {MEMBERS}},
    {"audit list", NULL, "list changes, newest first",
     "Every change of accounts, credentials, workspaces, branches, members\n"
     "and grants, by a command, a request or SQL, and every reuse of a\n"
     "refresh token.  The service keeps them for PLATFORM_AUDIT_KEEP (400d).\n",
     .options = {{"account", "ACCOUNT", .help = "only changes of it"},
                 {"event", "EVENT",
                  .help = "only these, for example account.added"},
                 {"since", "TIME", .help = "only from then on, in UTC",
                  .valid = cmd_is_time, .accepted = A_TIME},
                 {"until", "TIME", .help = "only before it",
                  .valid = cmd_is_time, .accepted = A_TIME},
                 {"after", "EVENT_ID", .help = "go on after this one",
                  .accepted = "the id of an event", .form = "[0-9]{1,18}"},
                 LIMIT},
     .pages = &audit, .list = true,
     .columns = {"time", "event", "operator", "accountId=account id",
                 "eventId=event id"}},
    {.words = NULL},
};
/* clang-format on */
