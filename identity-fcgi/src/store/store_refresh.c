/* Rotations: the statement that reads a session and replaces its token at
 * once, the one that replaces it later, and what is asked of the last
 * rotation. */

#include "store/store_refresh.h"

#include "base/uuid.h"
#include "store/sql.h"
#include "store/store_session.h"

#include <string.h>

/* -- what a rotation writes -- */

/*
 * Replaces the jti of the row s by $3, with the expiry $4.  That is by the
 * service's clock and could be before created_at, which is by the database's.
 * $9 to $11 are those of sql_param_client(), $12 to $14 those of
 * param_retry().
 */
#define ROTATE                                                                \
    "UPDATE auth_sessions s SET jti = $3, used_at = now(),"                   \
    " expires_at = greatest($4, created_at + interval '1 us'),"               \
    " retry_jti = $12, retry_next = $13, retry_iat = $14,"                    \
    " retry_elsewhere = (retry_elsewhere & 127::smallint) << 1,"              \
    " used_address = nullif($9, ''), used_agent = nullif($10, ''),"           \
    " access_until = greatest(access_until, $11)"

/* After a CTE `rotated` of session ids: the old jti, $2, is kept for a while,
 * and older ones are dropped. */
#define FORGET                                                                \
    " forgotten AS (DELETE FROM rotated_tokens r USING rotated"               \
    "    WHERE r.session_id = rotated.session_id"                             \
    "      AND r.rotated_at < now() - interval '2 minutes')"
#define REMEMBER                                                              \
    " INSERT INTO rotated_tokens (session_id, jti)"                           \
    " SELECT session_id, $2 FROM rotated"                                     \
    " ON CONFLICT (session_id, jti) DO UPDATE SET rotated_at = now()"

/* Adds $12 to $14 of ROTATE, what a retry needs: the old jti, the new one and
 * its iat; null where no retry is answered. */
static void param_retry(struct db_params *p, pj_str_t old_jti,
                        const struct rotation *to)
{
    if (to->retry_window_s > 0) {
        db_param_uuid(p, old_jti);
        db_param_uuid(p, pj_str(to->new_jti));
        db_param_time_us(p, to->now_s * 1000000);
        return;
    }
    db_param_uuid_or_null(p, NULL);
    db_param_uuid_or_null(p, NULL);
    db_param_any(p, NULL);
}

/* -- reading and rotating at once -- */

/*
 * Reads as store_session_read() does, and is the compare-and-swap as well. The
 * read is one snapshot.  If the row has changed since, the update looks at
 * what has become of it: it does nothing, and the caller reads again, unless
 * all that the decision used is as it was.  A session never changes its
 * account, so that is asked of the snapshot: asked of the row, it would offer
 * the planner an index that leads to all sessions of the account.
 */
#define ALLOWED                                                               \
    "    WHERE s.session_id = $1 AND s.status = 'ACTIVE'"                     \
    "      AND s.expires_at >= $6 AND s.jti = $2 AND s.created_at >= $7"      \
    "      AND EXISTS (SELECT FROM session o"                                 \
    "           WHERE account_enabled AND active AND o.account_id = $5"       \
    "             AND (active_branch_id IS NULL"                              \
    "                  OR EXISTS (SELECT FROM selectable"                     \
    "                              WHERE roles IS NOT NULL))"                 \
    "             AND o.workspace_id IS NOT DISTINCT FROM s.workspace_id"     \
    "             AND o.member_id IS NOT DISTINCT FROM s.member_id"           \
    "             AND o.active_branch_id"                                     \
    "                 IS NOT DISTINCT FROM s.active_branch_id)"
#define REFRESH                                                               \
    SQL_SESSION SQL_SELECTABLE("s.active_branch_id",                          \
                               "") ", rotated AS (" ROTATE ALLOWED            \
        SQL_BEFORE_FENCE("$8") "   RETURNING session_id)"
#define REFRESHED SQL_SESSION_ROWS(", EXISTS (SELECT FROM rotated)", ", NULL")

static const struct db_statement session_refresh_sql[2] = {
    {"session_refresh", REFRESH REFRESHED, true},
    {"session_refresh_remember",
     REFRESH "," FORGET ", remembered AS (" REMEMBER ")" REFRESHED, true}};

enum store_result store_refresh(struct store *st, pj_arena_t *arena,
                                const struct rotation *to, bool list,
                                struct meanwhile *meanwhile,
                                struct session_view *out, bool *rotated)
{
    const pj_claims_t *token = to->token;
    unsigned char jti[UUID_BYTES];
    struct sql_query q = {0};

    *rotated = false;
    db_param_uuid(&q.p, token->session_id);
    db_param_uuid(&q.p, token->jti);
    db_param_uuid(&q.p, pj_str(to->new_jti));
    db_param_time_us(&q.p, to->expires_at_s * 1000000);
    db_param_uuid(&q.p, token->account_id);
    db_param_time_us(&q.p, (to->now_s + 1) * 1000000);
    db_param_time_us(&q.p, to->opened_at_s * 1000000);
    db_param_fence(&q.p);
    sql_param_client(&q.p, st);
    param_retry(&q.p, token->jti, to);
    if (q.p.bad_uuid || !uuid_read(jti, token->jti)) {
        /* An id is malformed, or the jti is not written as we write it and so
         * is not the session's: there is nothing to rotate. */
        return store_session_read(st, arena, token->session_id, NULL, list,
                                  meanwhile, out);
    }
    *rotated =
        sql_run(&q, st, &session_refresh_sql[to->remember], meanwhile) &&
        db_row_count(q.rows) > 0 && db_bool(q.rows, 0, SQL_COL_MORE);
    store_session_copy(&q, arena, list, out);
    (void) sql_end(&q);
    if (*rotated && q.result == STORE_UNAVAILABLE) {
        return STORE_UNKNOWN; /* what was done can no longer be told */
    }
    return q.result == STORE_OK && !*rotated && store_session_again(out)
               ? store_session_read(st, arena, token->session_id, NULL, list,
                                    NULL, out)
               : q.result;
}

