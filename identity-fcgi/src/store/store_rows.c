/* Rows into domain structs, in the arena of the request. */

#include "store/store_sql.h"

#include <string.h>

void store_copy_text(const struct db_rows *rows, size_t row, int col,
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

const char *store_arena_text(pj_arena_t *arena, const unsigned char *data,
                             size_t len)
{
    char *copy = pj_arena_alloc(arena, len + 1);

    if (copy != NULL) {
        memcpy(copy, data, len);
        copy[len] = '\0';
    }
    return copy;
}

const char *store_arena_uuid(pj_arena_t *arena, const unsigned char *data,
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

/* Reads four array columns as a list of branches. */
bool store_copy_branches(pj_arena_t *arena, const struct db_rows *rows,
                         size_t row, const int cols[4],
                         struct branch_list *out)
{
    static const element_fn elements[] = {store_arena_uuid, store_arena_text,
                                          store_arena_uuid, store_arena_text};
    const char *const *columns[4];
    struct branch *items;
    size_t n = 0;

    for (int i = 0; i < 4; i++) {
        size_t count;

        if (!copy_array(arena, rows, row, cols[i], elements[i], &columns[i],
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

bool store_copy_uuids(pj_arena_t *arena, const struct db_rows *rows,
                      size_t row, int col, const char *const **out,
                      size_t *count)
{
    return copy_array(arena, rows, row, col, store_arena_uuid, out, count);
}

/* Reads workspace, tenant, member, branch and roles from col on. */
bool store_copy_scope(pj_arena_t *arena, const struct db_rows *rows,
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
    return copy_array(arena, rows, row, col + 4, store_arena_text, &out->roles,
                      &out->role_count);
}
