/* Reading sessions and the branches that can be selected in them. */

#include "store/store_session_read.h"

#include "base/uuid.h"

#include <string.h>

static const struct db_statement choices_sql = {
    "choices",
    "SELECT " STORE_BRANCH_COLUMNS(
        "count(*) OVER () = 1") "  FROM selectable_branches t WHERE "
                                "t.account_id = $1",
    false};

enum store_result store_choices(struct store *st, pj_arena_t *arena,
                                const char *account_id,
                                struct session_view *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    memset(out, 0, sizeof(*out));
    store_param_uuid(&p, account_id);
    result = store_run(st, &choices_sql, &p, NULL, &rows);
    if (result == STORE_OK && !store_copy_branches(arena, rows, false, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement session_read_sql = {
    "session_read",
    STORE_SESSION STORE_SELECTABLE("coalesce($2, s.active_branch_id)",
                                   "$3 OR ") STORE_SESSION_ROWS("", ""),
    false};

enum {
    ACCOUNT_ID = STORE_BRANCH_COLS,
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

_Static_assert(CLOCK_VALID_AFTER + 1 == STORE_COL_MORE,
               "the columns end there");

enum store_result store_session_read_copy(enum store_result result,
                                          const struct db_params *p,
                                          const struct db_rows *rows,
                                          pj_arena_t *arena, bool list,
                                          struct session_view *out)
{
    struct session *s = &out->session;

    memset(out, 0, sizeof(*out));
    uuid_write(s->session_id, (const unsigned char *) p->values[0]);
    if (result != STORE_OK) {
        return result;
    }
    if (db_row_count(rows) == 0) {
        return STORE_NONE;
    }
    db_uuid(rows, 0, ACCOUNT_ID, s->account_id);
    store_copy_text(rows, 0, ACCOUNT_TYPE, s->account_type,
                    sizeof(s->account_type));
    s->account_enabled = db_bool(rows, 0, ACCOUNT_ENABLED);
    s->active = db_bool(rows, 0, ACTIVE);
    db_uuid(rows, 0, JTI, s->jti);
    db_uuid(rows, 0, WORKSPACE_ID, s->workspace_id);
    db_uuid(rows, 0, MEMBER_ID, s->member_id);
    db_uuid(rows, 0, ACTIVE_BRANCH_ID, s->active_branch_id);
    s->created_at_s = db_time_us(rows, 0, CREATED_AT) / 1000000;
    s->expires_at_s = db_time_us(rows, 0, EXPIRES_AT) / 1000000;
    store_copy_clock(rows, CLOCK_NOW, &s->clock);
    return store_copy_branches(arena, rows, list, out) ? STORE_OK
                                                       : STORE_UNAVAILABLE;
}

bool store_session_read_again(const struct session_view *view)
{
    return !view->selectable && view->session.workspace_id[0] != '\0';
}

/* A malformed branch id becomes the nil UUID, which no branch has. */
static void bind_branch(struct db_params *p, const pj_str_t *branch_id)
{
    if (branch_id == NULL) {
        db_param_uuid_or_null(p, NULL);
        return;
    }
    db_param_uuid(p, (const char *) branch_id->data, branch_id->len);
    if (p->bad_uuid) {
        p->bad_uuid = false;
        p->count--;
        store_param_uuid(p, "00000000-0000-0000-0000-000000000000");
    }
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_uuid(&p, (const char *) session_id.data, session_id.len);
    if (p.bad_uuid) {
        memset(out, 0, sizeof(*out));
        return STORE_NONE;
    }
    bind_branch(&p, branch_id);
    db_param_bool(&p, false);
    result = store_run(st, &session_read_sql, &p, meanwhile, &rows);
    result = store_session_read_copy(result, &p, rows, arena, list, out);
    db_rows_free(rows);
    if (result == STORE_OK && store_session_read_again(out)) {
        p.count--;
        db_param_bool(&p, true);
        result = store_run(st, &session_read_sql, &p, NULL, &rows);
        result = store_session_read_copy(result, &p, rows, arena, list, out);
        db_rows_free(rows);
    }
    return result;
}
