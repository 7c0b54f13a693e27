/* Faults of what a caller sent, for the member errors of a problem. */

#pragma once

#include "base/jsonw.h"

enum fault_code {
    FAULT_CONFLICT,  /* differs from the same in another place */
    FAULT_MALFORMED, /* not of the form that it needs */
    FAULT_MISSING,
    FAULT_NOT_ALLOWED, /* of the right form, but this value is refused */
    FAULT_OUT_OF_RANGE,
    FAULT_TOO_LONG,  /* text or array */
    FAULT_TOO_SHORT, /* text */
    FAULT_UNKNOWN,   /* the call does not take this member or parameter, or
                        nothing has this id */
    FAULT_WRONG_TYPE
};

/* Exactly one member of pointer, parameter and header is set. */
struct fault {
    enum fault_code code;
    const char *pointer;      /* into the JSON body (RFC 6901), "" for all */
    const char *parameter;    /* name in the query, "" for all of it */
    const char *header;       /* name */
    int64_t minimum, maximum; /* 0 if there is none */
};

#define FAULTS_MAX 16 /* further ones are not named */

struct faults {
    struct fault items[FAULTS_MAX];
    size_t count;
    char detail[160]; /* of the first one, a sentence */
    bool no_memory;   /* the body could not be read, so not judged */
};

/* Adds a fault unless there are too many; strings are the caller's. */
void fault_add(struct faults *faults, struct fault fault);

/* Writes the member errors. */
void fault_write(struct jsonw *json, const struct faults *faults);
