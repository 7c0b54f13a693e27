/* Access to the database: handle, accounts, failed logins, health, an owner's
 * sessions and credential, revocations. */

#pragma once

#include "base/config.h"
#include "store/model.h"

/* Creates the pool and a handle.  Other threads use copies of the handle. */
PJ_MUST_CHECK bool store_open(struct store *st, const struct config *cfg);
/* Frees the pool.  Call once, after all threads have stopped using it. */
void store_close(struct store *st);

void store_use(const struct store *st, int *size, int *used, bool *refused);

/* All functions may return STORE_UNAVAILABLE; writes may also return
 * STORE_UNKNOWN. */

/* Finds an account by its normalised name.  STORE_NONE if it does not exist;
 * out->credential_hash is then the hash of another account, always the same for
 * this name ("" in a database without accounts).  Both cases cost the database
 * the same, so timing reveals nothing. */
enum store_result store_account_find(struct store *st, pj_str_t name,
                                     struct account *out);
/* Replaces the credential hash if it is still old_hash. */
enum store_result store_account_rehash(struct store *st, const char *account_id,
                                       const char *old_hash,
                                       const char *new_hash);

/* Counts a login as failed before it is attempted.  STORE_NONE without counting
 * if the account and address have max_failures, or the address ten times as
 * many. */
enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s);
/* Takes back that count.  success also clears earlier failures of the account
 * from this address. */
enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success);

/* Sets *schema_version to the newest applied migration.  STORE_NONE if the role
 * lacks privileges that requests need. */
enum store_result store_ping(struct store *st, int *schema_version);

/* -- an owner's sessions and credential -- */

/* Lists the account's sessions that are alive at now_s and were opened after
 * opened_at_s, in the API's JSON: current first, with expiry expires_at_s, then
 * the STORE_MAX_LISTED newest others. */
enum store_result store_sessions_list(struct store *st, pj_arena_t *arena,
                                      const struct session *current,
                                      int64_t now_s, int64_t opened_at_s,
                                      int64_t expires_at_s,
                                      struct store_list *out);
/* Revokes all active sessions of the account, except the session except (may be
 * NULL).  *ended grows by the number revoked, also on failure.  Repeating it is
 * safe.  STORE_NONE if except is not alive itself. */
enum store_result store_sessions_end(struct store *st, const char *account_id,
                                     const char *except, int64_t *ended);

/* Finds an account by its id.  name has room for ACCOUNT_NAME_MAX and a NUL. */
enum store_result store_account_read(struct store *st, const char *account_id,
                                     char *name, struct account *out);
/* Replaces the credential and ends all sessions except except, if the
 * account is enabled, has the same credential as was read and no second factor
 * since then, and except is alive.  Otherwise STORE_NONE. */
enum store_result store_credential_change(struct store *st,
                                          const struct account *account,
                                          const char *new_hash,
                                          const char *except, int64_t *ended);

/* Sets the credential of the enabled account of this normalised name, ends all
 * its sessions and uses up its reset code, if that has this SHA-256 (32 bytes)
 * and is live.  Sets account_id (STORE_UUID).  Otherwise STORE_NONE; counts a
 * try if there is a live code.  The work does not depend on whether there is
 * one. */
enum store_result store_credential_reset(struct store *st, pj_str_t name,
                                         const unsigned char *code_sha256,
                                         const char *new_hash,
                                         char *account_id);

/* -- the audit -- */

/* Writes an event of the session that changes no row: auth.refresh.reuse or
 * auth.refresh.retried_elsewhere. */
enum store_result store_audit_observe(struct store *st, const char *event,
                                      const char *session_id);

/* -- revocations, for gateways -- */

/* Returns at most STORE_MAX_LIST revocations after cursor ("" for the
 * beginning).  None is missed, however late its transaction commits.
 * STORE_NONE if the cursor is from another database, or the database has
 * crashed or lost transactions since. */
enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor,
                                    struct revocations *out);
