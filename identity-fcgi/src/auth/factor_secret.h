/* Encryption of TOTP secrets at rest: AES-256-GCM under a key of
 * PLATFORM_AUTH_FACTOR_KEYS. */

#pragma once

#include "base/factor_key.h"

#define FACTOR_SECRET_BYTES 20 /* RFC 4226 section 4, R6 */
#define FACTOR_SEALED_BYTES (12 + FACTOR_SECRET_BYTES + 16)

/* Encrypts with key.  The ids are authenticated too, so that a secret cannot be
 * moved to another row.  False without randomness. */
PJ_MUST_CHECK bool
factor_secret_seal(const struct factor_key *key, const char *account_id,
                   const char *factor_id,
                   const unsigned char secret[FACTOR_SECRET_BYTES],
                   unsigned char sealed[FACTOR_SEALED_BYTES]);

/* Decrypts.  False if it was encrypted by another key or for other ids, or has
 * been changed. */
PJ_MUST_CHECK bool
factor_secret_open(const struct factor_key *key, const char *account_id,
                   const char *factor_id, pj_str_t sealed,
                   unsigned char secret[FACTOR_SECRET_BYTES]);
