/* Parsers of setting values: text in, typed field out, no policy. */

#ifndef CONFIG_PARSE_H_INCLUDED
#define CONFIG_PARSE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Each returns true when text is of its form, and then fills *out where there
 * is one.  text is never NULL and never empty.
 */

/* true, false, 1, 0, on, off; any case. */
bool parse_bool(const char *text, bool *out);

/* A decimal integer with nothing around it, 0 to INT64_MAX. */
bool parse_int(const char *text, int64_t *out);

/* Integer seconds, or a number (with up to three decimals) followed by s, m,
 * h or d; in milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/* Visible ASCII without the double quote and the backslash, at most max
 * bytes. */
bool parse_visible(const char *text, size_t max);

/* The id of a key: 1 to 255 bytes that PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS
 * and an unquoted line of an environment file can hold. */
#define PARSE_KID_ACCEPTED                                                    \
    "visible ASCII without quotes, backslashes, commas and equals signs, at " \
    "most 255"
bool parse_kid(const char *text);

/* RFC 9110 token characters, at most 128. */
bool parse_token(const char *text);

/* A cookie path: starts with a slash, no semicolon, no control character. */
bool parse_cookie_path(const char *text);

/* host:port, [v6]:port, or (with a slash in it) a Unix socket's path, each
 * optionally as nginx writes it ("unix:"). */
bool parse_listen(const char *text);

/* A host name or address. */
bool parse_host(const char *text);

/* 1 to 65535. */
bool parse_port(const char *text);

/* A comma-separated list of ports; an empty item is libpq's default. */
bool parse_port_list(const char *text);

/* scheme://host[:port], scheme http or https; with wildcard the host may
 * begin with a "*." label before two or more others.  The gateway's rules. */
bool parse_origin(const char *text, size_t len, bool wildcard);

/* Turns an origin into what a browser sends: small letters, no default port.
 */
void fold_origin(char *origin);

/* http or https URL without blanks, quotes, fragment or user. */
bool parse_url(const char *text);

/* "off", "10r/s" or "10r/s burst 20" (also r/m). */
bool parse_rate(const char *text);

/* Addresses and CIDRs, space- or comma-separated; a prefix of 0 is refused.
 */
bool parse_cidr_list(const char *text);

#endif
