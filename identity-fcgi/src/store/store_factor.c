/* Second factors of accounts: TOTP, passkeys, recovery codes. */

#include "store/store_factor.h"

#include "base/buf.h"
#include "base/uuid.h"
#include "store/sql.h"

#include <string.h>

#define DB_BYTES(data, size)                                                   \
    DB_VALUE(OID_BYTEA, .text = {(const unsigned char *) (data), (size)})
#define DB_SPAN(str) DB_VALUE(OID_BYTEA, .text = (str))

/* -- reading -- */

#define FACTOR_COLUMNS                                                         \
    "f.factor_id, f.factor_type = 'passkey', f.confirmed_at IS NOT NULL,"      \
    " f.key_id, f.secret, f.last_step, f.credential_id,"                       \
    " f.transports::bigint"

enum { FACTOR_COLS = 8 };

static bool copy_factor(pj_arena_t *arena, const struct db_rows *rows,
                        size_t row, struct factor *f)
{
    db_uuid(rows, row, 0, f->factor_id);
    f->passkey = db_bool(rows, row, 1);
    f->confirmed = db_bool(rows, row, 2);
    f->key_id = sql_copy_string(arena, db_text(rows, row, 3, NULL));
    f->last_step = db_int64(rows, row, 5);
    f->transports = (unsigned) db_int64(rows, row, 7);
    return f->key_id != NULL &&
           sql_copy_bytes(arena, rows, row, 4, &f->secret) &&
           sql_copy_bytes(arena, rows, row, 6, &f->credential_id);
}

/* Returns a row for each factor, or a row without one. */
static const struct db_statement factor_read_sql = {
    "factor_read",
    "SELECT " FACTOR_COLUMNS ", (SELECT count(*) FROM recovery_codes c"
    "         WHERE c.account_id = $1 AND c.used_at IS NULL)"
    "  FROM (SELECT) AS one LEFT JOIN factors f ON f.account_id = $1"
    "   AND (f.confirmed_at IS NOT NULL OR ($2 AND f.created_at"
    "        > now() - make_interval(secs => $3)))"
    " ORDER BY f.created_at, f.factor_id",
    false};

static bool copy_list(pj_arena_t *arena, const struct db_rows *rows,
                      struct factor_list *out)
{
    size_t count = db_row_count(rows);

    out->items = pj_arena_alloc(arena, count * sizeof(*out->items));
    if (out->items == NULL) {
        return false;
    }
    for (size_t i = 0; i < count && !db_is_null(rows, i, 0); i++) {
        if (!copy_factor(arena, rows, i, &out->items[out->count++])) {
            return false;
        }
    }
    out->recovery_codes = db_int64(rows, 0, FACTOR_COLS);
    return true;
}

