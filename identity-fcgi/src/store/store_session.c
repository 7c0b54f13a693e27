/* The life of a session: opened, read, bound to a branch, revoked. */

#include "store/store_session.h"

#include "base/buf.h"
#include "base/uuid.h"
#include "store/sql.h"

#include <string.h>

/* Copies the revoked rows to done, and ends the query. */
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

/*
 * Locking the account's row waits for an operator who is changing it, so that
 * no session opens while all are being ended.  The session's time is from the
 * database's clock, as lockouts are, and later than the last lockout in that
 * row, even if the clock was set back.
 */
static const struct db_statement session_create_sql = {
    "session_create",
    "WITH owner AS ("
    "   SELECT account_id, greatest(now(),"
    "          sessions_valid_after + interval '1 us') AS created_at"
    "     FROM accounts a"
    "    WHERE account_id = $2 AND status = 'ACTIVE' AND credential_hash = $8"
    "      AND " SQL_VALID_AFTER(
        "a") " = $12"
             "      FOR SHARE)"
             " INSERT INTO auth_sessions (session_id, account_id, jti, "
             "created_at,"
             "    expires_at, workspace_id, member_id, active_branch_id,"
             "    login_address, login_agent, access_until)"
             " SELECT $1, account_id, $3, created_at,"
             "    greatest($4, created_at + interval '1 us'), $5, $6, $7,"
             "    nullif($9, ''), nullif($10, ''), $11"
             "   FROM owner",
    true};

enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(s->session_id));
    db_param_uuid(&q.p, pj_str(s->account_id));
    db_param_uuid(&q.p, pj_str(s->jti));
    db_param_time_us(&q.p, s->expires_at_s * 1000000);
    db_param_uuid_or_null(&q.p, s->workspace_id);
    db_param_uuid_or_null(&q.p, s->member_id);
    db_param_uuid_or_null(&q.p, s->active_branch_id);
    db_param_text(&q.p, credential_hash, strlen(credential_hash));
    sql_param_client(&q.p, st);
    db_param_time_us(&q.p, s->clock.valid_after_us);
    (void) sql_run_one(&q, st, &session_create_sql);
    return sql_end(&q);
}

/*
 * Reads $2 + SPARE rows at most, however many sessions the account has; later
 * logins end the others.  Locked rows are left to the next login, so this
 * never waits.
 */
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
    " over AS MATERIALIZED ("
    "   SELECT session_id FROM oldest WHERE session_id <> $4"
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

enum store_result store_session_limit(struct store *st,
                                      const struct session *s, int most,
                                      struct session_refs *done)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(s->account_id));
    db_param_int64(&q.p, most);
    db_param_int64(&q.p, SPARE);
    db_param_uuid(&q.p, pj_str(s->session_id));
    (void) sql_run(&q, st, &session_limit_sql, NULL);
    return copy_revoked(&q, done);
}

/* Locking the account's row waits for who is locking it out: the tokens that
 * are given out were made before. */
static const struct db_statement session_select_sql = {
    "session_select",
    "WITH owner AS MATERIALIZED ("
    "   SELECT a.sessions_valid_after FROM accounts a"
    "    WHERE a.account_id = (SELECT account_id FROM auth_sessions"
    "                           WHERE session_id = $1)"
    "      FOR SHARE)"
    " UPDATE auth_sessions"
    "   SET workspace_id = $2, member_id = $3, active_branch_id = $4,"
    "       access_until = greatest(access_until, $6)"
    "  FROM owner"
    " WHERE session_id = $1 AND status = 'ACTIVE'"
    "   AND created_at > sessions_valid_after"
    "   AND (workspace_id IS NULL OR workspace_id = $2)" SQL_BEFORE_FENCE(
        "$5"),
    true};

enum store_result store_session_select(struct store *st,
                                       const char *session_id,
                                       const struct scope *to)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(session_id));
    db_param_uuid(&q.p, pj_str(to->workspace_id));
    db_param_uuid(&q.p, pj_str(to->member_id));
    db_param_uuid(&q.p, pj_str(to->active_branch_id));
    db_param_fence(&q.p);
    db_param_time_us(&q.p, st->access_until_s * 1000000);
    (void) sql_run_one(&q, st, &session_select_sql);
    return sql_end(&q);
}

