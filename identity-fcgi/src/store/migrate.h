/* Migrates a database to the schema of this binary. */

#pragma once

#include "base/config.h"

/* Applies pending migrations, each in a transaction with an advisory lock, and
 * loads the seed if requested (into a local database only).  On failure *e has
 * one line. */
PJ_MUST_CHECK bool migrate_run(const struct config *cfg, bool seed,
                               struct error *e);

/* SQL files embedded in the binary.  db/embed.sh writes the definitions. */
struct migrate_file {
    int version; /* number of a migration, 0 for the seed */
    const char *name;
    size_t len;
    const char *sql; /* NUL-terminated */
};

extern const struct migrate_file migrate_files[]; /* versions 1, 2, 3, ... */
extern const size_t migrate_count;                /* also the newest version */
extern const struct migrate_file migrate_seed;
