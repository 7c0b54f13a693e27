/* The JSON of passkeys, as browsers have it (WebAuthn Level 3 section 5.1:
 * parseCreationOptionsFromJSON(), parseRequestOptionsFromJSON(), toJSON()). */

#pragma once

#include "auth/body.h"
#include "auth/webauthn.h"

#define WEBAUTHN_JSON_TIMEOUT_S 300 /* how long a challenge is good */

struct webauthn_options {
    pj_str_t challenge;
    pj_str_t user, account; /* handle and name; for a registration */
    const struct webauthn_credential *known; /* id and transports */
    size_t count; /* of known: to exclude, or to allow (0 for any) */
};

/* Write a member: PublicKeyCredentialCreationOptionsJSON, and
 * PublicKeyCredentialRequestOptionsJSON. */
void webauthn_json_creation(struct jsonw *json, const char *name,
                            const struct config *cfg,
                            const struct webauthn_options *options);
void webauthn_json_request(struct jsonw *json, const char *name,
                           const struct config *cfg,
                           const struct webauthn_options *options);

/* Read a RegistrationResponseJSON and an AuthenticationResponseJSON into the
 * arena, and record each fault.  Members that are not used may be there. */
void webauthn_json_registration(const struct body *b,
                                struct webauthn_registration *out);
void webauthn_json_assertion(const struct body *b,
                             struct webauthn_assertion *out);
