/* Deleting what nobody needs any more, in small batches. */

#ifndef STORE_SWEEP_H_INCLUDED
#define STORE_SWEEP_H_INCLUDED

#include "base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long ended sessions are kept, for those who ask what happened. */
#define SWEEP_KEEP_S (7 * 86400)

struct sweep_plan {
    int64_t keep_s; /* sessions that ended longer ago go */
    /*
     * NULL: look at the whole table of sessions.  Else at a part of it that
     * begins at block *cursor (wherever that is: it is taken modulo the
     * table's size), which is moved on.
     */
    uint64_t *cursor;
    /* Asked between batches, and may take its time; false: stop. */
    bool (*go_on)(void *arg);
    void *arg;
};

struct sweep_counts {
    int64_t sessions;
    int64_t attempts;
    int64_t rotated_tokens;
};

enum sweep_result {
    SWEEP_DONE,
    SWEEP_STOPPED, /* go_on said so */
    SWEEP_BUSY,    /* another process is at it; nothing was done */
    SWEEP_FAILED   /* one line is in err; counts is what was done */
};

/*
 * Sweeps over connections of its own, so that no request waits for one, under
 * an advisory lock that only one process of all has.
 */
enum sweep_result store_sweep(const struct config *cfg,
                              const struct sweep_plan *plan,
                              struct sweep_counts *counts, char *err,
                              size_t err_cap);

/* Which blocks a part is: from *first on, *count of them, without wrapping.
 * Pure; for the above and its test. */
void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count);

#endif
