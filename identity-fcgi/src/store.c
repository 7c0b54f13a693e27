/* Domain structs <-> SQL, over PostgreSQL. */

#include "store.h"

#include "db.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct store {
    struct db_pool *pool;
    int64_t deadline_ms;
    int64_t default_timeout_ms;
};

/* The pool that all handles share; it goes with the last of them. */
static struct {
    pthread_mutex_t lock;
    struct db_pool *pool;
    unsigned users;
} shared = {PTHREAD_MUTEX_INITIALIZER, NULL, 0};

struct store *store_open(const struct config *cfg)
{
    struct store *st = calloc(1, sizeof(*st));

    if (st == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&shared.lock);
    if (shared.pool == NULL) {
        shared.pool = db_pool_new(cfg);
    }
    if (shared.pool != NULL) {
        shared.users++;
    }
    st->pool = shared.pool;
    pthread_mutex_unlock(&shared.lock);
    if (st->pool == NULL) {
        free(st);
        return NULL;
    }
    st->default_timeout_ms =
        cfg->db_connect_timeout_ms + cfg->db_statement_timeout_ms;
    return st;
}

void store_close(struct store *st)
{
    if (st == NULL) {
        return;
    }
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        db_pool_free(shared.pool);
        shared.pool = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
    free(st);
}

static void begin(struct store *st, int64_t deadline_ms)
{
    st->deadline_ms = deadline_ms;
}

/* -- helpers ---------------------------------------------------------------
 */

/* Runs a statement.  STORE_OK gives rows to free. */
static enum store_result run(struct store *st, const struct db_statement *sql,
                             const struct db_params *params,
                             struct db_rows **rows)
{
    int64_t deadline_ms = st->deadline_ms;

    *rows = NULL;
    if (params->bad_uuid) {
        return STORE_NONE; /* what is no UUID names no row */
    }
    if (deadline_ms == 0) {
        deadline_ms = db_now_ms() + st->default_timeout_ms;
    }
    switch (db_run(st->pool, sql, params, deadline_ms, rows)) {
    case DB_OK:
        return STORE_OK;
    case DB_UNKNOWN:
        return STORE_UNKNOWN;
    default:
        return STORE_UNAVAILABLE;
    }
}

/* Likewise, for one that is to touch a row: STORE_NONE when it did not. */
static enum store_result run_write(struct store *st,
                                   const struct db_statement *sql,
                                   const struct db_params *params)
{
    struct db_rows *rows;
    enum store_result result = run(st, sql, params, &rows);

    if (result == STORE_OK && db_affected(rows) == 0) {
        result = STORE_NONE;
    }
    db_rows_free(rows);
    return result;
}

static void param_uuid(struct db_params *p, const char *uuid)
{
    db_param_uuid(p, uuid, strlen(uuid));
}

