/* Second factors of accounts: listing, removing, demanding. */

#pragma once

#include "people/people_account.h"

/* -- removing -- */

struct factor_removal {
    const char *ref;             /* of the account: id or name */
    const char *factor_id;       /* NULL for all of them */
    struct account_item account; /* as it is then */
    int64_t removed;
};

/* Members: of account_item, removedFactors */
extern const struct people_member people_factor_removal_members[];

/* Removes confirmed factors.  The recovery codes go with the last one. */
enum people_outcome people_factor_remove(struct people *p,
                                         struct factor_removal *removal);

/* -- demanding -- */

struct factor_demand {
    const char *ref;
    bool required; /* a login has to end with a second factor */
    struct account_item account;
    bool changed;
};

/* Members: of account_item, factorRequired, changed */
extern const struct people_member people_factor_demand_members[];

enum people_outcome people_factor_demand(struct people *p,
                                         struct factor_demand *demand);

/* -- encrypting anew -- */

struct factor_secret_row {
    const char *factor_id, *account_id, *key_id;
    const char *sealed_hex;
};

/* Lists TOTP factors, confirmed or not, whose key is not key_id, in the order
 * of their ids, after this id (NULL for the first page). */
enum people_outcome people_factor_secrets(struct people *p, const char *key_id,
                                          const char *after,
                                          struct people_rows *page);
/* Replaces a secret unless it has changed since it was listed. */
enum people_outcome people_factor_reseal(struct people *p,
                                         const struct factor_secret_row *old,
                                         const char *key_id, pj_str_t sealed);
