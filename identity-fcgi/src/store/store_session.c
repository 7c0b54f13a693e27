/* Sessions: opening, reading, selecting a branch, revoking, rotating, and the
 * last rotation. */

#include "store/store_session.h"

#include "base/buf.h"
#include "base/uuid.h"
#include "store/sql.h"

#include <string.h>

#define SCOPE(s)                                                               \
    db_id_or_null((s)->workspace_id), db_id_or_null((s)->member_id),           \
        db_id_or_null((s)->active_branch_id)

/* Copies the revoked rows to done and ends the query. */
static enum store_result copy_revoked(struct sql_query *q,
                                      struct session_refs *done)
{
    size_t n = q->result == STORE_OK ? db_row_count(q->rows) : 0;

    done->count = n < STORE_MAX_REVOKE ? n : STORE_MAX_REVOKE;
    for (size_t i = 0; i < done->count; i++) {
        db_uuid(q->rows, i, 0, done->items[i].session_id);
        db_uuid(q->rows, i, 1, done->items[i].account_id);
    }
    if (q->result == STORE_OK && n == 0) {
        q->result = STORE_NONE;
    }
    return sql_end(q);
}

/* The lock on the account's row waits for a concurrent lockout, so that no
 * session is opened while all are being ended.  An account with a second factor
 * gets no session by its credential alone.  created_at is by the database's
 * clock, like lockouts, and later than the last lockout even if the clock was
 * set back.  The tokens of the login have said authenticated_at already. */
static const struct db_statement session_create_sql = {
    "session_create",
    "WITH owner AS ("
    "   SELECT account_id, greatest(now(),"
    "          sessions_valid_after + interval '1 us') AS created_at"
    "     FROM accounts a"
    "    WHERE account_id = $2 AND status = 'ACTIVE' AND credential_hash = $8"
    "      AND (NOT second_factor OR $13 >= 32)"
    "      AND " SQL_VALID_AFTER(
        "a") " = $12"
             "      FOR SHARE)"
             " INSERT INTO auth_sessions (session_id, account_id, jti, "
             "created_at,"
             "    expires_at, workspace_id, member_id, active_branch_id,"
             "    login_address, login_agent, access_until, amr,"
             "    key_thumbprint, authenticated_at)"
             " SELECT $1, account_id, $3, created_at,"
             "    greatest($4, created_at + interval '1 us'), $5, $6, $7,"
             "    nullif($9, ''), nullif($10, ''), $11,"
             "    nullif($13, 1), nullif($14, ''),"
             "    nullif($15, date_trunc('second', created_at))"
             "   FROM owner",
    true};

enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash)
{
    return sql_do(st, &session_create_sql, DB_ID(s->session_id),
                  DB_ID(s->account_id), DB_ID(s->jti), DB_TIME(s->expires_at_s),
                  SCOPE(s), DB_TEXT(credential_hash), SQL_CLIENT(st),
                  DB_TIME_US(s->clock.valid_after_us), DB_INT(s->amr),
                  DB_TEXT(s->key_thumbprint), DB_TIME(s->authenticated_at_s));
}

/* Reads at most $2 + SPARE rows, so the cost is bounded; later logins end the
 * remaining sessions.  Skips locked rows, so it never waits.  The session of
 * this login is locked first, and if it is ended or locked nothing is revoked:
 * otherwise two concurrent logins could end each other's session. */
#define SPARE 100

_Static_assert(SPARE <= STORE_MAX_REVOKE, "they all fit the caller's array");

static const struct db_statement session_limit_sql = {
    "session_limit",
    "WITH oldest AS MATERIALIZED ("
    "   SELECT session_id, created_at, expires_at > now() AS alive"
    "     FROM auth_sessions"
    "    WHERE account_id = $1 AND status = 'ACTIVE'"
    "      AND created_at > (SELECT sessions_valid_after FROM accounts"
    "                         WHERE account_id = $1)"
    "    ORDER BY created_at LIMIT $2 + $3),"
    " own AS MATERIALIZED ("
    "   SELECT session_id FROM auth_sessions"
    "    WHERE session_id = $4 AND status = 'ACTIVE' FOR UPDATE SKIP LOCKED),"
    " over AS MATERIALIZED ("
    "   SELECT session_id FROM oldest WHERE session_id <> $4"
    "      AND EXISTS (SELECT FROM own)"
    "    ORDER BY alive, created_at"
    "    LIMIT greatest((SELECT count(*) FROM oldest) - $2, 0))"
    " UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY (ARRAY("
    "   SELECT session_id FROM auth_sessions"
    "    WHERE session_id = ANY (ARRAY(SELECT session_id FROM over))"
    "      AND status = 'ACTIVE' FOR UPDATE SKIP LOCKED))"
    " RETURNING session_id, account_id",
    true};

