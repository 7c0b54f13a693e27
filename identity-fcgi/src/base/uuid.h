/* UUIDs (RFC 9562): generating, reading, writing; hexadecimal digits. */

#pragma once

#include <pj.h>

#define UUID_BYTES 16
#define UUID_LEN 36 /* length of the text, lower case with four dashes */

/* Writes a random (version 4) UUID and a NUL. False if randomness is
 * unavailable. */
PJ_MUST_CHECK bool uuid_generate(char out[UUID_LEN + 1]);

/* Writes n bytes as lower-case hexadecimal digits and a NUL. Returns a pointer
 * to the NUL. */
char *uuid_hex(char *out, const unsigned char *bytes, size_t n);

void uuid_write(char out[UUID_LEN + 1], const unsigned char bytes[UUID_BYTES]);

/* Parse a UUID. uuid_read() accepts only the form that uuid_write() writes,
 * uuid_parse() also capital letters. */
PJ_MUST_CHECK bool uuid_read(unsigned char bytes[UUID_BYTES], pj_str_t text);
PJ_MUST_CHECK bool uuid_parse(unsigned char bytes[UUID_BYTES], pj_str_t text);
