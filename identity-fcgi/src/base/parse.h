/* Parsing of settings, names of accounts and environment files. */

#pragma once

#include "base/error.h"

#include <pj.h>

/* -- values: each returns true and sets *out if text has its form -- */

/* Integer seconds, or a number (up to three decimals) followed by s, m, h or d.
 * In milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/* A time in UTC, like 2026-11-21T10:15:00Z, after 1970.  In seconds. */
bool parse_time(const char *text, int64_t *out_s);

/* A number or a duration within range, "LOW to HIGH". */
bool parse_within(const char *text, const char *range, bool duration,
                  int64_t *out);

/* A word of words ("one, two"), in any letter case.  *out is its index. */
bool parse_word(const char *text, const char *words, int64_t *out);

/* True if text has at most max bytes (or 65536, if max is 0) and matches an
 * extended regular expression as a whole.  A NULL form matches anything. */
bool parse_form(const char *text, const char *form, size_t max);

/* A character class: visible ASCII without the double quote and backslash. */
#define PARSE_VISIBLE "[]!#-[^-~]"

/* The id of a key.  The rules keep it valid in
 * PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS and in an unquoted line of an environment
 * file. */
#define PARSE_KID_ACCEPTED                                                     \
    "visible ASCII without quotes, backslashes, commas and equals signs, at "  \
    "most 255"
bool parse_kid(const char *text);

/* host:port, [v6]:port or the path of a Unix socket, which contains a slash.
 * An "unix:" prefix, as in nginx, is accepted. */
bool parse_listen(const char *text);

/* Returns true if all hosts of this list, in libpq's form, are this machine. */
bool parse_loopback(const char *hosts);

/* -- names of accounts -- */

#define ACCOUNT_NAME_MAX 320 /* bytes */

/* Normalises a name for comparison: trims spaces, tabs, CR and LF and converts
 * A-Z to lower case.  *out points into mem, which has in.len bytes.  Returns
 * NULL, or the rule that the name breaks, as the end of "the name must ...". */
PJ_MUST_CHECK const char *parse_account_name(pj_str_t in, unsigned char *mem,
                                             pj_str_t *out);

/* -- environment files -- */

#define PARSE_ENV_MAX_BYTES (1024 * 1024)

struct parse_env {
    char **vars; /* NAME=value as in environ; point into text */
    size_t count;
    char *text;
};

/*
 * Reads a subset of systemd's EnvironmentFile=: lines NAME=value, blank lines,
 * and comments that start with # or ;.  A value is unquoted, or enclosed in
 * single or double quotes; in double quotes a backslash escapes "\`$. The last
 * line of a name wins.
 *
 * Input that systemd would read differently (multi-line values, unquoted
 * backslashes) or only warn about is refused: *e has one line without any
 * value, and *file is empty.
 */
PJ_MUST_CHECK bool parse_env_read(struct parse_env *file, const char *path,
                                  struct error *e);

const char *parse_env_get(const struct parse_env *file, const char *name);

void parse_env_free(struct parse_env *file);
