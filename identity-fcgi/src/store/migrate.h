/* Brings a database to this binary's schema. */

#pragma once

#include "base/config.h"

/* Applies pending migrations, one transaction each under an advisory lock, and
 * the local seed if asked (a local database only).  False with a line in *e. */
PJ_MUST_CHECK bool migrate_run(const struct config *cfg, bool seed,
                               struct error *e);

/* The SQL of db/ inside the binary; db/embed.sh writes the definitions. */
struct migrate_file {
    int version; /* number of a migration; 0 for the seed */
    const char *name;
    size_t len;
    const char *sql; /* NUL-terminated */
};

extern const struct migrate_file migrate_files[]; /* versions 1, 2, 3, ... */
extern const size_t migrate_count; /* and so the newest version */
extern const struct migrate_file migrate_seed;
