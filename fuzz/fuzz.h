/* Shared by the fuzz targets.  Each is a file fuzz_NAME.c, whose first comment
 * says what holds for any input; its seeds, and all that ever broke it, are
 * fuzz/corpus/NAME. */

#ifndef FUZZ_H_INCLUDED
#define FUZZ_H_INCLUDED

#include "pj_internal.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* The text before the first sep, which is taken off *rest, or all of it. */
static inline pj_str_t fuzz_split(pj_str_t *rest, unsigned char sep)
{
    const unsigned char *at =
        rest->len > 0 ? memchr(rest->data, sep, rest->len) : NULL;
    pj_str_t part = *rest;

    if (at == NULL) {
        *rest = (pj_str_t){NULL, 0};
        return part;
    }
    part.len = (size_t) (at - part.data);
    *rest = (pj_str_t){at + 1, rest->len - part.len - 1};
    return part;
}

/* Base64url by another way than ours: bit by bit.  SIZE_MAX: it is none. */
static inline size_t fuzz_b64url(unsigned char *dst, pj_str_t src)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned value = 0, bits = 0;
    size_t len = 0;

    for (size_t i = 0; i < src.len; i++) {
        const char *at = src.data[i] != 0 ? strchr(letters, src.data[i]) : NULL;

        if (at == NULL)
            return SIZE_MAX;
        value = value << 6 | (unsigned) (at - letters);
        bits += 6;
        if (bits >= 8)
            dst[len++] = (unsigned char) (value >> (bits -= 8));
        value &= (1u << bits) - 1;
    }
    return bits >= 6 || value != 0 ? SIZE_MAX : len;
}

/* Uses an input that begins with '{' as what build makes of it, in at most
 * 2 * len + 4096 bytes, any other as it is. */
static inline void
fuzz_built(pj_str_t input, size_t (*build)(char *dst, size_t cap, pj_str_t in),
           void (*use)(pj_str_t text))
{
    size_t cap = 2 * input.len + 4096, size;
    unsigned char *exact;
    char *text;

    if (input.len == 0 || input.data[0] != '{') {
        use(input);
        return;
    }
    text = (char *) fuzz_alloc(cap);
    size = build(text, cap, input);
    exact = fuzz_alloc(size);
    memcpy(exact, text, size);
    use((pj_str_t){exact, size});
    free(exact);
    free(text);
}

/* A file in memory with these bytes, the only one at a time, and its path. */
static inline const char *fuzz_file(pj_str_t bytes)
{
    static int fd = -1;
    static char path[64];

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_ASSERT(fd >= 0 && ftruncate(fd, 0) == 0 &&
                pwrite(fd, bytes.data, bytes.len, 0) == (ssize_t) bytes.len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return path;
}

static inline char *fuzz_dir_path(void)
{
    static char path[256];

    return path;
}

static inline void fuzz_dir_remove(void)
{
    (void) rmdir(fuzz_dir_path());
}

/* An empty directory, the only one, that a target leaves empty. */
static inline const char *fuzz_dir(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(fuzz_dir_path(), 256, "%s/fuzz.XXXXXX",
             parent != NULL ? parent : "/tmp");
    FUZZ_ASSERT(mkdtemp(fuzz_dir_path()) != NULL &&
                atexit(fuzz_dir_remove) == 0);
    return fuzz_dir_path();
}

#endif /* FUZZ_H_INCLUDED */
