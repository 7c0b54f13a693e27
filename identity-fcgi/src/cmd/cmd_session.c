/*
 * account sessions, revoke-sessions; sessions revoke.
 *
 * An account is locked out by one write to its row, however many sessions it
 * has: whoever reads a session compares.  The rows of those sessions are
 * marked afterwards, some at a time.
 */

#include "cmd/cmd.h"

#include "base/config_parse.h"

#include <string.h>
#include <time.h>

#define BATCH_ACCOUNTS "500"
#define BATCH_SESSIONS 1000

/* -- locking out -- */

/*
 * Of the accounts :from to :to those with a session that was not over at
 * :since, or all.  The moment is no earlier than any session that is there,
 * even where the clock was set back.  A row is asked for where EXISTS would
 * do: that might read the whole table at once, for all accounts.
 */
static bool lock_out(struct cmd *c)
{
    return cmd_sql(
        c, "UPDATE accounts a SET sessions_valid_after = greatest("
           "   clock_timestamp(), a.sessions_valid_after,"
           "   (SELECT max(s.created_at) FROM auth_sessions s"
           "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))"
           " WHERE a.account_id BETWEEN :from AND :to"
           "   AND (:since::timestamptz IS NULL OR (SELECT true FROM "
           "auth_sessions s"
           "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
           "           AND s.created_at > a.sessions_valid_after"
           "           AND s.expires_at > :since LIMIT 1))"
           " RETURNING (SELECT true FROM auth_sessions s"
           "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
           "         LIMIT 1) IS TRUE AS endsSessions");
}

bool cmd_lock_out(struct cmd *c)
{
    cmd_setf(c, "from", "%s", cmd_get(c, "accountId"));
    cmd_setf(c, "to", "%s", cmd_get(c, "accountId"));
    if (!lock_out(c)) {
        return false;
    }
    c->changed = c->changed || cmd_is(c, "endsSessions", "t");
    return true;
}

/* -- marking rows -- */

/* Of the accounts :from to :to, at most :most rows.  The limit within keeps
 * the join from becoming one that reads the whole table. */
#define MARK(held)                                                            \
    "UPDATE auth_sessions"                                                    \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"     \
    " WHERE session_id = ANY (ARRAY("                                         \
    "   SELECT s.session_id FROM accounts a CROSS JOIN LATERAL ("             \
    "     SELECT session_id FROM auth_sessions"                               \
    "      WHERE account_id = a.account_id AND status = 'ACTIVE'"             \
    "        AND created_at <= a.sessions_valid_after"                        \
    "      LIMIT :most FOR UPDATE " held ") AS s"                             \
    "    WHERE a.account_id BETWEEN :from AND :to LIMIT :most))"

static bool mark_some(struct cmd *c)
{
    cmd_setf(c, "most", "%d", BATCH_SESSIONS);
    return cmd_sql(c, MARK("SKIP LOCKED"));
}

static bool mark_one(struct cmd *c)
{
    cmd_set(c, "most", "1");
    return cmd_sql(c, MARK(""));
}

/*
 * Rows that somebody holds are passed over, and then waited for one by one:
 * nobody waits for a row while holding another, so there is no deadlock with
 * who revokes several, in whatever order.
 */
static bool mark(struct cmd *c, int64_t *total)
{
    bool wait = false;

    do {
        if (!cmd_transact(c, wait ? mark_one : mark_some)) {
            return false;
        }
        *total += c->touched;
        wait = !wait && c->touched < BATCH_SESSIONS;
    } while (wait || c->touched > 0);
    return true;
}

bool cmd_locked_out(struct cmd *c)
{
    int64_t ended = cmd_get(c, "session") != NULL; /* that one */

    if (cmd_is(c, "endsSessions", "t") && !mark(c, &ended)) {
        return cmd_fail(c, CMD_FAILED,
                        "all sessions are over, but not all of their rows "
                        "were marked, which the same command goes on with: %s",
                        c->line);
    }
    cmd_setf(c, "revokedSessions", "%lld", (long long) ended);
    return true;
}

/* -- account revoke-sessions -- */

static bool check_revoke(struct cmd *c)
{
    const char *session = cmd_get(c, "session");

    return session == NULL || cmd_is_uuid(session) ||
           cmd_fail(c, CMD_USAGE, "--session is a UUID");
}

