/* Signatures for the bench programs, as fast as OpenSSL makes them: the key and
 * the digest are fetched once, and contexts are reused. */

#ifndef BENCH_KEY_H_INCLUDED
#define BENCH_KEY_H_INCLUDED

#include <pj.h>
#include <stdbool.h>
#include <stddef.h>

#define SIGNATURE_MAX_BYTES 256 /* of RSA with 2048 bits, or on P-256 */

struct signature {
    unsigned char bytes[SIGNATURE_MAX_BYTES]; /* in OpenSSL's format */
    size_t len;
};

/* The contexts of one thread. */
struct key;

/* Reads a private key, RSA of 2048 bits or on P-256, from a PEM file.
 * On failure prints one line on standard error and returns NULL.  The caller
 * frees the key. */
struct key *key_new(const char *pem_path);
void key_free(struct key *key);

/* Returns the same key in the type that jose/ takes.  On failure prints one
 * line on standard error and returns NULL.  The caller frees the key. */
pj_key_t *key_jose(const char *pem_path, const char *kid);

/* Signs with SHA-256: RS256, or ES256 in OpenSSL's format. */
bool key_sign(struct key *key, const void *text, size_t len,
              struct signature *out) __attribute__((warn_unused_result));
bool key_verify(struct key *key, const void *text, size_t len,
                const struct signature *sig)
    __attribute__((warn_unused_result));

#endif
