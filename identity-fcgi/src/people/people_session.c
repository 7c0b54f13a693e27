/* Sessions of accounts: listing and ending them. */

#include "people/people_session.h"

#include "store/sql.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 1000 /* sessions */
#define STEP 500   /* accounts */

/* A time in microseconds, 0 for null. */
#define TIME_OR_NULL(us)                                                       \
    DB_VALUE(OID_TIMESTAMPTZ, .null = (us) == 0, .number = (us) -DB_EPOCH_US)

/* -- locking out -- */

static const struct db_statement session_count_sql = {
    "people_count",
    "SELECT count(*) FROM auth_sessions"
    " WHERE account_id = $1 AND status = 'ACTIVE'",
    DB_READS};

/* Locks out the accounts from $1 to $2; if $3 is given, only accounts with a
 * session that was not over at that time.  A row is selected instead of
 * EXISTS, which might read the whole table for all accounts. */
static const struct db_statement session_lock_out_sql = {
    "people_lock_out",
    "UPDATE accounts a SET sessions_valid_after = greatest(clock_timestamp(),"
    "   a.sessions_valid_after + interval '1 us',"
    "   (SELECT max(s.created_at) FROM auth_sessions s"
    "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))"
    " WHERE a.account_id BETWEEN $1 AND $2"
    "   AND ($3::timestamptz IS NULL OR ("
    "       SELECT true FROM auth_sessions s"
    "        WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
    "          AND s.created_at > a.sessions_valid_after"
    "          AND s.expires_at > $3 LIMIT 1))",
    DB_WRITES};

static enum people_outcome lock_out(struct people *p, const char *from,
                                    const char *to, int64_t since_us,
                                    int64_t *accounts)
{
    return people_do(p, &session_lock_out_sql, accounts, DB_ID(from), DB_ID(to),
                     TIME_OR_NULL(since_us));
}

enum people_outcome people_session_lock_out(struct people *p,
                                            const char *account_id,
                                            int64_t *ended)
{
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, DB_ID(account_id));
    outcome = people_run(p, &q, &session_count_sql);
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    *ended = db_int64(q.rows, 0, 0);
    (void) sql_end(&q);
    return lock_out(p, account_id, account_id, 0, NULL);
}

/* -- marking -- */

/* The limits and the order prevent a join that reads the whole table. */
#define MARK(held)                                                             \
    "UPDATE auth_sessions"                                                     \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"      \
    " WHERE session_id = ANY (ARRAY("                                          \
    "   SELECT s.session_id FROM accounts a CROSS JOIN LATERAL ("              \
    "     SELECT session_id FROM auth_sessions"                                \
    "      WHERE account_id = a.account_id AND status = 'ACTIVE'"              \
    "        AND created_at <= a.sessions_valid_after"                         \
    "      ORDER BY created_at LIMIT $3 FOR UPDATE " held ") AS s"             \
    "    WHERE a.account_id BETWEEN $1 AND $2"                                 \
    "    ORDER BY a.account_id LIMIT $3))"

static const struct db_statement session_mark_sql = {
    "people_mark", MARK("SKIP LOCKED"), DB_WRITES};
static const struct db_statement session_mark_one_sql = {"people_mark_one",
                                                         MARK(""), DB_WRITES};

/* Skips locked rows, then waits for them one by one.  It never waits for a row
 * while holding another, so it cannot deadlock with other transactions that
 * revoke several sessions. */
enum people_outcome people_session_mark(struct people *p, void *state)
{
    struct session_mark *mark = state;
    int64_t most = mark->wait ? 1 : BATCH;
    enum people_outcome outcome;

    mark->marked = 0;
    outcome = people_do(
        p, mark->wait ? &session_mark_one_sql : &session_mark_sql,
        &mark->marked, DB_ID(mark->from), DB_ID(mark->to), DB_INT(most));
    if (outcome == PEOPLE_DONE) {
        mark->wait = !mark->wait && mark->marked < BATCH;
        mark->more = mark->wait || mark->marked > 0;
    }
    return outcome;
}

/* -- everybody's -- */

