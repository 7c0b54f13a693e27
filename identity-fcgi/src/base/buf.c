/* A bounded byte buffer with a sticky overflow flag. */

#include "base/buf.h"

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, void *mem, size_t cap)
{
    b->data = mem;
    b->len = 0;
    b->cap = cap;
    b->overflow = false;
}

void buf_reset(struct buf *b)
{
    OPENSSL_cleanse(b->data, b->len);
    b->len = 0;
    b->overflow = false;
}

char *buf_take(struct buf *b, size_t len)
{
    char *at = b->data + b->len;

    if (b->overflow || len > b->cap - b->len) {
        b->overflow = true;
        return NULL;
    }
    b->len += len;
    return at;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    char *at = buf_take(b, len);

    if (at != NULL && len != 0) {
        memcpy(at, data, len);
    }
}

void buf_addz(struct buf *b, const char *cstr)
{
    buf_add(b, cstr, strlen(cstr));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addi(struct buf *b, int64_t v)
{
    char digits[20], *p = digits + sizeof(digits);
    uint64_t left = v < 0 ? -(uint64_t) v : (uint64_t) v;

    do {
        *--p = (char) ('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (v < 0) {
        *--p = '-';
    }
    buf_add(b, p, (size_t) (digits + sizeof(digits) - p));
}

void buf_addf(struct buf *b, const char *format, ...)
{
    va_list ap;
    size_t room;
    int n;

    if (b->overflow) {
        return;
    }
    room = b->cap - b->len;
    va_start(ap, format);
    n = vsnprintf(room != 0 ? b->data + b->len : NULL, room, format, ap);
    va_end(ap);
    /* vsnprintf needs room for a NUL, so a text that fills the buffer to the
     * last byte counts as overflow. */
    if (n < 0 || (size_t) n >= room) {
        b->overflow = true;
        return;
    }
    b->len += (size_t) n;
}
