/* Credentials: Argon2id (libsodium) and what was brought along, with bounded
 * concurrency; what may become one. */

#pragma once

#include "base/config.h"

#include <pj.h>

#define PASSWORD_PHC_MAX 128    /* libsodium's crypto_pwhash_STRBYTES */
#define PASSWORD_STORED_MAX 256 /* of any form */
#define PASSWORD_WAIT_MS 2000   /* longest wait for a slot */
#define PASSWORD_MOST_MEMORY_KIB (256 * 1024)
#define PASSWORD_MOST_ITERATIONS 10

/* Whether a login may begin.  Where none could be hashed now, one is refused
 * before it costs the database anything: that is for refreshes. */
bool password_has_room(void);

/* Before threads start: libsodium, and the hash of what nobody knows. */
PJ_MUST_CHECK bool password_setup(const struct config *cfg);

/* Starts threads for hashes and the signatures of logins, for which a caller
 * waits wait_ms at most; without them he computes himself. */
PJ_MUST_CHECK bool password_start(const struct config *cfg, int64_t wait_ms);

enum password_result {
    PASSWORD_OK,
    PASSWORD_WRONG,
    PASSWORD_UNUSABLE, /* nobody can log in with what is stored */
    PASSWORD_BUSY      /* not decided */
};

/* Verifies credential against what is stored, or against what nobody knows
 * when that is NULL (PASSWORD_WRONG), or malformed or dearer than
 * PASSWORD_MOST_* (PASSWORD_UNUSABLE).  If text is not of today's parameters, a
 * hash with them is made too, whatever the verdict; with PASSWORD_OK fresh is
 * that, else "".  PASSWORD_BUSY: half of the workers hash or wait already, it
 * took too long or until deadline_ms of CLOCK_MONOTONIC (0: none), or there is
 * no memory. */
PJ_MUST_CHECK enum password_result
password_verify(const char *text, pj_str_t credential, int64_t deadline_ms,
                char fresh[PASSWORD_PHC_MAX]);

/* A hash of what nobody knows; password_setup() made it. */
const char *password_nobody(void);

/* Hashes credential into out; false where password_verify() is BUSY. */
PJ_MUST_CHECK bool password_hash(pj_str_t credential, int64_t deadline_ms,
                                 char out[PASSWORD_PHC_MAX]);

/* -- what is stored, and what it takes -- */

#define STORED_PART_MAX 96 /* bytes of salt and of hash */

struct stored {
    enum stored_form {
        STORED_ARGON2ID,
        STORED_ARGON2I,
        STORED_CRYPT, /* bcrypt, SHA-crypt */
        STORED_PBKDF2
    } form;
    const char *text;
    unsigned long memory_kib, lanes; /* Argon2's */
    unsigned long rounds;            /* passes, iterations */
    unsigned char salt[STORED_PART_MAX], hash[STORED_PART_MAX];
    size_t salt_len, hash_len;
};

/* Keeps text.  NULL, or what is wrong: no known form, or too long to verify. */
PJ_MUST_CHECK const char *password_parse(const char *text, struct stored *out);

/* Computes; PASSWORD_BUSY: there was no memory. */
PJ_MUST_CHECK enum password_result password_compare(const struct stored *s,
                                                    pj_str_t credential);

/* -- what may become a credential, by the operator's settings -- */

enum password_new {
    PASSWORD_FITS,
    PASSWORD_SHORT,
    PASSWORD_FORBIDDEN, /* by the operator's list */
    PASSWORD_UNREAD,    /* errno tells why that cannot be read */
    PASSWORD_LATER      /* there was no thread to read it, as PASSWORD_BUSY */
};

/* By credential_min and credential_forbidden of cfg; the latter is read. */
PJ_MUST_CHECK enum password_new password_new_judge(const struct config *cfg,
                                                   pj_str_t credential,
                                                   int64_t deadline_ms);
