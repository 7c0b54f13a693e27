/*
 * account show, list and sessions; workspace, branch and member list.
 *
 * A list continues after a row by its sort values, so concurrent changes do not
 * move other rows to another page.
 */

#include "cmd/cmd_lookup.h"

#include "auth/auth.h"
#include "base/uuid.h"
#include "cmd/cmd_out.h"
#include "people/people_audit.h"
#include "people/people_member.h"
#include "people/people_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- statements -- */

/* clang-format off */
#define MOST " LIMIT coalesce(:limit::int, 100)"
#define EQUAL(option, column) \
    " AND (:" option ".given::text IS NULL OR " column " = :" option ".given)"
#define BEGINS(column, with) \
    " AND (:name::text IS NULL OR " column " COLLATE \"C\" ^@ " with ")"
#define AT(column, name) "extract(epoch FROM " column ") AS " name

/* Uses the index on names. */
static const char accounts_sql[] =
    "SELECT account_id AS accountId, account_type AS type, status,"
    "       account_name AS account, " AT("created_at", "createdAt")
    "  FROM accounts a WHERE true"
    EQUAL("type", "account_type")
    " AND CASE WHEN :status.given::text IS NULL THEN status <> 'DELETED'"
    "          ELSE status = :status.given END"
    BEGINS("account_name", "lower(:name COLLATE \"C\")")
    "   AND (:workspaceId::uuid IS NULL OR EXISTS ("
    "        SELECT FROM members m WHERE m.account_id = a.account_id"
    "           AND m.workspace_id = :workspaceId AND m.status = 'ACTIVE'))"
    "   AND (:after::text IS NULL"
    "        OR account_name COLLATE \"C\" > lower(:after COLLATE \"C\"))"
    " ORDER BY account_name COLLATE \"C\"" MOST;

static const char members_sql[] =
    "SELECT member_id AS memberId, account_id AS accountId,"
    "       account_name AS account, m.status, workspace_id AS workspaceId,"
    "       workspace_name AS workspaceName,"
    "       (SELECT count(*) FROM branch_grants g"
    "         WHERE g.member_id = m.member_id) AS branches,"
            AT("m.created_at", "createdAt")
    "  FROM members m JOIN accounts USING (account_id)"
    "  JOIN workspaces USING (workspace_id) WHERE account_id = :accountId"
    " ORDER BY workspace_name COLLATE \"C\", member_id";

/* The newest sessions of each status, in the order of the index. */
#define BEFORE(s)                                                              \
    " AND (:beforeTime::timestamptz IS NULL"                                   \
    "      OR (" s "created_at <= :beforeTime AND (" s                         \
    "created_at < :beforeTime OR " s "session_id > :beforeId)))"               \
    " ORDER BY " s "created_at DESC, " s "session_id" MOST
static const char sessions_sql[] =
    "SELECT session_id AS sessionId,"
    "  CASE WHEN over_at IS NOT NULL THEN 'REVOKED'"
    "       WHEN expires_at <= now() THEN 'EXPIRED' ELSE 'ACTIVE' END"
    " AS status,"
    AT("s.created_at", "createdAt") "," AT("expires_at", "expiresAt") ","
    AT("over_at", "revokedAt") ","
    AT("coalesce(used_at, s.created_at)", "usedAt")
    ", s.workspace_id AS workspaceId, workspace_name AS workspaceName,"
    "  active_branch_id AS branchId, branch_name AS branchName,"
    "  CASE WHEN used_at IS NULL THEN login_address ELSE used_address END"
    " AS address,"
    "  CASE WHEN used_at IS NULL THEN login_agent ELSE used_agent END AS agent,"
    "  login_address AS loginAddress, login_agent AS loginAgent,"
    "  s.created_at::text AS fromTime"
    "  FROM (SELECT s.*, coalesce(s.revoked_at, CASE"
    "                 WHEN s.created_at <= a.sessions_valid_after"
    "                 THEN a.sessions_valid_after END) AS over_at"
    "          FROM accounts a JOIN LATERAL ("
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'ACTIVE'"
    "                AND (:all OR (expires_at > now()"
    "                     AND created_at > a.sessions_valid_after))"
    BEFORE("") ") UNION ALL"
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'REVOKED'"
    " AND :all" BEFORE("") ")) AS s ON true"
    "         WHERE a.account_id = :accountId) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY s.created_at DESC, session_id" MOST;

