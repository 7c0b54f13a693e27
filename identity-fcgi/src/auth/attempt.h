/* Names whose failed logins are counted together. */

#ifndef ATTEMPT_H_INCLUDED
#define ATTEMPT_H_INCLUDED

#include "auth/keys.h"
#include "store/store.h"

#include <pj.h>
#include <stdbool.h>

/*
 * Fills *out for a login as account (normalised) from remote_addr.  IPv6
 * addresses count by their /64, IPv4 ones mapped into IPv6 as IPv4.  The
 * account becomes an HMAC under a key that only holders of the signing key
 * have, and a UUID made of it; false when that could not be computed.
 */
bool attempt_identify(const struct keys *keys, pj_str_t account,
                      pj_str_t remote_addr, struct attempt *out)
    __attribute__((warn_unused_result));

#endif
