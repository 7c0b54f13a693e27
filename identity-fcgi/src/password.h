/* Argon2id credentials (libsodium), with bounded concurrency. */

#ifndef PASSWORD_H_INCLUDED
#define PASSWORD_H_INCLUDED

#include "config.h"

#include <pj.h>
#include <stdbool.h>

#define PASSWORD_PHC_MAX 128 /* libsodium's crypto_pwhash_STRBYTES */

/*
 * Prepares libsodium, the slots and the dummy hash that unknown accounts are
 * verified against.  Once, before threads start.
 */
bool password_setup(const struct config *cfg)
    __attribute__((warn_unused_result));

enum password_result { PASSWORD_OK, PASSWORD_WRONG, PASSWORD_BUSY };

/*
 * Verifies credential against phc, or against the dummy hash when phc is
 * NULL (the answer is then PASSWORD_WRONG, at the same cost).  Waits for a
 * slot for at most 2 s, then PASSWORD_BUSY.
 */
enum password_result password_verify(const char *phc, pj_str_t credential)
    __attribute__((warn_unused_result));

/* Whether phc was made with weaker parameters than today's. */
bool password_needs_rehash(const char *phc);

/* Hashes credential into out; false on failure or when all slots stay busy. */
bool password_hash(pj_str_t credential, char out[PASSWORD_PHC_MAX])
    __attribute__((warn_unused_result));

#endif
