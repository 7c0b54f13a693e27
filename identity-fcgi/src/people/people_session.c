/* Sessions of accounts: ending them. */

#include "people/people_session.h"

#include "store/sql.h"

#define BATCH 1000

/* -- locking out -- */

static const struct db_statement session_count_sql = {
    "people_count",
    "SELECT count(*) FROM auth_sessions s JOIN accounts a USING (account_id)"
    " WHERE account_id = $1 AND s.status = 'ACTIVE'"
    "   AND s.created_at > a.sessions_valid_after",
    DB_READS};

enum people_outcome people_session_count(struct people *p,
                                         const char *account_id, int64_t *count)
{
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, DB_ID(account_id));
    outcome = people_run(p, &q, &session_count_sql);
    if (outcome == PEOPLE_DONE) {
        *count = db_int64(q.rows, 0, 0);
        (void) sql_end(&q);
    }
    return outcome;
}

static const struct db_statement session_lock_out_sql = {
    "people_lock_out",
    "UPDATE accounts SET sessions_valid_after = greatest(clock_timestamp(),"
    "   sessions_valid_after + interval '1 us',"
    "   (SELECT max(created_at) FROM auth_sessions"
    "     WHERE account_id = $1 AND status = 'ACTIVE'))"
    " WHERE account_id = $1",
    DB_WRITES};

enum people_outcome people_session_lock_out(struct people *p,
                                            const char *account_id)
{
    return people_do(p, &session_lock_out_sql, NULL, DB_ID(account_id));
}

/* -- marking -- */

/* The order and the limit prevent a plan that reads the whole table. */
#define MARK(held)                                                             \
    "UPDATE auth_sessions"                                                     \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"      \
    " WHERE session_id = ANY (ARRAY("                                          \
    "   SELECT session_id FROM auth_sessions"                                  \
    "    WHERE account_id = $1 AND status = 'ACTIVE'"                          \
    "      AND created_at <= (SELECT sessions_valid_after FROM accounts"       \
    "                          WHERE account_id = $1)"                         \
    "    ORDER BY created_at LIMIT $2 FOR UPDATE " held "))"

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
    int64_t most = mark->wait ? 1 : BATCH, marked = 0;
    enum people_outcome outcome =
        people_do(p, mark->wait ? &session_mark_one_sql : &session_mark_sql,
                  &marked, DB_ID(mark->account_id), DB_INT(most));

    mark->wait = !mark->wait && marked < BATCH;
    mark->more = outcome == PEOPLE_DONE && (mark->wait || marked > 0);
    return outcome;
}
