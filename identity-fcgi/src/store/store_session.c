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

/*
 * The compare-and-swap, in four forms.  The scope columns are compared too, so
 * that a concurrent selection is not lost.
 */
#define UNCHANGED                                                             \
    " WHERE session_id = $1 AND jti = $2 AND status = 'ACTIVE'"               \
    "   AND workspace_id IS NOT DISTINCT FROM $5"                             \
    "   AND member_id IS NOT DISTINCT FROM $6"                                \
    "   AND active_branch_id IS NOT DISTINCT FROM $7" STORE_NOT_LOCKED_OUT(   \
        "s") STORE_BEFORE_FENCE("$8")
#define CLEAR_SCOPE                                                           \
    ", workspace_id = NULL, member_id = NULL, active_branch_id = NULL"
#define REMEMBERING(update)                                                   \
    "WITH rotated AS (" update                                                \
    " RETURNING session_id)," STORE_FORGET STORE_REMEMBER

static const struct db_statement session_rotate_sql[2][2] = {
    {{"session_rotate", STORE_ROTATE UNCHANGED, true},
     {"session_rotate_remember", REMEMBERING(STORE_ROTATE UNCHANGED), true}},
    {{"session_rotate_clear", STORE_ROTATE CLEAR_SCOPE UNCHANGED, true},
     {"session_rotate_clear_remember",
      REMEMBERING(STORE_ROTATE CLEAR_SCOPE UNCHANGED), true}}};

/* Adds $5 to $8 of UNCHANGED. */
static void param_scope(struct db_params *p, const struct session *old)
{
    db_param_uuid_or_null(p, old->workspace_id);
    db_param_uuid_or_null(p, old->member_id);
    db_param_uuid_or_null(p, old->active_branch_id);
    db_param_fence(p);
}

enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope)
{
    struct db_params p = {0};

    store_param_uuid(&p, old->session_id);
    store_param_uuid(&p, old->jti);
    store_param_uuid(&p, to->new_jti);
    db_param_time_us(&p, to->expires_at_s * 1000000);
    param_scope(&p, old);
    store_param_client(&p, st);
    store_param_retry(
        &p, (pj_str_t){(const unsigned char *) old->jti, strlen(old->jti)},
        to);
    return store_run_one(st, &session_rotate_sql[clear_scope][to->remember],
                         &p);
}

/*
 * A version that knows nothing of retries replaces jti and leaves the columns
 * of one as they are: then retry_next is no longer the row's jti.
 */
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
    struct db_params p = {0};
    unsigned char jti[UUID_BYTES];
    struct db_rows *rows;
    enum store_result result;

    if (!uuid_read(jti, token->jti)) {
        return STORE_NONE; /* not written as we write it: not the session's */
    }
    db_param_uuid(&p, (const char *) token->session_id.data,
                  token->session_id.len);
    db_param_uuid(&p, (const char *) token->jti.data, token->jti.len);
    db_param_int64(&p, window_s);
    result = store_run(st, &session_retry_sql, &p, NULL, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        db_uuid(rows, 0, 0, out->jti);
        out->iat_s = db_time_us(rows, 0, 1) / 1000000;
        out->expires_at_s = db_time_us(rows, 0, 2) / 1000000;
        out->rotated_at_us = db_time_us(rows, 0, 3);
        store_copy_text(rows, 0, 4, out->address, sizeof(out->address));
        store_copy_text(rows, 0, 5, out->agent, sizeof(out->agent));
        out->elsewhere = (unsigned) db_int64(rows, 0, 6);
    }
    db_rows_free(rows);
    return result;
}

#define REPEAT                                                                \
    "UPDATE auth_sessions s SET retry_elsewhere = retry_elsewhere | $3,"      \
    " access_until = greatest(access_until, $4)"

static const struct db_statement session_repeat_sql[2] = {
    {"session_repeat", REPEAT UNCHANGED, true},
    {"session_repeat_clear", REPEAT CLEAR_SCOPE UNCHANGED, true}};

enum store_result store_session_repeat(struct store *st,
                                       const struct session *rotated,
                                       bool elsewhere, bool clear_scope)
{
    struct db_params p = {0};

    store_param_uuid(&p, rotated->session_id);
    store_param_uuid(&p, rotated->jti);
    db_param_int64(&p, elsewhere);
    db_param_time_us(&p, st->access_until_s * 1000000);
    param_scope(&p, rotated);
    return store_run_one(st, &session_repeat_sql[clear_scope], &p);
}

static const struct db_statement session_rotated_sql = {
    "session_rotated",
    "SELECT 1 FROM rotated_tokens WHERE session_id = $1 AND jti = $2"
    "   AND rotated_at >= now() - make_interval(secs => $3)",
    false};

enum store_result store_session_rotated(struct store *st,
                                        const char *session_id, pj_str_t jti,
                                        int64_t within_s)
{
    struct db_params p = {0};

    store_param_uuid(&p, session_id);
    db_param_uuid(&p, (const char *) jti.data, jti.len);
    db_param_int64(&p, within_s);
    return store_run_one(st, &session_rotated_sql, &p);
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