static void copy_text(const struct db_rows *rows, size_t row, int col,
                      char *out, size_t cap)
{
    size_t len;
    const char *text = db_text(rows, row, col, &len);

    if (len >= cap) {
        len = cap - 1;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

static const char *arena_text(pj_arena_t *arena, const unsigned char *data,
                              size_t len)
{
    char *copy = pj_arena_alloc(arena, len + 1);

    if (copy != NULL) {
        memcpy(copy, data, len);
        copy[len] = '\0';
    }
    return copy;
}

static const char *arena_uuid(pj_arena_t *arena, const unsigned char *data,
                              size_t len)
{
    char *text = len == 16 ? pj_arena_alloc(arena, STORE_UUID) : NULL;

    if (text != NULL) {
        db_uuid_text(data, text);
    }
    return text;
}

typedef const char *(*element_fn)(pj_arena_t *arena, const unsigned char *data,
                                  size_t len);

/* Copies an array column into the arena; false when the arena is spent. */
static bool copy_array(pj_arena_t *arena, const struct db_rows *rows,
                       size_t row, int col, element_fn element,
                       const char *const **out, size_t *count)
{
    struct db_array array;
    const unsigned char *data;
    const char **items;
    size_t len, n = 0;

    db_array_open(rows, row, col, &array);
    items = pj_arena_alloc(arena, (array.count + 1) * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    while (n < array.count && db_array_next(&array, &data, &len)) {
        items[n] = element(arena, data, len);
        if (items[n++] == NULL) {
            return false;
        }
    }
    *out = items;
    *count = n;
    return true;
}

/* Reads four array columns, from col on, as a list of branches. */
static bool copy_branches(pj_arena_t *arena, const struct db_rows *rows,
                          size_t row, int col, struct branch_list *out)
{
    static const element_fn elements[] = {arena_uuid, arena_text, arena_uuid,
                                          arena_text};
    const char *const *columns[4];
    struct branch *items;
    size_t n = 0;

    for (int i = 0; i < 4; i++) {
        size_t count;

        if (!copy_array(arena, rows, row, col + i, elements[i], &columns[i],
                        &count)) {
            return false;
        }
        if (i > 0 && count != n) {
            return false;
        }
        n = count;
    }
    items = pj_arena_alloc(arena, (n + 1) * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = (struct branch){columns[0][i], columns[1][i], columns[2][i],
                                   columns[3][i]};
    }
    *out = (struct branch_list){items, n};
    return true;
}

/* Reads workspace, tenant, member, branch, branch ids and roles from col on.
 */
static bool copy_scope(pj_arena_t *arena, const struct db_rows *rows,
                       size_t row, int col, struct scope *out)
{
    char *ids[4];

    for (int i = 0; i < 4; i++) {
        ids[i] = pj_arena_alloc(arena, STORE_UUID);
        if (ids[i] == NULL) {
            return false;
        }
        db_uuid(rows, row, col + i, ids[i]);
    }
    out->workspace_id = ids[0];
    out->tenant_id = ids[1];
    out->member_id = ids[2];
    out->active_branch_id = ids[3];
    return copy_array(arena, rows, row, col + 4, arena_uuid, &out->branch_ids,
                      &out->branch_id_count) &&
           copy_array(arena, rows, row, col + 5, arena_text, &out->roles,
                      &out->role_count);
}

/* -- accounts ----------------------------------------------------------------
 */

static const struct db_statement account_find_sql = {
    "account_find",
    "SELECT account_id, account_type, status = 'ACTIVE', credential_hash"
    "  FROM accounts WHERE account_name COLLATE \"C\" = $1",
    false};

static enum store_result account_find(struct store *st, pj_str_t name,
                                      struct account *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_text(&p, name.data, name.len);
    result = run(st, &account_find_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        db_uuid(rows, 0, 0, out->account_id);
        copy_text(rows, 0, 1, out->account_type, sizeof(out->account_type));
        out->enabled = db_bool(rows, 0, 2);
        copy_text(rows, 0, 3, out->credential_hash,
                  sizeof(out->credential_hash));
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement credential_rehash_sql = {
    "credential_rehash",
    "UPDATE accounts SET credential_hash = $3, updated_at = now()"
    " WHERE account_id = $1 AND credential_hash = $2",
    true};

static enum store_result credential_rehash(struct store *st,
                                           const char *account_id,
                                           const char *old_hash,
                                           const char *new_hash)
{
    struct db_params p = {0};

    param_uuid(&p, account_id);
    db_param_text(&p, old_hash, strlen(old_hash));
    db_param_text(&p, new_hash, strlen(new_hash));
    return run_write(st, &credential_rehash_sql, &p);
}

/* -- attempts
 * ------------------------------------------------------------------ */

static const struct db_statement attempt_begin_sql = {
    "attempt_begin", "SELECT login_attempt_begin($1, $2, $3::integer, $4)",
    true};

static enum store_result attempt_begin(struct store *st,
                                       const struct attempt *attempt,
                                       int max_failures, int64_t window_s,
                                       int64_t *retry_after_s)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_inet(&p, attempt->address);
    db_param_int64(&p, max_failures);
    db_param_int64(&p, window_s);
    result = run(st, &attempt_begin_sql, &p, &rows);
    if (result == STORE_OK) {
        *retry_after_s = db_int64(rows, 0, 0);
        result = *retry_after_s > 0 ? STORE_NONE : STORE_OK;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement attempt_settle_sql = {
    "attempt_settle", "SELECT login_attempt_settle($1, $2, $3)", true};

static enum store_result
attempt_settle(struct store *st, const struct attempt *attempt, bool success)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_inet(&p, attempt->address);
    db_param_bool(&p, success);
    result = run(st, &attempt_settle_sql, &p, &rows);
    db_rows_free(rows);
    return result;
}

/* -- branches
 * ------------------------------------------------------------------- */

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

static enum store_result branches(struct store *st, pj_arena_t *arena,
                                  const char *account_id,
                                  struct branch_list *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    param_uuid(&p, account_id);
    result = run(st, &branches_sql, &p, &rows);
    if (result == STORE_OK && !copy_branches(arena, rows, 0, 0, out)) {
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

static enum store_result scope(struct store *st, pj_arena_t *arena,
                               const char *account_id, const char *branch_id,
                               struct scope *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    param_uuid(&p, account_id);
    param_uuid(&p, branch_id);
    result = run(st, &scope_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK && !copy_scope(arena, rows, 0, 0, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

/* -- sessions
 * ---------------------------------------------------------------------- */

static const struct db_statement session_create_sql = {
    "session_create",
    "INSERT INTO auth_sessions (session_id, account_id, jti, created_at,"
    "    expires_at, workspace_id, member_id, active_branch_id)"
    " VALUES ($1, $2, $3, to_timestamp($4), to_timestamp($5), $6, $7, $8)",
    true};

static enum store_result session_create(struct store *st,
                                        const struct session *s)
{
    struct db_params p = {0};

    param_uuid(&p, s->session_id);
    param_uuid(&p, s->account_id);
    param_uuid(&p, s->jti);
    db_param_int64(&p, s->created_at_s);
    db_param_int64(&p, s->expires_at_s);
    db_param_uuid_or_null(&p, s->workspace_id);
    db_param_uuid_or_null(&p, s->member_id);
    db_param_uuid_or_null(&p, s->active_branch_id);
    return run_write(st, &session_create_sql, &p);
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
    "       list.workspace_ids, list.workspace_names"
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
    copy_text(rows, 0, 2, s->account_type, sizeof(s->account_type));
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
    if (out->selectable && !copy_scope(arena, rows, 0, 11, &out->scope)) {
        return false;
    }
    if (!list && out->selectable) {
        return true;
    }
    return copy_branches(arena, rows, 0, 17, &out->branches);
}

static enum store_result session_read(struct store *st, pj_arena_t *arena,
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
            param_uuid(&p, nil);
        }
    }
    db_param_bool(&p, list);
    result = run(st, &session_read_sql, &p, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK && !copy_view(arena, rows, list, out)) {
        result = STORE_UNAVAILABLE;
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
    "   AND active_branch_id IS NOT DISTINCT FROM $7"
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

static enum store_result session_rotate(struct store *st,
                                        const struct session *old,
                                        const char *new_jti,
                                        int64_t expires_at_s, bool clear_scope,
                                        bool remember)
{
    struct db_params p = {0};

    param_uuid(&p, old->session_id);
    param_uuid(&p, old->jti);
    param_uuid(&p, new_jti);
    db_param_int64(&p, expires_at_s);
    db_param_uuid_or_null(&p, old->workspace_id);
    db_param_uuid_or_null(&p, old->member_id);
    db_param_uuid_or_null(&p, old->active_branch_id);
    return run_write(st, &session_rotate_sql[clear_scope][remember], &p);
}

static const struct db_statement session_rotated_sql = {
    "session_rotated",
    "SELECT 1 FROM rotated_tokens WHERE session_id = $1 AND jti = $2"
    "   AND rotated_at >= now() - make_interval(secs => $3)",
    false};

static enum store_result session_rotated(struct store *st,
                                         const char *session_id, pj_str_t jti,
                                         int64_t within_s)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    param_uuid(&p, session_id);
    db_param_uuid(&p, (const char *) jti.data, jti.len);
    db_param_int64(&p, within_s);
    result = run(st, &session_rotated_sql, &p, &rows);
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
    "   AND (workspace_id IS NULL OR workspace_id = $2)",
    true};

static enum store_result session_select(struct store *st,
                                        const char *session_id,
                                        const struct scope *to)
{
    struct db_params p = {0};

    param_uuid(&p, session_id);
    param_uuid(&p, to->workspace_id);
    param_uuid(&p, to->member_id);
    param_uuid(&p, to->active_branch_id);
    return run_write(st, &session_select_sql, &p);
}

/* revoked_at never precedes created_at, which another host's clock wrote. */
static const struct db_statement session_revoke_sql = {
    "session_revoke",
    "UPDATE auth_sessions"
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"
    " WHERE session_id = ANY ($1) AND status = 'ACTIVE'"
    " RETURNING session_id, account_id",
    true};

static enum store_result session_revoke(struct store *st, const pj_str_t *ids,
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
    result = run(st, &session_revoke_sql, &p, &rows);
    if (result == STORE_UNKNOWN) {
        /* Revoking twice is revoking once. */
        result = run(st, &session_revoke_sql, &p, &rows);
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

/* -- health
 * ---------------------------------------------------------------------------
 */

static const struct db_statement ping_sql = {
    "ping", "SELECT coalesce(max(version), 0)::bigint FROM schema_migrations",
    false};

static enum store_result ping(struct store *st, int *schema_version)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result = run(st, &ping_sql, &p, &rows);

    if (result == STORE_OK) {
        *schema_version = (int) db_int64(rows, 0, 0);
    }
    db_rows_free(rows);
    return result;
}

const struct store_ops store_postgres = {
    .begin = begin,
    .account_find = account_find,
    .credential_rehash = credential_rehash,
    .attempt_begin = attempt_begin,
    .attempt_settle = attempt_settle,
    .branches = branches,
    .scope = scope,
    .session_create = session_create,
    .session_read = session_read,
    .session_rotate = session_rotate,
    .session_rotated = session_rotated,
    .session_select = session_select,
    .session_revoke = session_revoke,
    .ping = ping,
};
