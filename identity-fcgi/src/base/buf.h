/* A bounded byte buffer with a sticky overflow flag. */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An append that does not fit sets overflow.  The content is invalid from then
 * on, so a series of appends needs only one check at the end. */
struct buf {
    char *data;
    size_t len;
    size_t cap;
    bool overflow;
};

/* Binds b to caller memory and empties it. */
void buf_init(struct buf *b, void *mem, size_t cap);

/* Wipes and empties b and clears overflow; it keeps its memory. */
void buf_reset(struct buf *b);

void buf_add(struct buf *b, const void *data, size_t len);
/* Appends len bytes for the caller to fill; NULL when they do not fit. */
char *buf_take(struct buf *b, size_t len);
void buf_addz(struct buf *b, const char *cstr);
void buf_addc(struct buf *b, char c);
void buf_addi(struct buf *b, int64_t v); /* in decimal */
void buf_addf(struct buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
