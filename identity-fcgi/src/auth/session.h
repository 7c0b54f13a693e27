/* Decisions about a session: pure functions of what was read. */

#ifndef SESSION_H_INCLUDED
#define SESSION_H_INCLUDED

#include "store/store.h"

#include <pj.h>
#include <stdbool.h>
#include <stdint.h>

enum session_verdict {
    SESSION_SCOPED,           /* go on, in the branch it has */
    SESSION_UNSCOPED,         /* go on; a branch is still to be chosen */
    SESSION_SCOPE_LOST,       /* go on; its branch is no longer selectable */
    SESSION_STALE,            /* the token was rotated out */
    SESSION_NOT_ACTIVE,       /* revoked, expired or another account's */
    SESSION_ACCOUNT_DISABLED, /* not active, and to be revoked */
    SESSION_NOT_SELECTABLE    /* that branch cannot be chosen */
};

/*
 * What a refresh with a verified token that names account_id and jti does.
 * The state of the session comes before the jti, so that a stale token of a
 * revoked session is reported as what cannot be mended.
 */
enum session_verdict session_refresh(const struct session_view *view,
                                     pj_str_t account_id, pj_str_t jti,
                                     int64_t now_s, int64_t max_lifetime_s);

/* What select-branch does; view was read for the branch asked for. */
enum session_verdict session_select(const struct session_view *view,
                                    pj_str_t account_id, int64_t now_s,
                                    int64_t max_lifetime_s);

/*
 * When a token issued at now_s for ttl_s expires in a session created at
 * created_at_s that may live max_lifetime_s (0: for ever).
 */
int64_t session_expiry(int64_t now_s, int64_t ttl_s, int64_t created_at_s,
                       int64_t max_lifetime_s);

/* Whether s is the text of the UUID-sized string id. */
bool session_id_is(const char *id, pj_str_t s);

#endif
