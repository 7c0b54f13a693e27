/* Attempts at a credential: whose they are, and how many are allowed. */

#ifndef ATTEMPT_H_INCLUDED
#define ATTEMPT_H_INCLUDED

#include "auth/auth.h"

/*
 * Fills *out for a login as account (normalised) from remote_addr.  IPv6
 * addresses count by their /64, IPv4 ones mapped into IPv6 as IPv4.  The
 * account becomes an HMAC under a key that only holders of the signing key
 * have, and a UUID made of it; false without a signing key.
 */
bool attempt_identify(const struct keys *keys, pj_str_t account,
                      pj_str_t remote_addr, struct attempt *out)
    __attribute__((warn_unused_result));

/* A login, or the like, that is being tried. */
struct attempt_count {
    struct attempt attempt;
    bool counted; /* as failed, until it is settled */
};

/* Counts it as failed; false with a refusal, and an audit line where there
 * were too many. */
bool attempt_begin(struct worker *w, pj_str_t account_name,
                   const char *limited_event, struct attempt_count *a);

/* Takes the count back where the answer in w->res says that no attempt failed:
 * after a success, or when the service or the database gave up, or something
 * else was refused.  Best effort: a count that stays is one too many, and
 * expires. */
void attempt_settle(struct worker *w, const struct attempt_count *a);

#endif
