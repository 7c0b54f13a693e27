/* Threads of low priority for long computations. */

#ifndef HASHER_H_INCLUDED
#define HASHER_H_INCLUDED

#include <stdbool.h>

/*
 * Starts so many threads that give way to others on a busy machine: a
 * computation of tens of milliseconds must not hold up an answer of one.
 * Before serving; false when they cannot be made.
 */
bool hasher_start(int threads) __attribute__((warn_unused_result));

/*
 * Has fn(arg) called by one of them and waits for its return.  Where none were
 * started it is called right here.
 */
void hasher_run(void (*fn)(void *arg), void *arg);

/* Ends the threads; nobody may be in hasher_run() any more. */
void hasher_stop(void);

#endif
