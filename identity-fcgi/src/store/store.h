/* The way to the database: its handle, accounts, failed logins, health, what
 * owners do to their sessions and credentials, revocations. */

#pragma once

#include "base/config.h"
#include "store/model.h"

/* Makes the pool and a handle, copies of which serve other threads. */
PJ_MUST_CHECK bool store_open(struct store *st, const struct config *cfg);
/* Ends the pool: once, when no thread uses it any more. */
void store_close(struct store *st);

/* As db_pool_use(). */
void store_use(const struct store *st, int *size, int *used, bool *refused);

/* Any may return STORE_UNAVAILABLE, those that write STORE_UNKNOWN too. */

/* Finds an account by its normalised name.  If there is none: STORE_NONE, and
 * out->credential_hash is that of another account, always the same for this
 * name
 * ("" without accounts), found by the same work: its cost reveals nothing. */
enum store_result store_account_find(struct store *st, pj_str_t name,
                                     struct account *out);
/* Replaces the credential hash where it is still old_hash. */
enum store_result store_account_rehash(struct store *st, const char *account_id,
                                       const char *old_hash,
                                       const char *new_hash);

/* Counts a login as failed before it is tried.  STORE_NONE, and nothing is
 * counted, when the pair has max_failures or the address ten times as many. */
enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s);
/* Takes the count back; success also forgets the pair's earlier ones. */
enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success);

/* *schema_version is the newest applied migration.  STORE_NONE: the role lacks
 * rights that requests need. */
enum store_result store_ping(struct store *st, int *schema_version);

/* -- one's own sessions and credential -- */

/* The account's sessions that are alive at now_s, opened after opened_at_s, as
 * the API has them: first the one called current, said to expire at
 * expires_at_s; then the STORE_MAX_OWN newest of the others. */
enum store_result store_own_list(struct store *st, pj_arena_t *arena,
                                 const struct session *current, int64_t now_s,
                                 int64_t opened_at_s, int64_t expires_at_s,
                                 struct store_list *out);
/* ACTIVE -> REVOKED for all sessions of the account but except, or for all
 * (NULL); *ended grows, also where it came only so far.  Repeating it is safe.
 * STORE_NONE: except is not alive itself. */
enum store_result store_own_end(struct store *st, const char *account_id,
                                const char *except, int64_t *ended);

/* Finds an account by its id; name has room for ACCOUNT_NAME_MAX and a NUL. */
enum store_result store_own_account(struct store *st, const char *account_id,
                                    char *name, struct account *out);
/* Replaces the credential where it is still old_hash, the account enabled and
 * its session except alive, and at once ends all others.  STORE_NONE: one of
 * these is not so. */
enum store_result store_own_change(struct store *st, const char *account_id,
                                   const char *old_hash, const char *new_hash,
                                   const char *except, int64_t *ended);

/* -- what gateways have to refuse -- */

/* What became known to the database after cursor ("": from the beginning), at
 * most STORE_MAX_LIST of it.  However late a transaction commits, none of its
 * revocations is missed.  STORE_NONE: the cursor is of another database, or
 * this one has crashed or lost its last transactions since. */
enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor,
                                    struct revocations *out);
