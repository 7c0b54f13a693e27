/* The order of branches that came in none. */

#include "store/sql.h"
#include "testing.h"

#include <stdio.h>

static void sorts_as(struct branch *items, size_t n, const char *const *ids)
{
    sql_sort_branches(items, n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(items[i].branch_id, ids[i]);
    }
}

TEST (test_workspace_comes_before_branch_before_id) {
    struct branch items[] = {
        {"6", "a", "w", "Second"}, {"3", "b", "w", "First"},
        {"2", "b", "w", "First"},  {"5", "c", "w", "First"},
        {"1", "a", "w", "First"},  {"4", "b", "v", "First"},
    };

    sorts_as(items, 6, (const char *[]){"1", "2", "3", "4", "5", "6"});
}

/* Not as a locale would have it, nor with bytes over 0x7f as negative ones. */
TEST (test_names_are_compared_by_their_bytes) {
    struct branch items[] = {
        {"8", "\xff", "w", "W"},         {"7", "\xc3\xa4", "w", "W"},
        {"6", "\xc3\x84rger", "w", "W"}, {"5", "a", "w", "W"},
        {"3", "Zoo", "w", "W"},          {"2", "Z", "w", "W"},
        {"1", " z", "w", "W"},           {"4", "_", "w", "W"},
        {"9", "a", "w", "\xc2\xa0"},
    };

    sorts_as(items, 9,
             (const char *[]){"1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

TEST (test_none_one_and_many) {
    static struct branch many[STORE_MAX_LIST];
    static char ids[STORE_MAX_LIST][8];
    struct branch one = {"1", "b", "w", "W"};

    sql_sort_branches(&one, 0);
    sql_sort_branches(&one, 1);
    ck_assert_str_eq(one.branch_id, "1");
    for (int i = 0; i < STORE_MAX_LIST; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%06d", STORE_MAX_LIST - 1 - i);
        many[i] = (struct branch){ids[i], "same", "w", "same"};
    }
    sql_sort_branches(many, STORE_MAX_LIST);
    for (int i = 0; i < STORE_MAX_LIST; i++) {
        ck_assert_str_eq(many[i].branch_id, ids[STORE_MAX_LIST - 1 - i]);
    }
}

int main(void)
{
    return run_case("store_branches", NULL);
}
