/* Deletes expired and ended rows. */

#pragma once

#include "base/config.h"

/* Retention of ended sessions, for investigations. */
#define SWEEP_KEEP_S (7 * 86400)

/* The kinds of rows, in the order of deletion. */
#define SWEEP_KINDS 4
extern const char *const sweep_names[SWEEP_KINDS]; /* names of their counts */

enum sweep_result {
    SWEEP_DONE,
    SWEEP_STOPPED, /* by sweep_stop() */
    SWEEP_BUSY,    /* another process is sweeping; nothing was done */
    SWEEP_FAILED   /* *e has one line, counts is what was deleted */
};

/* Sweeps all tables; deletes sessions that ended more than keep_s ago.  Uses
 * separate connections.  Only one process sweeps at a time. */
enum sweep_result sweep_run(const struct config *cfg, int64_t keep_s,
                            int64_t counts[SWEEP_KINDS], struct error *e);

/* Number of revocations at this process's last sweep, -1 before the first. */
extern _Atomic int64_t sweep_revocations;

/* Returns the range of blocks to sweep at cursor, any number.  For the test. */
void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count);

/* Starts a thread that warns if the database may lose commits and then, unless
 * sweep_interval_s is 0, sweeps a part of the tables at that interval.  cfg
 * must outlive the thread.  On failure logs a line and returns NULL. */
struct sweeper *sweep_start(const struct config *cfg);

/* Makes the thread stop after the current batch.  Does not wait.  s may be
 * NULL. */
void sweep_stop(struct sweeper *s);

/* Stops the thread, waits for its end and frees s.  False if that takes more
 * than wait_ms because the database hangs; then the process must end by
 * _exit(). */
PJ_MUST_CHECK bool sweep_join(struct sweeper *s, int wait_ms);
