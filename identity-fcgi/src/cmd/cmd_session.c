/*
 * account sessions, revoke-sessions; sessions revoke.
 *
 * An account is locked out by one write to its row, however many sessions it
 * has: whoever reads a session compares.  The rows of those sessions are
 * marked afterwards, some at a time.
 */

#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_ACCOUNTS "500"
#define BATCH_SESSIONS "1000"

/* -- locking out -- */

/*
 * Of the accounts from $1 to $2 those with a session that was not over at $4,
 * or ($3) all.  The moment is no earlier than any session that is there, even
 * where the clock was set back.  A row is asked for where EXISTS would do:
 * that might read the whole table at once, for all accounts.
 */
static const char lock_out_sql[] =
    "UPDATE accounts a SET sessions_valid_after = greatest("
    "   clock_timestamp(), a.sessions_valid_after,"
    "   (SELECT max(s.created_at) FROM auth_sessions s"
    "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))"
    " WHERE a.account_id BETWEEN $1 AND $2"
    "   AND ($3 OR (SELECT true FROM auth_sessions s"
    "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
    "           AND s.created_at > a.sessions_valid_after"
    "           AND s.expires_at > $4 LIMIT 1))"
    " RETURNING (SELECT true FROM auth_sessions s"
    "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
    "         LIMIT 1) IS TRUE AS endsSessions";

bool cmd_lock_out(struct cmd *c)
{
    const char *id = cmd_get(c, "accountId");

    return cmd_sql(c, lock_out_sql, id, id, "true", NULL);
}

/* -- marking rows -- */

/* Of the accounts from $1 to $2, at most $3 rows.  The limit within keeps the
 * join from becoming one that reads the whole table. */
#define MARK(held)                                                            \
    "UPDATE auth_sessions"                                                    \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"     \
    " WHERE session_id = ANY (ARRAY("                                         \
    "   SELECT s.session_id FROM accounts a CROSS JOIN LATERAL ("             \
    "     SELECT session_id FROM auth_sessions"                               \
    "      WHERE account_id = a.account_id AND status = 'ACTIVE'"             \
    "        AND created_at <= a.sessions_valid_after"                        \
    "      LIMIT $3 FOR UPDATE " held ") AS s"                                \
    "    WHERE a.account_id BETWEEN $1 AND $2 LIMIT $3))"

static bool mark_some(struct cmd *c)
{
    return cmd_sql(c, MARK("SKIP LOCKED"), cmd_get(c, "from"),
                   cmd_get(c, "to"), BATCH_SESSIONS);
}

static bool mark_one(struct cmd *c)
{
    return cmd_sql(c, MARK(""), cmd_get(c, "from"), cmd_get(c, "to"), "1");
}

/*
 * Of the accounts between the values "from" and "to".  Rows that somebody
 * holds are passed over, and then waited for one by one: nobody waits for a
 * row while holding another, so there is no deadlock with who revokes several,
 * in whatever order.
 */
static bool mark(struct cmd *c, int64_t *total)
{
    bool wait = false;

    do {
        if (!cmd_transact(c, wait ? mark_one : mark_some)) {
            return false;
        }
        *total += c->touched;
        wait = !wait && c->touched < strtoll(BATCH_SESSIONS, NULL, 10);
    } while (wait || c->touched > 0);
    return true;
}

bool cmd_locked_out(struct cmd *c, bool changed)
{
    int64_t ended = 0;
    bool ends = cmd_is(c, "endsSessions", "t");

    (void) cmd_number(c, "revokedSessions", &ended);
    if (changed || ends) {
        cmd_audit(c, c->spec->event, "accountId", NULL);
    }
    cmd_set_text(c, "from", cmd_get(c, "accountId"));
    cmd_set_text(c, "to", cmd_get(c, "accountId"));
    if (ends && !mark(c, &ended)) {
        (void) cmd_fail(c, CMD_FAILED,
                        "all sessions are over, but not all of their rows "
                        "were marked, which the same command goes on with: %s",
                        c->line);
        return false;
    }
    cmd_set_number(c, "revokedSessions", ended);
    return true;
}

/* -- account revoke-sessions -- */

