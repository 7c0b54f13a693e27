/* Public keys of passkeys: as libfido2 has them, and as they are kept. */

#pragma once

#include <pj.h>

/* A key of libfido2.  Zero-initialise it. */
struct webauthn_key {
    int alg;  /* COSE_ES256, COSE_EDDSA or COSE_RS256; 0 for none */
    void *pk; /* for fido_assert_verify() */
};

/* Writes the key of a registration (fido_cred_pubkey_ptr()) as
 * SubjectPublicKeyInfo in DER.  False if it is malformed or weak, or no memory
 * is left. */
PJ_MUST_CHECK bool webauthn_key_write(int alg, pj_str_t raw, pj_arena_t *arena,
                                      pj_str_t *der);

/* Reads a key that webauthn_key_write() wrote.  The caller frees it, whatever
 * the result. */
PJ_MUST_CHECK bool webauthn_key_read(pj_str_t der, struct webauthn_key *key);

void webauthn_key_free(struct webauthn_key *key);
