/* Tokens between the calls of a login with a second factor or of a passkey. */

#pragma once

#include "store/store_factor.h"

#define STORE_FACTOR_TRIES 5 /* of a token */
#define STORE_CHALLENGE 32   /* bytes of a challenge */

enum factor_purpose {
    FACTOR_VERIFY,        /* a login that needs a factor */
    FACTOR_ENROLL,        /* a login of an account that has to get one */
    FACTOR_REGISTER,      /* the challenge for a new passkey */
    FACTOR_PASSKEY_LOGIN, /* a challenge, without an account */
    FACTOR_STEP_UP        /* a challenge for a session */
};

struct factor_token {
    unsigned char sha256[STORE_SHA256];
    enum factor_purpose purpose;
    char account_id[STORE_UUID], session_id[STORE_UUID]; /* or "" */
    bool has_challenge;
    unsigned char challenge[STORE_CHALLENGE];
};

/* Adds a token.  STORE_NONE if it has an account that is not enabled, or whose
 * credential is not account's (NULL for any). */
enum store_result store_factor_token_add(struct store *st,
                                         const struct factor_token *t,
                                         int64_t ttl_s,
                                         const struct account *account);

/* Counts this number of tries of a token with t's hash and purpose, and reads
 * it with its account and the account's name (ACCOUNT_NAME_MAX + 1).  A
 * challenge is read once: take removes it.  STORE_NONE if the token is
 * unknown, expired or out of tries, or the account's state has changed
 * since. */
enum store_result store_factor_token_try(struct store *st,
                                         struct factor_token *t, int tries,
                                         bool take, struct account *account,
                                         char *name);
/* Reads and removes a token with t's hash and purpose.  STORE_NONE as above. */
enum store_result store_factor_token_take(struct store *st,
                                          struct factor_token *t);
/* Removes the token. STORE_NONE if it was removed concurrently. */
enum store_result store_factor_token_end(struct store *st,
                                         const unsigned char *sha256);
