/* The store over PostgreSQL: its handle, accounts, attempts, health. */

#include "store/store_sql.h"

#include <string.h>

bool store_open(struct store *st, const struct config *cfg)
{
    *st = (struct store){.pool = db_pool_new(cfg)};
    return st->pool != NULL;
}

void store_close(struct store *st)
{
    db_pool_free(st->pool);
}

void store_use(const struct store *st, int *size, int *used, bool *refused)
{
    db_pool_use(st->pool, size, used, refused);
}

enum store_result store_run(struct store *st, const struct db_statement *sql,
                            const struct db_params *params,
                            struct meanwhile *meanwhile, struct db_rows **rows)
{
    *rows = NULL;
    if (params->bad_uuid) {
        return STORE_NONE; /* what is no UUID names no row */
    }
    switch (db_run(st->pool, sql, params, st->deadline_ms, meanwhile, rows)) {
    case DB_OK:
        return STORE_OK;
    case DB_UNKNOWN:
        return STORE_UNKNOWN;
    default:
        return STORE_UNAVAILABLE;
    }
}

enum store_result store_run_one(struct store *st,
                                const struct db_statement *sql,
                                const struct db_params *params)
{
    struct db_rows *rows;
    enum store_result result = store_run(st, sql, params, NULL, &rows);

    if (result == STORE_OK && db_affected(rows) == 0) {
        result = STORE_NONE;
    }
    db_rows_free(rows);
    return result;
}

void store_param_uuid(struct db_params *p, const char *uuid)
{
    db_param_uuid(p, uuid, strlen(uuid));
}

void store_param_client(struct db_params *p, const struct store *st)
{
    db_param_text(p, st->client_address, strlen(st->client_address));
    db_param_text(p, st->client_agent, strlen(st->client_agent));
    db_param_time_us(p, st->access_until_s * 1000000);
}

/* -- accounts -- */

/*
 * Always one row.  s is the stand-in for an account that does not exist: the
 * next one after $2 in the order of ids, or the first.
 */
static const struct db_statement account_find_sql = {
    "account_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE',"
    "       a.credential_hash, s.credential_hash, " STORE_CLOCK
    "  FROM (SELECT coalesce("
    "           (SELECT credential_hash FROM accounts"
    "             WHERE account_id >= $2 ORDER BY account_id LIMIT 1),"
    "           (SELECT credential_hash FROM accounts"
    "             ORDER BY account_id LIMIT 1)) AS credential_hash) AS s"
    "  LEFT JOIN accounts a ON a.account_name COLLATE \"C\" = $1",
    false};

void store_copy_account(const struct db_rows *rows, int hash, int clock,
                        struct account *out)
{
    db_uuid(rows, 0, 0, out->account_id);
    store_copy_text(rows, 0, 1, out->account_type, sizeof(out->account_type));
    out->enabled = db_bool(rows, 0, 2);
    store_copy_text(rows, 0, hash, out->credential_hash,
                    sizeof(out->credential_hash));
    store_copy_clock(rows, clock, &out->clock);
}

enum store_result store_account_find(struct store *st, pj_str_t name,
                                     const char *stand_in, struct account *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_text(&p, name.data, name.len);
    store_param_uuid(&p, stand_in);
    result = store_run(st, &account_find_sql, &p, NULL, &rows);
    if (result == STORE_OK) {
        bool known = !db_is_null(rows, 0, 0);

        result = known ? STORE_OK : STORE_NONE;
        store_copy_account(rows, known ? 3 : 4, 5, out);
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement credential_rehash_sql = {
    "credential_rehash",
    "UPDATE accounts SET credential_hash = $3, updated_at = now()"
    " WHERE account_id = $1 AND credential_hash = $2",
    true};

enum store_result store_credential_rehash(struct store *st,
                                          const char *account_id,
                                          const char *old_hash,
                                          const char *new_hash)
{
    struct db_params p = {0};

    store_param_uuid(&p, account_id);
    db_param_text(&p, old_hash, strlen(old_hash));
    db_param_text(&p, new_hash, strlen(new_hash));
    return store_run_one(st, &credential_rehash_sql, &p);
}

/* -- attempts -- */

static const struct db_statement attempt_begin_sql = {
    "attempt_begin", "SELECT login_attempt_begin($1, $2, $3::integer, $4)",
    true};

enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_any(&p, attempt->address);
    db_param_int64(&p, max_failures);
    db_param_int64(&p, window_s);
    result = store_run(st, &attempt_begin_sql, &p, NULL, &rows);
    if (result == STORE_OK) {
        *retry_after_s = db_int64(rows, 0, 0);
        result = *retry_after_s > 0 ? STORE_NONE : STORE_OK;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement attempt_settle_sql = {
    "attempt_settle", "SELECT login_attempt_settle($1, $2, $3)", true};

enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success)
{
    struct db_params p = {0};

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_any(&p, attempt->address);
    db_param_bool(&p, success);
    return store_run_one(st, &attempt_settle_sql, &p);
}

/* -- health -- */

/* Grants given before a migration do not cover the tables that it created. */
static const struct db_statement ping_sql = {
    "ping",
    "SELECT (SELECT coalesce(max(version), 0) FROM schema_migrations)::bigint,"
    "       (SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE'))"
    "          FROM pg_proc p"
    "         WHERE p.proname LIKE 'login\\_attempt\\_%'"
    "           AND pg_function_is_visible(p.oid))"
    "       AND (SELECT bool_and(has_table_privilege(to_regclass(t), r))"
    "              FROM unnest(ARRAY['auth_sessions', 'rotated_tokens',"
    "                                'login_attempts']) t,"
    "                   unnest(ARRAY['SELECT', 'INSERT', 'UPDATE',"
    "                                'DELETE']) r)"
    "       AND has_table_privilege(to_regclass('session_revocations'),"
    "                               'SELECT')"
    "       AND has_function_privilege("
    "               to_regprocedure('session_revocation_mark()'), 'EXECUTE')",
    false};

static const struct db_statement migrated_sql = {
    "migrated", "SELECT to_regclass('schema_migrations') IS NOT NULL", false};

enum store_result store_ping(struct store *st, int *schema_version)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result = store_run(st, &ping_sql, &p, NULL, &rows);

    if (result == STORE_OK) {
        *schema_version = (int) db_int64(rows, 0, 0);
        result = db_bool(rows, 0, 1) ? STORE_OK : STORE_NONE;
    }
    db_rows_free(rows);
    if (result != STORE_UNAVAILABLE) {
        return result;
    }
    /* A database that answers but was never migrated is a different failure.
     */
    result = store_run(st, &migrated_sql, &p, NULL, &rows);
    if (result == STORE_OK && db_bool(rows, 0, 0)) {
        result = STORE_UNAVAILABLE;
    }
    *schema_version = 0;
    db_rows_free(rows);
    return result;
}
