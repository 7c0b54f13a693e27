/* Environment files in the syntax of systemd's EnvironmentFile=. */

#ifndef ENVFILE_H_INCLUDED
#define ENVFILE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

#define ENVFILE_MAX_BYTES (1024 * 1024)

struct envfile_var {
    char *name; /* value stands in the same block */
    char *value;
};

struct envfile {
    struct envfile_var *vars;
    size_t count;
};

/*
 * Reads path: NAME=value lines, comments after # or ; at the start of a line,
 * values bare, 'single' or "double" quoted, a backslash before the end of a
 * line continues it.  Quotes within a bare value are part of it.  A later line
 * wins over an earlier one of that name.  On failure one line in err, without
 * any value, and *file is empty: also for the lines that systemd only warns of
 * (no NAME=, a quote that is never closed).
 */
bool envfile_read(struct envfile *file, const char *path, char *err,
                  size_t err_cap) __attribute__((warn_unused_result));

/* The same from text[0..len); path is for messages alone. */
bool envfile_parse(struct envfile *file, const char *path, const char *text,
                   size_t len, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

/* The value of name, or NULL. */
const char *envfile_get(const struct envfile *file, const char *name);

/* Wipes and frees. */
void envfile_free(struct envfile *file);

#endif
