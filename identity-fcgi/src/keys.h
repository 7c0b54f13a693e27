/* The signing key, the additional public keys and the published key set. */

#ifndef KEYS_H_INCLUDED
#define KEYS_H_INCLUDED

#include "config.h"

#include <pj.h>

#define KEYS_MAX_ADDITIONAL 15
#define KEYS_ETAG_MAX 64

/*
 * One consistent set of keys; immutable and reference-counted, so that a
 * reload swaps the whole while requests finish with what they started with.
 */
struct keys {
    pj_key_t *signing;                            /* private */
    pj_key_t *verifying[1 + KEYS_MAX_ADDITIONAL]; /* [0] pairs with signing */
    size_t verifying_count;
    char *jwks; /* the key-set document */
    size_t jwks_len;
    char etag[KEYS_ETAG_MAX]; /* quoted, NUL-terminated */
    int refs;                 /* atomic */
};

/*
 * Parses and checks the keys of cfg.  On failure one line in err (naming the
 * variable, never the value) and NULL.
 */
struct keys *keys_load(const struct config *cfg, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

/* The current set, with a reference that keys_release() gives back. */
struct keys *keys_acquire(void);
void keys_release(struct keys *keys);

/* Makes keys (whose reference is taken over) the current set. */
void keys_publish(struct keys *keys);

/* The verifying key with this id, or NULL. */
const pj_key_t *keys_find(const struct keys *keys, pj_str_t kid);

#endif