/* -- columns -- */

#define MEMBERS \
    "memberId", "status", "createdAt", "branches", "workspaceId=", \
    "workspaceName", "accountId=", "account"
#define SESSIONS \
    "sessionId", "status", "createdAt", "usedAt", "expiresAt", "revokedAt=", \
    "address", "loginAddress", "workspaceId=", "workspaceName", \
    "branchId=", "branchName", "agent", "loginAgent"
/* -- all data about an account -- */

static const struct cmd_spec account_spec = {
    .operand = "ACCOUNT", .keyless = true,
    .sql = "SELECT " AT("created_at", "createdAt") ","
        AT("updated_at", "updatedAt") "," AT("deleted_at", "deletedAt") ","
        AT("nullif(sessions_valid_after, '-infinity')", "sessionsValidAfter")
        "  FROM accounts WHERE account_id = :accountId",
    .columns = {"account", "accountId=id", "type", "status", "createdAt",
                "updatedAt", "sessionsValidAfter", "deletedAt"}};

static const struct cmd_spec parts[] = {
    {"failedLogins", .list = true,
     .sql = "SELECT address, failures, " AT("window_ends_at", "until")
            "  FROM login_attempts WHERE account_hmac = decode(:hmac, 'hex')",
     .columns = {"address", "failures", "until"}},
    {"memberships", .list = true, .sql = members_sql, .columns = {MEMBERS}},
    {"grants", .list = true,
     .sql = "SELECT branch_id AS branchId, branch_name AS branchName,"
            "       g.workspace_id AS workspaceId, workspace_name AS "
            "workspaceName,"
            "       (SELECT string_agg(role_code, ',' ORDER BY role_code)"
            "          FROM member_roles r WHERE r.member_id = g.member_id"
            "           AND r.branch_id = g.branch_id) AS roles"
            "  FROM members m JOIN branch_grants g USING (member_id)"
            "  JOIN branches b USING (branch_id)"
            "  JOIN workspaces w ON w.workspace_id = g.workspace_id"
            " WHERE account_id = :accountId ORDER BY branch_id",
     .columns = {"workspaceName", "workspaceId=", "branchId", "branchName",
                 "roles"}},
    {"sessions", .list = true, .sql = sessions_sql, .columns = {SESSIONS}}};

/* Failed logins are counted under an HMAC of the name, for which the signing
 * key is needed (auth_attempt_identify()). */
bool cmd_lookup_attempts(struct cmd *c)
{
    /* Attempts of a client are counted under its id. */
    const char *name =
        cmd_get(c, cmd_is(c, "type", "SYSTEM") ? "accountId" : "account");
    const char *address = cmd_get(c, "address");
    struct attempt attempt;
    char hmac[2 * sizeof(attempt.account_hmac) + 1];

    if (!auth_attempt_identify(c->keys, pj_str(name),
                               pj_str(address != NULL ? address : ""),
                               &attempt)) {
        return cmd_fail(c, "cannot compute the HMAC of the account name");
    }
    (void) uuid_hex(hmac, attempt.account_hmac, sizeof(attempt.account_hmac));
    cmd_setf(c, "hmac", "%s", hmac);
    cmd_setf(c, "prefix", "%s", attempt.address);
    return true;
}

