/* Bodies of HTML forms: application/x-www-form-urlencoded. */

#pragma once

#include <pj.h>

#define FORM_MAX 32 /* parameters in a form */

struct form {
    struct form_parameter {
        pj_str_t name, value;
    } parameters[FORM_MAX];
    size_t count;
};

/* Decodes text: "+" is a space, "%XX" a byte (WHATWG URL section 5.1, and RFC
 * 6749 appendix B).  *out is in the arena.  False if an escape is malformed,
 * the result is not UTF-8 or contains NUL, or memory is short. */
PJ_MUST_CHECK bool form_decode(pj_arena_t *arena, pj_str_t text, pj_str_t *out);

/* Parses a body.  Returns NULL, or the fault as the end of "the form ...".
 * Parameters without a value are left out (RFC 6749 section 3.2); a name that
 * comes twice is a fault. */
PJ_MUST_CHECK const char *form_parse(struct form *form, pj_arena_t *arena,
                                     pj_str_t body);

/* Returns the value of a parameter, or an empty span. */
pj_str_t form_get(const struct form *form, const char *name);
