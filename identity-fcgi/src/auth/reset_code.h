/* Codes that let a person set a credential. */

#pragma once

#include <pj.h>

#define RESET_CODE_CHARS 19 /* 16 of base32 (80 bits) in groups of four */
#define RESET_CODE_BYTES 32 /* of the hash, SHA-256 */

/* Generates a code, NUL-terminated, and its hash.  False without randomness. */
PJ_MUST_CHECK bool reset_code_new(char code[RESET_CODE_CHARS + 1],
                                  unsigned char hash[RESET_CODE_BYTES]);

/* Hashes a code as a person types it: in any letter case, with or without
 * dashes and spaces.  The hash of any other text matches none of the codes.
 * False if the hash cannot be computed. */
PJ_MUST_CHECK bool reset_code_hash(pj_str_t text,
                                   unsigned char hash[RESET_CODE_BYTES]);