static const struct db_statement session_step_sql = {
    "people_step",
    "SELECT account_id FROM accounts WHERE $1::uuid IS NULL OR account_id > $1"
    " ORDER BY account_id LIMIT $2",
    DB_SEARCHES};

enum people_outcome people_session_step(struct people *p, void *state)
{
    struct session_step *step = state;
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, db_id_or_null(step->after), DB_INT(STEP));
    outcome = people_run(p, &q, &session_step_sql);
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    step->found = db_row_count(q.rows) > 0;
    if (step->found) {
        db_uuid(q.rows, 0, 0, step->from);
        db_uuid(q.rows, db_row_count(q.rows) - 1, 0, step->to);
    }
    (void) sql_end(&q);
    step->locked_out = 0;
    return step->found && step->since_us != 0
               ? lock_out(p, step->from, step->to, step->since_us,
                          &step->locked_out)
               : outcome;
}

/* -- the list -- */

struct session_item {
    const char *session_id, *status;
    int64_t created_us, used_us, expires_us, revoked_us;
    const char *address, *agent, *login_address, *login_agent;
    const char *workspace_id, *workspace_name, *branch_id, *branch_name;
    bool bound;
};

#define MEMBER(name, type, field)                                              \
    PEOPLE_MEMBER(name, type, struct session_item, field)

/* In the order of the columns. */
const struct people_member people_session_members[] = {
    MEMBER("sessionId", ID, session_id),
    MEMBER("status", TEXT, status),
    MEMBER("createdAt", TIME, created_us),
    MEMBER("usedAt", TIME, used_us),
    MEMBER("expiresAt", TIME, expires_us),
    MEMBER("revokedAt", TIME, revoked_us),
    MEMBER("address", TEXT, address),
    MEMBER("agent", TEXT, agent),
    MEMBER("loginAddress", TEXT, login_address),
    MEMBER("loginAgent", TEXT, login_agent),
    MEMBER("workspaceId", ID, workspace_id),
    MEMBER("workspaceName", TEXT, workspace_name),
    MEMBER("branchId", ID, branch_id),
    MEMBER("branchName", TEXT, branch_name),
    MEMBER("bound", BOOL, bound),
    PEOPLE_MEMBERS_END,
};

/* The newest sessions of each status, in the order of the index. */
#define BEFORE                                                                 \
    "   AND ($3::timestamptz IS NULL OR (created_at <= $3"                     \
    "        AND (created_at < $3 OR session_id > $4)))"                       \
    " ORDER BY created_at DESC, session_id LIMIT $5"

static const struct db_statement session_list_sql = {
    "people_sessions",
    "SELECT session_id, CASE WHEN over_at IS NOT NULL THEN 'REVOKED'"
    "       WHEN expires_at <= now() THEN 'EXPIRED' ELSE 'ACTIVE' END,"
    "       s.created_at, coalesce(used_at, s.created_at), expires_at, over_at,"
    "       CASE WHEN used_at IS NULL THEN login_address ELSE used_address END,"
    "       CASE WHEN used_at IS NULL THEN login_agent ELSE used_agent END,"
    "       login_address, login_agent, s.workspace_id, workspace_name,"
    "       active_branch_id, branch_name, key_thumbprint IS NOT NULL"
    "  FROM (SELECT s.*, coalesce(s.revoked_at, CASE"
    "                 WHEN s.created_at <= a.sessions_valid_after"
    "                 THEN a.sessions_valid_after END) AS over_at"
    "          FROM accounts a JOIN LATERAL ("
    "            (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'ACTIVE'"
    "                AND ($2 OR (expires_at > now()"
    "                     AND created_at > a.sessions_valid_after))" BEFORE
    ") UNION ALL (SELECT * FROM auth_sessions"
    "              WHERE account_id = a.account_id AND status = 'REVOKED'"
    "                AND $2" BEFORE ")) AS s ON true"
    "         WHERE a.account_id = $1) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY s.created_at DESC, session_id LIMIT $5",
    DB_SEARCHES};

