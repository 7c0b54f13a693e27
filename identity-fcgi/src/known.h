/* Tokens whose signature is known to hold, and what refresh tokens say. */

#ifndef KNOWN_H_INCLUDED
#define KNOWN_H_INCLUDED

#include <pj.h>
#include <stdbool.h>

#define KNOWN_SHA256_BYTES 32

/*
 * A table of 65,536 tokens in 6 MiB: a new one takes the place of an older
 * one.  What is in it was signed by this process or verified by it with the
 * keys that the table belongs to, so it is made and freed with them.
 *
 * Of a token the SHA-256 of all of its bytes is kept.  Of a refresh token of
 * the table's issuer that holds its eight claims and no other, its ids
 * lower-case UUIDs, also what the claims say: it comes back whole, without a
 * look into the token.  Whether it may pass now (issuer, times, type) has to
 * be asked each time.  Any number of threads may use a table.
 */
struct known; /* opaque */

/* The name of a token in a table. */
struct known_name {
    bool good; /* false where there is no table, or no digest to be had */
    unsigned char sha256[KNOWN_SHA256_BYTES];
};

enum known_state {
    KNOWN_NOT,       /* nothing is known */
    KNOWN_SIGNATURE, /* its signature holds */
    KNOWN_CLAIMS     /* and these are its claims */
};

/* issuer is copied; NULL: no claims are kept.  NULL when memory is short. */
struct known *known_new(const char *issuer);
void known_free(struct known *k);

/* k may be NULL here, nothing is known then. */
void known_name(const struct known *k, pj_str_t token,
                struct known_name *name);

/*
 * What is known of a token.  KNOWN_CLAIMS: *claims are, but for root, which is
 * NULL, what pj_claims_parse() makes of it; they point into arena and k.
 */
enum known_state known_find(struct known *k, const struct known_name *name,
                            pj_arena_t *arena, pj_claims_t *claims);

/*
 * Makes a token known, the signature of which holds, with its claims where
 * they can be kept.  root may be NULL if the token says nothing but what a
 * refresh token has to; claims may be NULL.
 */
void known_add(struct known *k, const struct known_name *name,
               const pj_claims_t *claims);

#endif
