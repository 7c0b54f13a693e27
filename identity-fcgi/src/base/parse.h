/* The texts of settings: the forms of values, and environment files. */

#pragma once

#include "base/error.h"

#include <pj.h>

/* -- values: each tells whether text is of its form, and then fills *out -- */

/* Integer seconds, or a number (with up to three decimals) followed by s, m,
 * h or d; in milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/* A number, or a duration, within range: "LOW to HIGH". */
bool parse_within(const char *text, const char *range, bool duration,
                  int64_t *out);

/* One of words ("one, two"), in any case; its place among them. */
bool parse_word(const char *text, const char *words, int64_t *out);

/* At most max bytes (0: 65536) that match an extended regular expression as a
 * whole (NULL: any bytes). */
bool parse_form(const char *text, const char *form, size_t max);

/* For forms: visible ASCII without the double quote and the backslash. */
#define PARSE_VISIBLE "[]!#-[^-~]"

/* The id of a key: one that PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS and an
 * unquoted line of an environment file can hold. */
#define PARSE_KID_ACCEPTED                                                     \
    "visible ASCII without quotes, backslashes, commas and equals signs, at "  \
    "most 255"
bool parse_kid(const char *text);

/* host:port, [v6]:port, or (with a slash in it) a Unix socket's path, each
 * optionally as nginx writes it ("unix:"). */
bool parse_listen(const char *text);

/* A comma-separated list of hosts, as libpq takes them, all this machine. */
bool parse_loopback(const char *hosts);

/* -- names of accounts -- */

#define ACCOUNT_NAME_MAX 320 /* bytes */

/* As they are compared: trims spaces, tabs, CR and LF and folds A-Z.  *out
 * points into mem, which has room for in.len bytes.  NULL, or what such a name
 * must do that this one does not. */
PJ_MUST_CHECK const char *parse_account_name(pj_str_t in, unsigned char *mem,
                                             pj_str_t *out);

/* -- environment files -- */

#define PARSE_ENV_MAX_BYTES (1024 * 1024)

struct parse_env {
    char **vars; /* NAME=value as in environ; they point into text */
    size_t count;
    char *text;
};

/* Reads a plain subset of systemd's EnvironmentFile=: lines NAME=value, blank
 * lines, comments after # or ; at the start of a line.  A value is bare, or
 * whole between double quotes, where \ before one of "\`$ stands for that
 * character, or between single quotes.  A later line wins over an earlier one
 * of that name.  What systemd would read in another way (a value of several
 * lines, a bare backslash) or only warn of is refused: one line in *e,
 * without any value, and *file is empty. */
PJ_MUST_CHECK bool parse_env_read(struct parse_env *file, const char *path,
                                  struct error *e);

/* NULL: there is none. */
const char *parse_env_get(const struct parse_env *file, const char *name);

/* Wipes and frees. */
void parse_env_free(struct parse_env *file);