static enum people_outcome read_cursor(struct people *p, const char *text,
                                       int64_t *after_us, const char **after_id)
{
    const char *parts[2];
    enum people_outcome outcome = people_cursor_read(p, text, 2, parts);
    char *end;

    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    *after_us = strtoll(parts[0], &end, 10);
    *after_id = parts[1];
    return *after_us > 0 && *after_us < INT64_C(1) << 58 && *end == '\0' &&
                   people_is_id(*after_id)
               ? PEOPLE_DONE
               : people_refuse(p, PEOPLE_INVALID, "after",
                               "the cursor is not one of this list");
}

enum people_outcome people_session_list(struct people *p,
                                        const struct session_query *query,
                                        struct people_rows *page)
{
    enum people_outcome outcome = PEOPLE_DONE;
    const char *after_id = NULL;
    int64_t after_us = 0;
    struct sql_query q = {0};

    if (query->after != NULL) {
        outcome = read_cursor(p, query->after, &after_us, &after_id);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&q.p, DB_ID(query->account_id), DB_BOOL(query->all),
              TIME_OR_NULL(after_us), db_id_or_null(after_id),
              DB_INT(query->limit + 1));
    return people_list(p, &q, &session_list_sql, people_session_members,
                       sizeof(struct session_item), query->limit, page);
}

const char *people_session_cursor(struct people *p, const void *item)
{
    const struct session_item *s = item;
    char us[24];

    snprintf(us, sizeof(us), "%lld", (long long) s->created_us);
    return people_cursor(p, (const char *const[]){us, s->session_id}, 2);
}

static const struct db_statement session_end_sql = {
    "people_session_end",
    "UPDATE auth_sessions s SET status = 'REVOKED',"
    "       revoked_at = greatest(now(), s.created_at)"
    "  FROM accounts a"
    " WHERE a.account_id = $1 AND s.account_id = $1 AND s.session_id = $2"
    "   AND s.status = 'ACTIVE' AND s.created_at > a.sessions_valid_after",
    DB_WRITES};

enum people_outcome people_session_end(struct people *p, const char *account_id,
                                       const char *session_id)
{
    int64_t ended = 0;
    enum people_outcome outcome = people_do(
        p, &session_end_sql, &ended, DB_ID(account_id), DB_ID(session_id));

    return outcome == PEOPLE_DONE && ended == 0
               ? people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                               "the account has no active session with this id")
               : outcome;
}

/* -- erasing -- */

static const struct db_statement session_erase_sql = {
    "people_erase",
    "WITH page AS MATERIALIZED ("
    "   SELECT session_id, created_at FROM auth_sessions"
    "    WHERE account_id = $1 AND status = 'REVOKED'"
    "      AND ($2::timestamptz IS NULL OR (created_at >= $2"
    "           AND (created_at > $2 OR session_id > $3)))"
    "    ORDER BY created_at, session_id LIMIT $4),"
    " erased AS ("
    "   UPDATE auth_sessions"
    "      SET used_address = NULL, used_agent = NULL,"
    "          login_address = NULL, login_agent = NULL"
    "    WHERE session_id = ANY (ARRAY(SELECT session_id FROM page))"
    "      AND num_nonnulls(used_address, used_agent, login_address,"
    "                       login_agent) > 0)"
    " SELECT created_at, session_id FROM page"
    "  ORDER BY created_at DESC, session_id DESC LIMIT 1",
    DB_WRITES};

enum people_outcome people_session_erase(struct people *p, void *state)
{
    struct session_erase *erase = state;
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, DB_ID(erase->account_id), TIME_OR_NULL(erase->after_us),
              db_id_or_null(erase->after_us != 0 ? erase->after_id : NULL),
              DB_INT(BATCH));
    outcome = people_run(p, &q, &session_erase_sql);
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    erase->more = db_row_count(q.rows) > 0;
    if (erase->more) {
        erase->after_us = db_time_us(q.rows, 0, 0);
        db_uuid(q.rows, 0, 1, erase->after_id);
    }
    (void) sql_end(&q);
    return PEOPLE_DONE;
}
