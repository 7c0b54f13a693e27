/*
 * CBOR of passkeys, bounded.  libcbor's stream decoder reads it and allocates
 * nothing.  libfido2 allocates and writes as many elements as an array claims
 * to have, so what it decodes has to pass webauthn_cbor_skip() before.
 */

#pragma once

#include <pj.h>

/* Takes the first item off *rest.  False unless it is whole, within four
 * levels (CTAP 2.1 section 8), and without tags and indefinite lengths. */
PJ_MUST_CHECK bool webauthn_cbor_skip(pj_str_t *rest);

/* Sets *auth_data to the authenticator data of an attestation object.  False
 * unless it is a map of exactly fmt "none", an empty attStmt and authData, with
 * nothing behind it (WebAuthn Level 3 sections 6.5 and 8.7). */
PJ_MUST_CHECK bool webauthn_cbor_attestation(pj_str_t object,
                                             pj_str_t *auth_data);
