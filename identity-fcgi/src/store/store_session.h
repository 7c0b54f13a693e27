/* The life of a session, from its opening to its end. */

#pragma once

#include "base/meanwhile.h"
#include "store/model.h"

/* The branches that a new session of the account, of which only the id is
 * known, can select; selectable if there is exactly one. */
enum store_result store_session_choices(struct store *st, pj_arena_t *arena,
                                        const char *account_id,
                                        struct session_view *out);

/* Inserts s (its ids, jti, expiry and, if set, the scope columns), where its
 * account is enabled, still has that credential and was not locked out since
 * s->clock was read; else STORE_NONE.  created_at is the database's. */
enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash);
/* If the account of s has more than most active sessions, revokes the expired
 * and then the oldest of the others, some at a time, and puts them into done;
 * STORE_NONE if there are none. */
enum store_result store_session_limit(struct store *st, const struct session *s,
                                      int most, struct session_refs *done);
/* Reads a session, and about branch_id (NULL: its own active branch) whether it
 * is selectable in the session, all in one statement.  The list is filled if
 * asked for, and always when that branch is not selectable.  Both ids may be
 * any strings.  meanwhile, if not NULL, is run while the database works. */
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out);
/* Sets the scope of an ACTIVE session whose workspace is null or the same. */
enum store_result store_session_select(struct store *st, const char *session_id,
                                       const struct scope *scope);
/* ACTIVE -> REVOKED for ids[0..count), count <= STORE_MAX_REVOKE.  done gets
 * those that were ACTIVE.  Repeating it is safe. */
enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_refs *done);

/* -- what a refresh asks, and has written -- */

/* What a refresh writes to a session, and the conditions for it. */
struct rotation {
    const pj_claims_t *token; /* in hand */
    const char *new_jti;
    int64_t expires_at_s;   /* of the new token, and of the session with it */
    int64_t now_s;          /* its iat; the session is not over then */
    int64_t opened_at_s;    /* an older session may not live until expires_at */
    int64_t retry_window_s; /* how long another refresh with the old token
                               gets this one again; 0: it does not */
    bool remember;          /* the old jti, for store_session_remembered() */
};

/* A session's last rotation, while its token may be given again. */
struct retry {
    char jti[STORE_UUID]; /* of that token; its times: */
    int64_t iat_s, expires_at_s;
    int64_t rotated_at_us;        /* by the database's clock */
    char address[64], agent[256]; /* of who rotated; "" where not kept */
    /* A bit for each of the last eight rotations, this one's the lowest:
     * whether it was retried from elsewhere. */
    unsigned elsewhere;
};

/* Reads as store_session_read() does and, in the same statement, replaces jti
 * and expires_at if session_decide() of session.h would allow it and the scope,
 * if any, is still selectable and unchanged.  STORE_OK says that the session
 * was read, and *rotated that it was rotated after that moment. */
enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out,
                                        bool *rotated);
/* The compare-and-swap of a refresh alone: replaces jti and expires_at, and
 * clears the scope if clear_scope, if id, old->jti, ACTIVE and the scope
 * columns of old still match.  STORE_NONE when no row matched. */
enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope);
/* STORE_OK when token is the one that its session's last rotation replaced,
 * less than window_s ago, and what replaced it is not used yet; *out is that
 * rotation.  Else STORE_NONE. */
enum store_result store_session_retry(struct store *st,
                                      const pj_claims_t *token,
                                      int64_t window_s, struct retry *out);
/* Notes that the token of that rotation, jti, is given again, and access tokens
 * with it: to somebody elsewhere, if that is so.  Clears the scope if
 * clear_scope.  STORE_NONE when the session no longer has that jti and the
 * scope of s.  Repeating it is safe. */
enum store_result store_session_repeat(struct store *st,
                                       const struct session *s, const char *jti,
                                       bool elsewhere, bool clear_scope);
/* STORE_OK when jti was rotated out of the session at most within_s ago and
 * remembered, else STORE_NONE. */
enum store_result store_session_remembered(struct store *st,
                                           const char *session_id, pj_str_t jti,
                                           int64_t within_s);