static bool revoke(struct cmd *c)
{
    if (!cmd_lock_account(c)) {
        return false;
    }
    if (cmd_get(c, "session") == NULL) {
        c->changed = false;
        return cmd_lock_out(c);
    }
    return cmd_sql(c, "UPDATE auth_sessions s SET status = 'REVOKED',"
                      "       revoked_at = greatest(now(), s.created_at)"
                      "  FROM accounts a"
                      " WHERE a.account_id = :accountId"
                      "   AND s.account_id = :accountId"
                      "   AND s.session_id = :session AND s.status = 'ACTIVE'"
                      "   AND s.created_at > a.sessions_valid_after") &&
           (c->touched > 0 ||
            cmd_fail(c, CMD_FAILED,
                     "the account has no active session with this id"));
}

/* -- account sessions -- */

static const struct cmd_column columns[] = {
    {"sessionId", "session", CMD_TEXT, STORE_UUID - 1},
    {"status", "status", CMD_TEXT, 7},
    {"createdAt", "created", CMD_TIME, 20},
    {"expiresAt", "expires", CMD_TIME, 20},
    {"revokedAt", NULL, CMD_TIME, 0},
    {"workspaceId", NULL, CMD_TEXT, 0},
    {"workspaceName", "workspace", CMD_TEXT, 16},
    {"branchId", NULL, CMD_TEXT, 0},
    {"branchName", "branch", CMD_TEXT, 0},
    {.name = NULL},
};

static bool check_list(struct cmd *c)
{
    const char *text = cmd_get(c, "limit");
    int64_t limit;

    if (text == NULL) {
        cmd_set(c, "limit", "100");
    } else if (!parse_int(text, &limit) || limit < 1 || limit > 100000) {
        return cmd_fail(c, CMD_USAGE, "--limit is 1 to 100000");
    }
    return true;
}

/* The newest of one status each, as the index has them. */
static bool list(struct cmd *c)
{
    return cmd_lock_account(c) &&
           cmd_sql(
               c,
               "SELECT s.session_id AS sessionId,"
               "       CASE WHEN s.revoked_at IS NOT NULL THEN 'REVOKED'"
               "            WHEN s.expires_at <= now() THEN 'EXPIRED'"
               "            ELSE 'ACTIVE' END AS status,"
               "       floor(extract(epoch FROM s.created_at))::bigint"
               "         AS createdAt,"
               "       floor(extract(epoch FROM s.expires_at))::bigint"
               "         AS expiresAt,"
               "       floor(extract(epoch FROM s.revoked_at))::bigint"
               "         AS revokedAt,"
               "       s.workspace_id AS workspaceId,"
               "       w.workspace_name AS workspaceName,"
               "       s.active_branch_id AS branchId,"
               "       b.branch_name AS branchName"
               "  FROM (SELECT s.session_id, s.created_at, s.expires_at,"
               "               s.workspace_id, s.active_branch_id,"
               "               coalesce(s.revoked_at, CASE"
               "                 WHEN s.created_at <= a.sessions_valid_after"
               "                 THEN a.sessions_valid_after END)"
               "                 AS revoked_at"
               "          FROM accounts a JOIN LATERAL ("
               "            (SELECT * FROM auth_sessions"
               "              WHERE account_id = a.account_id"
               "                AND status = 'ACTIVE'"
               "                AND (:all OR (expires_at > now()"
               "                     AND created_at > a.sessions_valid_after))"
               "              ORDER BY created_at DESC LIMIT :limit)"
               "            UNION ALL"
               "            (SELECT * FROM auth_sessions"
               "              WHERE account_id = a.account_id"
               "                AND status = 'REVOKED' AND :all"
               "              ORDER BY created_at DESC LIMIT :limit)"
               "            ) AS s ON true"
               "         WHERE a.account_id = :accountId) AS s"
               "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
               "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
               " ORDER BY s.created_at DESC, s.session_id LIMIT :limit");
}

static bool print_list(struct cmd *c)
{
    for (c->row = 0; c->row < c->found; c->row++) {
        cmd_row(c);
    }
    if (c->found == 0) {
        cmd_line(c, "no sessions");
    }
    return true;
}

/* -- sessions revoke -- */

