/* Sessions, from opening to end. */

#pragma once

#include "base/meanwhile.h"
#include "store/model.h"

/* Lists the branches that a new session of the account can select.  selectable
 * is set if there is exactly one. */
enum store_result store_session_choices(struct store *st, pj_arena_t *arena,
                                        const char *account_id,
                                        struct session_view *out);

/* Inserts s (ids, jti, expiry, authentication, scope if set) if its account is
 * enabled, still has this credential and was not locked out since s->clock was
 * read, and if it has no second factor unless s->amr has AMR_MFA.  Otherwise
 * STORE_NONE.  The database sets created_at. */
enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash);
/* If the account of s has more than max active sessions, revokes expired ones
 * first, then the oldest others, a limited number per call, and returns them in
 * done.  STORE_NONE if there are none. */
enum store_result store_session_limit(struct store *st, const struct session *s,
                                      int max, struct session_refs *done);
/* Reads a session in one statement, with branch_id (NULL for the active branch)
 * as the requested branch.  The list of branches is filled if list is set or
 * that branch is not selectable.  The ids may be arbitrary strings.  meanwhile
 * (may be NULL) runs while the database works. */
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out);
/* Reads a session without its branches, and names: of its account, and of
 * branch_id (empty for none), whether selectable or not.  The session's id may
 * be an arbitrary string. */
enum store_result store_session_describe(struct store *st, pj_arena_t *arena,
                                         pj_str_t session_id,
                                         pj_str_t branch_id,
                                         struct session_view *out,
                                         struct session_names *names);
/* Records that an active session was authenticated now, by s->amr.  STORE_NONE
 * also if the account has a second factor that is not among them. */
enum store_result store_session_step_up(struct store *st,
                                        const struct session *s);
/* Sets the scope of an active session whose workspace is null or the same. */
enum store_result store_session_select(struct store *st, const char *session_id,
                                       const struct scope *scope);
/* Revokes the active sessions of ids[0..count) and returns them in done.  count
 * is at most STORE_MAX_REVOKE.  Repeating it is safe. */
enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_refs *done);

/* -- refresh -- */

/* The values that a refresh writes to a session, and their conditions. */
struct rotation {
    const pj_claims_t *token; /* the presented refresh token */
    const char *new_jti;
    int64_t expires_at_s; /* of the new token and the session */
    int64_t now_s; /* iat of the new token; the session must not have expired */
    int64_t opened_at_s;    /* the session must not be older */
    int64_t retry_window_s; /* how long the old token returns the same new token
                               again; 0 for never */
    bool remember; /* keep the old jti for store_session_remembered() */
};

/* The last rotation of a session, within the retry window. */
struct retry {
    char jti[STORE_UUID]; /* of the new token */
    int64_t iat_s, expires_at_s;
    int64_t rotated_at_us;        /* by the database's clock */
    char address[64], agent[256]; /* of the client that rotated, or "" */
    /* A bit for each of the last eight rotations, the latest in the lowest bit:
     * set if another client retried it. */
    unsigned moved_retries;
};

/* Reads like store_session_read() and, in the same statement, replaces jti and
 * expires_at if session_decide() would allow it and the scope, if any, is still
 * selectable and unchanged.  STORE_OK means that the session was read; *rotated
 * that it was rotated after that read. */
enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out,
                                        bool *rotated);
/* The compare-and-swap of a refresh without the read: replaces jti and
 * expires_at (and clears the scope if clear_scope) if the session is active and
 * has the id, jti and scope of old.  STORE_NONE if no row matched. */
enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope);
/* Reads the last rotation if it replaced token less than window_s ago and its
 * new token is unused.  Otherwise STORE_NONE. */
enum store_result store_session_retry(struct store *st,
                                      const pj_claims_t *token,
                                      int64_t window_s, struct retry *out);
/* Records that the refresh token jti of the last rotation is issued again, with
 * new access tokens, and whether to another client.  Clears the scope if
 * clear_scope.  STORE_NONE if the session no longer has this jti and the scope
 * of s.  Repeating it is safe. */
enum store_result store_session_repeat(struct store *st,
                                       const struct session *s, const char *jti,
                                       bool moved, bool clear_scope);
/* STORE_OK if jti was replaced at most within_s ago and remembered, otherwise
 * STORE_NONE. */
enum store_result store_session_remembered(struct store *st,
                                           const char *session_id, pj_str_t jti,
                                           int64_t within_s);
