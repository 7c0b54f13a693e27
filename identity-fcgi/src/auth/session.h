/* Decisions about a session: pure functions of what was read. */

#pragma once

#include "store/store_session.h"

#include <pj.h>

enum session_verdict {
    SESSION_SCOPED,          /* go on, in the branch asked about */
    SESSION_UNSCOPED,        /* go on; a branch is still to be chosen */
    SESSION_NOT_SELECTABLE,  /* that branch cannot, or no longer, be chosen */
    SESSION_STALE,           /* the token was rotated out */
    SESSION_NOT_ACTIVE,      /* revoked, expired or another account's */
    SESSION_ACCOUNT_DISABLED /* not active, and to be revoked */
};

/* Decides a request with a verified token that names account_id: with a jti a
 * refresh, in the session's own branch; without one the selection of the
 * branch that view was read for.  The session's state comes before the jti: a
 * stale token of a revoked session is reported as revoked. */
enum session_verdict session_decide(const struct session_view *view,
                                    pj_str_t account_id, const pj_str_t *jti,
                                    int64_t now_s, int64_t max_lifetime_s);

/* When a token issued at now_s expires in a session created at created_at_s
 * that may live max_lifetime_s (0: for ever). */
int64_t session_expiry(int64_t now_s, int64_t ttl_s, int64_t created_at_s,
                       int64_t max_lifetime_s);

/* The iat of an access token issued at now_s, after the database told its
 * clock.  By that clock gateways refuse an account's tokens from before its
 * last lockout.  So whichever clock is ahead, a token made before the lockout
 * has an iat no later than the lockout's second, one made after it a later
 * one.  (The lockout is ahead of a clock that was set back since.) */
int64_t session_issued_at(int64_t now_s, const struct store_clock *clock);

enum session_retry {
    SESSION_RETRY_SAME,      /* as the client that rotated would ask again */
    SESSION_RETRY_ELSEWHERE, /* it may have moved since: to be noted */
    SESSION_RETRY_REUSE      /* somebody else has the token too */
};

/* Who asks again for the token of a rotation, by the network of the address
 * (IPv4: /24, IPv6: /48) and by the agent.  A client that lost an answer may
 * have changed one of them; one that shares its session with a thief needs a
 * retry whenever the thief was first, so three rotations of eight are reuse. */
enum session_retry session_judge_retry(const struct retry *of,
                                       const char *address, const char *agent);

/* Whether s is the text of the UUID-sized string id. */
bool session_id_is(const char *id, pj_str_t s);