/* The next accounts in the order of their ids. */
static bool next_accounts(struct cmd *c)
{
    return cmd_sql(c, "SELECT account_id FROM accounts"
                      " WHERE :to::uuid IS NULL OR account_id > :to"
                      " ORDER BY account_id LIMIT " BATCH_ACCOUNTS);
}

/* Locks all accounts out that have such a session, some in a transaction, and
 * counts them; or (marking) marks the rows of their sessions. */
static bool walk(struct cmd *c, bool marking, int64_t *count)
{
    cmd_set(c, "to", NULL);
    for (;;) {
        if (!cmd_transact(c, next_accounts)) {
            return false;
        }
        if (c->found == 0) {
            return true;
        }
        cmd_setf(c, "from", "%s", cmd_get(c, "account_id"));
        c->row = c->found - 1;
        cmd_setf(c, "to", "%s", cmd_get(c, "account_id"));
        cmd_drop(c);
        if (marking) {
            if (!mark(c, count)) {
                return false;
            }
        } else if (!cmd_transact(c, lock_out)) {
            return false;
        } else {
            *count += c->touched;
            cmd_drop(c);
        }
    }
}

/* A time written as results have it, and no later than now. */
static bool has_been(const char *text)
{
    static const char format[] = "%Y-%m-%dT%H:%M:%SZ";
    struct tm tm = {0};
    char again[32];
    time_t t;

    if (strptime(text, format, &tm) == NULL) {
        return false;
    }
    t = timegm(&tm); /* which would take the 30th of February too */
    return strftime(again, sizeof(again), format, &tm) > 0 &&
           strcmp(text, again) == 0 && t > 0 && t <= time(NULL);
}

static bool check_since(struct cmd *c)
{
    return has_been(cmd_get(c, "since"))
               ? cmd_connect(c)
               : cmd_fail(c, CMD_USAGE,
                          "--since is a time in UTC that has been, like "
                          "2026-11-21T10:15:00Z");
}

static const struct cmd_column done_columns[] = {
    {"accounts", "accounts", CMD_NUMBER, 0},
    {"revokedSessions", "ended sessions", CMD_NUMBER, 0},
    {.name = NULL},
};

static bool revoke_everybody(struct cmd *c)
{
    int64_t accounts = 0, sessions = 0;
    bool locked_out, ok;

    cmd_audit(c, "sessions.revoking", NULL);
    locked_out = walk(c, false, &accounts);
    ok = locked_out && walk(c, true, &sessions);
    cmd_setf(c, "accounts", "%lld", (long long) accounts);
    cmd_setf(c, "revokedSessions", "%lld", (long long) sessions);
    cmd_audit(c, c->spec->event, NULL);
    if (!ok) {
        return cmd_fail(c, CMD_FAILED, "%s, give the same command again: %s",
                        locked_out ? "all those sessions are over, but not "
                                     "all of their rows were marked"
                                   : "not all of those sessions are over",
                        c->line);
    }
    cmd_values(c);
    return true;
}

/* -- the table -- */

/* clang-format off */
const struct cmd_spec cmd_sessions[] = {
    {"account sessions", "ACCOUNT", "list sessions, newest first",
     CMD_ACCOUNT_MORE,
     .options = {
         {"all", NULL, "ended ones too", 0},
         {"limit", "N", "at most so many (100)", 0}},
     .check = check_list, .work = list, .tell = print_list,
     .columns = columns, .list = true},
    {"account revoke-sessions", "ACCOUNT", "end sessions", CMD_ACCOUNT_MORE,
     .options = {{"session", "UUID", "only this one", 0}},
     .check = check_revoke, .work = revoke,
     .event = "account.sessions_revoked",
     .after = cmd_locked_out, .columns = cmd_account_columns},
    {"sessions revoke", NULL, "end everybody's sessions, after data loss",
     "For a database that may have lost its last commits (a failover, a\n"
     "crash): tokens that were logged out or replaced may work again, and\n"
     "which ones nobody can tell.  So every account with a session that was\n"
     "not over at TIME is logged out everywhere.  TIME is a moment before the\n"
     "first commit that may be lost; if in doubt, an earlier one.\n",
     .options = {
         {"since", "TIME", "in UTC, like 2026-11-21T10:15:00Z", CMD_NEEDED}},
     .check = check_since, .tell = revoke_everybody,
     .event = "sessions.revoked", .columns = done_columns},
    {.words = NULL},
};
/* clang-format on */
