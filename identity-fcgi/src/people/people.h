/* Operations on people and places: a function each, with its statement.
 * Commands and the API are two faces of them, with the same members and
 * refusals. */

#pragma once

#include <stddef.h>

#define PEOPLE_PAGE 100      /* default length of a list */
#define PEOPLE_PAGE_MAX 1000 /* and its limit */

/* A member of a result.  Its field is of the type in the comment. */
struct people_member {
    const char *name; /* NULL after the last one */
    enum people_type {
        PEOPLE_TEXT,   /* const char *, NULL for null */
        PEOPLE_NUMBER, /* int64_t */
        PEOPLE_TIME,   /* int64_t, microseconds since 1970 */
        PEOPLE_LIST    /* const char *, elements separated by commas */
    } type;
    size_t offset; /* of the field in its struct */
};
