/* The key that verifies a client's assertion. */

#pragma once

#include <pj.h>

/* Returns the beginning of a JWK of the key type that the algorithm of jws
 * needs, as pj_jwks_emit() writes it. */
const char *client_key_begin(const pj_jws_t *jws);

/* Verifies the signature of jws, whose header was read, with own: the client's
 * public key as a JWK, or "".  A key of the right algorithm and size that
 * nobody has stands in if it is missing or another one; the result is false
 * then.  Either way one key is parsed and one signature verified, so that the
 * time tells neither who is a client nor which keys it has.  seed is of the
 * client, and secret. */
PJ_MUST_CHECK bool client_key_verify(pj_arena_t *arena, pj_str_t seed,
                                     const char *own, const pj_jws_t *jws);