bool cmd_lookup_account(struct cmd *c)
{
    const struct cmd_spec *saved = c->spec;
    bool counted = c->keys->signing != NULL, ok;

    c->spec = &account_spec;
    ok = cmd_connect(c) && cmd_transact(c, cmd_work) &&
         (!counted || cmd_lookup_attempts(c));
    if (ok) {
        cmd_set(c, "all", "t");
        (void) cmd_out_values(c);
    }
    c->spec = saved;
    if (!ok) {
        return false;
    }
    for (size_t i = !counted; i < sizeof(parts) / sizeof(parts[0]); i++) {
        cmd_setf(c, "limit", "%d",
                 strcmp(parts[i].words, "sessions") == 0 ? CMD_PAGE
                                                         : 1000000000);
        if (!cmd_out_part(c, &parts[i])) {
            return false;
        }
    }
    return true;
}

/* -- lists in pages -- */

/* The list that is printed, one per process. */
static struct {
    struct people_rows rows; /* in the command's arena */
    int64_t limit;
    bool begun;
    char cursor[1024];
} page;

static bool read_page(struct cmd *c)
{
    const struct cmd_pages *pages = c->spec->pages;
    struct people p;
    struct store st;
    pj_arena_t arena;
    const char *cursor;

    cmd_people_init(c, &p, &st, &arena);
    if (!cmd_people(c, &p,
                    pages->read(c, &p, page.begun ? page.cursor : NULL,
                                page.limit, &page.rows))) {
        return false;
    }
    if (page.rows.more) {
        cursor = pages->cursor(&p, (const char *) page.rows.items +
                                       (page.rows.count - 1) * page.rows.size);
        if (cursor == NULL || strlen(cursor) >= sizeof(page.cursor)) {
            return cmd_fail(c, "there is not enough memory for the list");
        }
        memcpy(page.cursor, cursor, strlen(cursor) + 1);
        page.begun = true;
    }
    return true;
}

/* No transaction is open while it prints. */
bool cmd_lookup_pages(struct cmd *c)
{
    const char *limit = cmd_option(c, "limit");
    int64_t left = limit != NULL ? strtoll(limit, NULL, 10) : CMD_LIMIT;

    if (!cmd_connect(c) || (cmd_option(c, "account") != NULL &&
                            !cmd_transact(c, cmd_work))) {
        return false;
    }
    c->members = c->spec->pages->members;
    do {
        page.limit = left < PEOPLE_PAGE_MAX ? left : PEOPLE_PAGE_MAX;
        if (!cmd_transact(c, read_page)) {
            return false;
        }
        for (size_t i = 0; i < page.rows.count; i++) {
            c->item = (const char *) page.rows.items + i * page.rows.size;
            cmd_out_row(c);
        }
        c->item = NULL;
        left -= (int64_t) page.rows.count;
    } while (page.rows.more && left > 0);
    if (!c->begun) {
        cmd_out_line(c, "none");
    } else if (page.rows.more && !c->json) {
        fprintf(stderr, "identity-fcgi: there may be more: see --help\n");
    }
    return true;
}

/* -- options to queries -- */

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
    const struct member_query query = {.workspace = cmd_option(c, "workspace"),
                                       .account = cmd_get(c, "accountId"),
                                       .status = cmd_option(c, "status"),
                                       .after = cmd_option(c, "after"),
                                       .cursor = cursor,
                                       .limit = limit};

    return people_member_list(p, &query, rows);
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
    const struct audit_query query = {
        .account_id = cmd_get(c, "accountId"),
        .event = cmd_option(c, "event"),
        .since_us = time_of(c, "since"),
        .until_us = time_of(c, "until"),
        .after = after != NULL ? strtoll(after, NULL, 10) : 0,
        .limit = limit};

    return people_audit_list(p, &query, rows);
}

static const struct cmd_pages workspaces = {
    read_places, people_place_cursor, people_place_members[PLACE_WORKSPACE]};
static const struct cmd_pages branches = {read_places, people_place_cursor,
                                          people_place_members[PLACE_BRANCH]};
static const struct cmd_pages members = {read_members, people_member_cursor,
                                         people_member_members};
static const struct cmd_pages audit = {read_audit, people_audit_cursor,
                                       people_audit_members};

/* -- the table -- */

