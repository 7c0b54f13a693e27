/* Runs statements and copies rows into structs in the request's arena. */

#include "store/sql.h"

#include "db/db_pool.h"
#include "db/db_script.h"

#include <stdlib.h>
#include <string.h>

bool sql_run(struct sql_query *q, struct store *st,
             const struct db_statement *sql, struct meanwhile *meanwhile)
{
    enum db_outcome outcome;

    q->result = STORE_NONE; /* a malformed UUID matches no row */
    if (!q->p.bad_uuid && st->script != NULL) {
        q->result = db_script_execute(st->script, sql, &q->p, &q->rows)
                        ? STORE_OK
                        : STORE_UNAVAILABLE;
    } else if (!q->p.bad_uuid) {
        outcome = db_pool_run(st->pool, sql, &q->p, st->deadline_ms, meanwhile,
                              &q->rows);
        st->locked = outcome == DB_LOCKED;
        q->result = outcome == DB_DONE ? STORE_OK
                    : outcome == DB_DOUBT && sql->kind == DB_WRITES
                        ? STORE_UNKNOWN
                        : STORE_UNAVAILABLE;
    }
    return q->result == STORE_OK;
}

bool sql_run_one(struct sql_query *q, struct store *st,
                 const struct db_statement *sql)
{
    if (sql_run(q, st, sql, NULL) && db_affected(q->rows) == 0) {
        q->result = STORE_NONE;
    }
    return q->result == STORE_OK;
}

bool sql_run_safe(struct sql_query *q, struct store *st,
                  const struct db_statement *sql)
{
    return sql_run(q, st, sql, NULL) ||
           (q->result == STORE_UNKNOWN && sql_run(q, st, sql, NULL));
}

enum store_result sql_end(struct sql_query *q)
{
    db_rows_free(q->rows);
    q->rows = NULL;
    return q->result;
}

enum store_result sql_execute(struct store *st, const struct db_statement *sql,
                              const struct db_value *values, size_t count)
{
    struct sql_query q = {0};

    db_params_add(&q.p, values, count);
    (void) sql_run_one(&q, st, sql);
    return sql_end(&q);
}

