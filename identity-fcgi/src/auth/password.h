/* Credentials: verification of Argon2id (libsodium) and imported hashes with
 * bounded concurrency, and rules for new credentials. */

#pragma once

#include "base/config.h"

#include <pj.h>

#define PASSWORD_PHC_MAX 128    /* libsodium's crypto_pwhash_STRBYTES */
#define PASSWORD_STORED_MAX 256 /* of any supported hash */
#define PASSWORD_WAIT_MS 2000   /* maximum wait for a slot */
#define PASSWORD_MAX_MEMORY_KIB (256 * 1024)
#define PASSWORD_MAX_ITERATIONS 10

/* Returns false if a login could not be hashed now.  Refusing it before it uses
 * the database leaves the database to refreshes. */
bool password_has_room(void);

/* Initialises libsodium and makes the hash of a random credential.  Call before
 * threads start. */
PJ_MUST_CHECK bool password_setup(const struct config *cfg);

/* Starts the threads for hashing and for signing logins.  A caller waits at
 * most wait_ms for a thread.  Without this call, callers compute themselves. */
PJ_MUST_CHECK bool password_start(const struct config *cfg, int64_t wait_ms);

enum password_result {
    PASSWORD_OK,
    PASSWORD_WRONG,
    PASSWORD_UNUSABLE, /* the stored hash is malformed or too expensive */
    PASSWORD_BUSY      /* could not be computed */
};

/*
 * Verifies credential against the hash text.  If text is NULL (PASSWORD_WRONG),
 * malformed or exceeds PASSWORD_MAX_* (PASSWORD_UNUSABLE), computes the hash
 * of a random credential instead.
 *
 * If text does not have the current parameters, a new hash is computed too,
 * regardless of the result.  On PASSWORD_OK fresh is that hash, otherwise "".
 *
 * PASSWORD_BUSY if half of the workers are hashing or waiting, after a timeout
 * or deadline_ms of CLOCK_MONOTONIC (0 for none), or if memory is short.
 */
PJ_MUST_CHECK enum password_result
password_verify(const char *text, pj_str_t credential, int64_t deadline_ms,
                char fresh[PASSWORD_PHC_MAX]);

/* Returns a hash that password_setup() made and no credential has; its salt is
 * MODEL_NOBODY_SALT. */
const char *password_nobody(void);

/* Hashes credential into out.  False if password_verify() would be BUSY. */
PJ_MUST_CHECK bool password_hash(pj_str_t credential, int64_t deadline_ms,
                                 char out[PASSWORD_PHC_MAX]);

/* -- stored hashes -- */

#define STORED_PART_MAX 96 /* maximum bytes of salt and of hash */

struct stored {
    enum stored_form {
        STORED_ARGON2ID,
        STORED_ARGON2I,
        STORED_CRYPT, /* bcrypt, SHA-crypt */
        STORED_PBKDF2
    } form;
    const char *text;
    unsigned long memory_kib, lanes; /* of Argon2 */
    unsigned long rounds;            /* passes or iterations */
    unsigned char salt[STORED_PART_MAX], hash[STORED_PART_MAX];
    size_t salt_len, hash_len;
};

/* Parses a stored hash; *out refers to text.  Returns NULL or the fault: an
 * unknown form, or too expensive to verify. */
PJ_MUST_CHECK const char *password_parse(const char *text, struct stored *out);

/* Computes and compares the hash.  PASSWORD_BUSY if memory is short. */
PJ_MUST_CHECK enum password_result password_compare(const struct stored *s,
                                                    pj_str_t credential);

/* -- rules for new credentials, by the operator's settings -- */

enum password_new {
    PASSWORD_FITS,
    PASSWORD_SHORT,
    PASSWORD_FORBIDDEN, /* in the operator's list */
    PASSWORD_UNREAD,    /* the list cannot be read, see errno */
    PASSWORD_LATER      /* no thread to read it, as for PASSWORD_BUSY */
};

/* Checks credential_min and the list in credential_forbidden of cfg. */
PJ_MUST_CHECK enum password_new password_check_new(const struct config *cfg,
                                                   pj_str_t credential,
                                                   int64_t deadline_ms);