enum store_result store_factor_read(struct store *st, pj_arena_t *arena,
                                    const char *account_id, bool open_too,
                                    struct factor_list *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    db_params(&q.p, DB_ID(account_id), DB_BOOL(open_too),
              DB_INT(STORE_OPEN_FACTOR_S));
    if (sql_run(&q, st, &factor_read_sql, NULL) &&
        !copy_list(arena, q.rows, out)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}

/* -- changing -- */

/* Locks the account before its factors, like everybody else. */
#define OWNER                                                                  \
    "WITH owner AS MATERIALIZED ("                                             \
    "   SELECT account_id, second_factor FROM accounts"                        \
    "    WHERE account_id = $1 AND status = 'ACTIVE' FOR NO KEY UPDATE)"
#define ROOM                                                                   \
    "   AND (SELECT count(*) FROM factors f WHERE f.account_id = $1"           \
    "           AND f.confirmed_at IS NOT NULL) < $4"

static const struct db_statement factor_add_totp_sql = {
    "factor_add_totp",
    OWNER ", old AS (DELETE FROM factors f USING owner"
          "   WHERE f.account_id = $1 AND f.confirmed_at IS NULL)"
          " INSERT INTO factors (account_id, factor_id, factor_type,"
          "                      factor_name, key_id, secret)"
          " SELECT account_id, $2, 'totp', $5, $6, $7 FROM owner"
          "  WHERE second_factor = $3" ROOM,
    true};

#define OF_ACCOUNT(account, id)                                                \
    DB_ID((account)->account_id), DB_ID(id), DB_BOOL((account)->second_factor)

enum store_result store_factor_add_totp(struct store *st,
                                        const struct account *account,
                                        const struct factor *f,
                                        const char *name)
{
    return sql_do(st, &factor_add_totp_sql, OF_ACCOUNT(account, f->factor_id),
                  DB_INT(STORE_MAX_FACTORS), DB_TEXT(name), DB_TEXT(f->key_id),
                  DB_SPAN(f->secret));
}

static const struct db_statement factor_lock_sql = {
    "factor_lock",
    "SELECT 1 FROM accounts WHERE account_id = $1 FOR NO KEY UPDATE", true};

enum store_result store_factor_lock(struct store *st, const char *account_id)
{
    return sql_do(st, &factor_lock_sql, DB_ID(account_id));
}

static const struct db_statement factor_confirm_sql = {
    "factor_confirm",
    OWNER " UPDATE factors f SET confirmed_at = now(), used_at = now(),"
          "        last_step = $4"
          "   FROM owner"
          "  WHERE f.factor_id = $2 AND f.account_id = owner.account_id"
          "    AND second_factor = $3 AND f.confirmed_at IS NULL"
          "    AND f.created_at > now() - make_interval(secs => $5)"
          "    AND (SELECT count(*) FROM factors c WHERE c.account_id = $1"
          "            AND c.confirmed_at IS NOT NULL) < $6",
    true};

enum store_result store_factor_confirm(struct store *st,
                                       const struct account *account,
                                       const char *factor_id, int64_t step)
{
    enum store_result result = store_factor_lock(st, account->account_id);

    return result != STORE_OK
               ? result
               : sql_do(st, &factor_confirm_sql, OF_ACCOUNT(account, factor_id),
                        DB_INT(step), DB_INT(STORE_OPEN_FACTOR_S),
                        DB_INT(STORE_MAX_FACTORS));
}

static const struct db_statement factor_rename_sql = {
    "factor_rename",
    "UPDATE factors SET factor_name = $3"
    " WHERE account_id = $1 AND factor_id = $2 AND confirmed_at IS NOT NULL",
    true};

enum store_result store_factor_rename(struct store *st, const char *account_id,
                                      pj_str_t factor_id, const char *name)
{
    return sql_do(st, &factor_rename_sql, DB_ID(account_id), DB_UUID(factor_id),
                  DB_TEXT(name));
}

/* FOR KEY SHARE: not one that was removed while this waited for the owner. */
static const struct db_statement factor_remove_sql = {
    "factor_remove",
    OWNER " DELETE FROM factors f USING owner"
          "  WHERE f.account_id = owner.account_id AND f.factor_id = $2"
          "    AND f.confirmed_at IS NOT NULL"
          "    AND (NOT $3 OR EXISTS (SELECT FROM factors o"
          "          WHERE o.account_id = owner.account_id"
          "            AND o.factor_id <> $2"
          "            AND o.confirmed_at IS NOT NULL"
          "          FOR KEY SHARE))" SQL_ACTOR("$4"),
    true};

enum store_result store_factor_remove(struct store *st, const char *account_id,
                                      pj_str_t factor_id, bool keep_one)
{
    return sql_do(st, &factor_remove_sql, DB_ID(account_id), DB_UUID(factor_id),
                  DB_BOOL(keep_one), DB_TEXT(st->actor));
}

static const struct db_statement factor_recovery_replace_sql = {
    "factor_recovery_replace",
    OWNER ", old AS (DELETE FROM recovery_codes c USING owner"
          "   WHERE c.account_id = owner.account_id)"
          " INSERT INTO recovery_codes (account_id, code_sha256)"
          " SELECT account_id, decode(code, 'hex') FROM owner,"
          "        unnest(string_to_array($2, ',')) AS code"
          "  WHERE second_factor" SQL_ACTOR("$3"),
    true};

enum store_result
store_factor_recovery_replace(struct store *st, const char *account_id,
                              unsigned char hashes[][STORE_SHA256],
                              size_t count)
{
    char mem[STORE_RECOVERY_CODES * (2 * STORE_SHA256 + 1) + 1];
    struct buf list;

    buf_init(&list, mem, sizeof(mem));
    for (size_t i = 0; i < count * STORE_SHA256; i++) {
        buf_addf(&list, "%s%02x", i > 0 && i % STORE_SHA256 == 0 ? "," : "",
                 hashes[i / STORE_SHA256][i % STORE_SHA256]);
    }
    buf_addc(&list, '\0');
    return list.overflow
               ? STORE_UNAVAILABLE
               : sql_do(st, &factor_recovery_replace_sql, DB_ID(account_id),
                        DB_TEXT(mem), DB_TEXT(st->actor));
}

/* -- using -- */

static const struct db_statement factor_use_step_sql = {
    "factor_use_step",
    "UPDATE factors SET last_step = $2, used_at = now()"
    " WHERE factor_id = $1 AND confirmed_at IS NOT NULL AND last_step < $2",
    true};

enum store_result store_factor_use_step(struct store *st, const char *factor_id,
                                        int64_t step)
{
    return sql_do(st, &factor_use_step_sql, DB_ID(factor_id), DB_INT(step));
}

static const struct db_statement factor_recovery_use_sql = {
    "factor_recovery_use",
    "UPDATE recovery_codes SET used_at = now()"
    " WHERE account_id = $1 AND code_sha256 = $2"
    "   AND used_at IS NULL" SQL_ACTOR("$3"),
    true};

enum store_result store_factor_recovery_use(struct store *st,
                                            const char *account_id,
                                            const unsigned char *sha256)
{
    return sql_do(st, &factor_recovery_use_sql, DB_ID(account_id),
                  DB_BYTES(sha256, STORE_SHA256), DB_TEXT(st->actor));
}
