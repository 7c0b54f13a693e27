/* Passkeys: challenges, and what authenticators answer. */

#pragma once

#include "auth/factor.h"
#include "auth/webauthn_json.h"

/* Refuses with AUTH_FACTOR_NOT_OFFERED unless passkeys are configured. */
bool passkey_offered(struct worker *w);

/* Writes the member name, PublicKeyCredentialRequestOptionsJSON, with the
 * token's challenge and the passkeys of the list; with none, any is allowed. */
void passkey_request(struct worker *w, struct jsonw *json, const char *name,
                     const struct factor_token *token,
                     const struct factor_list *list);

/* Verifies an assertion over the challenge of the token, which was taken, by a
 * passkey of account or, if account_id is NULL, by one of any account.  Sets
 * *account in the latter case.  A signature counter that fell is recorded.
 * False with a refusal. */
bool passkey_check(struct worker *w, const struct factor_token *token,
                   const struct webauthn_assertion *assertion,
                   const char *account_id, struct account *account,
                   struct factor_use *use);

/* What a passkey shows of its person. */
unsigned passkey_amr(bool may_sync);

/* Takes the challenge of a token with this text and t's purpose.  False with a
 * refusal. */
bool passkey_challenge(struct worker *w, pj_str_t text, struct factor_token *t);
