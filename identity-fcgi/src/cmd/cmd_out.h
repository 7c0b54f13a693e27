/* What a command prints: aligned lines for people, or JSON. */

#ifndef CMD_OUT_H_INCLUDED
#define CMD_OUT_H_INCLUDED

#include "base/buf.h"
#include "base/jsonw.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * One object, or a list of objects.  Every value has a name in JSON and a
 * label for people; either may be NULL, and the value is then left out there.
 * In a list the labels head the columns.
 */
struct out {
    bool json;
    bool list;
    bool begun;  /* a list's head was printed */
    bool failed; /* standard output took no more */
    struct jsonw w;
    struct buf text;
    struct buf head; /* labels of a list's columns */
    char *mem;
};

bool out_open(struct out *o, bool json, bool list);
/* Prints what is left; false when standard output did not take it all. */
bool out_close(struct out *o) __attribute__((warn_unused_result));

/* The same without printing what is not out yet. */
void out_discard(struct out *o);

/* Around the values of one object of a list. */
void out_row(struct out *o);
void out_row_end(struct out *o);

/* width is the column's in a list. */
void out_text(struct out *o, const char *name, const char *label, int width,
              const char *value); /* "" is null, and "-" for people */
void out_number(struct out *o, const char *name, const char *label,
                int64_t value);
/* true and false; "yes" and "no" for people. */
void out_bool(struct out *o, const char *name, const char *label, bool value);
/* Seconds of the epoch; 0 is null. */
void out_time(struct out *o, const char *name, const char *label,
              int64_t epoch_s);
/* A string of values without commas, joined by commas, as an array. */
void out_list(struct out *o, const char *name, const char *label,
              const char *joined);
/* A value that is JSON already; not for people. */
void out_json(struct out *o, const char *name, const char *json, size_t len);
/* One line for people. */
void out_line(struct out *o, const char *line);

#endif
