/* The store over PostgreSQL: its handle, accounts, attempts, health. */

#include "store/store_sql.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The pool that all handles share; it goes with the last of them. */
static struct {
    pthread_mutex_t lock;
    struct db_pool *pool;
    unsigned users;
} shared = {PTHREAD_MUTEX_INITIALIZER, NULL, 0};

struct store *store_open(const struct config *cfg)
{
    struct store *st = calloc(1, sizeof(*st));

    if (st == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&shared.lock);
    if (shared.pool == NULL) {
        shared.pool = db_pool_new(cfg);
    }
    if (shared.pool != NULL) {
        shared.users++;
    }
    st->pool = shared.pool;
    pthread_mutex_unlock(&shared.lock);
    if (st->pool == NULL) {
        free(st);
        return NULL;
    }
    st->default_timeout_ms =
        cfg->db_connect_timeout_ms + cfg->db_statement_timeout_ms;
    return st;
}

void store_close(struct store *st)
{
    if (st == NULL) {
        return;
    }
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        db_pool_free(shared.pool);
        shared.pool = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
    free(st);
}

void store_use(struct store *st, struct store_use *use)
{
    *use = (struct store_use){0, 0};
    if (st != NULL) {
        db_pool_use(st->pool, &use->size, &use->used);
    }
}

static void begin(struct store *st, int64_t deadline_ms)
{
    st->deadline_ms = deadline_ms;
}

/* Runs a statement.  STORE_OK gives rows to free. */
enum store_result store_run(struct store *st, const struct db_statement *sql,
                            const struct db_params *params,
                            struct db_rows **rows)
{
    return store_run_meanwhile(st, sql, params, NULL, rows);
}

enum store_result store_run_meanwhile(struct store *st,
                                      const struct db_statement *sql,
                                      const struct db_params *params,
                                      struct meanwhile *meanwhile,
                                      struct db_rows **rows)
{
    int64_t deadline_ms = st->deadline_ms;

    *rows = NULL;
    if (params->bad_uuid) {
        return STORE_NONE; /* what is no UUID names no row */
    }
    if (deadline_ms == 0) {
        deadline_ms = db_now_ms() + st->default_timeout_ms;
    }
    switch (db_run(st->pool, sql, params, deadline_ms, meanwhile, rows)) {
    case DB_OK:
        return STORE_OK;
    case DB_UNKNOWN:
        return STORE_UNKNOWN;
    default:
        return STORE_UNAVAILABLE;
    }
}

/* Likewise, for one that is to touch a row: STORE_NONE when it did not. */
enum store_result store_run_write(struct store *st,
                                  const struct db_statement *sql,
                                  const struct db_params *params)
{
    struct db_rows *rows;
    enum store_result result = store_run(st, sql, params, &rows);

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

/* -- accounts -- */

/*
 * One row in any case.  s is the account that stands in for one that does not
 * exist: after $2 in the order of ids, or the very first.
 */
static const struct db_statement account_find_sql = {
    "account_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE',"
    "       a.credential_hash, s.credential_hash"
    "  FROM (SELECT coalesce("
    "           (SELECT credential_hash FROM accounts"
    "             WHERE account_id >= $2 ORDER BY account_id LIMIT 1),"
    "           (SELECT credential_hash FROM accounts"
    "             ORDER BY account_id LIMIT 1)) AS credential_hash) AS s"
    "  LEFT JOIN accounts a ON a.account_name COLLATE \"C\" = $1",
    false};

static enum store_result account_find(struct store *st, pj_str_t name,
                                      const char *stand_in,
                                      struct account *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_text(&p, name.data, name.len);
    store_param_uuid(&p, stand_in);
    result = store_run(st, &account_find_sql, &p, &rows);
    if (result == STORE_OK && db_is_null(rows, 0, 0)) {
        store_copy_text(rows, 0, 4, out->credential_hash,
                        sizeof(out->credential_hash));
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        db_uuid(rows, 0, 0, out->account_id);
        store_copy_text(rows, 0, 1, out->account_type,
                        sizeof(out->account_type));
        out->enabled = db_bool(rows, 0, 2);
        store_copy_text(rows, 0, 3, out->credential_hash,
                        sizeof(out->credential_hash));
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement credential_rehash_sql = {
    "credential_rehash",
    "UPDATE accounts SET credential_hash = $3, updated_at = now()"
    " WHERE account_id = $1 AND credential_hash = $2",
    true};

static enum store_result credential_rehash(struct store *st,
                                           const char *account_id,
                                           const char *old_hash,
                                           const char *new_hash)
{
    struct db_params p = {0};

    store_param_uuid(&p, account_id);
    db_param_text(&p, old_hash, strlen(old_hash));
    db_param_text(&p, new_hash, strlen(new_hash));
    return store_run_write(st, &credential_rehash_sql, &p);
}

/* -- attempts -- */

static const struct db_statement attempt_begin_sql = {
    "attempt_begin", "SELECT login_attempt_begin($1, $2, $3::integer, $4)",
    true};

static enum store_result attempt_begin(struct store *st,
                                       const struct attempt *attempt,
                                       int max_failures, int64_t window_s,
                                       int64_t *retry_after_s)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_inet(&p, attempt->address);
    db_param_int64(&p, max_failures);
    db_param_int64(&p, window_s);
    result = store_run(st, &attempt_begin_sql, &p, &rows);
    if (result == STORE_OK) {
        *retry_after_s = db_int64(rows, 0, 0);
        result = *retry_after_s > 0 ? STORE_NONE : STORE_OK;
    }
    db_rows_free(rows);
    return result;
}

static const struct db_statement attempt_settle_sql = {
    "attempt_settle", "SELECT login_attempt_settle($1, $2, $3)", true};

static enum store_result
attempt_settle(struct store *st, const struct attempt *attempt, bool success)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_bytes(&p, attempt->account_hmac, sizeof(attempt->account_hmac));
    db_param_inet(&p, attempt->address);
    db_param_bool(&p, success);
    result = store_run(st, &attempt_settle_sql, &p, &rows);
    db_rows_free(rows);
    return result;
}

/* -- health -- */

/* What was granted before a migration does not reach what it brought. */
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
    "                                'DELETE']) r)",
    false};

