/* What is read of sessions, and of what can be selected in them. */

#include "base/uuid.h"
#include "store/store_sql.h"

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
    if (result == STORE_OK &&
        !store_copy_branches(arena, rows, 0, (const int[]){0, 1, 2, 3}, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement scope_sql = {
    "scope",
    "SELECT t.workspace_id, t.tenant_id, t.member_id, t.branch_id,"
    "       ARRAY(SELECT r.role_code FROM member_roles r"
    "              WHERE r.member_id = t.member_id"
    "                AND r.branch_id = t.branch_id"
    "              ORDER BY r.role_code),"
    "       ARRAY(SELECT b.branch_id FROM selectable_branches b"
    "              WHERE b.account_id = t.account_id"
    "                AND b.workspace_id = t.workspace_id"
    "              ORDER BY b.branch_name COLLATE \"C\", b.branch_id)"
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
    if (result == STORE_OK &&
        (!store_copy_scope(arena, rows, 0, 0, out) ||
         !store_copy_uuids(arena, rows, 0, 5, &out->branch_ids,
                           &out->branch_id_count))) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

/* -- sessions -- */

/*
 * A row for each branch that can be selected in the session, and one without
 * a branch where there is none.  The rows are sorted here: for the few
 * branches that most have, a row each costs the server less than a sort and
 * aggregates that make one row of them.
 *
 * The roles are read, and not null, in the row of the branch asked about: $2,
 * else the session's own.  $3 is whether a session in a workspace has the
 * branches of the others too.
 */
#define READ(asked, everywhere)                                               \
    "SELECT s.account_id, a.account_type,"                                    \
    "       a.status = 'ACTIVE' AS account_enabled,"                          \
    "       s.status = 'ACTIVE' AND s.created_at > a.sessions_valid_after"    \
    "       AS active, s.jti, s.workspace_id,"                                \
    "       s.member_id, s.active_branch_id, s.created_at, s.expires_at,"     \
    "       b.workspace_id AS in_workspace_id, b.tenant_id,"                  \
    "       b.member_id AS as_member_id, b.branch_id,"                        \
    "       CASE WHEN b.branch_id = " asked                                   \
    "            THEN ARRAY(SELECT r.role_code FROM member_roles r"           \
    "                        WHERE r.member_id = b.member_id"                 \
    "                          AND r.branch_id = b.branch_id"                 \
    "                        ORDER BY r.role_code)"                           \
    "       END AS roles, b.branch_name, b.workspace_name"                    \
    "  FROM auth_sessions s"                                                  \
    "  JOIN accounts a ON a.account_id = s.account_id"                        \
    "  LEFT JOIN selectable_branches b"                                       \
    "    ON b.account_id = s.account_id"                                      \
    "   AND (" everywhere "s.workspace_id IS NULL"                            \
    "        OR b.workspace_id = s.workspace_id)"                             \
    " WHERE s.session_id = $1"

static const struct db_statement session_read_sql = {
    "session_read", READ("coalesce($2, s.active_branch_id)", "$3 OR "), false};

/*
 * The same, and the compare-and-swap.  What was read is one moment's; a row
 * that has changed since is another's work, and left to the caller to read
 * again: the update compares all that was decided upon.
 */
#define SEEN "WITH seen AS MATERIALIZED (" READ("s.active_branch_id", "") "),"
#define REFRESH                                                               \
    SEEN " rotated AS (" STORE_ROTATE                                         \
         "    WHERE s.session_id = $1 AND s.jti = $2 AND s.account_id = $5"   \
         "      AND s.status = 'ACTIVE' AND s.expires_at >= $6"               \
         "      AND s.created_at >= $7"                                       \
         "      AND EXISTS (SELECT FROM seen"                                 \
         "           WHERE account_enabled AND active"                        \
         "             AND (active_branch_id IS NULL OR roles IS NOT NULL)"   \
         "             AND workspace_id IS NOT DISTINCT FROM s.workspace_id"  \
         "             AND member_id IS NOT DISTINCT FROM s.member_id"        \
         "             AND active_branch_id"                                  \
         "                 IS NOT DISTINCT FROM "                             \
         "s.active_branch_id)" STORE_BEFORE_FENCE(                            \
             "$8") "   RETURNING session_id)"
#define REFRESHED " SELECT seen.*, EXISTS (SELECT FROM rotated) FROM seen"

static const struct db_statement session_refresh_sql[2] = {
    {"session_refresh", REFRESH REFRESHED, true},
    {"session_refresh_remember",
     REFRESH "," STORE_FORGET ", remembered AS (" STORE_REMEMBER ")" REFRESHED,
     true}};

enum {
    ACCOUNT_ID,
    ACCOUNT_TYPE,
    ACCOUNT_ENABLED,
    ACTIVE,
    JTI,
    SESSION_WORKSPACE_ID,
    SESSION_MEMBER_ID,
    ACTIVE_BRANCH_ID,
    CREATED_AT,
    EXPIRES_AT,
    SCOPE, /* of the row's branch, down to ROLES */
    WORKSPACE_ID = SCOPE,
    TENANT_ID,
    MEMBER_ID,
    BRANCH_ID,
    ROLES,
    BRANCH_NAME,
    WORKSPACE_NAME,
    ROTATED /* of a refresh alone */
};

struct question {
    pj_str_t session_id;
    const pj_str_t *branch_id;   /* NULL: the session's own is asked about */
    struct meanwhile *meanwhile; /* or NULL */
};

static enum store_result read_session(struct store *st,
                                      const struct question *q,
                                      bool everywhere, struct session *s,
                                      struct db_rows **rows)
{
    /* Asked about by what is no UUID: no branch at all has the nil one. */
    static const char nil[] = "00000000-0000-0000-0000-000000000000";
    struct db_params p = {0};
    enum store_result result;

    *rows = NULL;
    db_param_uuid(&p, (const char *) q->session_id.data, q->session_id.len);
    if (p.bad_uuid) {
        return STORE_NONE;
    }
    db_uuid_text((const unsigned char *) p.values[0], s->session_id);
    if (q->branch_id == NULL) {
        db_param_uuid_or_null(&p, NULL);
    } else {
        db_param_uuid(&p, (const char *) q->branch_id->data,
                      q->branch_id->len);
        if (p.bad_uuid) {
            p.bad_uuid = false;
            p.count--;
            store_param_uuid(&p, nil);
        }
    }
    db_param_bool(&p, everywhere);
    result =
        store_run_meanwhile(st, &session_read_sql, &p, q->meanwhile, rows);
    if (result == STORE_OK && db_row_count(*rows) == 0) {
        result = STORE_NONE;
    }
    return result;
}

static void copy_session(const struct db_rows *rows, struct session *s)
{
    db_uuid(rows, 0, ACCOUNT_ID, s->account_id);
    store_copy_text(rows, 0, ACCOUNT_TYPE, s->account_type,
                    sizeof(s->account_type));
    s->account_enabled = db_bool(rows, 0, ACCOUNT_ENABLED);
    s->active = db_bool(rows, 0, ACTIVE);
    db_uuid(rows, 0, JTI, s->jti);
    db_uuid(rows, 0, SESSION_WORKSPACE_ID, s->workspace_id);
    db_uuid(rows, 0, SESSION_MEMBER_ID, s->member_id);
    db_uuid(rows, 0, ACTIVE_BRANCH_ID, s->active_branch_id);
    s->created_at_s = db_time_us(rows, 0, CREATED_AT) / 1000000;
    s->expires_at_s = db_time_us(rows, 0, EXPIRES_AT) / 1000000;
}

/* Fills the scope from the row of the branch asked about, if there is one and
 * the session is in its workspace or in none. */
static bool copy_scope(pj_arena_t *arena, const struct db_rows *rows,
                       struct session_view *out)
{
    const char *bound = out->session.workspace_id;
    size_t row = 0;

    while (row < db_row_count(rows) && db_is_null(rows, row, ROLES)) {
        row++;
    }
    if (row == db_row_count(rows)) {
        return true;
    }
    if (!store_copy_scope(arena, rows, row, SCOPE, &out->scope)) {
        return false;
    }
    out->selectable =
        bound[0] == '\0' || strcmp(bound, out->scope.workspace_id) == 0;
    if (!out->selectable) {
        memset(&out->scope, 0, sizeof(out->scope));
    }
    return true;
}

/* Fills what there is to choose from, and the scope's part of that. */
static bool copy_branches(pj_arena_t *arena, const struct db_rows *rows,
                          bool list, struct session_view *out)
{
    static const int cols[] = {BRANCH_ID, BRANCH_NAME, WORKSPACE_ID,
                               WORKSPACE_NAME};
    const char *within = out->selectable ? out->scope.workspace_id : NULL;
    struct branch *items;
    size_t n;

    if (!store_row_branches(arena, rows, cols, within, &items, &n)) {
        return false;
    }
    store_sort_branches(items, n);
    if (out->selectable) {
        out->scope.branch_id_count = n;
        if (!store_branch_ids(arena, items, n, &out->scope.branch_ids)) {
            return false;
        }
        if (!list) {
            return true;
        }
    }
    out->branches = (struct branch_list){items, n};
    return store_keep_names(arena, items, n);
}

/* Everything but the branches; on STORE_OK those are in *rows, to be freed. */
static enum store_result look(struct store *st, pj_arena_t *arena,
                              const struct question *q, bool everywhere,
                              struct session_view *out, struct db_rows **rows)
{
    enum store_result result;

    memset(out, 0, sizeof(*out));
    result = read_session(st, q, everywhere, &out->session, rows);
    if (result != STORE_OK) {
        return result;
    }
    copy_session(*rows, &out->session);
    return copy_scope(arena, *rows, out) ? STORE_OK : STORE_UNAVAILABLE;
}

/* Without a scope the list is of all workspaces, and a session in one has not
 * been shown the others. */
static bool look_everywhere(const struct session_view *view)
{
    return !view->selectable && view->session.workspace_id[0] != '\0';
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    const struct question q = {session_id, branch_id, meanwhile};
    struct db_rows *rows;
    enum store_result result = look(st, arena, &q, false, out, &rows);

    if (result == STORE_OK && look_everywhere(out)) {
        db_rows_free(rows);
        result = look(st, arena, &q, true, out, &rows);
    }
    if (result == STORE_OK && !copy_branches(arena, rows, list, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

static void bind_rotation(struct db_params *p, const struct rotation *to)
{
    db_param_uuid(p, (const char *) to->session_id.data, to->session_id.len);
    db_param_uuid(p, (const char *) to->jti.data, to->jti.len);
    store_param_uuid(p, to->new_jti);
    db_param_time_us(p, to->expires_at_s * 1000000);
    db_param_uuid(p, (const char *) to->account_id.data, to->account_id.len);
    db_param_time_us(p, (to->now_s + 1) * 1000000);
    db_param_time_us(p, to->opened_at_s * 1000000);
    db_param_fence(p);
}

static enum store_result copy_refreshed(pj_arena_t *arena,
                                        const struct db_rows *rows, bool list,
                                        struct session_view *out)
{
    if (db_row_count(rows) == 0) {
        return STORE_NONE;
    }
    out->rotated = db_bool(rows, 0, ROTATED);
    copy_session(rows, &out->session);
    if (copy_scope(arena, rows, out) &&
        copy_branches(arena, rows, list, out)) {
        return STORE_OK;
    }
    /* What was done can no longer be told. */
    return out->rotated ? STORE_UNKNOWN : STORE_UNAVAILABLE;
}

enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out)
{
    unsigned char jti[UUID_BYTES];
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    bind_rotation(&p, to);
    if (p.bad_uuid || !uuid_read(jti, to->jti)) {
        /* Some id is none, or a jti not as we write it and so not the
         * session's: there is nothing to rotate. */
        return store_session_read(st, arena, to->session_id, NULL, list,
                                  meanwhile, out);
    }
    memset(out, 0, sizeof(*out));
    db_uuid_text((const unsigned char *) p.values[0], out->session.session_id);
    result = store_run_meanwhile(st, &session_refresh_sql[to->remember], &p,
                                 meanwhile, &rows);
    if (result == STORE_OK) {
        result = copy_refreshed(arena, rows, list, out);
    }
    db_rows_free(rows);
    if (result == STORE_OK && !out->rotated && look_everywhere(out)) {
        return store_session_read(st, arena, to->session_id, NULL, list, NULL,
                                  out);
    }
    return result;
}
