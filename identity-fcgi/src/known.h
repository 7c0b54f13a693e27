/* Tokens whose signature is known to hold. */

#ifndef KNOWN_H_INCLUDED
#define KNOWN_H_INCLUDED

#include <pj.h>
#include <stdbool.h>

/*
 * A table of SHA-256 digests of whole tokens, bounded: a new one takes the
 * place of an older one.  What is in it was signed by this process or verified
 * by it with the keys that the table belongs to, so it is made and freed with
 * them.  Nothing but the signature is known: issuer, times and type have to be
 * looked at each time.  Any number of threads may use it.
 */
struct known; /* opaque */

/* NULL when memory is short. */
struct known *known_new(void);
void known_free(struct known *k);

/* Both do nothing, and know nothing, where k is NULL. */
void known_add(struct known *k, pj_str_t token);
bool known_has(struct known *k, pj_str_t token);

#endif
