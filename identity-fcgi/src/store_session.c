/* Sessions and what can be selected in them <-> SQL. */

#include "store_sql.h"

#include <string.h>

/* -- branches -- */

/* The order of every list: byte order, whatever the database's locale. */
#define SORTED                                                                \
    " ORDER BY workspace_name COLLATE \"C\", branch_name COLLATE \"C\","      \
    " branch_id"

static const struct db_statement branches_sql = {
    "branches",
    "SELECT array_agg(branch_id), array_agg(branch_name),"
    "       array_agg(workspace_id), array_agg(workspace_name)"
    "  FROM (SELECT branch_id, branch_name, workspace_id, workspace_name"
    "          FROM selectable_branches WHERE account_id = $1" SORTED
    ") AS sorted",
    false};

enum store_result store_branches(struct store *st, pj_arena_t *arena,
                                 const char *account_id,
                                 struct branch_list *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, account_id);
    result = store_run(st, &branches_sql, &p, &rows);
    if (result == STORE_OK && !store_copy_branches(arena, rows, 0, 0, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement scope_sql = {
    "scope",
    "SELECT t.workspace_id, t.tenant_id, t.member_id, t.branch_id,"
    "       ARRAY(SELECT b.branch_id FROM selectable_branches b"
    "              WHERE b.account_id = t.account_id"
    "                AND b.workspace_id = t.workspace_id"
    "              ORDER BY b.branch_name COLLATE \"C\", b.branch_id),"
    "       ARRAY(SELECT r.role_code FROM member_roles r"
    "              WHERE r.member_id = t.member_id"
    "                AND r.branch_id = t.branch_id"
    "              ORDER BY r.role_code)"
    "  FROM selectable_branches t"
    " WHERE t.account_id = $1 AND t.branch_id = $2",
    false};

enum store_result store_scope(struct store *st, pj_arena_t *arena,
                              const char *account_id, const char *branch_id,
                              struct scope *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, account_id);
    store_param_uuid(&p, branch_id);
    result = store_run(st, &scope_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK && !store_copy_scope(arena, rows, 0, 0, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

/* -- sessions -- */

/*
 * A write that we have given up on may still lie before the server, which
 * would do it when it comes to its senses, long after a client was told that
 * nothing has happened.  So the writes that follow a read carry a fence: the
 * database's clock at that read, plus the time that the request had left.
 */
#define BEFORE_FENCE(param)                                                   \
    "   AND clock_timestamp() < to_timestamp(" param " / 1000000.0)"

static void set_fence(struct store *st, int64_t database_us)
{
    int64_t left_ms = st->default_timeout_ms;

    if (st->deadline_ms > 0) {
        left_ms = st->deadline_ms - db_now_ms();
    }
    st->fence_us = database_us + left_ms * 1000;
}

/*
 * Taking the account's row makes this wait for an operator who is changing it,
 * so that no session is opened behind the back of one who ends them all.
 */
static const struct db_statement session_create_sql = {
    "session_create",
    "WITH owner AS ("
    "   SELECT account_id FROM accounts"
    "    WHERE account_id = $2 AND status = 'ACTIVE' AND credential_hash = $9"
    "      FOR SHARE)"
    " INSERT INTO auth_sessions (session_id, account_id, jti, created_at,"
    "    expires_at, workspace_id, member_id, active_branch_id)"
    " SELECT $1, account_id, $3, to_timestamp($4), to_timestamp($5), $6, $7,"
    "        $8"
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
    db_param_int64(&p, s->created_at_s);
    db_param_int64(&p, s->expires_at_s);
    db_param_uuid_or_null(&p, s->workspace_id);
    db_param_uuid_or_null(&p, s->member_id);
    db_param_uuid_or_null(&p, s->active_branch_id);
    db_param_text(&p, credential_hash, strlen(credential_hash));
    return store_run_write(st, &session_create_sql, &p);
}

/*
 * t is the branch asked about ($2, else the session's own), if it is
 * selectable and in the session's workspace.  The list covers t's workspace,
 * or all of them where there is no t; names are left out when nobody wants
 * them.
 */
static const struct db_statement session_read_sql = {
    "session_read",
    "SELECT s.session_id, s.account_id, a.account_type,"
    "       a.status = 'ACTIVE', s.status = 'ACTIVE', s.jti,"
    "       s.workspace_id, s.member_id, s.active_branch_id,"
    "       floor(extract(epoch FROM s.created_at))::bigint,"
    "       floor(extract(epoch FROM s.expires_at))::bigint,"
    "       t.workspace_id, t.tenant_id, t.member_id, t.branch_id,"
    "       list.branch_ids,"
    "       ARRAY(SELECT r.role_code FROM member_roles r"
    "              WHERE r.member_id = t.member_id"
    "                AND r.branch_id = t.branch_id"
    "              ORDER BY r.role_code),"
    "       list.branch_ids, list.branch_names,"
    "       list.workspace_ids, list.workspace_names,"
    "       floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    "  FROM auth_sessions s"
    "  JOIN accounts a ON a.account_id = s.account_id"
    "  LEFT JOIN selectable_branches t"
    "    ON t.account_id = s.account_id"
    "   AND t.branch_id = coalesce($2, s.active_branch_id)"
    "   AND (s.workspace_id IS NULL OR t.workspace_id = s.workspace_id)"
    " CROSS JOIN LATERAL ("
    "    SELECT array_agg(branch_id) AS branch_ids,"
    "           array_agg(branch_name) FILTER (WHERE wanted)"
    "             AS branch_names,"
    "           array_agg(workspace_id) FILTER (WHERE wanted)"
    "             AS workspace_ids,"
    "           array_agg(workspace_name) FILTER (WHERE wanted)"
    "             AS workspace_names"
    "      FROM (SELECT b.branch_id, b.branch_name, b.workspace_id,"
    "                   b.workspace_name,"
    "                   $3 OR t.branch_id IS NULL AS wanted"
    "              FROM selectable_branches b"
    "             WHERE b.account_id = s.account_id"
    "               AND (t.branch_id IS NULL"
    "                    OR b.workspace_id = t.workspace_id)" SORTED
    ") AS sorted) AS list"
    " WHERE s.session_id = $1",
    false};

static void copy_session(const struct db_rows *rows, struct session *s)
{
    db_uuid(rows, 0, 0, s->session_id);
    db_uuid(rows, 0, 1, s->account_id);
    store_copy_text(rows, 0, 2, s->account_type, sizeof(s->account_type));
    s->account_enabled = db_bool(rows, 0, 3);
    s->active = db_bool(rows, 0, 4);
    db_uuid(rows, 0, 5, s->jti);
    db_uuid(rows, 0, 6, s->workspace_id);
    db_uuid(rows, 0, 7, s->member_id);
    db_uuid(rows, 0, 8, s->active_branch_id);
    s->created_at_s = db_int64(rows, 0, 9);
    s->expires_at_s = db_int64(rows, 0, 10);
}

static bool copy_view(pj_arena_t *arena, const struct db_rows *rows, bool list,
                      struct session_view *out)
{
    memset(out, 0, sizeof(*out));
    copy_session(rows, &out->session);
    out->selectable = !db_is_null(rows, 0, 11);
    if (out->selectable &&
        !store_copy_scope(arena, rows, 0, 11, &out->scope)) {
        return false;
    }
    if (!list && out->selectable) {
        return true;
    }
    return store_copy_branches(arena, rows, 0, 17, &out->branches);
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct session_view *out)
{
    /* Asked about by what is no UUID: no branch at all has the nil one. */
    static const char nil[] = "00000000-0000-0000-0000-000000000000";
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_uuid(&p, (const char *) session_id.data, session_id.len);
    if (p.bad_uuid) {
        return STORE_NONE;
    }
    if (branch_id == NULL) {
        db_param_uuid_or_null(&p, NULL);
    } else {
        db_param_uuid(&p, (const char *) branch_id->data, branch_id->len);
        if (p.bad_uuid) {
            p.bad_uuid = false;
            p.count--;
            store_param_uuid(&p, nil);
        }
    }
    db_param_bool(&p, list);
    result = store_run(st, &session_read_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        set_fence(st, db_int64(rows, 0, 21));
        if (!copy_view(arena, rows, list, out)) {
            result = STORE_UNAVAILABLE;
        }
    }
    db_rows_free(rows);
    return result;
}

/*
 * The compare-and-swap, in four forms.  The scope columns are compared as
 * well: a selection that came in between must not be lost.
 */
#define ROTATE_WHERE                                                          \
    " WHERE session_id = $1 AND jti = $2 AND status = 'ACTIVE'"               \
    "   AND workspace_id IS NOT DISTINCT FROM $5"                             \
    "   AND member_id IS NOT DISTINCT FROM $6"                                \
    "   AND active_branch_id IS NOT DISTINCT FROM $7" BEFORE_FENCE("$8")
#define ROTATE_SET                                                            \
    "UPDATE auth_sessions SET jti = $3, expires_at = to_timestamp($4)"
#define ROTATE_CLEAR                                                          \
    ", workspace_id = NULL, member_id = NULL, active_branch_id = NULL"
/* The old jti is kept for a while, and older ones are dropped. */
#define REMEMBERING(update)                                                   \
    "WITH rotated AS (" update " RETURNING session_id),"                      \
    " forgotten AS (DELETE FROM rotated_tokens r USING rotated"               \
    "    WHERE r.session_id = rotated.session_id"                             \
    "      AND r.rotated_at < now() - interval '2 minutes')"                  \
    " INSERT INTO rotated_tokens (session_id, jti)"                           \
    " SELECT session_id, $2 FROM rotated"

static const struct db_statement session_rotate_sql[2][2] = {
    {{"session_rotate", ROTATE_SET ROTATE_WHERE, true},
     {"session_rotate_remember", REMEMBERING(ROTATE_SET ROTATE_WHERE), true}},
    {{"session_rotate_clear", ROTATE_SET ROTATE_CLEAR ROTATE_WHERE, true},
     {"session_rotate_clear_remember",
      REMEMBERING(ROTATE_SET ROTATE_CLEAR ROTATE_WHERE), true}}};

enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const char *new_jti,
                                       int64_t expires_at_s, bool clear_scope,
                                       bool remember)
{
    struct db_params p = {0};

    store_param_uuid(&p, old->session_id);
    store_param_uuid(&p, old->jti);
    store_param_uuid(&p, new_jti);
    db_param_int64(&p, expires_at_s);
    db_param_uuid_or_null(&p, old->workspace_id);
    db_param_uuid_or_null(&p, old->member_id);
    db_param_uuid_or_null(&p, old->active_branch_id);
    db_param_int64(&p, st->fence_us);
    return store_run_write(st, &session_rotate_sql[clear_scope][remember], &p);
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
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, session_id);
    db_param_uuid(&p, (const char *) jti.data, jti.len);
    db_param_int64(&p, within_s);
    result = store_run(st, &session_rotated_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement session_select_sql = {
    "session_select",
    "UPDATE auth_sessions"
    "   SET workspace_id = $2, member_id = $3, active_branch_id = $4"
    " WHERE session_id = $1 AND status = 'ACTIVE'"
    "   AND (workspace_id IS NULL OR workspace_id = $2)" BEFORE_FENCE("$5"),
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
    db_param_int64(&p, st->fence_us);
    return store_run_write(st, &session_select_sql, &p);
}

/* revoked_at never precedes created_at, which another host's clock wrote. */
static const struct db_statement session_revoke_sql = {
    "session_revoke",
    "UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY ($1) AND status = 'ACTIVE'"
    " RETURNING session_id, account_id",
    true};

enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_ref *done,
                                       size_t *done_count)
{
    unsigned char array[DB_UUID_ARRAY_BYTES(STORE_MAX_REVOKE)];
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;
    size_t len = 0;

    *done_count = 0;
    for (size_t i = 0; i < count && i < STORE_MAX_REVOKE; i++) {
        /* What is no UUID names no session. */
        (void) db_uuid_array_add(array, &len, (const char *) ids[i].data,
                                 ids[i].len);
    }
    if (len == 0) {
        return STORE_NONE;
    }
    db_param_uuids(&p, array, len);
    result = store_run(st, &session_revoke_sql, &p, &rows);
    if (result == STORE_UNKNOWN) {
        /* Revoking twice is revoking once. */
        result = store_run(st, &session_revoke_sql, &p, &rows);
    }
    if (result == STORE_OK) {
        for (size_t i = 0; i < db_row_count(rows) && i < count; i++) {
            db_uuid(rows, i, 0, done[i].session_id);
            db_uuid(rows, i, 1, done[i].account_id);
            *done_count = i + 1;
        }
        result = *done_count > 0 ? STORE_OK : STORE_NONE;
    }
    db_rows_free(rows);
    return result;
}