static const struct db_statement migrated_sql = {
    "migrated", "SELECT to_regclass('schema_migrations') IS NOT NULL", false};

static enum store_result ping(struct store *st, int *schema_version)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result = store_run(st, &ping_sql, &p, &rows);

    if (result == STORE_OK) {
        *schema_version = (int) db_int64(rows, 0, 0);
        result = db_bool(rows, 0, 1) ? STORE_OK : STORE_NONE;
    }
    db_rows_free(rows);
    if (result != STORE_UNAVAILABLE) {
        return result;
    }
    /* A database that answers but was never migrated is another failure. */
    result = store_run(st, &migrated_sql, &p, &rows);
    if (result == STORE_OK && db_bool(rows, 0, 0)) {
        result = STORE_UNAVAILABLE;
    }
    *schema_version = 0;
    db_rows_free(rows);
    return result;
}

/* Without standbys to wait for, all but off wait for this server's disk. */
static const char forgetful_sql[] =
    "SELECT CASE level"
    "    WHEN 'off' THEN 'a crash of the server'"
    "    WHEN 'local' THEN 'the failover to a standby'"
    "    WHEN 'remote_write' THEN 'a crash of server and standby'"
    "    END || ' loses commits: synchronous_commit is ' || level"
    "  FROM current_setting('synchronous_commit') AS level"
    " WHERE level = 'off' OR (level IN ('local', 'remote_write')"
    "   AND current_setting('synchronous_standby_names') <> '')";

bool store_may_forget(const struct config *cfg, char *out, size_t out_cap)
{
    char err[256];
    struct db_script *db = db_script_open(cfg, err, sizeof(err));
    struct db_error error;
    bool ok;

    out[0] = '\0';
    if (db == NULL) {
        return false;
    }
    ok = db_script_run(db, forgetful_sql,
                       db_now_ms() + cfg->db_statement_timeout_ms, out,
                       out_cap, &error);
    db_script_close(db);
    return ok && out[0] != '\0';
}

const struct store_ops store_postgres = {
    .begin = begin,
    .account_find = account_find,
    .credential_rehash = credential_rehash,
    .attempt_begin = attempt_begin,
    .attempt_settle = attempt_settle,
    .branches = store_branches,
    .scope = store_scope,
    .session_create = store_session_create,
    .session_limit = store_session_limit,
    .session_read = store_session_read,
    .session_refresh = store_session_refresh,
    .session_rotate = store_session_rotate,
    .session_rotated = store_session_rotated,
    .session_select = store_session_select,
    .session_revoke = store_session_revoke,
    .ping = ping,
};