static bool revoke_one(struct cmd *c)
{
    if (!cmd_lock_account(c) ||
        !cmd_sql(c,
                 "UPDATE auth_sessions s SET status = 'REVOKED',"
                 "       revoked_at = greatest(now(), s.created_at)"
                 "  FROM accounts a"
                 " WHERE a.account_id = $1 AND s.account_id = $1"
                 "   AND s.session_id = $2 AND s.status = 'ACTIVE'"
                 "   AND s.created_at > a.sessions_valid_after",
                 cmd_get(c, "accountId"),
                 cmd_args_value(&c->args, "session"))) {
        return false;
    }
    cmd_set_number(c, "revokedSessions", c->touched);
    return c->touched > 0 ||
           cmd_refuse(c, "the account has no active session with this id");
}

static bool revoke_all(struct cmd *c)
{
    return cmd_lock_account(c) && cmd_lock_out(c);
}

int cmd_account_revoke_sessions(struct cmd *c)
{
    const char *session = cmd_args_value(&c->args, "session");

    if (session != NULL && !cmd_is_uuid(session)) {
        return cmd_fail(c, CMD_USAGE, "--session is a UUID");
    }
    if (!cmd_account_ref(c, c->args.operand) ||
        !cmd_change(c, session != NULL ? revoke_one : revoke_all) ||
        !cmd_locked_out(c, session != NULL)) {
        return c->status;
    }
    return cmd_print(c, cmd_account_columns);
}

/* -- account sessions -- */

/* The newest of one status each, as the index has them. */
static const char list_sql[] =
    "SELECT s.session_id AS sessionId,"
    "       CASE WHEN s.revoked_at IS NOT NULL THEN 'REVOKED'"
    "            WHEN s.expires_at <= now() THEN 'EXPIRED'"
    "            ELSE 'ACTIVE' END AS status,"
    "       floor(extract(epoch FROM s.created_at))::bigint AS createdAt,"
    "       floor(extract(epoch FROM s.expires_at))::bigint AS expiresAt,"
    "       floor(extract(epoch FROM s.revoked_at))::bigint AS revokedAt,"
    "       s.workspace_id AS workspaceId,"
    "       w.workspace_name AS workspaceName,"
    "       s.active_branch_id AS branchId, b.branch_name AS branchName"
    "  FROM (SELECT s.session_id, s.created_at, s.expires_at,"
    "               s.workspace_id, s.active_branch_id,"
    "               coalesce(s.revoked_at, CASE"
    "                 WHEN s.created_at <= a.sessions_valid_after"
    "                 THEN a.sessions_valid_after END) AS revoked_at"
    "          FROM accounts a JOIN LATERAL ("
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'ACTIVE'"
    "                AND ($2 OR (expires_at > now()"
    "                     AND created_at > a.sessions_valid_after))"
    "              ORDER BY created_at DESC LIMIT $3)"
    "            UNION ALL"
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'REVOKED'"
    "                AND $2"
    "              ORDER BY created_at DESC LIMIT $3)) AS s ON true"
    "         WHERE a.account_id = $1) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY s.created_at DESC, s.session_id LIMIT $3";

static const struct out_column columns[] = {
    {"sessionId", "session", OUT_TEXT, STORE_UUID - 1},
    {"status", "status", OUT_TEXT, 7},
    {"createdAt", "created", OUT_TIME, 0},
    {"expiresAt", "expires", OUT_TIME, 0},
    {"revokedAt", NULL, OUT_TIME, 0},
    {"workspaceId", NULL, OUT_TEXT, 0},
    {"workspaceName", "workspace", OUT_TEXT, 16},
    {"branchId", NULL, OUT_TEXT, 0},
    {"branchName", "branch", OUT_TEXT, 0},
    {.name = NULL},
};

static bool list(struct cmd *c)
{
    return cmd_lock_account(c) &&
           cmd_sql(c, list_sql, cmd_get(c, "accountId"),
                   cmd_args_flag(&c->args, "all") ? "true" : "false",
                   cmd_get(c, "limit"));
}

