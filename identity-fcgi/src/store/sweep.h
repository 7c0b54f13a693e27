/* The background sweep of a serving process. */

#ifndef SWEEP_H_INCLUDED
#define SWEEP_H_INCLUDED

#include "base/config.h"

#include <stdbool.h>

/*
 * Starts a thread that first looks whether the database may lose commits and
 * then, unless that is 0, sweeps every sweep_interval_s.  NULL where no thread
 * could be made (a log line says so).  cfg must outlive it.
 */
struct sweeper *sweep_start(const struct config *cfg);

/* Tells it to stop after the batch in hand; returns at once.  NULL allowed. */
void sweep_stop(struct sweeper *s);

/*
 * Waits for the thread to end and frees s; false when it did not within
 * wait_ms (its database hangs): the process has to end by _exit() then.
 */
bool sweep_join(struct sweeper *s, int wait_ms)
    __attribute__((warn_unused_result));

#endif
