/* Environment files: a plain subset of systemd's EnvironmentFile=. */

#ifndef ENVFILE_H_INCLUDED
#define ENVFILE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

#define ENVFILE_MAX_BYTES (1024 * 1024)

struct envfile_var {
    char *name; /* both stand in text */
    char *value;
};

struct envfile {
    struct envfile_var *vars;
    size_t count;
    char *text;
};

/*
 * Reads path: lines NAME=value, blank lines, comments after # or ; at the
 * start of a line.  A value is bare, or whole between double quotes, where \
 * before one of "\`$ stands for that character, or between single quotes.  A
 * later line wins over an earlier one of that name.  On failure one line in
 * err, without any value, and *file is empty: also for what systemd would read
 * in another way (a value of several lines, a bare backslash) or only warn of.
 */
bool envfile_read(struct envfile *file, const char *path, char *err,
                  size_t err_cap) __attribute__((warn_unused_result));

/* The value of name, or NULL. */
const char *envfile_get(const struct envfile *file, const char *name);

/* Wipes and frees. */
void envfile_free(struct envfile *file);

#endif
