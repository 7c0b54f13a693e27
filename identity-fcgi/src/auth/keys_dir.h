/* Keys in a directory, one file per key, named KID.STATE.SINCE.pem, where SINCE
 * is the time of the state in seconds since 1970.  Renaming a file changes its
 * state atomically.  A file contains the private key, if available, followed by
 * the public key. */

#pragma once

#include "base/error.h"

#include <limits.h>
#include <pj.h>
#include <sys/types.h>

#define KEYS_DIR_MAX 16 /* maximum number of keys */
#define KEYS_GOOD "RSA of 2048 bits or more, P-256 or Ed25519"
#define KEYS_DIR_TEXT 16384

enum key_state {
    KEY_SIGNING,
    KEY_REPLACED,  /* named "signing", but a newer file is too */
    KEY_PUBLISHED, /* in the key set, not signing yet */
    KEY_REFRESH    /* not in the key set, only for refresh tokens */
};

struct key_file {
    char name[NAME_MAX + 1];
    char kid[NAME_MAX + 1];
    enum key_state state;
    int64_t since; /* for KEY_REPLACED and KEY_REFRESH the time it stopped
                      signing */
};

struct keys_dir {
    int fd;
    uid_t owner; /* of the directory and its files */
    gid_t group;
    size_t count;
    struct key_file files[KEYS_DIR_MAX]; /* sorted by state */
    struct error error; /* set by a function that returns false */
};

/* A number that changes when a file of the directory changes. 0 if the
 * directory cannot be read. */
uint64_t keys_dir_stamp(const char *path);

/* Opens and reads the directory.  Refuses a directory that others may write to,
 * malformed names, and two files with the same kid.  Call keys_dir_close() in
 * any case.  With lock it excludes other commands until closed. */
PJ_MUST_CHECK bool keys_dir_open(struct keys_dir *d, const char *path,
                                 bool lock);
void keys_dir_close(struct keys_dir *d);

extern const char *const keys_dir_states[]; /* names of the states */

/* Parses the public key of a file and, unless private is NULL, its private
 * key. */
PJ_MUST_CHECK bool keys_dir_parse(struct keys_dir *d, const struct key_file *f,
                                  pj_key_t **public, pj_key_t **private);

/* Checks that all files can be loaded by serving processes. */
PJ_MUST_CHECK bool keys_dir_is_good(struct keys_dir *d);

/* Checks that the file can be loaded, with a private key if signs is set. */
PJ_MUST_CHECK bool keys_dir_check(struct keys_dir *d, const struct key_file *f,
                                  bool signs);

/* When these return true, the change is on disk.  SINCE of a new file is the
 * current time, but always greater than after. */
PJ_MUST_CHECK bool keys_dir_put(struct keys_dir *d, const char *kid,
                                enum key_state state, int64_t after,
                                pj_str_t text);
PJ_MUST_CHECK bool keys_dir_move(struct keys_dir *d, const struct key_file *f,
                                 enum key_state state, int64_t since);
PJ_MUST_CHECK bool keys_dir_remove(struct keys_dir *d,
                                   const struct key_file *f);

/* Removes the private key from the file, which keeps its name. */
PJ_MUST_CHECK bool keys_dir_strip(struct keys_dir *d, const struct key_file *f);
