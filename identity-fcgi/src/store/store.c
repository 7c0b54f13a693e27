/* The store over PostgreSQL: its handle, accounts, attempts, health. */

#include "store/store.h"

#include "db/db_pool.h"
#include "store/sql.h"

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

/* -- accounts -- */

/*
 * Always one row.  s is the stand-in for an account that does not exist: the
 * next one after $2 in the order of ids, or the first.
 */
static const struct db_statement account_find_sql = {
    "account_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE',"
    "       a.credential_hash, s.credential_hash, " SQL_CLOCK
    "  FROM (SELECT coalesce("
    "           (SELECT credential_hash FROM accounts"
    "             WHERE account_id >= $2 ORDER BY account_id LIMIT 1),"
    "           (SELECT credential_hash FROM accounts"
    "             ORDER BY account_id LIMIT 1)) AS credential_hash) AS s"
    "  LEFT JOIN accounts a ON a.account_name COLLATE \"C\" = $1",
    false};

enum store_result store_account_find(struct store *st, pj_str_t name,
                                     const char *stand_in, struct account *out)
{
    struct sql_query q = {0};

    db_param_text(&q.p, name.data, name.len);
    db_param_uuid(&q.p, pj_str(stand_in));
    if (sql_run(&q, st, &account_find_sql, NULL)) {
        bool known = !db_is_null(q.rows, 0, 0);

        q.result = known ? STORE_OK : STORE_NONE;
        sql_copy_account(q.rows, known ? 3 : 4, 5, out);
    }
    return sql_end(&q);
}

static const struct db_statement credential_rehash_sql = {
    "credential_rehash",
    "UPDATE accounts SET credential_hash = $3, updated_at = now()"
    " WHERE account_id = $1 AND credential_hash = $2",
    true};

enum store_result store_account_rehash(struct store *st,
                                       const char *account_id,
                                       const char *old_hash,
                                       const char *new_hash)
{
    struct sql_query q = {0};

    db_param_uuid(&q.p, pj_str(account_id));
    db_param_text(&q.p, old_hash, strlen(old_hash));
    db_param_text(&q.p, new_hash, strlen(new_hash));
    (void) sql_run_one(&q, st, &credential_rehash_sql);
    return sql_end(&q);
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
    struct sql_query q = {0};

    db_param_bytes(&q.p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_any(&q.p, attempt->address);
    db_param_int64(&q.p, max_failures);
    db_param_int64(&q.p, window_s);
    if (sql_run(&q, st, &attempt_begin_sql, NULL)) {
        *retry_after_s = db_int64(q.rows, 0, 0);
        q.result = *retry_after_s > 0 ? STORE_NONE : STORE_OK;
    }
    return sql_end(&q);
}

static const struct db_statement attempt_settle_sql = {
    "attempt_settle", "SELECT login_attempt_settle($1, $2, $3)", true};

enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success)
{
    struct sql_query q = {0};

    db_param_bytes(&q.p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_any(&q.p, attempt->address);
    db_param_bool(&q.p, success);
    (void) sql_run_one(&q, st, &attempt_settle_sql);
    return sql_end(&q);
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
    struct sql_query q = {0};

    *schema_version = 0;
    if (sql_run(&q, st, &ping_sql, NULL)) {
        *schema_version = (int) db_int64(q.rows, 0, 0);
        q.result = db_bool(q.rows, 0, 1) ? STORE_OK : STORE_NONE;
    } else if (sql_run(&q, st, &migrated_sql, NULL) && db_bool(q.rows, 0, 0)) {
        q.result = STORE_UNAVAILABLE; /* else it was never migrated */
    }
    return sql_end(&q);
}
