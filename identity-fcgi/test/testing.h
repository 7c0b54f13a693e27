/* Shared by the unit test programs of this folder. */

#ifndef TESTING_H_INCLUDED
#define TESTING_H_INCLUDED

#include "test/testing.h"

#include <pj.h>
#include <string.h>

static inline pj_str_t str(const char *text)
{
    return (pj_str_t){(const unsigned char *) text, strlen(text)};
}

static inline bool is(pj_str_t s, const char *text)
{
    return s.len == strlen(text) &&
           (s.len == 0 || memcmp(s.data, text, s.len) == 0);
}

#endif