/* -- rotating what was read -- */

/*
 * The compare-and-swap, in four forms.  The scope columns are compared too, so
 * that a concurrent selection is not lost.
 */
#define UNCHANGED                                                             \
    " WHERE session_id = $1 AND jti = $2 AND status = 'ACTIVE'"               \
    "   AND workspace_id IS NOT DISTINCT FROM $5"                             \
    "   AND member_id IS NOT DISTINCT FROM $6"                                \
    "   AND active_branch_id IS NOT DISTINCT FROM $7" SQL_NOT_LOCKED_OUT("s") \
        SQL_BEFORE_FENCE("$8")
#define CLEAR_SCOPE                                                           \
    ", workspace_id = NULL, member_id = NULL, active_branch_id = NULL"
#define REMEMBERING(update)                                                   \
    "WITH rotated AS (" update " RETURNING session_id)," FORGET REMEMBER

static const struct db_statement session_rotate_sql[2][2] = {
    {{"session_rotate", ROTATE UNCHANGED, true},
     {"session_rotate_remember", REMEMBERING(ROTATE UNCHANGED), true}},
    {{"session_rotate_clear", ROTATE CLEAR_SCOPE UNCHANGED, true},
     {"session_rotate_clear_remember",
      REMEMBERING(ROTATE CLEAR_SCOPE UNCHANGED), true}}};

/* Adds $5 to $8 of UNCHANGED. */
static void param_scope(struct db_params *p, const struct session *old)
{
    db_param_uuid_or_null(p, old->workspace_id);
    db_param_uuid_or_null(p, old->member_id);
    db_param_uuid_or_null(p, old->active_branch_id);
    db_param_fence(p);
}

enum store_result store_refresh_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(old->session_id));
    db_param_uuid(&q.p, pj_str(old->jti));
    db_param_uuid(&q.p, pj_str(to->new_jti));
    db_param_time_us(&q.p, to->expires_at_s * 1000000);
    param_scope(&q.p, old);
    sql_param_client(&q.p, st);
    param_retry(&q.p, pj_str(old->jti), to);
    (void) sql_run_one(&q, st, &session_rotate_sql[clear_scope][to->remember]);
    return sql_end(&q);
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

enum store_result store_refresh_retry(struct store *st,
                                      const pj_claims_t *token,
                                      int64_t window_s, struct retry *out)
{
    unsigned char jti[UUID_BYTES];
    struct sql_query q = {0};

    if (!uuid_read(jti, token->jti)) {
        return STORE_NONE; /* not written as we write it: not the session's */
    }
    db_param_uuid(&q.p, token->session_id);
    db_param_uuid(&q.p, token->jti);
    db_param_int64(&q.p, window_s);
    if (sql_run_one(&q, st, &session_retry_sql)) {
        db_uuid(q.rows, 0, 0, out->jti);
        out->iat_s = db_time_us(q.rows, 0, 1) / 1000000;
        out->expires_at_s = db_time_us(q.rows, 0, 2) / 1000000;
        out->rotated_at_us = db_time_us(q.rows, 0, 3);
        sql_copy_text(q.rows, 0, 4, out->address, sizeof(out->address));
        sql_copy_text(q.rows, 0, 5, out->agent, sizeof(out->agent));
        out->elsewhere = (unsigned) db_int64(q.rows, 0, 6);
    }
    return sql_end(&q);
}

#define REPEAT                                                                \
    "UPDATE auth_sessions s SET retry_elsewhere = retry_elsewhere | $3,"      \
    " access_until = greatest(access_until, $4)"

static const struct db_statement session_repeat_sql[2] = {
    {"session_repeat", REPEAT UNCHANGED, true},
    {"session_repeat_clear", REPEAT CLEAR_SCOPE UNCHANGED, true}};

enum store_result store_refresh_repeat(struct store *st,
                                       const struct session *s,
                                       const char *jti, bool elsewhere,
                                       bool clear_scope)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(s->session_id));
    db_param_uuid(&q.p, pj_str(jti));
    db_param_int64(&q.p, elsewhere);
    db_param_time_us(&q.p, st->access_until_s * 1000000);
    param_scope(&q.p, s);
    (void) sql_run_one(&q, st, &session_repeat_sql[clear_scope]);
    return sql_end(&q);
}

static const struct db_statement session_rotated_sql = {
    "session_rotated",
    "SELECT 1 FROM rotated_tokens WHERE session_id = $1 AND jti = $2"
    "   AND rotated_at >= now() - make_interval(secs => $3)",
    false};

enum store_result store_refresh_remembered(struct store *st,
                                           const char *session_id,
                                           pj_str_t jti, int64_t within_s)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(session_id));
    db_param_uuid(&q.p, jti);
    db_param_int64(&q.p, within_s);
    (void) sql_run_one(&q, st, &session_rotated_sql);
    return sql_end(&q);
}
