/* The SQL of db/ inside the binary; db/embed.sh writes the definitions. */

#ifndef SQL_EMBEDDED_H_INCLUDED
#define SQL_EMBEDDED_H_INCLUDED

#include <stddef.h>

struct sql_file {
    int version; /* number of a migration; 0 for the seed */
    const char *name;
    size_t len;
    const char *sql; /* NUL-terminated */
};

extern const struct sql_file sql_migrations[]; /* versions 1, 2, 3, ... */
extern const size_t sql_migration_count;
extern const struct sql_file sql_seed_local;

#endif
