/* Writes JSON into a struct buf, with commas and escapes where they belong. */

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

/* name is NULL inside an array and for the root value.  It is written without
 * escaping. */
void jsonw_object(struct jsonw *w, const char *name);
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w, const char *name);
void jsonw_array_end(struct jsonw *w);

/* Invalid UTF-8 is written as U+FFFD, so that the output is always valid
 * JSON. */
void jsonw_string(struct jsonw *w, const char *name, const void *s,
                  size_t len);
void jsonw_cstr(struct jsonw *w, const char *name, const char *s);
void jsonw_int(struct jsonw *w, const char *name, int64_t v);
void jsonw_bool(struct jsonw *w, const char *name, bool v);
void jsonw_null(struct jsonw *w, const char *name);
/* A value that is JSON already, which the caller guarantees. */
void jsonw_json(struct jsonw *w, const char *name, const char *json,
                size_t len);

#endif
