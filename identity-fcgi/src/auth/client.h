/* Authentication of OAuth clients (RFC 6749 section 2.3, RFC 7523). */

#pragma once

#include "auth/auth.h"
#include "base/form.h"
#include "store/store_client.h"

#define CLIENT_SECRET_PREFIX "pgs_"
#define CLIENT_SECRET_CHARS 47 /* the prefix and 256 bits as base64url */
#define CLIENT_HASH_BYTES 32   /* SHA-256 */
#define CLIENT_ASSERTION_LIFE_S 300

/* The scopes that a client may have, separated by spaces. */
extern const char client_scopes[];

/* What a request presents: an id with a secret or an assertion. */
struct client_proof {
    pj_str_t id, secret, assertion;
    bool basic; /* by HTTP Basic authentication */
};

/* Reads the id and the secret or assertion from the Authorization header or the
 * form.  Returns NULL, or the fault, as a sentence, unless there is exactly one
 * way; *proof is empty if there is none. */
PJ_MUST_CHECK const char *client_read(struct worker *w, const struct form *form,
                                      struct client_proof *proof);

enum client_verdict {
    CLIENT_OK,
    CLIENT_WRONG,   /* unknown, disabled, wrong secret or assertion */
    CLIENT_LIMITED, /* client->retry_after_s */
    CLIENT_UNAVAILABLE
};

/* Checks the proof.  The work does not depend on whether the client exists.
 * attempt is filled for counting a failure. */
enum client_verdict client_check(struct worker *w,
                                 const struct client_proof *proof,
                                 struct attempt *attempt,
                                 struct client *client);

/* Writes the URL of the token endpoint, which assertions may name as their
 * audience. */
void client_token_url(const struct config *cfg, char *out, size_t cap);

/* Generates a secret, NUL-terminated, and its hash.  False without
 * randomness. */
PJ_MUST_CHECK bool client_new_secret(char secret[CLIENT_SECRET_CHARS + 1],
                                     unsigned char hash[CLIENT_HASH_BYTES]);
