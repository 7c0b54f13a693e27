/* The keys of PLATFORM_AUTH_FACTOR_KEYS: "id=base64,id=base64", each of 32
 * bytes. */

#pragma once

#include <pj.h>

#define FACTOR_KEY_BYTES 32
#define FACTOR_KEY_ID_MAX 64

struct factor_key {
    char id[FACTOR_KEY_ID_MAX + 1];
    unsigned char bytes[FACTOR_KEY_BYTES]; /* wipe after use */
};

/* True if text is a list of 1 to 16 keys with different ids. */
bool factor_key_check(const char *text);

/* Reads the key of this id, or the first one if id is NULL, from a list that
 * passed the check or is NULL.  False if there is none. */
PJ_MUST_CHECK bool factor_key_find(const char *text, const char *id,
                                   struct factor_key *out);
