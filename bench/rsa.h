/* RS256 for the bench programs, as fast as OpenSSL does it: the key and the
 * digest are fetched once, contexts are made once and used again. */

#ifndef BENCH_RSA_H_INCLUDED
#define BENCH_RSA_H_INCLUDED

#include <pj.h>
#include <stdbool.h>
#include <stddef.h>

#define RSA_SIGNATURE_BYTES 256 /* of the 2048-bit keys measured here */

/* Everything one thread needs; not to be shared between threads. */
struct rsa;

/* Reads a private key of 2048 bits from a PEM file; NULL, after a line on
 * standard error, when there is none.  The caller frees it. */
struct rsa *rsa_new(const char *pem_path);
void rsa_free(struct rsa *rsa);

/* The same key as the project's own code takes it; NULL, after a line on
 * standard error.  The caller frees it. */
pj_key_t *rsa_jose_key(const char *pem_path, const char *kid);

bool rsa_sign(struct rsa *rsa, const void *text, size_t len,
              unsigned char sig[RSA_SIGNATURE_BYTES])
    __attribute__((warn_unused_result));
bool rsa_verify(struct rsa *rsa, const void *text, size_t len,
                const unsigned char sig[RSA_SIGNATURE_BYTES])
    __attribute__((warn_unused_result));

#endif
