/* Writes JSON, with its commas and escapes, into a struct buf. */

#pragma once

#include "base/buf.h"

#include <stdint.h>

#define JSONW_MAX_DEPTH 8

struct jsonw {
    struct buf *out;
    unsigned depth;
    bool need_comma[JSONW_MAX_DEPTH];
};

void jsonw_init(struct jsonw *w, struct buf *out);

/* name is NULL in an array and for the root.  It is not escaped. */
void jsonw_open(struct jsonw *w, const char *name, char bracket);
void jsonw_close(struct jsonw *w, char bracket);
#define jsonw_object(w, name) jsonw_open(w, name, '{')
#define jsonw_object_end(w) jsonw_close(w, '}')
#define jsonw_array(w, name) jsonw_open(w, name, '[')
#define jsonw_array_end(w) jsonw_close(w, ']')

/* Invalid UTF-8 is written as U+FFFD: the output is always valid JSON. */
void jsonw_string(struct jsonw *w, const char *name, const void *s, size_t len);
void jsonw_cstr(struct jsonw *w, const char *name, const char *s);
void jsonw_int(struct jsonw *w, const char *name, int64_t v);
/* A time in microseconds since 1970, as RFC 3339 in UTC; null for 0. */
void jsonw_time(struct jsonw *w, const char *name, int64_t us);
/* Writes a value that the caller guarantees to be valid JSON. */
void jsonw_json(struct jsonw *w, const char *name, const char *json,
                size_t len);
#define jsonw_null(w, name) jsonw_json(w, name, "null", 4)
#define jsonw_bool(w, name, v)                                                 \
    jsonw_json(w, name, (v) ? "true" : "false", (v) ? 4 : 5)
