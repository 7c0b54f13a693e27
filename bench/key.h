/* Signatures of a digest for the bench programs, as fast as OpenSSL makes them:
 * the key and the digest are fetched once, contexts are made once and used
 * again. */

#ifndef BENCH_KEY_H_INCLUDED
#define BENCH_KEY_H_INCLUDED

#include <pj.h>
#include <stdbool.h>
#include <stddef.h>

#define SIGNATURE_MAX_BYTES 256 /* of RSA with 2048 bits, or on P-256 */

struct signature {
    unsigned char bytes[SIGNATURE_MAX_BYTES]; /* as OpenSSL has it */
    size_t len;
};

/* Everything one thread needs; not to be shared between threads. */
struct key;

/* Reads a private key, RSA of 2048 bits or on P-256, from a PEM file; NULL,
 * after a line on standard error, when there is none.  The caller frees it. */
struct key *key_new(const char *pem_path);
void key_free(struct key *key);

/* The same key as the project's own code takes it; NULL, after a line on
 * standard error.  The caller frees it. */
pj_key_t *key_jose(const char *pem_path, const char *kid);

/* With SHA-256: RS256, or ES256 but for how a token writes it. */
bool key_sign(struct key *key, const void *text, size_t len,
              struct signature *out) __attribute__((warn_unused_result));
bool key_verify(struct key *key, const void *text, size_t len,
                const struct signature *sig)
    __attribute__((warn_unused_result));

#endif
