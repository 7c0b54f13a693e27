/* Clients, and the assertions that they have used. */

#pragma once

#include "store/model.h"

struct client {
    struct account account; /* without a credential */
    bool secret_matches;    /* a live secret has this hash */
    const char *key;        /* public key as a JWK, or "" */
    const char *scopes;     /* allowed scopes, separated by spaces */
    int64_t retry_after_s;  /* too many failures: seconds to wait, or 0 */
};

/* What a request presents, to be compared with what is stored. */
struct client_lookup {
    pj_str_t client_id;
    const unsigned char *secret_sha256; /* 32 bytes, NULL for an assertion */
    const char *jwk_begin; /* how keys for the assertion begin, or NULL */
    pj_str_t kid;          /* of the assertion, may be empty */
};

/* Reads a client, an account of type SYSTEM.  With a secret, reads whether the
 * client has it, and then the scopes.  With an assertion, reads the client's
 * key with this kid, or without a kid its only key that begins so.  attempt and
 * max_failures (0 if unlimited) are as in store_attempt_begin(), but nothing is
 * counted.
 * STORE_NONE if the client is unknown; *out is then empty but for
 * retry_after_s, and the database did the same work. */
enum store_result store_client_find(struct store *st, pj_arena_t *arena,
                                    const struct client_lookup *lookup,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out);

/* Records that the assertion with this hash (32 bytes) was used, and reads the
 * scopes.  It may be forgotten after dies_at_s.  STORE_NONE if it was used
 * before. */
enum store_result store_client_use_assertion(struct store *st,
                                             pj_arena_t *arena,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s,
                                             struct client *client);
