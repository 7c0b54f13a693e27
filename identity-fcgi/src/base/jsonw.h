/* Writes JSON into a struct buf; commas and escapes are its business. */

#ifndef JSONW_H_INCLUDED
#define JSONW_H_INCLUDED

#include "base/buf.h"

#include <stdint.h>

#define JSONW_MAX_DEPTH 8

struct jsonw {
    struct buf *out;
    unsigned depth;
    bool need_comma[JSONW_MAX_DEPTH];
};

void jsonw_init(struct jsonw *w, struct buf *out);

/* name is NULL inside an array and for the root value; it is written as it is,
 * without escapes. */
void jsonw_object(struct jsonw *w, const char *name);
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w, const char *name);
void jsonw_array_end(struct jsonw *w);

/* Bytes that are not valid UTF-8 are written as U+FFFD, so that what comes
 * out is JSON whatever goes in. */
void jsonw_string(struct jsonw *w, const char *name, const void *s,
                  size_t len);
void jsonw_cstr(struct jsonw *w, const char *name, const char *s);
void jsonw_int(struct jsonw *w, const char *name, int64_t v);
void jsonw_bool(struct jsonw *w, const char *name, bool v);
void jsonw_null(struct jsonw *w, const char *name);
/* A value that is JSON already; the caller has made sure. */
void jsonw_json(struct jsonw *w, const char *name, const char *json,
                size_t len);

#endif
