/* Deletes what ended long ago. */

#pragma once

#include "base/config.h"

/* How long ended sessions are kept for inquiries. */
#define SWEEP_KEEP_S (7 * 86400)

/* What is deleted, in this order. */
#define SWEEP_KINDS 4
extern const char *const sweep_names[SWEEP_KINDS]; /* of their counts */

enum sweep_result {
    SWEEP_DONE,
    SWEEP_STOPPED, /* as the sweeper was told */
    SWEEP_BUSY,    /* another process is at it; nothing was done */
    SWEEP_FAILED   /* one line is in *e; counts is what was done */
};

/* Sweeps everything, sessions that ended over keep_s ago too, on connections of
 * its own, one process at a time. */
enum sweep_result sweep_run(const struct config *cfg, int64_t keep_s,
                            int64_t counts[SWEEP_KINDS], struct error *e);

/* How many revocations there were at this process's last sweep; -1 before. */
extern _Atomic int64_t sweep_revocations;

/* Which blocks of a table the part at cursor, any number, is.  For the test. */
void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count);

/* Starts a thread that looks whether the database may lose commits and then,
 * unless that is 0, sweeps a part every sweep_interval_s.  cfg must outlive it.
 * NULL, with a log line, where no thread could be made. */
struct sweeper *sweep_start(const struct config *cfg);

/* Tells it to stop after the batch in hand; returns at once.  NULL allowed. */
void sweep_stop(struct sweeper *s);

/* Stops it, waits for its end and frees s; false when that took over wait_ms
 * (its database hangs): the process has to end by _exit() then. */
PJ_MUST_CHECK bool sweep_join(struct sweeper *s, int wait_ms);
