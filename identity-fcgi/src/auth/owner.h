/* The owner of factors: of an access token or, in a login that has to get a
 * factor, of a factorToken. */

#pragma once

#include "auth/body.h"
#include "auth/factor.h"
#include "base/parse.h"

struct owner {
    struct account account;
    char name[ACCOUNT_NAME_MAX + 1];
    bool at_login;             /* by a factorToken, without a session */
    struct factor_token token; /* at_login */
    struct session_view view;  /* otherwise */
    pj_claims_t claims;
};

/* Reads the body, if body is not NULL, and the owner: of the access token in
 * Authorization or, without that header, of the body's factorToken, which
 * counts this number of tries.  A session must be fresh.  False with a refusal.
 */
bool owner_find(struct worker *w, struct body *body, int tries,
                struct owner *out);
/* The same for an access token alone; the session need not be fresh. */
bool owner_session(struct worker *w, struct owner *out);
