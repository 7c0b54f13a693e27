/* UUIDs (RFC 9562): random ones, their text and their bytes; hexadecimal. */

#pragma once

#include <pj.h>

#define UUID_BYTES 16
#define UUID_LEN 36 /* of the text: lower case, with its four dashes */

/* A random (version 4) UUID, NUL-terminated; false when no randomness. */
PJ_MUST_CHECK bool uuid_generate(char out[UUID_LEN + 1]);

/* Writes n bytes as small hexadecimal digits, and a NUL: returns where. */
char *uuid_hex(char *out, const unsigned char *bytes, size_t n);

/* The text of bytes, and a NUL. */
void uuid_write(char out[UUID_LEN + 1], const unsigned char bytes[UUID_BYTES]);

/* The bytes of a UUID exactly as uuid_write() writes it; uuid_parse() takes
 * capital letters too.  False for any other text. */
PJ_MUST_CHECK bool uuid_read(unsigned char bytes[UUID_BYTES], pj_str_t text);
PJ_MUST_CHECK bool uuid_parse(unsigned char bytes[UUID_BYTES], pj_str_t text);