enum store_result store_session_limit(struct store *st, const struct session *s,
                                      int max, struct session_refs *done)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(s->account_id), DB_INT(max), DB_INT(SPARE),
              DB_ID(s->session_id));
    (void) sql_run(&q, st, &session_limit_sql, NULL);
    return copy_revoked(&q, done);
}

/* The lock on the account's row waits for a concurrent lockout or disabling,
 * because the tokens in the answer are signed already. */
static const struct db_statement session_select_sql = {
    "session_select",
    "WITH owner AS MATERIALIZED ("
    "   SELECT a.sessions_valid_after FROM accounts a"
    "    WHERE a.account_id = (SELECT account_id FROM auth_sessions"
    "                           WHERE session_id = $1)"
    "      AND a.status = 'ACTIVE'"
    "      FOR SHARE)"
    " UPDATE auth_sessions"
    "   SET workspace_id = $2, member_id = $3, active_branch_id = $4,"
    "       access_until = greatest(access_until, $6)"
    "  FROM owner"
    " WHERE session_id = $1 AND status = 'ACTIVE'"
    "   AND created_at > sessions_valid_after"
    "   AND (workspace_id IS NULL OR workspace_id = $2)" SQL_BEFORE_FENCE("$5"),
    true};

enum store_result store_session_select(struct store *st, const char *session_id,
                                       const struct scope *to)
{
    return sql_do(st, &session_select_sql, DB_ID(session_id),
                  DB_ID(to->workspace_id), DB_ID(to->member_id),
                  DB_ID(to->active_branch_id), DB_FENCE,
                  DB_TIME(st->access_until_s));
}

/* The lock is that of session_select. */
static const struct db_statement session_step_up_sql = {
    "session_step_up",
    "WITH owner AS MATERIALIZED ("
    "   SELECT a.sessions_valid_after, a.second_factor FROM accounts a"
    "    WHERE a.account_id = (SELECT account_id FROM auth_sessions"
    "                           WHERE session_id = $1)"
    "      AND a.status = 'ACTIVE'"
    "      FOR SHARE)"
    " UPDATE auth_sessions"
    "   SET amr = $2, authenticated_at = $5,"
    "       access_until = greatest(access_until, $3)"
    "  FROM owner"
    " WHERE session_id = $1 AND status = 'ACTIVE'"
    "   AND created_at > sessions_valid_after"
    "   AND (NOT second_factor OR $2 >= 32)" SQL_BEFORE_FENCE("$4"),
    true};

enum store_result store_session_step_up(struct store *st,
                                        const struct session *s)
{
    return sql_do(st, &session_step_up_sql, DB_ID(s->session_id),
                  DB_INT(s->amr), DB_TIME(st->access_until_s), DB_FENCE,
                  DB_TIME(s->authenticated_at_s));
}

/* revoked_at must not precede created_at, which may be by another host's
 * clock. */
static const struct db_statement session_revoke_sql = {
    "session_revoke",
    "UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY (string_to_array($1, ',')::uuid[])"
    "   AND status = 'ACTIVE'" SQL_NOT_LOCKED_OUT("auth_sessions")
        SQL_ACTOR("$2") " RETURNING session_id, account_id",
    true};

enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_refs *done)
{
    char mem[STORE_MAX_REVOKE * STORE_UUID];
    unsigned char bytes[UUID_BYTES];
    struct sql_query q = {.result = STORE_NONE};
    struct buf list;

    buf_init(&list, mem, sizeof(mem));
    for (size_t i = 0; i < count && i < STORE_MAX_REVOKE; i++) {
        /* A malformed id matches no session. */
        if (uuid_parse(bytes, ids[i])) {
            buf_addz(&list, list.len > 0 ? "," : "");
            buf_add(&list, ids[i].data, ids[i].len);
        }
    }
    if (list.len > 0) {
        buf_addc(&list, '\0');
        db_params(&q.p, DB_TEXT(list.data), DB_TEXT(st->actor));
        (void) sql_run_safe(&q, st, &session_revoke_sql);
    }
    return copy_revoked(&q, done);
}

/* -- reading, with the selectable branches -- */

static const struct db_statement choices_sql = {
    "choices",
    "SELECT " SQL_BRANCH_COLUMNS(
        "count(*) OVER () = 1") "  FROM selectable_branches t WHERE "
                                "t.account_id = $1",
    false};

enum store_result store_session_choices(struct store *st, pj_arena_t *arena,
                                        const char *account_id,
                                        struct session_view *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    db_params(&q.p, DB_ID(account_id));
    if (sql_run(&q, st, &choices_sql, NULL) &&
        !sql_copy_branches(arena, q.rows, false, out)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}

static const struct db_statement session_read_sql = {
    "session_read",
    SQL_SESSION SQL_SELECTABLE("coalesce($2, s.active_branch_id)", "$3 OR ")
        SQL_SESSION_ROWS("", ""),
    false};

/* Null means by the credential, and in the second the session was opened: in
 * most rows, so the server is spared two expressions. */
static void copy_authentication(const struct db_rows *rows, int col,
                                struct session *s)
{
    s->amr = AMR_PWD;
    s->authenticated_at_s = s->created_at_s;
    if (!db_is_null(rows, 0, col)) {
        s->amr = (unsigned) db_int64(rows, 0, col);
    }
    if (!db_is_null(rows, 0, col + 1)) {
        s->authenticated_at_s = db_time_us(rows, 0, col + 1) / 1000000;
    }
}

/* Fills out from the result of a statement of SQL_SESSION_ROWS whose first
 * parameter is the session's id. */
static void copy_session(struct sql_query *q, pj_arena_t *arena, bool list,
                         struct session_view *out)
{
    struct session *s = &out->session;
    int col = SQL_BRANCH_COLS; /* the columns of SQL_SESSION */

    memset(out, 0, sizeof(*out));
    if (q->p.bad_uuid) {
        return;
    }
    uuid_write(s->session_id, (const unsigned char *) q->p.values[0]);
    if (q->result == STORE_OK && db_row_count(q->rows) == 0) {
        q->result = STORE_NONE;
    }
    if (q->result != STORE_OK) {
        return;
    }
    db_uuid(q->rows, 0, col++, s->account_id);
    sql_copy_text(q->rows, 0, col++, s->account_type, sizeof(s->account_type));
    s->account_enabled = db_bool(q->rows, 0, col++);
    s->active = db_bool(q->rows, 0, col++);
    db_uuid(q->rows, 0, col++, s->jti);
    db_uuid(q->rows, 0, col++, s->workspace_id);
    db_uuid(q->rows, 0, col++, s->member_id);
    db_uuid(q->rows, 0, col++, s->active_branch_id);
    s->created_at_s = db_time_us(q->rows, 0, col++) / 1000000;
    s->expires_at_s = db_time_us(q->rows, 0, col++) / 1000000;
    copy_authentication(q->rows, col, s);
    sql_copy_clock(q->rows, col + 2, &s->clock);
    if (!sql_copy_branches(arena, q->rows, list, out)) {
        q->result = STORE_UNAVAILABLE;
    }
}

/* If the active branch is not selectable, the scope is cleared and the list
 * must contain all workspaces, which the first read of a session with a
 * workspace does not return. */
static bool needs_all_workspaces(const struct session_view *view)
{
    return !view->selectable && view->session.workspace_id[0] != '\0';
}

/* Reads by one statement; everywhere includes other workspaces. */
static enum store_result read_once(struct store *st, pj_arena_t *arena,
                                   pj_str_t session_id,
                                   const pj_str_t *branch_id, bool list,
                                   bool everywhere, struct meanwhile *meanwhile,
                                   struct session_view *out)
{
    /* in place of a malformed id; no branch has it */
    pj_str_t requested = PJ_STR("00000000-0000-0000-0000-000000000000");
    unsigned char bytes[UUID_BYTES];
    struct sql_query q = {0};

    if (branch_id != NULL && uuid_parse(bytes, *branch_id)) {
        requested = *branch_id;
    }
    db_params(&q.p, DB_UUID(session_id),
              DB_VALUE(OID_UUID, .null = branch_id == NULL, .text = requested),
              DB_BOOL(everywhere));
    (void) sql_run(&q, st, &session_read_sql, meanwhile);
    copy_session(&q, arena, list, out);
    return sql_end(&q);
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    enum store_result result = read_once(st, arena, session_id, branch_id, list,
                                         false, meanwhile, out);

    return result == STORE_OK && needs_all_workspaces(out)
               ? read_once(st, arena, session_id, branch_id, list, true, NULL,
                           out)
               : result;
}

/* -- reading, with names -- */

static const struct db_statement session_describe_sql = {
    "session_describe",
    SQL_SESSION " SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, session.*,"
                "        o.account_name, w.workspace_name, b.branch_name,"
                "        to_char(session.created_at AT TIME ZONE 'UTC',"
                "                'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
                "   FROM session"
                "   JOIN accounts o ON o.account_id = session.account_id"
                "   LEFT JOIN branches b ON b.branch_id = $2"
                "   LEFT JOIN workspaces w ON w.workspace_id = b.workspace_id",
    false};

enum store_result store_session_describe(struct store *st, pj_arena_t *arena,
                                         pj_str_t session_id,
                                         pj_str_t branch_id,
                                         struct session_view *out,
                                         struct session_names *names)
{
    const char **fields[] = {&names->account, &names->workspace, &names->branch,
                             &names->created_at};
    struct sql_query q = {0};

    db_params(
        &q.p, DB_UUID(session_id),
        DB_VALUE(OID_UUID, .null = branch_id.len == 0, .text = branch_id));
    (void) sql_run(&q, st, &session_describe_sql, NULL);
    copy_session(&q, arena, false, out);
    for (int i = 0; q.result == STORE_OK && i < 4; i++) {
        *fields[i] =
            sql_copy_string(arena, db_text(q.rows, 0, SQL_COL_MORE + i, NULL));
        if (*fields[i] == NULL) {
            q.result = STORE_UNAVAILABLE;
        }
    }
    return sql_end(&q);
}

/* -- the columns of a rotation -- */

/* Replaces the jti of row s by $3 with expiry $4, which is by the service's
 * clock and might precede created_at, which is by the database's. $9 to $11 are
 * SQL_CLIENT(), $12 to $14 are RETRY(). */
#define ROTATE                                                                 \
    "UPDATE auth_sessions s SET jti = $3, used_at = now(),"                    \
    " expires_at = greatest($4, created_at + interval '1 us'),"                \
    " retry_jti = $12, retry_next = $13, retry_iat = $14,"                     \
    " retry_elsewhere = (retry_elsewhere & 127::smallint) << 1,"               \
    " used_address = nullif($9, ''), used_agent = nullif($10, ''),"            \
    " access_until = greatest(access_until, $11)"

/* After a CTE `rotated` with the session's id: remembers the old jti, $2, and
 * deletes older ones. */
#define FORGET                                                                 \
    " forgotten AS (DELETE FROM rotated_tokens r USING rotated"                \
    "    WHERE r.session_id = rotated.session_id"                              \
    "      AND r.rotated_at < now() - interval '2 minutes')"
#define REMEMBER                                                               \
    " INSERT INTO rotated_tokens (session_id, jti)"                            \
    " SELECT session_id, $2 FROM rotated"                                      \
    " ON CONFLICT (session_id, jti) DO UPDATE SET rotated_at = now()"

/* $12 to $14 of ROTATE: the old jti, the new jti and its iat, for a retry; null
 * without a retry window. */
#define IF_RETRIED(to, type, ...)                                              \
    DB_VALUE(type, .null = (to)->retry_window_s <= 0, __VA_ARGS__)
#define RETRY(to, old)                                                         \
    IF_RETRIED(to, OID_UUID, .text = (old)),                                   \
        IF_RETRIED(to, OID_UUID, .text = pj_str((to)->new_jti)),               \
        IF_RETRIED(to, OID_TIMESTAMPTZ,                                        \
                   .number = (to)->now_s * 1000000 - DB_EPOCH_US)

/* -- reading and rotating in one statement -- */

/* The read is one snapshot.  If the row has changed since, the update applies
 * only if everything that the decision used is unchanged; otherwise the caller
 * reads again.  The account of a session never changes, so it is compared in
 * the snapshot: comparing it in the row would let the planner use an index that
 * leads to all sessions of the account. */
#define ALLOWED                                                                \
    "    WHERE s.session_id = $1 AND s.status = 'ACTIVE'"                      \
    "      AND s.expires_at >= $6 AND s.jti = $2 AND s.created_at >= $7"       \
    "      AND EXISTS (SELECT FROM session o"                                  \
    "           WHERE account_enabled AND active AND o.account_id = $5"        \
    "             AND (active_branch_id IS NULL"                               \
    "                  OR EXISTS (SELECT FROM selectable"                      \
    "                              WHERE roles IS NOT NULL))"                  \
    "             AND o.workspace_id IS NOT DISTINCT FROM s.workspace_id"      \
    "             AND o.member_id IS NOT DISTINCT FROM s.member_id"            \
    "             AND o.active_branch_id"                                      \
    "                 IS NOT DISTINCT FROM s.active_branch_id)"
#define REFRESH                                                                \
    SQL_SESSION SQL_SELECTABLE("s.active_branch_id",                           \
                               "") ", rotated AS (" ROTATE ALLOWED             \
        SQL_BEFORE_FENCE("$8") "   RETURNING session_id)"
#define REFRESHED SQL_SESSION_ROWS(", EXISTS (SELECT FROM rotated)", ", NULL")

static const struct db_statement session_refresh_sql[2] = {
    {"session_refresh", REFRESH REFRESHED, true},
    {"session_refresh_remember",
     REFRESH "," FORGET ", remembered AS (" REMEMBER ")" REFRESHED, true}};

enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out, bool *rotated)
{
    const pj_claims_t *token = to->token;
    unsigned char jti[UUID_BYTES];
    struct sql_query q = {0};

    *rotated = false;
    db_params(&q.p, DB_UUID(token->session_id), DB_UUID(token->jti),
              DB_ID(to->new_jti), DB_TIME(to->expires_at_s),
              DB_UUID(token->account_id), DB_TIME(to->now_s + 1),
              DB_TIME(to->opened_at_s), DB_FENCE, SQL_CLIENT(st),
              RETRY(to, token->jti));
    if (q.p.bad_uuid || !uuid_read(jti, token->jti)) {
        /* An id is malformed, or the jti is not in canonical form and therefore
         * not the session's. */
        return store_session_read(st, arena, token->session_id, NULL, list,
                                  meanwhile, out);
    }
    *rotated = sql_run(&q, st, &session_refresh_sql[to->remember], meanwhile) &&
               db_row_count(q.rows) > 0 && db_bool(q.rows, 0, SQL_COL_MORE);
    copy_session(&q, arena, list, out);
    (void) sql_end(&q);
    if (*rotated && q.result == STORE_UNAVAILABLE) {
        return STORE_UNKNOWN; /* the result was rotated but cannot be read */
    }
    return q.result == STORE_OK && !*rotated && needs_all_workspaces(out)
               ? store_session_read(st, arena, token->session_id, NULL, list,
                                    NULL, out)
               : q.result;
}

