/* The signing key, the additional public keys and the published key set. */

#pragma once

#include "auth/keys_dir.h"
#include "base/config.h"
#include "base/http.h"

#include <pj.h>

#define KEYS_MAX_ADDITIONAL (KEYS_DIR_MAX - 1)

/*
 * One consistent set of keys; immutable and reference-counted, so that a
 * reload swaps the whole while requests finish with what they started with.
 */
struct keys {
    pj_key_t *signing; /* private; NULL where a local set-up has none yet */
    pj_key_t *verifying[1 + KEYS_MAX_ADDITIONAL]; /* [0] pairs with signing */
    size_t verifying_count;
    size_t published_count; /* of those; the rest is for refresh tokens alone */
    char *dir;              /* which they come from, or NULL; */
    uint64_t stamp;         /* as it was then: see keys_dir_stamp() */
    char *jwks;             /* the key-set document: those published */
    size_t jwks_len;
    char etag[HTTP_ETAG_MAX];
    /* Secret, and the same wherever the signing key is. */
    unsigned char hmac_key[32];
    int refs; /* under the lock of keys.c */
    size_t copy_count;
    pj_key_t *copies[]; /* of signing, one a worker; see keys_signer() */
};

/*
 * Parses and checks the keys of cfg: those of its variables, or those in its
 * directory, even while that is changed.  On failure one line in *e
 * (naming the variable, never the value) and NULL.  Where APP_ENV is local all
 * three parts of the signing key may be missing: the set then signs and
 * verifies nothing and /readyz says so.
 */
PJ_MUST_CHECK struct keys *keys_load(const struct config *cfg, struct error *e);

/* The current set, with a reference that keys_release() gives back. */
struct keys *keys_acquire(void);
void keys_release(struct keys *keys);

/*
 * The worker's own copy of the signing key, so that workers (numbered from 0)
 * never wait for each other.  Made at the first call, freed with the set.
 */
const pj_key_t *keys_signer(struct keys *keys, size_t worker);

/* Makes keys (whose reference is taken over) the current set; NULL for none.
 */
void keys_publish(struct keys *keys);

/* The verifying key with this id, or NULL. */
const pj_key_t *keys_find(const struct keys *keys, pj_str_t kid);

/* Whether a key that keys_find() gave is in the key set.  One that is not
 * verifies refresh tokens alone. */
bool keys_is_published(const struct keys *keys, const pj_key_t *key);

/* A key pair as three settings. */
struct new_keys {
    char kid[PJ_KID_MAX_BYTES + 1];
    char private_text[4096];
    char public_text[1024];
};

/* Makes a key for alg; kid NULL: the RFC 7638 thumbprint.  The caller wipes
 * *out. */
PJ_MUST_CHECK bool keys_generate(const char *kid, const pj_alg_t *alg,
                                 struct new_keys *out);