int cmd_account_sessions(struct cmd *c)
{
    const char *text = cmd_args_value(&c->args, "limit");
    int64_t limit = 100;

    if (text != NULL &&
        (!parse_int(text, &limit) || limit < 1 || limit > 100000)) {
        return cmd_fail(c, CMD_USAGE, "--limit is 1 to 100000");
    }
    cmd_set_number(c, "limit", limit);
    if (!cmd_account_ref(c, c->args.operand) || !cmd_change(c, list) ||
        !cmd_out_open(c, true)) {
        return c->status;
    }
    for (c->row = 0; c->row < c->found; c->row++) {
        out_row(&c->out);
        cmd_print_values(c, columns);
        out_row_end(&c->out);
    }
    if (c->found == 0) {
        out_line(&c->out, "no sessions");
    }
    return cmd_out_close(c);
}

/* -- sessions revoke -- */

/* The next accounts in the order of their ids. */
static bool next_accounts(struct cmd *c)
{
    return cmd_sql(c,
                   "SELECT account_id FROM accounts"
                   " WHERE $1 = '' OR account_id > nullif($1, '')::uuid"
                   " ORDER BY account_id LIMIT " BATCH_ACCOUNTS,
                   cmd_get(c, "to"));
}

static bool lock_out_some(struct cmd *c)
{
    return cmd_sql(c, lock_out_sql, cmd_get(c, "from"), cmd_get(c, "to"),
                   "false", cmd_get(c, "since"));
}

/* Locks all accounts out that have such a session, some in a transaction, and
 * counts them; or (marking) marks the rows of their sessions. */
static bool walk(struct cmd *c, bool marking, int64_t *count)
{
    char from[STORE_UUID] = "", to[STORE_UUID] = "";

    cmd_set_text(c, "from", from);
    cmd_set_text(c, "to", to);
    for (;;) {
        if (!cmd_transact(c, next_accounts)) {
            return false;
        }
        if (c->found == 0) {
            return true;
        }
        snprintf(from, sizeof(from), "%s", cmd_get(c, "account_id"));
        c->row = c->found - 1;
        snprintf(to, sizeof(to), "%s", cmd_get(c, "account_id"));
        cmd_drop(c);
        if (marking) {
            if (!mark(c, count)) {
                return false;
            }
        } else if (!cmd_transact(c, lock_out_some)) {
            return false;
        } else {
            *count += c->touched;
            cmd_drop(c);
        }
    }
}

/* Written as results have it; 0 where it is not. */
static int64_t parse_time(const char *text)
{
    static const char format[] = "%Y-%m-%dT%H:%M:%SZ";
    struct tm tm = {0};
    char again[32];
    time_t t;

    if (strptime(text, format, &tm) == NULL) {
        return 0;
    }
    t = timegm(&tm); /* which would take the 30th of February too */
    return strftime(again, sizeof(again), format, &tm) > 0 &&
                   strcmp(text, again) == 0
               ? (int64_t) t
               : 0;
}

int cmd_sessions_revoke(struct cmd *c)
{
    static const struct out_column done[] = {
        {"accounts", "accounts", OUT_NUMBER, 0},
        {"revokedSessions", "ended sessions", OUT_NUMBER, 0},
        {.name = NULL},
    };
    const char *since = cmd_args_value(&c->args, "since");
    int64_t since_s = parse_time(since), accounts = 0, sessions = 0;
    bool locked_out, ok;

    if (since_s <= 0 || since_s > (int64_t) time(NULL)) {
        return cmd_fail(c, CMD_USAGE,
                        "--since is a time in UTC that has been, like "
                        "2026-11-21T10:15:00Z");
    }
    if (!cmd_connect(c)) {
        return c->status;
    }
    cmd_set_text(c, "since", since);
    cmd_audit(c, "sessions.revoking", "since", NULL);
    locked_out = walk(c, false, &accounts);
    ok = locked_out && walk(c, true, &sessions);
    cmd_set_number(c, "accounts", accounts);
    cmd_set_number(c, "revokedSessions", sessions);
    cmd_audit(c, c->spec->event, "since", "accounts", "revokedSessions", NULL);
    if (!ok) {
        return cmd_fail(c, CMD_FAILED, "%s, give the same command again: %s",
                        locked_out ? "all those sessions are over, but not "
                                     "all of their rows were marked"
                                   : "not all of those sessions are over",
                        c->line);
    }
    return cmd_print(c, done);
}