/* revoked_at never precedes created_at, which another host's clock wrote. */
static const struct db_statement session_revoke_sql = {
    "session_revoke",
    "UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY (string_to_array($1, ',')::uuid[])"
    "   AND status = 'ACTIVE'" SQL_NOT_LOCKED_OUT(
        "auth_sessions") " RETURNING session_id, account_id",
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
        /* What is no UUID names no session. */
        if (uuid_parse(bytes, ids[i])) {
            buf_addz(&list, list.len > 0 ? "," : "");
            buf_add(&list, ids[i].data, ids[i].len);
        }
    }
    if (list.len > 0) {
        db_param_text(&q.p, list.data, list.len);
        (void) sql_run_safe(&q, st, &session_revoke_sql);
    }
    return copy_revoked(&q, done);
}

/* -- reading, with the branches that can be selected -- */

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
    db_param_uuid(&q.p, pj_str(account_id));
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

enum {
    ACCOUNT_ID = SQL_BRANCH_COLS,
    ACCOUNT_TYPE,
    ACCOUNT_ENABLED,
    ACTIVE,
    JTI,
    WORKSPACE_ID,
    MEMBER_ID,
    ACTIVE_BRANCH_ID,
    CREATED_AT,
    EXPIRES_AT,
    CLOCK_NOW,
    CLOCK_VALID_AFTER
};

_Static_assert(CLOCK_VALID_AFTER + 1 == SQL_COL_MORE, "the columns end there");

void store_session_copy(struct sql_query *q, pj_arena_t *arena, bool list,
                        struct session_view *out)
{
    struct session *s = &out->session;

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
    db_uuid(q->rows, 0, ACCOUNT_ID, s->account_id);
    sql_copy_text(q->rows, 0, ACCOUNT_TYPE, s->account_type,
                  sizeof(s->account_type));
    s->account_enabled = db_bool(q->rows, 0, ACCOUNT_ENABLED);
    s->active = db_bool(q->rows, 0, ACTIVE);
    db_uuid(q->rows, 0, JTI, s->jti);
    db_uuid(q->rows, 0, WORKSPACE_ID, s->workspace_id);
    db_uuid(q->rows, 0, MEMBER_ID, s->member_id);
    db_uuid(q->rows, 0, ACTIVE_BRANCH_ID, s->active_branch_id);
    s->created_at_s = db_time_us(q->rows, 0, CREATED_AT) / 1000000;
    s->expires_at_s = db_time_us(q->rows, 0, EXPIRES_AT) / 1000000;
    sql_copy_clock(q->rows, CLOCK_NOW, &s->clock);
    if (!sql_copy_branches(arena, q->rows, list, out)) {
        q->result = STORE_UNAVAILABLE;
    }
}

bool store_session_again(const struct session_view *view)
{
    return !view->selectable && view->session.workspace_id[0] != '\0';
}

/* By one statement; everywhere: with the branches of other workspaces. */
static enum store_result
read_once(struct store *st, pj_arena_t *arena, pj_str_t session_id,
          const pj_str_t *branch_id, bool list, bool everywhere,
          struct meanwhile *meanwhile, struct session_view *out)
{
    /* Which no branch has: in place of a malformed id. */
    const pj_str_t nil = PJ_STR("00000000-0000-0000-0000-000000000000");
    unsigned char bytes[UUID_BYTES];
    struct sql_query q = {0};

    db_param_uuid(&q.p, session_id);
    if (branch_id == NULL) {
        db_param_uuid_or_null(&q.p, NULL);
    } else {
        db_param_uuid(&q.p, uuid_parse(bytes, *branch_id) ? *branch_id : nil);
    }
    db_param_bool(&q.p, everywhere);
    (void) sql_run(&q, st, &session_read_sql, meanwhile);
    store_session_copy(&q, arena, list, out);
    return sql_end(&q);
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    enum store_result result = read_once(st, arena, session_id, branch_id,
                                         list, false, meanwhile, out);

    return result == STORE_OK && store_session_again(out)
               ? read_once(st, arena, session_id, branch_id, list, true, NULL,
                           out)
               : result;
}
