/* The signing key, the additional public keys and the published key set. */

#pragma once

#include "auth/keys_dir.h"
#include "base/config.h"
#include "base/http.h"

#include <pj.h>

#define KEYS_MAX_ADDITIONAL (KEYS_DIR_MAX - 1)

/* A consistent set of keys, immutable and reference-counted: a reload replaces
 * the whole set while requests finish with the set they started with. */
struct keys {
    pj_key_t *signing; /* private; NULL if local and not configured */
    pj_key_t *verifying[1 + KEYS_MAX_ADDITIONAL]; /* [0] is the public half of
                                                     signing */
    size_t verifying_count;
    size_t published_count; /* the others verify only refresh tokens */
    char *dir;              /* source directory, or NULL */
    uint64_t stamp;         /* keys_dir_stamp() when it was read */
    char *jwks;             /* the key-set document */
    size_t jwks_len;
    char etag[HTTP_ETAG_MAX];
    /* A secret derived from the signing key. */
    unsigned char hmac_key[32];
    int refs; /* guarded by the lock of keys.c */
    size_t copy_count;
    pj_key_t *copies[]; /* of signing, for each worker; see keys_signer() */
};

/* Loads the keys from the variables of cfg or from its directory, even while
 * the directory is changing.  On failure returns NULL and *e has one line with
 * the variable's name but never its value.  If APP_ENV is local the whole
 * signing key may be missing; such a set cannot sign or verify and /readyz
 * fails. */
PJ_MUST_CHECK struct keys *keys_load(const struct config *cfg, struct error *e);

/* Returns the current set with a reference; release it by keys_release(). */
struct keys *keys_acquire(void);
void keys_release(struct keys *keys);

/* Returns the copy of the signing key for this worker (numbered from 0), so
 * that workers do not contend for its lock.  Made on the first call, freed with
 * the set. */
const pj_key_t *keys_signer(struct keys *keys, size_t worker);

/* Makes keys (may be NULL) the current set and takes over its reference. */
void keys_publish(struct keys *keys);

/* Returns the verifying key with this id, or NULL. */
const pj_key_t *keys_find(const struct keys *keys, pj_str_t kid);

/* Returns true if a key returned by keys_find() is in the published key set.
 * Other keys verify only refresh tokens. */
bool keys_is_published(const struct keys *keys, const pj_key_t *key);

/* A key pair in the form of three settings. */
struct new_keys {
    char kid[PJ_KID_MAX_BYTES + 1];
    char private_text[4096];
    char public_text[1024];
};

/* Generates a key for alg.  If kid is NULL, it is the RFC 7638 thumbprint.  The
 * caller wipes *out. */
PJ_MUST_CHECK bool keys_generate(const char *kid, const pj_alg_t *alg,
                                 struct new_keys *out);
