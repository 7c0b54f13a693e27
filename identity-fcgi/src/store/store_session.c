/* The life of a session: opened, rotated, bound to a branch, revoked. */

#include "base/buf.h"
#include "base/uuid.h"
#include "store/store_sql.h"

#include <string.h>

/* Copies the revoked rows to done (room for cap), and frees them. */
static enum store_result copy_revoked(enum store_result result,
                                      struct db_rows *rows, size_t cap,
                                      struct session_ref *done,
                                      size_t *done_count)
{
    *done_count = 0;
    if (result == STORE_OK) {
        for (size_t i = 0; i < db_row_count(rows) && i < cap; i++) {
            db_uuid(rows, i, 0, done[i].session_id);
            db_uuid(rows, i, 1, done[i].account_id);
            *done_count = i + 1;
        }
        result = *done_count > 0 ? STORE_OK : STORE_NONE;
    }
    db_rows_free(rows);
    return result;
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
    "      AND " STORE_VALID_AFTER(
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
    struct db_params p = {0};

    store_param_uuid(&p, s->session_id);
    store_param_uuid(&p, s->account_id);
    store_param_uuid(&p, s->jti);
    db_param_time_us(&p, s->expires_at_s * 1000000);
    db_param_uuid_or_null(&p, s->workspace_id);
    db_param_uuid_or_null(&p, s->member_id);
    db_param_uuid_or_null(&p, s->active_branch_id);
    db_param_text(&p, credential_hash, strlen(credential_hash));
    store_param_client(&p, st);
    db_param_time_us(&p, s->clock.valid_after_us);
    return store_run_one(st, &session_create_sql, &p);
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
                                      struct session_ref *done,
                                      size_t *done_count)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, s->account_id);
    db_param_int64(&p, most);
    db_param_int64(&p, SPARE);
    store_param_uuid(&p, s->session_id);
    result = store_run(st, &session_limit_sql, &p, NULL, &rows);
    return copy_revoked(result, rows, STORE_MAX_REVOKE, done, done_count);
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
    "   AND (workspace_id IS NULL OR workspace_id = $2)" STORE_BEFORE_FENCE(
        "$5"),
    true};

enum store_result store_session_select(struct store *st,
                                       const char *session_id,
                                       const struct scope *to)
{
    struct db_params p = {0};

    store_param_uuid(&p, session_id);
    store_param_uuid(&p, to->workspace_id);
    store_param_uuid(&p, to->member_id);
    store_param_uuid(&p, to->active_branch_id);
    db_param_fence(&p);
    db_param_time_us(&p, st->access_until_s * 1000000);
    return store_run_one(st, &session_select_sql, &p);
}

/* revoked_at never precedes created_at, which another host's clock wrote. */
static const struct db_statement session_revoke_sql = {
    "session_revoke",
    "UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY (string_to_array($1, ',')::uuid[])"
    "   AND status = 'ACTIVE'" STORE_NOT_LOCKED_OUT(
        "auth_sessions") " RETURNING session_id, account_id",
    true};

enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_ref *done,
                                       size_t *done_count)
{
    char mem[STORE_MAX_REVOKE * STORE_UUID];
    unsigned char bytes[UUID_BYTES];
    struct buf list;
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    *done_count = 0;
    buf_init(&list, mem, sizeof(mem));
    for (size_t i = 0; i < count && i < STORE_MAX_REVOKE; i++) {
        /* What is no UUID names no session. */
        if (uuid_parse(bytes, ids[i])) {
            buf_addz(&list, list.len > 0 ? "," : "");
            buf_add(&list, ids[i].data, ids[i].len);
        }
    }
    if (list.len == 0) {
        return STORE_NONE;
    }
    db_param_text(&p, list.data, list.len);
    result = store_run(st, &session_revoke_sql, &p, NULL, &rows);
    if (result == STORE_UNKNOWN) {
        /* Revoking twice is revoking once. */
        result = store_run(st, &session_revoke_sql, &p, NULL, &rows);
    }
    return copy_revoked(result, rows, count, done, done_count);
}
