/* Decisions about a session: pure functions of the rows that were read. */

#pragma once

#include "store/store_session.h"

#include <pj.h>

enum session_verdict {
    SESSION_SCOPED,          /* continue in the requested branch */
    SESSION_UNSCOPED,        /* continue; a branch must be selected */
    SESSION_NOT_SELECTABLE,  /* that branch is not selectable, or no longer */
    SESSION_STALE,           /* the token has been replaced */
    SESSION_NOT_ACTIVE,      /* revoked, expired or of another account */
    SESSION_ACCOUNT_DISABLED /* account disabled; revoke the session */
};

/* Decides a request with a verified token of account_id.  With jti it is a
 * refresh in the session's active branch, without jti a selection of the branch
 * that view was read for.  The state of the session takes precedence: a stale
 * token of a revoked session is reported as revoked. */
enum session_verdict session_decide(const struct session_view *view,
                                    pj_str_t account_id, const pj_str_t *jti,
                                    int64_t now_s, int64_t max_lifetime_s);

/* The expiry of a token issued at now_s in a session created at created_at_s
 * that may live max_lifetime_s (0 for unlimited). */
int64_t session_expiry(int64_t now_s, int64_t ttl_s, int64_t created_at_s,
                       int64_t max_lifetime_s);

/* The second now, by whichever clock is behind: this host's, which says now_s,
 * or the database's.  So it lies ahead for neither. */
int64_t session_now(int64_t now_s, const struct store_clock *clock);

/* The iat of an access token issued at now_s.  Gateways refuse an account's
 * tokens from before its last lockout, by the database's clock.  So, even if
 * the clocks differ, a token made before a lockout has an iat not later than
 * the second of the lockout, and a token made after it a later iat.  (The
 * lockout is ahead of a clock that was set back since.) */
int64_t session_issued_at(int64_t now_s, const struct store_clock *clock);

enum session_retry {
    SESSION_RETRY_SAME,  /* by the client that rotated */
    SESSION_RETRY_MOVED, /* perhaps by that client, after a change of
                                network or agent */
    SESSION_RETRY_REUSE  /* by another client */
};

/* Classifies a retry by the network of the address (IPv4 /24, IPv6 /48) and the
 * agent.  A client that lost an answer may have changed one of them.  A client
 * that shares its session with a thief needs a retry whenever the thief
 * refreshed first, so three such retries in eight rotations are reuse. */
enum session_retry session_classify_retry(const struct retry *rotation,
                                          const char *address,
                                          const char *agent);

/* Returns true if s equals id and is not empty. */
bool session_id_is(const char *id, pj_str_t s);
