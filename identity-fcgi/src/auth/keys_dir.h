/* Keys in a directory: a file a key, KID.STATE.SINCE.pem, whose name tells its
 * state and since when (in seconds of the epoch).  So a state changes by one
 * rename, whole or not at all.  A file holds the private key, where that is
 * there, and behind it the public one. */

#pragma once

#include "base/error.h"

#include <limits.h>
#include <pj.h>
#include <sys/types.h>

#define KEYS_DIR_MAX 16 /* as many as a set has */
#define KEYS_GOOD "RSA of 2048 bits or more, P-256 or Ed25519"
#define KEYS_DIR_TEXT 16384

enum key_state {
    KEY_SIGNING,
    KEY_REPLACED,  /* its name says "signing", but a newer one does too */
    KEY_PUBLISHED, /* in the key set, has not signed yet */
    KEY_REFRESH    /* not in the key set: for refresh tokens alone */
};

struct key_file {
    char name[NAME_MAX + 1];
    char kid[NAME_MAX + 1];
    enum key_state state;
    int64_t since; /* KEY_REPLACED, KEY_REFRESH: when it stopped signing */
};

struct keys_dir {
    int fd;
    uid_t owner; /* of the directory, and so of its files */
    gid_t group;
    size_t count;
    struct key_file files[KEYS_DIR_MAX]; /* by state */
    struct error error;                  /* of what returned false */
};

/* A number that changes with the directory's files; 0: it cannot be read. */
uint64_t keys_dir_stamp(const char *path);

/* Opens and reads the directory; refuses one that others may write to, a name
 * not of that form, and a kid with two files.  keys_dir_close() in any case.
 * With lock it waits for other commands, and keeps them out until closed. */
PJ_MUST_CHECK bool keys_dir_open(struct keys_dir *d, const char *path,
                                 bool lock);
void keys_dir_close(struct keys_dir *d);

extern const char *const keys_dir_states[]; /* their names */

/* Parses a file's public part and, unless private is NULL, the private one. */
PJ_MUST_CHECK bool keys_dir_parse(struct keys_dir *d, const struct key_file *f,
                                  pj_key_t **public, pj_key_t **private);

/* Whether all files are good, so that processes follow. */
PJ_MUST_CHECK bool keys_dir_is_good(struct keys_dir *d);

/* Whether the file is good and, if it signs, has what is needed for that. */
PJ_MUST_CHECK bool keys_dir_check(struct keys_dir *d, const struct key_file *f,
                                  bool signs);

/* When one returns true, its change is on disk.  A new file's SINCE is now, or
 * later: it is always greater than after. */
PJ_MUST_CHECK bool keys_dir_put(struct keys_dir *d, const char *kid,
                                enum key_state state, int64_t after,
                                pj_str_t text);
PJ_MUST_CHECK bool keys_dir_move(struct keys_dir *d, const struct key_file *f,
                                 enum key_state state, int64_t since);
PJ_MUST_CHECK bool keys_dir_remove(struct keys_dir *d,
                                   const struct key_file *f);

/* Takes the private part out of the file, which keeps its name. */
PJ_MUST_CHECK bool keys_dir_strip(struct keys_dir *d, const struct key_file *f);
