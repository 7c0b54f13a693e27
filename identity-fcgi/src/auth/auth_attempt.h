/* Limits attempts at a credential. */

#pragma once

#include "auth/auth.h"

/* Fills *out for an attempt at account (normalised) from remote_addr, truncated
 * to /64 for IPv6.  The account is stored as an HMAC under a key derived from
 * the signing key.  False without a signing key. */
PJ_MUST_CHECK bool auth_attempt_identify(const struct keys *keys,
                                         pj_str_t account, pj_str_t remote_addr,
                                         struct attempt *out);
/* Writes only the HMAC, for a struct end_attempts.  keys is a struct keys. */
PJ_MUST_CHECK bool auth_attempt_hmac(const void *keys, const char *name,
                                     unsigned char hmac[32]);

struct auth_attempt {
    struct attempt attempt;
    bool counted; /* counted as failed until settled */
};

/* Counts the attempt as failed.  False with a refusal and an audit line if
 * there were too many. */
bool auth_attempt_begin(struct worker *w, pj_str_t account_name,
                        const char *limited_event, struct auth_attempt *a);

/* Takes back the count unless the answer in w->res means a wrong credential.
 * Best effort: a remaining count expires. */
void auth_attempt_settle(struct worker *w, const struct auth_attempt *a);
