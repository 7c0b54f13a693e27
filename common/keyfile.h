/* The names of files in a directory of keys: KID.STATE.SINCE.pem. */

#ifndef KEYFILE_H_INCLUDED
#define KEYFILE_H_INCLUDED

#include <pj.h>

typedef enum {
    KEYFILE_SIGNING,   /* in the key set; the newest of them signs */
    KEYFILE_PUBLISHED, /* in the key set, not signing yet */
    KEYFILE_REFRESH    /* not in the key set */
} keyfile_state_t;

typedef struct {
    pj_str_t kid; /* not empty; may contain dots, but not begin with one */
    keyfile_state_t state;
    int64_t since; /* when the state began, in seconds */
} keyfile_t;

/* Returns false if the name is not that of a key. */
bool keyfile_parse(keyfile_t *file, pj_str_t name);

/* A file has the private key, the public key after it, or one of them. */
typedef struct {
    pj_str_t private; /* PEM; empty if absent */
    pj_str_t public;
} keyfile_parts_t;

keyfile_parts_t keyfile_split(pj_str_t text);

#endif /* KEYFILE_H_INCLUDED */
