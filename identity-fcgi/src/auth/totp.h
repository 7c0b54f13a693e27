/* Time-based one-time codes (RFC 6238): SHA-1, six digits, 30 seconds. */

#pragma once

#include "auth/factor_secret.h"

#define TOTP_BASE32 33 /* characters of a secret, and a NUL */

/* Generates a secret.  False without randomness. */
PJ_MUST_CHECK bool totp_new(unsigned char secret[FACTOR_SECRET_BYTES]);

/* Writes the secret as base32 (RFC 4648), which needs no padding.  False if
 * memory is short. */
PJ_MUST_CHECK bool totp_base32(const unsigned char secret[FACTOR_SECRET_BYTES],
                               char out[TOTP_BASE32]);

/* Returns the step (RFC 6238 section 4) whose code is code, or 0.  Tries the
 * step of now_s, the step before and the step after.  The time does not depend
 * on the code's digits. */
int64_t totp_step(const unsigned char secret[FACTOR_SECRET_BYTES],
                  pj_str_t code, int64_t now_s);
