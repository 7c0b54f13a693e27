/* Clients, and the assertions that they have used. */

#pragma once

#include "store/model.h"

struct client {
    struct account account; /* without a credential */
    bool secret_matches;    /* a live secret has this hash */
    const char *keys;   /* public keys as JSON objects, separated by commas */
    const char *scopes; /* allowed scopes, separated by spaces */
    int64_t retry_after_s; /* too many failures: seconds to wait, or 0 */
};

/* Reads a client, an account of type SYSTEM, and whether its secret has this
 * SHA-256 (32 bytes; NULL if it presented none).  attempt and max_failures (0
 * for no limit) are as in store_attempt_begin(), but nothing is counted.
 * STORE_NONE if there is no such client; *out is then empty but for
 * retry_after_s, and the database did the same work. */
enum store_result store_client_find(struct store *st, pj_arena_t *arena,
                                    pj_str_t client_id,
                                    const unsigned char *secret_sha256,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out);

/* Records that the assertion with this hash (32 bytes) was used.  It may be
 * forgotten after dies_at_s.  STORE_NONE if it was used before. */
enum store_result store_client_use_assertion(struct store *st,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s);