#define LIMIT \
    {"limit", "N", "show at most N (default 100)", .accepted = "1 to 100000", \
     .form = "[1-9][0-9]{0,4}|100000"}
#define STATUS \
    {"status", "STATUS", "only those with this status", \
     .accepted = "one of ACTIVE, INACTIVE, DISABLED, DELETED", \
     .form = "ACTIVE|INACTIVE|DISABLED|DELETED"}
#define NAME {"name", "PREFIX", .help = "only those whose name begins with it"}
#define WORKSPACE \
    {"workspace", "WORKSPACE", .help = "only those in it, a name or an id"}
#define AFTER(value) \
    {"after", value, .help = "go on after this one, a name or an id"}

#define A_TIME "a time in UTC, like 2026-11-21T10:15:00Z"

const struct cmd_spec cmd_lookups[] = {
    {"account list", NULL, "list accounts by name",
     "Deleted ones are shown only with --status DELETED.\n",
     .options = {
         {"type", "TYPE", "only CUSTOMER, OPERATOR or SYSTEM", CMD_TYPE},
         STATUS, NAME,
         {"workspace", "WORKSPACE", .help = "only active members of it"},
         {"after", "NAME", .help = "go on after this name"}, LIMIT},
     .lock = true, .sql = accounts_sql, .list = true,
     .columns = {"accountId=id", "type", "status", "createdAt", "account"}},
    {"account show", "ACCOUNT", "show all that is held about it",
     "ACCOUNT is a name or an id.  Failed logins are shown only with the "
     "signing\nkey, since they are counted under an HMAC that is made with "
     "it.\n",
     .check = cmd_keys, .keyless = true, .before = cmd_lookup_account},
    {"account sessions", "ACCOUNT", "list sessions, newest first",
     "ACCOUNT is a name or an id.\n",
     .options = {{"all", NULL, .help = "include ended ones"}, LIMIT},
     .sql = sessions_sql, .list = true, .columns = {SESSIONS}},
    {"workspace list", NULL, "list workspaces by tenant and name", NULL,
     .options = {
         STATUS, NAME,
         {"tenant", "TENANT", .help = "only those of this tenant"},
         AFTER("WORKSPACE"), LIMIT},
     .pages = &workspaces, .list = true,
     .columns = {"workspaceId=id", "status", "createdAt", "tenantName",
                 "workspaceName"}},
    {"branch list", NULL, "list branches by workspace and name", NULL,
     .options = {STATUS, NAME, WORKSPACE, AFTER("BRANCH"), LIMIT},
     .pages = &branches, .list = true,
     .columns = {"branchId=id", "status", "createdAt", "workspaceName",
                 "branchName"}},
    {"member list", NULL, "list members by workspace and account", NULL,
     .options = {
         STATUS, {"account", "ACCOUNT", .help = "only its memberships"},
         WORKSPACE, AFTER("MEMBER"), LIMIT},
     .pages = &members, .list = true, .columns = {MEMBERS}},
    {"audit list", NULL, "list changes, newest first",
     "Every change of accounts, credentials, workspaces, branches, members\n"
     "and grants, by a command, a request or SQL, and every reuse of a\n"
     "refresh token.  The service keeps them for PLATFORM_AUDIT_KEEP (400d).\n",
     .options = {
         {"account", "ACCOUNT", .help = "only changes of it"},
         {"event", "EVENT", .help = "only these, for example account.added"},
         {"since", "TIME", .help = "only from then on, in UTC",
          .valid = cmd_is_time, .accepted = A_TIME},
         {"until", "TIME", .help = "only before it", .valid = cmd_is_time,
          .accepted = A_TIME},
         {"after", "EVENT_ID", .help = "go on after this one",
          .accepted = "the id of an event", .form = "[0-9]{1,18}"},
         LIMIT},
     .keyless = true, .pages = &audit, .list = true,
     .columns = {"time", "event", "operator", "accountId=account id",
                 "eventId=event id"}},
    {.words = NULL},
};
/* clang-format on */
