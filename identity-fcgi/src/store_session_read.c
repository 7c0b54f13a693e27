/* What is read of sessions, and of what can be selected in them. */

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

/* What both ways of reading a session begin with. */
#define SESSION_COLUMNS                                                       \
    "SELECT s.session_id, s.account_id, a.account_type,"                      \
    "       a.status = 'ACTIVE', s.status = 'ACTIVE', s.jti,"                 \
    "       s.workspace_id, s.member_id, s.active_branch_id,"                 \
    "       s.created_at, s.expires_at, clock_timestamp(),"

/*
 * For a session as it is: one look at what is selectable serves both the
 * session's own branch and the list.  Only where a session has a branch that
 * is not selectable any more the list is too short; then the other statement
 * reads everything once more.
 */
static const struct db_statement session_read_own_sql = {
    "session_read_own",
    SESSION_COLUMNS
    "       list.own_workspace_id, list.tenant_id, list.member_id,"
    "       list.branch_id, list.branch_ids,"
    "       ARRAY(SELECT r.role_code FROM member_roles r"
    "              WHERE r.member_id = list.member_id"
    "                AND r.branch_id = list.branch_id"
    "              ORDER BY r.role_code),"
    "       list.branch_names, list.workspace_ids, list.workspace_names"
    "  FROM auth_sessions s"
    "  JOIN accounts a ON a.account_id = s.account_id"
    " CROSS JOIN LATERAL ("
    "    SELECT (array_agg(workspace_id) FILTER (WHERE own))[1]"
    "             AS own_workspace_id,"
    "           (array_agg(tenant_id) FILTER (WHERE own))[1] AS tenant_id,"
    "           (array_agg(member_id) FILTER (WHERE own))[1] AS member_id,"
    "           (array_agg(branch_id) FILTER (WHERE own))[1] AS branch_id,"
    "           array_agg(branch_id) AS branch_ids,"
    "           array_agg(branch_name) FILTER (WHERE wanted)"
    "             AS branch_names,"
    "           array_agg(workspace_id) FILTER (WHERE wanted)"
    "             AS workspace_ids,"
    "           array_agg(workspace_name) FILTER (WHERE wanted)"
    "             AS workspace_names"
    "      FROM (SELECT b.*, b.branch_id = s.active_branch_id AS own,"
    "                   $2 OR s.active_branch_id IS NULL AS wanted"
    "              FROM selectable_branches b"
    "             WHERE b.account_id = s.account_id"
    "               AND (s.workspace_id IS NULL"
    "                    OR b.workspace_id = s.workspace_id)" SORTED
    ") AS sorted) AS list"
    " WHERE s.session_id = $1",
    false};

/*
 * For a session and a branch: t is the branch asked about ($2, else the
 * session's own), if it is selectable and in the session's workspace.  The
 * list covers t's workspace, or all of them where there is no t; names are
 * left out when nobody wants them.
 */
static const struct db_statement session_read_sql = {
    "session_read",
    SESSION_COLUMNS
    "       t.workspace_id, t.tenant_id, t.member_id, t.branch_id,"
    "       list.branch_ids,"
    "       ARRAY(SELECT r.role_code FROM member_roles r"
    "              WHERE r.member_id = t.member_id"
    "                AND r.branch_id = t.branch_id"
    "              ORDER BY r.role_code),"
    "       list.branch_names, list.workspace_ids, list.workspace_names"
    "  FROM auth_sessions s"
    "  JOIN accounts a ON a.account_id = s.account_id"
    "  LEFT JOIN selectable_branches t"
    "    ON t.account_id = s.account_id"
    "   AND t.branch_id = coalesce($2, s.active_branch_id)"
    "   AND (s.workspace_id IS NULL"
    "        OR t.workspace_id = s.workspace_id)"
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
    s->created_at_s = db_time_us(rows, 0, 9) / 1000000;
    s->expires_at_s = db_time_us(rows, 0, 10) / 1000000;
}

static bool copy_view(pj_arena_t *arena, const struct db_rows *rows, bool list,
                      struct session_view *out)
{
    memset(out, 0, sizeof(*out));
    copy_session(rows, &out->session);
    out->selectable = !db_is_null(rows, 0, 12);
    if (out->selectable &&
        !store_copy_scope(arena, rows, 0, 12, &out->scope)) {
        return false;
    }
    if (!list && out->selectable) {
        return true;
    }
    return store_copy_branches(arena, rows, 0, (const int[]){16, 18, 19, 20},
                               &out->branches);
}

/* Whether the session's branch was withdrawn. */
static bool has_lost_its_branch(const struct db_rows *rows)
{
    return !db_is_null(rows, 0, 8) && db_is_null(rows, 0, 12);
}

static enum store_result read_own(struct store *st, pj_str_t session_id,
                                  bool list, struct meanwhile *meanwhile,
                                  struct db_rows **rows)
{
    struct db_params p = {0};
    enum store_result result;

    db_param_uuid(&p, (const char *) session_id.data, session_id.len);
    db_param_bool(&p, list);
    result =
        store_run_meanwhile(st, &session_read_own_sql, &p, meanwhile, rows);
    if (result == STORE_OK && db_row_count(*rows) == 0) {
        result = STORE_NONE;
    }
    return result;
}

/* branch_id NULL: none is asked about. */
static enum store_result read_with_branch(struct store *st,
                                          pj_str_t session_id,
                                          const pj_str_t *branch_id, bool list,
                                          struct db_rows **rows)
{
    /* Asked about by what is no UUID: no branch at all has the nil one. */
    static const char nil[] = "00000000-0000-0000-0000-000000000000";
    struct db_params p = {0};
    enum store_result result;

    db_param_uuid(&p, (const char *) session_id.data, session_id.len);
    if (p.bad_uuid) {
        *rows = NULL;
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
    result = store_run(st, &session_read_sql, &p, rows);
    if (result == STORE_OK && db_row_count(*rows) == 0) {
        result = STORE_NONE;
    }
    return result;
}

/* See store_session.c. */
static void set_fence(struct store *st, int64_t database_us)
{
    int64_t left_ms = st->default_timeout_ms;

    if (st->deadline_ms > 0) {
        left_ms = st->deadline_ms - db_now_ms();
    }
    st->fence_us = database_us + left_ms * 1000;
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    struct db_rows *rows = NULL;
    enum store_result result = STORE_NONE;

    if (branch_id == NULL) {
        result = read_own(st, session_id, list, meanwhile, &rows);
    }
    if (branch_id != NULL ||
        (result == STORE_OK && has_lost_its_branch(rows))) {
        db_rows_free(rows);
        result = read_with_branch(st, session_id, branch_id, list, &rows);
    }
    if (result == STORE_OK) {
        set_fence(st, db_time_us(rows, 0, 11));
        if (!copy_view(arena, rows, list, out)) {
            result = STORE_UNAVAILABLE;
        }
    }
    db_rows_free(rows);
    return result;
}
