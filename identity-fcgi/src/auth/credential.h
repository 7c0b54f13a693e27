/* The credential of the caller's account, shown again. */

#pragma once

#include "auth/auth.h"
#include "base/parse.h"

/* Reads the account of the caller's session, which must be enabled.  False with
 * a refusal. */
bool credential_owner(struct worker *w, const struct session *caller,
                      char name[ACCOUNT_NAME_MAX + 1], struct account *account);

/* Verifies the credential against the account's.  False with a refusal. */
bool credential_matches(struct worker *w, const struct session *caller,
                        const struct account *account, pj_str_t credential);
