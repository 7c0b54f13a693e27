/* Calls with an idempotency key. */

#include "store/store_repeat.h"

#include "store/sql.h"

static const struct db_statement lock_sql = {
    "repeat_lock",
    "SELECT pg_try_advisory_xact_lock("
    "   hashtextextended($1::text || encode($2, 'hex'), 0))",
    true};

/* A statement of its own: its snapshot is taken after the lock. */
static const struct db_statement find_sql = {
    "repeat_find",
    "SELECT call_sha256 = $3, status::bigint, location, body, erased"
    "  FROM client_calls"
    " WHERE client_id = $1 AND key_sha256 = $2"
    "   AND called_at > now() - interval '24 hours'",
    true};

static const struct db_statement keep_sql = {
    "repeat_keep",
    "INSERT INTO client_calls"
    " (client_id, key_sha256, call_sha256, status, location, body, account_id)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT (client_id, key_sha256) DO UPDATE"
    " SET call_sha256 = excluded.call_sha256, called_at = now(),"
    "     status = excluded.status, location = excluded.location,"
    "     body = excluded.body, account_id = excluded.account_id,"
    "     erased = false",
    true};

#define DIGEST(bytes) DB_VALUE(OID_BYTEA, .text = {(bytes), STORE_DIGEST})

/* Copies a text column; false if the arena is full. */
static bool copy(pj_arena_t *arena, const struct db_rows *rows, int col,
                 const char **out)
{
    *out = NULL;
    if (db_is_null(rows, 0, col)) {
        return true;
    }
    *out = sql_copy_string(arena, db_text(rows, 0, col, NULL));
    return *out != NULL;
}

static enum store_repeat_state read_answer(pj_arena_t *arena,
                                           const struct db_rows *rows,
                                           struct store_repeat *repeat)
{
    if (db_row_count(rows) == 0) {
        return STORE_REPEAT_FIRST;
    }
    if (!db_bool(rows, 0, 0)) {
        return STORE_REPEAT_OTHER;
    }
    repeat->status = db_int64(rows, 0, 1);
    repeat->erased = db_bool(rows, 0, 4);
    return copy(arena, rows, 2, &repeat->location) &&
                   copy(arena, rows, 3, &repeat->body)
               ? STORE_REPEAT_KEPT
               : STORE_REPEAT_FAILED;
}

enum store_repeat_state store_repeat_claim(struct store *st, pj_arena_t *arena,
                                           struct store_repeat *repeat)
{
    struct sql_query lock = {0}, find = {0};
    enum store_repeat_state state = STORE_REPEAT_FAILED;

    db_params(&lock.p, DB_ID(repeat->client_id), DIGEST(repeat->key));
    if (sql_run(&lock, st, &lock_sql, NULL)) {
        state = db_bool(lock.rows, 0, 0) ? STORE_REPEAT_FIRST
                                         : STORE_REPEAT_RUNNING;
    }
    (void) sql_end(&lock);
    if (state != STORE_REPEAT_FIRST) {
        return state;
    }
    db_params(&find.p, DB_ID(repeat->client_id), DIGEST(repeat->key),
              DIGEST(repeat->call));
    state = sql_run(&find, st, &find_sql, NULL)
                ? read_answer(arena, find.rows, repeat)
                : STORE_REPEAT_FAILED;
    (void) sql_end(&find);
    return state;
}

enum store_result store_repeat_keep(struct store *st,
                                    const struct store_repeat *repeat)
{
    return sql_do(st, &keep_sql, DB_ID(repeat->client_id), DIGEST(repeat->key),
                  DIGEST(repeat->call), DB_INT(repeat->status),
                  db_any(repeat->location), db_any(repeat->body),
                  db_id_or_null(repeat->account_id));
}
