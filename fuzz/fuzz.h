/* Shared by the fuzz targets; fuzz/run builds and runs them. */

#ifndef FUZZ_H_INCLUDED
#define FUZZ_H_INCLUDED

#include "pj_internal.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Holds in every build: a broken promise must stop the fuzzer. */
#define FUZZ_ASSERT(cond)                                                      \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__,       \
                    #cond);                                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Exactly size bytes, so that a sanitizer sees the first one too many. */
static inline unsigned char *fuzz_alloc(size_t size)
{
    unsigned char *mem = malloc(size);

    FUZZ_ASSERT(mem != NULL || size == 0);
    return mem;
}

#endif /* FUZZ_H_INCLUDED */
