/* What gateways have to refuse, for those who read on from where they were. */

#ifndef STORE_REVOCATIONS_H_INCLUDED
#define STORE_REVOCATIONS_H_INCLUDED

#include "store/model.h"

/*
 * What became known to the database after cursor ("": from the beginning), at
 * most STORE_MAX_LIST of it.  However late a transaction commits, none of its
 * revocations is missed.  STORE_NONE: the cursor is of another database, or
 * this one has crashed or lost its last transactions since.
 */
enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor,
                                    struct revocations *out);

#endif
