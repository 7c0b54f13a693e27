/* Passkeys: factors that are public keys. */

#pragma once

#include "store/store_factor.h"

#define STORE_PASSKEY_USER 32 /* bytes of a user handle */

struct passkey {
    char factor_id[STORE_UUID];
    pj_str_t credential_id;
    pj_str_t key; /* SubjectPublicKeyInfo in DER */
    unsigned char user[STORE_PASSKEY_USER];
    int64_t sign_count;
    unsigned transports;
    bool may_sync, synced; /* backup eligibility and state */
};

/* Adds a confirmed factor, in a transaction.  STORE_NONE if the account is not
 * enabled, does not have a second factor as account says, has
 * STORE_MAX_FACTORS, or if the credential is registered already. */
enum store_result store_passkey_add(struct store *st,
                                    const struct account *account,
                                    const struct passkey *k, const char *name);

/* Finds a confirmed passkey of an enabled account by its credential. */
enum store_result store_passkey_find(struct store *st, pj_arena_t *arena,
                                     pj_str_t credential_id,
                                     struct passkey *out,
                                     struct account *account);

/* Sets handle to the account's user handle, which is what it holds on the first
 * call. */
enum store_result store_passkey_user(struct store *st, const char *account_id,
                                     unsigned char handle[STORE_PASSKEY_USER]);

/* Records a use.  STORE_NONE unless the signature counter has grown, or never
 * counted. */
enum store_result store_passkey_use(struct store *st, const char *factor_id,
                                    int64_t sign_count, bool synced);
/* Records that the signature counter of an assertion was too low. */
enum store_result store_passkey_count_fell(struct store *st,
                                           const char *factor_id);
