/* What owners see of their sessions and do to them, and their credentials. */

#include "store/store_own.h"

#include "base/account_name.h"
#include "store/sql.h"

#include <string.h>

/* -- the list -- */

#define ALIVE SQL_NOT_LOCKED_OUT("s")

/* The sessions $3 and $4 say to be alive, but $2, by the index of their age;
 * one more than are shown.  Of the one that asks nothing is told that a
 * refresh changes: who holds a stolen token could watch for the owner's. */
static const struct db_statement sessions_own_sql = {
    "sessions_own",
    "SELECT session_id, to_char(s.created_at AT TIME ZONE 'UTC', iso),"
    "       to_char(CASE WHEN current OR used_at IS NULL THEN s.created_at"
    "               ELSE used_at END AT TIME ZONE 'UTC', iso),"
    "       to_char(CASE WHEN current THEN $6 ELSE expires_at END"
    "               AT TIME ZONE 'UTC', iso),"
    "       CASE WHEN current OR used_at IS NULL THEN login_address"
    "            ELSE used_address END,"
    "       CASE WHEN current OR used_at IS NULL THEN login_agent"
    "            ELSE used_agent END,"
    "       s.workspace_id::text, workspace_name,"
    "       s.active_branch_id::text, branch_name"
    "  FROM (VALUES ('YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) AS f (iso),"
    "       ((SELECT *, true AS current FROM auth_sessions"
    "          WHERE session_id = $2 AND account_id = $1)"
    "        UNION ALL"
    "        (SELECT *, false FROM auth_sessions s"
    "          WHERE account_id = $1 AND status = 'ACTIVE'"
    "            AND session_id <> $2 AND expires_at > $3"
    "            AND created_at >= $4" ALIVE
    "          ORDER BY created_at DESC LIMIT $5)) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY current DESC, s.created_at DESC, session_id",
    false};

static bool copy_own(pj_arena_t *arena, const struct db_rows *rows,
                     struct own_sessions *out)
{
    size_t count = db_row_count(rows);

    out->more = count > STORE_MAX_OWN + 1;
    count -= out->more;
    out->items = pj_arena_alloc(arena, (count + 1) * sizeof(*out->items));
    for (; out->items != NULL && out->count < count; out->count++) {
        size_t row = out->count;
        struct own_session *s = &out->items[row];
        const char **texts[] = {&s->created_at,
                                &s->used_at,
                                &s->expires_at,
                                &s->address,
                                &s->agent,
                                &s->branch.workspace_id,
                                &s->branch.workspace_name,
                                &s->branch.branch_id,
                                &s->branch.branch_name};

        db_uuid(rows, row, 0, s->session_id);
        for (int i = 0; i < 9; i++) {
            *texts[i] = sql_keep(arena, db_text(rows, row, i + 1, NULL));
            if (*texts[i] == NULL) {
                return false;
            }
        }
    }
    return out->items != NULL;
}

enum store_result store_own_list(struct store *st, pj_arena_t *arena,
                                 const struct session *current, int64_t now_s,
                                 int64_t opened_at_s, int64_t expires_at_s,
                                 struct own_sessions *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    db_param_uuid(&q.p, pj_str(current->account_id));
    db_param_uuid(&q.p, pj_str(current->session_id));
    db_param_time_us(&q.p, now_s * 1000000);
    db_param_time_us(&q.p, opened_at_s * 1000000);
    db_param_int64(&q.p, STORE_MAX_OWN + 1);
    db_param_time_us(&q.p, expires_at_s * 1000000);
    if (sql_run(&q, st, &sessions_own_sql, NULL) &&
        !copy_own(arena, q.rows, out)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}

/* -- ending them -- */

#define BATCH 1000

/* Those of the account $1 but $2, in the order in which all do it who lock
 * several and wait. */
#define END(from)                                                             \
    "UPDATE auth_sessions"                                                    \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"     \
    " WHERE session_id = ANY (ARRAY("                                         \
    "   SELECT s.session_id FROM " from "auth_sessions s"                     \
    "    WHERE s.account_id = $1 AND s.status = 'ACTIVE'"                     \
    "      AND s.session_id IS DISTINCT FROM $2" ALIVE                        \
    "    ORDER BY s.created_at LIMIT $3 FOR UPDATE OF s))"

static const struct db_statement sessions_end_sql = {"sessions_end", END(""),
                                                     true};

enum store_result store_own_end(struct store *st, const char *account_id,
                                const char *except, int64_t *ended)
{
    enum store_result result;
    size_t n;

    do {
        struct sql_query q = {0};

        db_param_uuid(&q.p, pj_str(account_id));
        db_param_uuid_or_null(&q.p, except);
        db_param_int64(&q.p, BATCH);
        n = sql_run_safe(&q, st, &sessions_end_sql) ? db_affected(q.rows) : 0;
        *ended += (int64_t) n;
        result = sql_end(&q);
    } while (n == BATCH);
    return result;
}

/* -- the credential -- */

static const struct db_statement account_read_sql = {
    "account_read",
    "SELECT account_id, account_type, status = 'ACTIVE', credential_hash,"
    "       account_name, " SQL_CLOCK " FROM accounts a"
    " WHERE account_id = $1",
    false};

enum store_result store_own_account(struct store *st, const char *account_id,
                                    char *name, struct account *out)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(account_id));
    if (sql_run_one(&q, st, &account_read_sql)) {
        sql_copy_account(q.rows, 3, 5, out);
        sql_copy_text(q.rows, 0, 4, name, ACCOUNT_NAME_MAX + 1);
    }
    return sql_end(&q);
}

#define IN_TIME SQL_BEFORE_FENCE("$6")
#define END_OTHERS END("changed, ")

static const struct db_statement credential_change_sql = {
    "credential_change",
    "WITH changed AS ("
    "   UPDATE accounts SET credential_hash = $5, updated_at = now()"
    "    WHERE account_id = $1 AND credential_hash = $4"
    "      AND status = 'ACTIVE' AND EXISTS ("
    "          SELECT FROM auth_sessions s WHERE s.session_id = $2"
    "             AND s.status = 'ACTIVE'" ALIVE ")" IN_TIME "   RETURNING 1),"
    " ended AS (" END_OTHERS "   RETURNING 1)"
    " SELECT (SELECT count(*) FROM ended) FROM changed",
    true};

enum store_result store_own_change(struct store *st, const char *account_id,
                                   const char *old_hash, const char *new_hash,
                                   const char *except, int64_t *ended)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(account_id));
    db_param_uuid(&q.p, pj_str(except));
    db_param_int64(&q.p, BATCH);
    db_param_text(&q.p, old_hash, strlen(old_hash));
    db_param_text(&q.p, new_hash, strlen(new_hash));
    db_param_fence(&q.p);
    if (sql_run_one(&q, st, &credential_change_sql)) {
        *ended += db_int64(q.rows, 0, 0);
    }
    return sql_end(&q);
}
