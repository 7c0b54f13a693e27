/* Branches that come a row each, in no order. */

#include "store/store_sql.h"

#include <stdlib.h>
#include <string.h>

/*
 * The text of a row's UUID.  Neighbours are often of one workspace, so the
 * text of the row before is given again where it is the same.
 */
static const char *row_uuid(pj_arena_t *arena, const struct db_rows *rows,
                            size_t row, int col, const char *before)
{
    size_t len, len_before;
    const char *data = db_text(rows, row, col, &len);

    if (before != NULL) {
        const char *other = db_text(rows, row - 1, col, &len_before);

        if (len == len_before && memcmp(data, other, len) == 0) {
            return before;
        }
    }
    return store_arena_uuid(arena, (const unsigned char *) data, len);
}

bool store_row_branches(pj_arena_t *arena, const struct db_rows *rows,
                        const int cols[4], const char *within,
                        struct branch **items, size_t *count)
{
    const char *workspace_id = NULL;
    size_t n = 0;

    *items = pj_arena_alloc(arena, (db_row_count(rows) + 1) * sizeof(**items));
    if (*items == NULL) {
        return false;
    }
    for (size_t i = 0; i < db_row_count(rows); i++) {
        struct branch *b = &(*items)[n];

        if (db_is_null(rows, i, cols[0])) {
            continue; /* the row of a session without any */
        }
        workspace_id = row_uuid(arena, rows, i, cols[2], workspace_id);
        if (workspace_id == NULL) {
            return false;
        }
        if (within != NULL && strcmp(workspace_id, within) != 0) {
            continue;
        }
        b->branch_id = row_uuid(arena, rows, i, cols[0], NULL);
        if (b->branch_id == NULL) {
            return false;
        }
        b->branch_name = db_text(rows, i, cols[1], NULL);
        b->workspace_id = workspace_id;
        b->workspace_name = db_text(rows, i, cols[3], NULL);
        n++;
    }
    *count = n;
    return true;
}

static const char *keep(pj_arena_t *arena, const char *text)
{
    return store_arena_text(arena, (const unsigned char *) text, strlen(text));
}

bool store_keep_names(pj_arena_t *arena, struct branch *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        items[i].branch_name = keep(arena, items[i].branch_name);
        if (i > 0 && items[i].workspace_id == items[i - 1].workspace_id) {
            items[i].workspace_name = items[i - 1].workspace_name;
        } else {
            items[i].workspace_name = keep(arena, items[i].workspace_name);
        }
        if (items[i].branch_name == NULL || items[i].workspace_name == NULL) {
            return false;
        }
    }
    return true;
}

/* No locale has a say in strcmp(), and the text of UUIDs is in the order of
 * their bytes. */
static int compare(const void *one, const void *other)
{
    const struct branch *a = one, *b = other;
    int order = strcmp(a->workspace_name, b->workspace_name);

    if (order == 0) {
        order = strcmp(a->branch_name, b->branch_name);
    }
    return order != 0 ? order : strcmp(a->branch_id, b->branch_id);
}

void store_sort_branches(struct branch *items, size_t count)
{
    qsort(items, count, sizeof(*items), compare);
}

bool store_branch_ids(pj_arena_t *arena, const struct branch *items,
                      size_t count, const char *const **out)
{
    const char **ids = pj_arena_alloc(arena, (count + 1) * sizeof(*ids));

    if (ids == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ids[i] = items[i].branch_id;
    }
    *out = ids;
    return true;
}
