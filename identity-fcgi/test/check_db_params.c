/* Parameters of a statement, as many as there are, and more. */

#include "db/db.h"
#include "testing.h"

#include <string.h>

#define ID "11111111-1111-4111-8111-111111111111"

/* A parameter of each kind. */
static void add(struct db_params *p, int i)
{
    const struct db_value values[] = {DB_ID(ID), DB_INT(i), DB_BOOL(true),
                                      DB_FENCE, DB_TEXT(ID)};

    db_params_add(p, &values[i % 5], 1);
}

TEST (test_no_more_than_there_is_room_for) {
    struct {
        struct db_params p;
        unsigned char after[512];
    } all = {.p = {.count = 0}};
    static const unsigned char untouched[sizeof(all.after)];

    for (int i = 0; i < DB_MAX_PARAMS; i++) {
        add(&all.p, i);
        ck_assert_uint_eq(all.p.count, (size_t) i + 1);
    }
    for (int i = 0; i < 3 * DB_MAX_PARAMS; i++) {
        struct db_params before = all.p;

        add(&all.p, i);
        ck_assert_uint_eq(all.p.count, DB_MAX_PARAMS);
        ck_assert_uint_lt(all.p.fence, DB_PARAM_PLACES);
        ck_assert(memcmp(all.p.values, before.values,
                         DB_MAX_PARAMS * sizeof(before.values[0])) == 0);
        ck_assert(memcmp(all.p.scratch, before.scratch,
                         DB_MAX_PARAMS * sizeof(before.scratch[0])) == 0);
    }
    ck_assert(!all.p.bad_uuid);
    ck_assert(memcmp(all.after, untouched, sizeof(untouched)) == 0);
}

int main(void)
{
    return run_case("db_params", NULL);
}
