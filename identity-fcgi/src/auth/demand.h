/* Decides whether a login needs a second factor, and demands it. */

#pragma once

#include "auth/auth.h"

/* True if a login of this account has to end with a second factor. */
bool demand_holds(const struct config *cfg, const struct account *account);

/* Answers a login whose credential is right, without a session: with a token
 * for verify-factor or, without a factor of the account, for adding one.
 * Returns true without an answer if the account has changed since it was read.
 */
bool demand_ask(struct worker *w, const struct account *account);
