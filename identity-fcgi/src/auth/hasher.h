/* Threads of low priority for long computations. */

#pragma once

#include <pj.h>

/* Hashing and signing have separate threads, so a login with a correct
 * credential does not wait for the hashes of others. */
enum hasher_lane { HASHER_HASH, HASHER_SIGN, HASHER_LANES };

/* Starts the threads of a lane.  Call before serving.  They have low priority,
 * so that a computation of tens of milliseconds does not delay an answer that
 * takes one.  places is the maximum number of callers that compute or wait. */
PJ_MUST_CHECK bool hasher_start(enum hasher_lane lane, int threads, int places);

/* Runs fn(arg) in a thread of the lane, in the order of calls, and waits for
 * it.  False without running it if all places are taken, or no thread becomes
 * free before until_ms of CLOCK_MONOTONIC.  If no threads were started, runs
 * fn(arg) in the caller. */
PJ_MUST_CHECK bool hasher_run(enum hasher_lane lane, int64_t until_ms,
                              void (*fn)(void *arg), void *arg);

struct hasher_use {
    int threads;
    int running; /* current computations */
    int waiting; /* callers waiting for a thread */
    int places;  /* free places */
};

struct hasher_use hasher_use(enum hasher_lane lane);

/* Ends all threads.  No hasher_run() may be in progress. */
void hasher_stop(void);
