/* Migrates a database to the schema of this binary. */

#include "store/migrate.h"

#include "base/log.h"
#include "base/uuid.h"
#include "db/db_script.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define CHECKSUM_HEX (2 * SHA256_DIGEST_LENGTH + 1)

/* The lock of all processes that migrate this database.  It belongs to the
 * transaction, so it works through a pooler and is released if the process
 * dies. */
#define LOCK "SELECT pg_advisory_xact_lock(7236589412356)"

/* A migration may take long but must not wait forever for a hung server. */
#define LIMIT_MS (10 * 60 * 1000)

static const struct migrate_file bootstrap = {
    .sql = "CREATE TABLE schema_migrations ("
           "  version    integer PRIMARY KEY CHECK (version > 0),"
           "  name       text NOT NULL UNIQUE,"
           "  checksum   text NOT NULL CHECK (checksum ~ '^[0-9a-f]{64}$'),"
           "  applied_at timestamptz NOT NULL DEFAULT now())"};

/* Returns a message that names the role that may migrate. */
#define WHO_MAY                                                                \
    "SELECT format('the database role %I may not do this: migrate as %s',"     \
    "  current_user, coalesce("                                                \
    "    (SELECT format('%I, which owns the tables',"                          \
    "                   pg_get_userbyid(relowner))"                            \
    "       FROM pg_class WHERE oid = to_regclass('schema_migrations')),"      \
    "    'a role that may create tables (platform_owner of db/roles.sql)'))"

struct run {
    struct db_script *db;
    bool forbidden; /* the role lacks a privilege */
    struct error *e;
};

static bool failed(struct run *r)
{
    const struct db_error *error = db_script_error(r->db);

    r->forbidden = strcmp(error->state, "42501") == 0;
    return error_is(r->e, "%s", error->message);
}

static bool exec(struct run *r, const char *sql, char *value, size_t cap)
{
    return db_script_run(r->db, sql, value, cap) || failed(r);
}

/* -- bodies of a transaction that has the lock -- */

static bool apply(struct run *r, const struct migrate_file *file)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char sum[CHECKSUM_HEX], applied[128], sql[512];

    SHA256((const unsigned char *) file->sql, file->len, digest);
    (void) uuid_hex(sum, digest, sizeof(digest));
    snprintf(sql, sizeof(sql),
             "SELECT checksum FROM schema_migrations WHERE version = %d",
             file->version);
    if (!exec(r, sql, applied, sizeof(applied))) {
        return false;
    }
    if (applied[0] != '\0') {
        if (strcmp(applied, sum) == 0) {
            return true;
        }
        return error_is(
            r->e,
            "%s was applied to this database with another content: use "
            "the release that it was migrated with, or a newer one",
            file->name);
    }
    /* The name and checksum need no escaping. */
    snprintf(sql, sizeof(sql),
             "INSERT INTO schema_migrations (version, name, checksum)"
             " VALUES (%d, '%s', '%s')",
             file->version, file->name, sum);
    if (!exec(r, file->sql, NULL, 0) || !exec(r, sql, NULL, 0)) {
        return false;
    }
    log_line(LOG_INFO_, "db.migrated", "applied %s", file->name);
    return true;
}

/* A role that cannot create tables is sufficient if nothing is pending. */
static bool ensure_table(struct run *r, const struct migrate_file *table)
{
    char exists[16];

    return exec(r, "SELECT to_regclass('schema_migrations') IS NOT NULL",
                exists, sizeof(exists)) &&
           (exists[0] == 't' || exec(r, table->sql, NULL, 0));
}

static bool load_seed(struct run *r, const struct migrate_file *seed)
{
    return db_script_is_local(r->db)
               ? exec(r, seed->sql, NULL, 0)
               : error_is(
                     r->e,
                     "the demonstration data is loaded only into a database "
                     "on "
                     "this machine (a Unix socket or a loopback address)");
}

static bool in_transaction(struct run *r,
                           bool (*body)(struct run *r,
                                        const struct migrate_file *file),
                           const struct migrate_file *file)
{
    if ((db_script_begin(r->db) || failed(r)) && exec(r, LOCK, NULL, 0) &&
        body(r, file) && exec(r, "COMMIT", NULL, 0)) {
        return true;
    }
    if (db_script_run(r->db, "ROLLBACK", NULL, 0) && r->forbidden) {
        (void) exec(r, WHO_MAY, r->e->text, sizeof(r->e->text));
    }
    return false;
}

bool migrate_run(const struct config *cfg, bool seed, struct error *e)
{
    struct run r = {.db = db_script_open(cfg, LIMIT_MS, e), .e = e};
    bool ok = r.db != NULL && in_transaction(&r, ensure_table, &bootstrap);

    for (size_t i = 0; ok && i < migrate_count; i++) {
        ok = in_transaction(&r, apply, &migrate_files[i]);
    }
    if (ok && seed) {
        ok = in_transaction(&r, load_seed, &migrate_seed);
    }
    db_script_close(r.db);
    return ok;
}
