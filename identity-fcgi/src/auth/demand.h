/* Whom a second factor is demanded of, and asking for it. */

#pragma once

#include "auth/auth.h"

/* True if a login of this account has to end with a second factor. */
bool demand_holds(const struct config *cfg, const struct account *account);

/* Answers a login whose credential is right, without a session: with a token
 * for verify-factor or, if the account has no factor, for getting one.  Returns
 * true without an answer if the account has changed since it was read. */
bool demand_ask(struct worker *w, const struct account *account);
