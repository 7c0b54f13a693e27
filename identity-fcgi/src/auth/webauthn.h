/*
 * Verifies what passkeys return (WebAuthn Level 3, sections 7.1 and 7.2): no
 * database, no HTTP, no clock.  User presence and user verification are always
 * required, so a passkey is two factors.  The relying party is
 * PLATFORM_WEBAUTHN_RP_ID with PLATFORM_WEBAUTHN_ORIGINS.  Without passkeys
 * these settings are NULL, and nothing here may be called.
 */

#pragma once

#include "base/config.h"

#define WEBAUTHN_CHALLENGE_BYTES 32
#define WEBAUTHN_USER_BYTES 32 /* of a user handle, which is random */
#define WEBAUTHN_ID_MIN 16     /* bytes of a credential's id */
#define WEBAUTHN_ID_MAX 1023

/* clang-format off */
/* The first thing that is wrong: WEBAUTHN_x, and its name for the log. */
#define WEBAUTHN_ERRORS(X)                                                    \
    X(INTERNAL, "internal") /* no memory, or OpenSSL failed */                \
    X(CLIENT_DATA, "client_data") /* not the JSON of a browser */             \
    X(TYPE, "type") /* of another ceremony */                                 \
    X(CHALLENGE, "challenge")                                                 \
    X(ORIGIN, "origin")                                                       \
    X(CROSS_ORIGIN, "cross_origin") /* in a frame of another origin */        \
    X(ATTESTATION, "attestation") /* not an attestation object of "none" */   \
    X(AUTH_DATA, "auth_data") /* malformed authenticator data */              \
    X(RP_ID, "rp_id")                                                         \
    X(USER_PRESENT, "user_present")                                           \
    X(USER_VERIFIED, "user_verified")                                         \
    X(BACKUP, "backup") /* inconsistent, or another eligibility */            \
    X(CREDENTIAL_ID, "credential_id")                                         \
    X(KEY, "key") /* of another algorithm, weak or malformed */               \
    X(USER, "user") /* another user handle */                                 \
    X(EXTENSION, "extension") /* an output that nobody asked for */           \
    X(SIGNATURE, "signature")                                                 \
    X(COUNTER, "counter") /* all else is right, but the counter fell */
/* clang-format on */

#define WEBAUTHN_ERROR_CODE(code, name) WEBAUTHN_##code,

/* WEBAUTHN_OK is 0, so `if (err)` works. */
enum webauthn_error { WEBAUTHN_OK = 0, WEBAUTHN_ERRORS(WEBAUTHN_ERROR_CODE) };

const char *webauthn_errname(enum webauthn_error err);

/* What a browser returned, decoded. */
struct webauthn_registration {
    pj_str_t id, client_data, attestation;
    unsigned transports; /* see webauthn_json.h */
};

struct webauthn_assertion {
    pj_str_t id, client_data, auth_data, signature;
    pj_str_t user; /* its data is NULL if there is none */
};

/* A credential, as it is kept. */
struct webauthn_credential {
    pj_str_t id;
    pj_str_t user; /* the account's user handle */
    pj_str_t key;  /* SubjectPublicKeyInfo in DER: P-256, Ed25519, RSA */
    uint32_t counter;
    bool backup_eligible, backed_up;
    unsigned transports;
};

/* Verifies a registration and fills *out, except user, from r and the arena.
 * The caller takes the challenge, and refuses an id that is kept already. */
PJ_MUST_CHECK enum webauthn_error
webauthn_register(const struct config *cfg, pj_arena_t *arena,
                  pj_str_t challenge, const struct webauthn_registration *r,
                  struct webauthn_credential *out);

/* Verifies an assertion by the kept credential, and on success updates its
 * counter and backed_up.  Nobody has said whose credential it is if nameless:
 * then the assertion must have the user handle. */
PJ_MUST_CHECK enum webauthn_error
webauthn_assert(const struct config *cfg, pj_arena_t *arena, pj_str_t challenge,
                const struct webauthn_assertion *a, bool nameless,
                struct webauthn_credential *credential);
