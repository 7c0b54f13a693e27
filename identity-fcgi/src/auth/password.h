/* Argon2id credentials (libsodium), with bounded concurrency. */

#ifndef PASSWORD_H_INCLUDED
#define PASSWORD_H_INCLUDED

#include "base/config.h"

#include <pj.h>
#include <stdbool.h>
#include <stdint.h>

#define PASSWORD_PHC_MAX 128  /* libsodium's crypto_pwhash_STRBYTES */
#define PASSWORD_WAIT_MS 2000 /* longest wait for a slot */
#define PASSWORD_NO_WAIT 1 /* a deadline that is over: a free slot or none */
#define PASSWORD_MOST_MEMORY_KIB (256 * 1024)
#define PASSWORD_MOST_ITERATIONS 10

/*
 * Prepares libsodium and the dummy hash that unknown accounts are verified
 * against.  Once, before threads start.
 */
bool password_setup(const struct config *cfg)
    __attribute__((warn_unused_result));

/*
 * Starts threads for hashes and for the signatures of logins, after which a
 * computation waits for wait_ms at most; without them it is made in the
 * caller's thread.  False when they cannot be made.
 */
bool password_start(const struct config *cfg, int64_t wait_ms)
    __attribute__((warn_unused_result));

enum password_result {
    PASSWORD_OK,
    PASSWORD_WRONG,
    PASSWORD_UNUSABLE, /* nobody can log in with what is stored */
    PASSWORD_BUSY      /* not decided */
};

/*
 * Verifies credential against phc, or against the dummy hash when phc is NULL
 * (PASSWORD_WRONG), or malformed or dearer than PASSWORD_MOST_*
 * (PASSWORD_UNUSABLE), at the cost of one hash of today's parameters.  Hashing
 * and waiting callers together are at most half of the workers; one more, or
 * one that has waited too long or until deadline_ms of CLOCK_MONOTONIC (0:
 * none), is told PASSWORD_BUSY; so is one for which there is no memory.
 */
enum password_result password_verify(const char *phc, pj_str_t credential,
                                     int64_t deadline_ms)
    __attribute__((warn_unused_result));

/* Whether phc was made with weaker parameters than today's. */
bool password_needs_rehash(const char *phc);

/* Hashes credential into out; false where password_verify() would say
 * PASSWORD_BUSY. */
bool password_hash(pj_str_t credential, int64_t deadline_ms,
                   char out[PASSWORD_PHC_MAX])
    __attribute__((warn_unused_result));

/* -- hasher.c: threads of low priority for long computations -- */

/* A login whose credential was right does not wait for others' hashes: each
 * kind of computation has threads of its own. */
enum hasher_lane { HASHER_HASH, HASHER_SIGN, HASHER_LANES };

/*
 * Starts the threads of a lane, which give way to others on a busy machine: a
 * computation of tens of milliseconds must not hold up an answer of one.  No
 * more than places callers compute or wait at once.  Before serving; false
 * when they cannot be made.
 */
bool hasher_start(enum hasher_lane lane, int threads, int places)
    __attribute__((warn_unused_result));

/*
 * Has fn(arg) called by one of them and waits for its return.  Those who wait
 * for a thread get one in the order in which they came.  False, and fn is not
 * called, when there is no place, or no thread before until_ms of
 * CLOCK_MONOTONIC; in the past, that means one which is free.  Where no
 * threads were started fn is called right here.
 */
bool hasher_run(enum hasher_lane lane, int64_t until_ms, void (*fn)(void *arg),
                void *arg) __attribute__((warn_unused_result));

struct hasher_use {
    int threads;
    int running; /* computations now */
    int waiting; /* for a thread */
};

struct hasher_use hasher_use(enum hasher_lane lane);

/* Ends all threads; nobody may be in hasher_run() any more. */
void hasher_stop(void);

#endif
