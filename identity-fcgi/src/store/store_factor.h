/* Second factors of accounts: TOTP, passkeys, recovery codes. */

#pragma once

#include "store/model.h"

#define STORE_SHA256 32
#define STORE_MAX_FACTORS 10 /* of one account */
#define STORE_RECOVERY_CODES 10
#define STORE_OPEN_FACTOR_S 600 /* until an unconfirmed factor expires */

struct factor {
    char factor_id[STORE_UUID];
    bool passkey; /* otherwise TOTP */
    bool confirmed;
    /* TOTP: the encrypted secret. */
    const char *key_id;
    pj_str_t secret;
    int64_t last_step;
    /* Passkeys; more is in struct passkey. */
    pj_str_t credential_id;
    unsigned transports; /* bits, see auth/webauthn_json.h */
};

struct factor_list {
    struct factor *items; /* in the caller's arena */
    size_t count;
    int64_t recovery_codes; /* unused ones */
};

/* Reads the account's factors, confirmed ones only unless open_too is set. */
enum store_result store_factor_read(struct store *st, pj_arena_t *arena,
                                    const char *account_id, bool open_too,
                                    struct factor_list *out);
/* -- changing: STORE_NONE unless the account is enabled and has a second factor
 * as second_factor says -- */

/* Locks the account's row, so that the next statement of the transaction sees
 * the factors that others have added. */
enum store_result store_factor_lock(struct store *st, const char *account_id);

/* Adds an unconfirmed TOTP factor in place of earlier unconfirmed ones.
 * STORE_NONE also if there are STORE_MAX_FACTORS. */
enum store_result store_factor_add_totp(struct store *st,
                                        const struct account *account,
                                        const struct factor *f,
                                        const char *name);
/* Confirms it as of the step of a code, in a transaction.  STORE_NONE also if
 * there are STORE_MAX_FACTORS. */
enum store_result store_factor_confirm(struct store *st,
                                       const struct account *account,
                                       const char *factor_id, int64_t step);
enum store_result store_factor_rename(struct store *st, const char *account_id,
                                      pj_str_t factor_id, const char *name);
/* Removes a confirmed factor.  STORE_NONE also if keep_one is set and it is the
 * last one. */
enum store_result store_factor_remove(struct store *st, const char *account_id,
                                      pj_str_t factor_id, bool keep_one);
/* Replaces the recovery codes; the new codes have these hashes. */
enum store_result
store_factor_recovery_replace(struct store *st, const char *account_id,
                              unsigned char hashes[][STORE_SHA256],
                              size_t count);

/* -- using: STORE_NONE if it was used before -- */

enum store_result store_factor_use_step(struct store *st, const char *factor_id,
                                        int64_t step);
enum store_result store_factor_recovery_use(struct store *st,
                                            const char *account_id,
                                            const unsigned char *sha256);
