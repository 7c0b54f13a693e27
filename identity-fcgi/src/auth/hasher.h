/* Threads of low priority for long computations. */

#pragma once

#include <pj.h>

/* A login whose credential was right does not wait for others' hashes: each
 * kind of computation has threads of its own. */
enum hasher_lane { HASHER_HASH, HASHER_SIGN, HASHER_LANES };

/* Starts the threads of a lane, before serving; false when that fails.  They
 * give way to others: a computation of tens of milliseconds must not hold up
 * an answer of one.  At most places callers compute or wait at once. */
PJ_MUST_CHECK bool hasher_start(enum hasher_lane lane, int threads, int places);

/* Has fn(arg) called by one of them, first come first served, and waits for
 * its return.  False, and fn is not called, when there is no place, or no
 * thread before until_ms of CLOCK_MONOTONIC (in the past: none is free).  Where
 * no threads were started fn is called right here. */
PJ_MUST_CHECK bool hasher_run(enum hasher_lane lane, int64_t until_ms,
                              void (*fn)(void *arg), void *arg);

struct hasher_use {
    int threads;
    int running; /* computations now */
    int waiting; /* for a thread */
    int places;  /* free, for callers */
};

struct hasher_use hasher_use(enum hasher_lane lane);

/* Ends all threads; nobody may be in hasher_run() any more. */
void hasher_stop(void);
