/* What owners see of their sessions and do to them, and their credentials. */

#ifndef STORE_OWN_H_INCLUDED
#define STORE_OWN_H_INCLUDED

#include "store/model.h"

/*
 * The account's sessions that are alive at now_s, opened after opened_at_s:
 * first the one called current, used when it was opened and said to expire at
 * expires_at_s; then the STORE_MAX_OWN newest of the others.
 */
enum store_result store_own_list(struct store *st, pj_arena_t *arena,
                                 const struct session *current, int64_t now_s,
                                 int64_t opened_at_s, int64_t expires_at_s,
                                 struct own_sessions *out);
/* ACTIVE -> REVOKED for all sessions of the account but, unless that is NULL,
 * the one called except; *ended is how many, also where it came only so far.
 * Repeating it is safe. */
enum store_result store_own_end(struct store *st, const char *account_id,
                                const char *except, int64_t *ended);

/* Finds an account by its id, as store_account_find() does; name has room for
 * ACCOUNT_NAME_MAX bytes and a NUL. */
enum store_result store_own_account(struct store *st, const char *account_id,
                                    char *name, struct account *out);
/* Replaces the credential where it is still old_hash, the account enabled and
 * its session except alive, and at once ends all others.  STORE_NONE: one of
 * these is not so. */
enum store_result store_own_change(struct store *st, const char *account_id,
                                   const char *old_hash, const char *new_hash,
                                   const char *except, int64_t *ended);

#endif