/* -- rotating after a read -- */

/* The compare-and-swap.  It compares the scope columns too, so that a
 * concurrent selection is not lost. */
#define UNCHANGED                                                              \
    " WHERE session_id = $1 AND jti = $2 AND status = 'ACTIVE'"                \
    "   AND workspace_id IS NOT DISTINCT FROM $5"                              \
    "   AND member_id IS NOT DISTINCT FROM $6"                                 \
    "   AND active_branch_id IS NOT DISTINCT FROM $7" SQL_NOT_LOCKED_OUT("s")  \
        SQL_BEFORE_FENCE("$8")
/* Sets the scope columns to null if param is true. */
#define CLEAR_SCOPE_IF(param)                                                  \
    ", workspace_id = CASE WHEN NOT " param " THEN workspace_id END"           \
    ", member_id = CASE WHEN NOT " param " THEN member_id END"                 \
    ", active_branch_id = CASE WHEN NOT " param " THEN active_branch_id END"
#define ROTATE_UNCHANGED ROTATE CLEAR_SCOPE_IF("$15") UNCHANGED

static const struct db_statement session_rotate_sql[2] = {
    {"session_rotate", ROTATE_UNCHANGED, true},
    {"session_rotate_remember",
     "WITH rotated AS (" ROTATE_UNCHANGED
     " RETURNING session_id)," FORGET REMEMBER,
     true}};

enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope)
{
    return sql_do(st, &session_rotate_sql[to->remember], DB_ID(old->session_id),
                  DB_ID(old->jti), DB_ID(to->new_jti),
                  DB_TIME(to->expires_at_s), SCOPE(old), DB_FENCE,
                  SQL_CLIENT(st), RETRY(to, pj_str(old->jti)),
                  DB_BOOL(clear_scope));
}

/* retry_next = jti: an older version of the service replaces jti but not the
 * columns of the retry. */
static const struct db_statement session_retry_sql = {
    "session_retry",
    "SELECT jti, retry_iat, expires_at, used_at, coalesce(used_address, ''),"
    "       coalesce(used_agent, ''), retry_elsewhere::bigint"
    "  FROM auth_sessions"
    " WHERE session_id = $1 AND retry_jti = $2 AND retry_next = jti"
    "   AND clock_timestamp() >= used_at"
    "   AND clock_timestamp() < used_at + make_interval(secs => $3)",
    false};

enum store_result store_session_retry(struct store *st,
                                      const pj_claims_t *token,
                                      int64_t window_s, struct retry *out)
{
    unsigned char jti[UUID_BYTES];
    struct sql_query q = {0};

    if (!uuid_read(jti, token->jti)) {
        return STORE_NONE; /* not in canonical form, so not the session's */
    }
    db_params(&q.p, DB_UUID(token->session_id), DB_UUID(token->jti),
              DB_INT(window_s));
    if (sql_run_one(&q, st, &session_retry_sql)) {
        db_uuid(q.rows, 0, 0, out->jti);
        out->iat_s = db_time_us(q.rows, 0, 1) / 1000000;
        out->expires_at_s = db_time_us(q.rows, 0, 2) / 1000000;
        out->rotated_at_us = db_time_us(q.rows, 0, 3);
        sql_copy_text(q.rows, 0, 4, out->address, sizeof(out->address));
        sql_copy_text(q.rows, 0, 5, out->agent, sizeof(out->agent));
        out->moved_retries = (unsigned) db_int64(q.rows, 0, 6);
    }
    return sql_end(&q);
}

static const struct db_statement session_repeat_sql = {
    "session_repeat",
    "UPDATE auth_sessions s SET retry_elsewhere = retry_elsewhere | $3,"
    " access_until = greatest(access_until, $4)" CLEAR_SCOPE_IF("$9") UNCHANGED,
    true};

enum store_result store_session_repeat(struct store *st,
                                       const struct session *s, const char *jti,
                                       bool moved, bool clear_scope)
{
    return sql_do(st, &session_repeat_sql, DB_ID(s->session_id), DB_ID(jti),
                  DB_INT(moved), DB_TIME(st->access_until_s), SCOPE(s),
                  DB_FENCE, DB_BOOL(clear_scope));
}

static const struct db_statement session_rotated_sql = {
    "session_rotated",
    "SELECT 1 FROM rotated_tokens WHERE session_id = $1 AND jti = $2"
    "   AND rotated_at >= now() - make_interval(secs => $3)",
    false};

enum store_result store_session_remembered(struct store *st,
                                           const char *session_id, pj_str_t jti,
                                           int64_t within_s)
{
    return sql_do(st, &session_rotated_sql, DB_ID(session_id), DB_UUID(jti),
                  DB_INT(within_s));
}