void sql_copy_text(const struct db_rows *rows, size_t row, int col, char *out,
                   size_t cap)
{
    size_t len;
    const char *text = db_text(rows, row, col, &len);

    if (len >= cap) {
        len = cap - 1;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

void sql_copy_clock(const struct db_rows *rows, int col,
                    struct store_clock *out)
{
    out->now_us = db_time_us(rows, 0, col);
    out->valid_after_us = db_time_us(rows, 0, col + 1);
}

void sql_copy_account(const struct db_rows *rows, int hash, int clock,
                      struct account *out)
{
    db_uuid(rows, 0, 0, out->account_id);
    sql_copy_text(rows, 0, 1, out->account_type, sizeof(out->account_type));
    out->enabled = db_bool(rows, 0, 2);
    sql_copy_text(rows, 0, hash, out->credential_hash,
                  sizeof(out->credential_hash));
    sql_copy_clock(rows, clock, &out->clock);
}

char *sql_copy_string(pj_arena_t *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = pj_arena_alloc(arena, size);

    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

bool sql_copy_bytes(pj_arena_t *arena, const struct db_rows *rows, size_t row,
                    int col, pj_str_t *out)
{
    size_t len;
    const char *bytes = db_text(rows, row, col, &len);
    unsigned char *copy = pj_arena_alloc(arena, len + 1);

    if (copy == NULL) {
        return false;
    }
    memcpy(copy, bytes, len);
    *out = (pj_str_t){copy, len};
    return true;
}

/* -- the scope -- */

static bool copy_roles(pj_arena_t *arena, const struct db_rows *rows,
                       size_t row, struct scope *out)
{
    size_t len;
    const char *text = db_text(rows, row, SQL_COL_ROLES, &len);
    char *rest = sql_copy_string(arena, text);
    const char **roles = pj_arena_alloc(arena, (len / 2 + 1) * sizeof(*roles));

    if (rest == NULL || roles == NULL) {
        return false;
    }
    out->roles = roles;
    while (len > 0 && rest != NULL) {
        roles[out->role_count++] = strsep(&rest, ",");
    }
    return true;
}

/* Fills the scope from the row of the requested branch, if it exists and the
 * session has its workspace or none. */
static bool copy_scope(pj_arena_t *arena, const struct db_rows *rows,
                       struct session_view *out)
{
    const char *bound = out->session.workspace_id;
    char *ids[4]; /* the first four columns */
    size_t row = 0;

    while (row < db_row_count(rows) && db_is_null(rows, row, SQL_COL_ROLES)) {
        row++;
    }
    if (row == db_row_count(rows)) {
        return true;
    }
    for (int i = 0; i < 4; i++) {
        ids[i] = pj_arena_alloc(arena, STORE_UUID);
        if (ids[i] == NULL) {
            return false;
        }
        db_uuid(rows, row, SQL_COL_WORKSPACE_ID + i, ids[i]);
    }
    if (bound[0] != '\0' && strcmp(bound, ids[0]) != 0) {
        return true;
    }
    out->selectable = true;
    out->scope = (struct scope){.workspace_id = ids[0],
                                .tenant_id = ids[1],
                                .member_id = ids[2],
                                .active_branch_id = ids[3]};
    return copy_roles(arena, rows, row, &out->scope);
}

/* -- branches -- */

/* Reads all branches, or the branches of workspace if it is not NULL.  The
 * names still point into rows. */
static bool read_branches(pj_arena_t *arena, const struct db_rows *rows,
                          const char *within, struct branch *items, size_t *n)
{
    for (size_t i = 0; i < db_row_count(rows); i++) {
        char branch[STORE_UUID], workspace[STORE_UUID];
        struct branch *b = &items[*n];

        db_uuid(rows, i, SQL_COL_BRANCH_ID, branch);
        db_uuid(rows, i, SQL_COL_WORKSPACE_ID, workspace);
        if (branch[0] == '\0' ||
            (within != NULL && strcmp(workspace, within) != 0)) {
            continue;
        }
        b->branch_id = sql_copy_string(arena, branch);
        b->branch_name = db_text(rows, i, SQL_COL_BRANCH_NAME, NULL);
        b->workspace_id =
            within != NULL ? within : sql_copy_string(arena, workspace);
        b->workspace_name = db_text(rows, i, SQL_COL_WORKSPACE_NAME, NULL);
        if (b->branch_id == NULL || b->workspace_id == NULL) {
            return false;
        }
        ++*n;
    }
    return true;
}

/* strcmp() is independent of the locale, and the texts of UUIDs sort like their
 * bytes. */
static int compare(const void *one, const void *other)
{
    const struct branch *a = one, *b = other;
    int order = strcmp(a->workspace_name, b->workspace_name);

    if (order == 0) {
        order = strcmp(a->branch_name, b->branch_name);
    }
    return order != 0 ? order : strcmp(a->branch_id, b->branch_id);
}

void sql_sort_branches(struct branch *items, size_t count)
{
    qsort(items, count, sizeof(*items), compare);
}

bool sql_copy_branches(pj_arena_t *arena, const struct db_rows *rows, bool list,
                       struct session_view *out)
{
    size_t rows_count = db_row_count(rows) + 1, n = 0;
    struct branch *items = pj_arena_alloc(arena, rows_count * sizeof(*items));
    const char **ids = pj_arena_alloc(arena, rows_count * sizeof(*ids));

    if (items == NULL || ids == NULL || !copy_scope(arena, rows, out) ||
        !read_branches(arena, rows,
                       out->selectable ? out->scope.workspace_id : NULL, items,
                       &n)) {
        return false;
    }
    sql_sort_branches(items, n);
    if (out->selectable) {
        for (size_t i = 0; i < n; i++) {
            ids[i] = items[i].branch_id;
        }
        out->scope.branch_ids = ids;
        out->scope.branch_id_count = n;
    }
    if (out->selectable && !list) {
        return true;
    }
    out->branches = (struct branch_list){items, n};
    for (size_t i = 0; i < n; i++) {
        struct branch *b = &items[i];

        b->branch_name = sql_copy_string(arena, b->branch_name);
        b->workspace_name = sql_copy_string(arena, b->workspace_name);
        if (b->branch_name == NULL || b->workspace_name == NULL) {
            return false;
        }
    }
    return true;
}
