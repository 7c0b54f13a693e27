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
 * Prepares libsodium, the slots and the dummy hash that unknown accounts are
 * verified against.  Once, before threads start.
 */
bool password_setup(const struct config *cfg)
    __attribute__((warn_unused_result));

/* Changes the longest wait for a slot from PASSWORD_WAIT_MS; for tests. */
void password_set_wait(int64_t wait_ms);

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
 * and waiting threads together are at most half of the workers; one more, or
 * one that has waited PASSWORD_WAIT_MS or until deadline_ms of CLOCK_MONOTONIC
 * (0: none), is told PASSWORD_BUSY; so is one for which there is no memory.
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

/* What the gate of password_verify() and password_hash() is doing. */
struct password_use {
    int slots;   /* computations at once, at most */
    int running; /* now */
    int waiting; /* for a slot */
};

void password_use(struct password_use *use);

/* Hashes made or verified since the start. */
uint64_t password_count(void);

#endif
